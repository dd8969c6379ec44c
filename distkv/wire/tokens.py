"""What the token service is asked and answers, as `services` wants it declared.

Knows: where its requests and replies are.  Does not know what is in them.
"""

from __future__ import annotations

from typing import Final

from distkv.wire.services import ServiceForm
from distkv.wire.token_errors import ERRORS
from distkv.wire.token_replies import reply_fields
from distkv.wire.token_requests import TOKEN_ROWS, TokenBreak, TokenRequest, TokenReset, TokenSetServers


def _logged(request: TokenRequest) -> str:
    if isinstance(request, TokenBreak):
        return f"token_break token={request.token!r}"
    if isinstance(request, TokenSetServers):
        return f"token_set_servers servers={','.join(request.servers)}"
    return "token_reset" if isinstance(request, TokenReset) else ""


FORM: Final = ServiceForm(
    "tokens",
    TOKEN_ROWS,
    reply_fields,
    when_off="this network has no tokens: name the servers in the setting tokens.servers",
    errors=ERRORS,
    logged=_logged,
)
