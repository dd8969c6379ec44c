"""A token that a thread holds: the blocking client's `with client.token(...) as token`.

Knows: what entering and leaving it does.  Does not know how a session is kept alive (`session_thread`).

Invariant: methods, properties and words are those of `async_token.AsyncTokenHold`; but nothing is cancelled here, and
without a block no token is held.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from distkv.client.blocking_connection import SharedConnection
from distkv.client.boot_clock import boot_ms
from distkv.client.session_thread import SessionThread
from distkv.client.token_handle import TokenHandle
from distkv.client.token_wish import new_holding


class TokenHold(TokenHandle[SharedConnection, SessionThread]):
    """One token, held inside a `with` block. Its session is kept alive by a thread of its own."""

    # -- begin generated from async_token.AsyncTokenHold.set_data: python packaging/blocking_client.py

    def set_data(self, value: object) -> None:
        """Change the data of the token; None: it has none any more.

        Raises:
            TokenLostError: the token is lost.
            BadValueError, TooLargeError: the data cannot be stored.
            UnreachableError: the client is closed.
            DistkvError: no server stored it within `reply_s` of the client, or before it was closed; then it is unknown
                whether one did.
        """
        shell, packed, number = self._ask_data(value)
        shell.wait(lambda news: news.is_answered(number) or self._client.is_closed)
        self._keep_data(shell, packed, number)

    # -- end generated

    def __enter__(self) -> Self:
        self._check_new()
        holding = new_holding(self._wish, self._reach.reply_s, boot_ms())
        thread = self._shell = SessionThread(self._reach, holding, bell=self._client.bell)
        try:
            thread.start(self)
            thread.wait(lambda news: news.is_decided or self._client.is_closed)
            self._take(thread)
        except BaseException:  # also when the user interrupts
            self._close(thread)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        thread = self._shell
        if thread is None:
            return
        is_lost = self.is_lost
        self._close(thread)
        if is_lost and error is None:
            raise thread.news.lost(self.name)

    # -- inside

    def _close(self, thread: SessionThread) -> None:
        """End the session, at the latest after a moment: then it ends by itself."""
        thread.do(lambda holding, now_ms: holding.close(now_ms))
        thread.join()
