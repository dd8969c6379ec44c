"""What the service of accounts is asked and answers, as `services` wants it declared.

Knows: where its requests, replies and errors are.  Does not know what is in them.

Invariant: all its entries are hidden: each may have what is kept of a secret.
"""

from __future__ import annotations

from typing import Final

from distkv.wire.account_errors import ERRORS
from distkv.wire.account_requests import ACCOUNT_ROWS, AccountRemove, AccountRequest, reply_fields
from distkv.wire.services import ServiceForm


def _logged(request: AccountRequest) -> str:
    return f"account_remove name={request.name!r}" if isinstance(request, AccountRemove) else ""


FORM: Final = ServiceForm(
    "accounts",
    ACCOUNT_ROWS,
    reply_fields,
    when_off="this node does not know accounts",
    errors=ERRORS,
    hides=lambda key: bool(key),
    logged=_logged,
)
