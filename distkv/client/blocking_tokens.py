"""What tokens add to the blocking client, made of `async_tokens`.

Knows: what a user says of a token.  Does not know what holding one means (`blocking_token`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from distkv.client.blocking_connection import SharedConnection
from distkv.client.client_part import ClientPart

if TYPE_CHECKING:
    from distkv.client.blocking_token import TokenHold


class TokenMethods(ClientPart[SharedConnection]):
    """A part of the client."""

    # -- begin generated from async_tokens.AsyncTokenMethods: python packaging/blocking_client.py

    def token(
        self,
        name: str,
        *,
        shared: bool = False,
        data: object = None,
        keep_data: bool = False,
        wait_s: float | None = None,
        ttl_s: float | None = None,
    ) -> TokenHold:
        """Hold the token `name` inside a block. A session of its own is kept alive, by any node that the client knows;
        at the end it is closed. When the token is lost the block goes on: ask `token.is_lost`, or `token.check`.

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
        from distkv.client.blocking_token import TokenHold  # few clients hold tokens
        from distkv.client.token_wish import as_wish

        return TokenHold(self._connection, as_wish(name, shared, data, wait_s, ttl_s, keep_data))

    # -- end generated
