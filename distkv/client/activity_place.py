"""Where a client of the activity network goes next.

Knows: where it was, where it was sent, and how long no node took it.  Does not know how anything travels, nor the time
but as it is told.

Invariant: a node that sent it on is believed once; then the last place is tried once, because a node that starts again
knows the client; then a node is asked where its listener is.
"""

from __future__ import annotations

import socket
from typing import Final, TypeAlias, TypeGuard

from distkv.client.protocol import Backoff
from distkv.errors import DisabledError, DistkvError, PeerError, UnreachableError
from distkv.wire.fields import Fields, read_int

ListenerAddress: TypeAlias = tuple[str, int]
PORT_MAX: Final = 65_535
KEEPALIVE: Final = ((socket.TCP_KEEPIDLE, 5), (socket.TCP_KEEPINTVL, 2), (socket.TCP_KEEPCNT, 3))
"""A node that vanished without a word is noticed within so many seconds."""


class ActivityRoute:
    """That of one client."""

    def __init__(self, patience_s: float) -> None:
        """`patience_s`: so long it tries when no node takes it."""
        self._patience_s: Final = patience_s
        self._backoff: Final = Backoff.within(patience_s)
        self._next: ListenerAddress | None = None
        self._last: ListenerAddress | None = None
        self._since_s: float | None = None

    def next_place(self) -> ListenerAddress | None:
        """Where to go; None: ask a node where its listener is."""
        return self._next

    def entered(self, place: ListenerAddress) -> None:
        """It is logged in there."""
        self._last, self._since_s = place, None
        self._backoff.reset()

    def left(self, redirect: ListenerAddress | None) -> None:
        """The connection is over."""
        self._next, self._last = redirect or self._last, None

    def missed(self) -> None:
        """It could not be reached, or did not take it."""
        self._next = None

    def pause_s(self, chance: float) -> float:
        """How long to wait before the next attempt."""
        return 0.0 if self._next is not None else self._backoff.next_s(chance)

    def is_over(self, now_s: float) -> bool:
        """Whether no node took it for too long."""
        if self._since_s is None:
            self._since_s = now_s
        return now_s - self._since_s >= self._patience_s


def keep_alive(line: socket.socket) -> None:
    """Notice on this connection when the node vanishes without a word."""
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, seconds in KEEPALIVE:
        line.setsockopt(socket.IPPROTO_TCP, name, seconds)


def read_place(reply: Fields) -> ListenerAddress:
    """Where a node says that its listener is.

    Raises:
        DecodeError: that is nowhere.
    """
    host = reply.get("host")
    return str(host), read_int(reply, "port", PORT_MAX, 1)


def is_final(error: Exception) -> TypeGuard[DistkvError]:
    """Whether a client that was never logged in need not try again."""
    return isinstance(error, DisabledError | PeerError)


def never_taken(last: Exception | None) -> UnreachableError:
    """The end of all attempts."""
    return UnreachableError(f"no listener of the activity network takes this client: {last or 'all are silent'}")
