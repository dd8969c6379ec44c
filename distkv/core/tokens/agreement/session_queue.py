"""The sessions that are to be opened and ended in the next versions.

Knows: what waits, in its order.  Does not know who asked, nor what a version is.

Invariant: of what waits at most `AT_ONCE_MAX` sessions are opened, and as many ended, in one version.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Final

from distkv.core.tokens.state import TokenState

AT_ONCE_MAX: Final = 1000


class SessionQueue:
    """What is to be opened and ended in the next versions."""

    def __init__(self) -> None:
        self._opening: Final = deque[tuple[int, str]]()
        self._ending: Final = dict[str, None]()

    def __len__(self) -> int:
        return len(self._opening)

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._opening and not self._ending

    def open(self, ttl_ms: int, tag: str) -> None:
        """A session, with this in its id."""
        self._opening.append((ttl_ms, tag))

    def end(self, sessions: Collection[str]) -> None:
        """Those of them that are open when the turn comes."""
        self._ending.update(dict.fromkeys(sessions))

    def take(self, state: TokenState) -> tuple[list[tuple[int, str]], list[str]]:
        """What goes into the version after this one."""
        opened = [self._opening.popleft() for _ in range(min(AT_ONCE_MAX, len(self._opening)))]
        ended = list[str]()
        while self._ending and len(ended) < AT_ONCE_MAX:
            one = next(iter(self._ending))
            del self._ending[one]
            if one in state.sessions:
                ended.append(one)
        return opened, ended
