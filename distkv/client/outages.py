"""What the user of a watch is told of its connections: when one is lost, and when there is one again.

Knows: what was told last.  Does not know what is watched, nor how a connection is made.

Invariant: after a loss that was told the next thing told is that the node watches again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias, TypeVar

import attrs

from distkv.client.questions import Question
from distkv.errors import DistkvError, UnreachableError

SILENCE_S: Final = 300.0
"""A watch that is told nothing for so long connects again and goes on: its node may have vanished without a word."""

OnDisconnect: TypeAlias = Callable[[str], None]
"""Called with the reason."""
OnConnect: TypeAlias = Callable[[], None]

Event = TypeVar("Event")


@attrs.frozen
class Begun:
    """The node watches. It is no event: users are not told."""


class Watched(Protocol[Event]):
    """A watch that goes on over several connections."""

    def question(self) -> Question[Event | Begun]:
        """What to ask on the next connection."""

    def is_bearable(self, error: DistkvError) -> bool:
        """Whether to try again after an error."""

    def meet(self) -> None:
        """The node watches."""

    def lose(self, why: DistkvError) -> None:
        """The connection is lost, or could not be made."""


class Outages:
    """Of one watch."""

    def __init__(self, on_disconnect: OnDisconnect | None, on_connect: OnConnect | None) -> None:
        self._on_disconnect: Final = on_disconnect
        self._on_connect: Final = on_connect
        self._is_connected = False
        self._is_lost = False

    def meet(self) -> None:
        """The node watches: tell the user if he was told that the connection is lost."""
        self._is_connected = True
        if self._is_lost:
            self._is_lost = False
            if self._on_connect is not None:
                self._on_connect()

    def lose(self, why: DistkvError) -> None:
        """The connection is lost, or an attempt to make it again failed: tell the user the first time.

        Silence alone is no loss, because a watch in which nothing happens is as silent; it is told when no connection
        can be made then.
        """
        was_silent = self._is_connected and isinstance(why, UnreachableError) and why.is_silence
        self._is_connected = False
        if not was_silent and not self._is_lost:
            self._is_lost = True
            if self._on_disconnect is not None:
                self._on_disconnect(str(why))
