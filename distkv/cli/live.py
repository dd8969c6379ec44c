"""Listens to the traces of running nodes, for `distkv graph --live`.

Knows: threads, connections, and whose wall clock says what.  Does not know what becomes of the moments.

Invariant: moments leave in the order of their times, as far as they come within half a second of each other; nothing
here grows without bound: who is too slow makes the nodes drop moments, and says how many.
"""

from __future__ import annotations

import heapq
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum, auto
from typing import Final, TypeAlias

import attrs

from distkv.cli.output import complain
from distkv.client import node_questions
from distkv.client.addresses import Address, address_text
from distkv.client.connection import Connection, open_connection
from distkv.errors import DistkvError, SettingsError, UnreachableError
from distkv.graph.trace import OUT_OF_SIGHT, Moment

CONNECT_S: Final = 5.0
SILENCE_S: Final = 7 * 86_400.0
"""A node without others may have nothing to tell for long."""
AGAIN_S: Final = 0.5
"""Between attempts to reach a node that went away."""
HOLD_S: Final = 0.5
"""So long a moment waits for earlier ones from other nodes."""
QUEUE_MAX: Final = 10_000

END_S: Final = 5.0
"""So long a node may take to say that it has told all."""


class _End(Enum):
    """What a listener tells last."""

    END = auto()


Told: TypeAlias = Moment | DistkvError | _End


def listen(addresses: Sequence[Address], for_s: float | None, write: Callable[[Moment], object]) -> None:
    """Hand on what all these nodes do, until the time is over, or Ctrl-C; their times count from the first one on.

    Raises:
        UnreachableError: one does not answer at the beginning.
        SettingsError: two addresses are one node's, so that all of it would be there twice.
        DistkvError: one refuses.
    """
    ears = [_NodeListener(address, open_connection([address], connect_s=CONNECT_S)) for address in addresses]
    _check_names(ears)
    told: queue.Queue[Told] = queue.Queue(QUEUE_MAX)
    names = ", ".join(f"{ear.node} at {address_text(ear.address)}" for ear in ears)
    order = _TimeOrder(write)
    with suppress(KeyboardInterrupt):  # from the moment on at which a node counts a listener
        for ear in ears:
            threading.Thread(target=ear.run, args=(told.put,), daemon=True).start()
        complain(f"listening to {names}; {'Ctrl-C ends it' if for_s is None else f'for {for_s:g} s'}")
        _collect(told, order, for_s)
    for ear in ears:
        ear.stop()
    _collect(told, order, END_S, ends=len(ears))  # what is under way
    order.release(time.monotonic())


def _check_names(ears: Sequence[_NodeListener]) -> None:
    there: dict[str, Address] = {}
    for ear in ears:
        other = there.setdefault(ear.node, ear.address)
        if other is not ear.address:
            both = f"{address_text(other)} and {address_text(ear.address)}"
            raise SettingsError(f"--live {both} are both the node {ear.node}: name each node once")


def _collect(told: queue.Queue[Told], order: _TimeOrder, for_s: float | None, ends: int = 0) -> None:
    """Take what comes, until the time is over, or so many have come to their end."""
    left = ends
    deadline = None if for_s is None else time.monotonic() + for_s
    while (deadline is None or time.monotonic() < deadline) and (left or not ends):
        try:
            found = told.get(timeout=order.pause_s(deadline))
        except queue.Empty:
            pass
        else:
            if isinstance(found, DistkvError):
                raise found
            if found is _End.END:
                left -= 1
            else:
                order.put(found)
        order.release(time.monotonic() - HOLD_S)


@attrs.define
class _TimeOrder:
    """Brings moments of several nodes into the order of their times."""

    _write: Callable[[Moment], object]
    _waiting: list[tuple[int, int, float, Moment]] = attrs.field(factory=list)
    _count: int = 0
    _zero_ms: int | None = None

    def put(self, moment: Moment) -> None:
        self._count += 1
        heapq.heappush(self._waiting, (moment.at_ms, self._count, time.monotonic(), moment))

    def release(self, arrived: float) -> None:
        """Hand on what came before that instant, and what is earlier."""
        while self._waiting and any(entry[2] <= arrived for entry in self._waiting[:1]):
            at_ms, _, _, moment = heapq.heappop(self._waiting)
            if self._zero_ms is None:
                self._zero_ms = at_ms
            self._write(attrs.evolve(moment, at_ms=at_ms - self._zero_ms))

    def pause_s(self, deadline: float | None) -> float:
        """How long nothing has to be done, unless something comes."""
        left_s = 1.0 if deadline is None else max(0.0, min(1.0, deadline - time.monotonic()))
        return min(left_s, HOLD_S / 5) if self._waiting else left_s


class _NodeListener:
    """Listens to one node; when that goes away, tries again until it is back."""

    def __init__(self, address: Address, connection: Connection) -> None:
        self.address = address
        self.node: str = connection.hello.node
        self._connection = connection
        self._is_stopped = False

    def stop(self) -> None:
        """From any thread: let the node tell what there is, and no more."""
        self._is_stopped = True
        self._connection.end_items()

    def run(self, tell: Callable[[Told], object]) -> None:
        """For a thread of its own, which ends with the command, or when the node refuses."""
        while not self._is_stopped:
            try:
                for fields in self._connection.items(node_questions.trace(), SILENCE_S):
                    for moment in self._moments(fields):
                        tell(moment)
            except UnreachableError:
                pass
            except DistkvError as error:
                tell(error)
                return
            if not self._is_stopped:
                tell(Moment(_now_ms(), self.node, OUT_OF_SIGHT))
                self._connect_again()
        tell(_End.END)

    def _moments(self, fields: Mapping[str, object]) -> list[Moment]:
        """What an item says."""
        found = fields.get("moment")
        if isinstance(found, dict):
            return [Moment.from_dict(found)]
        if "lost" in fields:
            return [Moment(_now_ms(), self.node, f"{fields['lost']} moments were not told: the listener is too slow")]
        return []  # the start

    def _connect_again(self) -> None:
        pause = threading.Event()  # nobody sets it
        while not self._is_stopped:
            pause.wait(AGAIN_S)
            try:
                self._connection = open_connection([self.address], connect_s=CONNECT_S)
            except DistkvError:
                continue
            return


def _now_ms() -> int:
    return round(time.time() * 1000)
