"""What tokens add to the async client.

Knows: what a user says of a token.  Does not know what holding one means (`async_token`). `blocking_tokens` is made of
this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from distkv.client.async_connection import AsyncConnection
from distkv.client.client_part import ClientPart

if TYPE_CHECKING:
    from distkv.client.async_token import AsyncTokenHold


class AsyncTokenMethods(ClientPart[AsyncConnection]):
    """A part of the client."""

    def token(
        self,
        name: str,
        *,
        shared: bool = False,
        data: object = None,
        keep_data: bool = False,
        wait_s: float | None = None,
        ttl_s: float | None = None,
    ) -> AsyncTokenHold:
        """Hold the token `name` inside a block. A session of its own is kept alive, by any node that the client knows;
        at the end it is closed. When the token is lost the block is cancelled.

        Args:
            name: 1 to 255 bytes of text without control characters.
            shared: others may hold it at the same time if they ask for the same.
            data: a small value (64 KiB) that everybody sees, stored with the grant; None: as it is.
            keep_data: data of this holder stays when nobody holds the token; else it ends with the last holder.
            wait_s: how many seconds to wait for it, in turn, also while no majority answers; None: try once.
            ttl_s: how long the session lives without an answer, at least three leases (15 s by default); None: as the
                servers say.

        Raises:
            HeldError, TimedOutError: somebody else holds it, and `wait_s` is None, or over.
            NoQuorumError: no majority of the token servers answers.
            DisabledError: the settings name no token servers.
            UnreachableError: the client is closed.
            TokenLostError: on leaving: the token was lost. What the block raises itself comes first.
        """
        from distkv.client.async_token import AsyncTokenHold  # few clients hold tokens
        from distkv.client.token_wish import as_wish

        return AsyncTokenHold(self._connection, as_wish(name, shared, data, wait_s, ttl_s, keep_data))
