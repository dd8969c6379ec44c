"""Grants of which no client has shown that it knows: the node that was to pass them on may have ended.

Knows: which grants were told lately, or are known from a disk only, and when the leader is to be asked whether the
session counts on them.  Does not know the tokens, nor who asks.

Invariant: a grant is unsure from the moment it is told until the session has named it, or it is over. What was told
again after the question was asked is unsure anew: an answer from before says nothing about it.

Why it matters: a client whose connection broke may never learn that it holds a token, and so never release it, while
its session lives on.
"""

from __future__ import annotations

from typing import Final

from distkv.core.tokens.alarms import Alarms


class UnsureGrants:
    """By token and session. All times are milliseconds."""

    def __init__(self, wait_ms: int) -> None:
        self._wait_ms: Final = wait_ms
        self._alarms: Final = Alarms[tuple[str, str]]()
        self._asked: Final = dict[tuple[str, str], None]()

    def told(self, token: str, session: str, now_ms: int) -> None:
        """The session was told that it holds the token; or it is known from a disk only."""
        self._asked.pop((token, session), None)
        self._alarms.put((token, session), now_ms + self._wait_ms)

    def end(self, token: str, session: str) -> None:
        """It is sure, or over."""
        self._asked.pop((token, session), None)
        self._alarms.drop((token, session))

    def take_due(self, now_ms: int) -> list[tuple[str, str]]:
        """Of which to ask now."""
        found = self._alarms.take_due(now_ms)
        self._asked.update(dict.fromkeys(found))
        return found

    def is_asked(self, token: str, session: str) -> bool:
        """Whether the answer to the last question counts still."""
        return (token, session) in self._asked

    @property
    def due_ms(self) -> int | None:
        """When one is."""
        return self._alarms.first_ms
