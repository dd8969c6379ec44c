"""Names of tokens that are for services.

Knows: which names these are, and which requests name one.  Does not know who holds them.

For example, a service of a node takes the token `:user ann` while it changes an account. A client that had it could
hold that up for ever.

Invariant: no request of a client changes or shows a token whose name begins with `:`.
"""

from __future__ import annotations

from typing import Final

from distkv.errors import ForbiddenError
from distkv.wire.token_requests import OneTokenRequest, TokenKeep, TokenRequest

RESERVED: Final = ":"
"""So begin the names that are for services."""


def refuse_reserved(request: TokenRequest) -> None:
    """
    Raises:
        ForbiddenError: it names a token that no client may have.
    """
    names = [request.token] if isinstance(request, OneTokenRequest) else []
    if isinstance(request, TokenKeep):
        names = [held.token for held in request.held]
    for name in names:
        if name.startswith(RESERVED):
            raise ForbiddenError(f"{name!r} begins with {RESERVED!r}: such tokens are for services, give another name")
