"""Writes on their way to whichever host takes them.

Knows: which failures say that another host may do better, how long to go on, and how a batch that is refused is taken
apart.  Does not know where writes come from.

A node carries out a batch whole or not at all, and says which write it refuses. Where a condition does not hold a look
at each path of the batch tells whether its write may still be made, was made before, or comes too late. "Made before"
is a path that has the value of the write: so a task that is tried again finds its own writes done, though each of their
conditions is false by then. A path that a token holds takes no such write, whatever its condition: it is refused,
unless the value is there already.

Invariant: a write that was not made was refused by name (`refuse`), found to be done (`same`), or is among the
`conflicts`; else an error is raised.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

import attrs

from distkv.client.addresses import Address, address_text
from distkv.client.blocking import Client
from distkv.client.protocol import Backoff
from distkv.client.questions import Entry, Get, Operation
from distkv.errors import (
    BusyError,
    ConflictError,
    DamagedError,
    DecodeError,
    DistkvError,
    FencedError,
    NoSpaceError,
    NotReadyError,
    PeerError,
    RequestError,
    TooLargeError,
    UnreachableError,
)
from distkv.model.path import Path
from distkv.model.sameness import same_value
from distkv.spark.nodes.hosts import Patience
from distkv.spark.source.row_writes import RowWrite
from distkv.wire.values import pack_value

WAIT_S: Final = 60.0
"""So long a batch that no host takes is tried again."""
PAUSE_MAX_S: Final = 5.0
PATIENCE: Final = Patience()
_ELSEWHERE: Final = (UnreachableError, PeerError, DecodeError, BusyError, NotReadyError, NoSpaceError, DamagedError)
"""What says something about a host, not about what was asked of it."""

Result = TypeVar("Result")


class Refuse(Protocol):
    """Told of a write that can never be made. Raises what ends the job, or returns, and the others go on."""

    def __call__(self, write: RowWrite, error: RequestError) -> None: ...


def fail(write: RowWrite, error: RequestError) -> None:
    """One write that is refused ends the job."""
    raise type(error)(f"the row of {write.path} cannot be written: {error}")


@attrs.define
class Pace:
    """At most so many rows per second, as far as batches allow."""

    rate: float | None
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _free_at: float = float("-inf")

    def wait(self, rows: int) -> None:
        """Until so many rows may be sent."""
        if self.rate is None:
            return
        begin = max(self.now(), self._free_at)
        self._free_at = begin + rows / self.rate
        if (pause_s := begin - self.now()) > 0:
            self.sleep(pause_s)


class TaskSender:
    """One task's writes: one connection, to the host that took the last batch. Close it."""

    def __init__(
        self,
        addresses: Sequence[Address],
        *,
        refuse: Refuse = fail,
        wait_s: float = WAIT_S,
    ) -> None:
        self.written = self.same = self.conflicts = 0
        """Writes that made a change; that found all as they wish it; whose condition does not hold."""
        self.first_conflict: Path | None = None
        self._addresses = deque(addresses)
        self._refuse, self._wait_s = refuse, wait_s
        self._client: Client | None = None

    def close(self) -> None:
        """May be called again."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def carry_out(self, batch: Sequence[RowWrite]) -> None:
        """Make these writes, of which no two have one path.

        Raises:
            UnreachableError, BusyError, NotReadyError, NoSpaceError: no host took them in time.
            RequestError: what `refuse` raises.
        """
        waiting = [list(batch)]
        while waiting:
            some = waiting.pop()
            if some:
                waiting.extend(reversed(self._step(some)))

    def ask(self, operations: Sequence[Operation[Result]]) -> tuple[Result, ...]:
        """A batch, of whichever host takes it.

        Raises:
            UnreachableError, BusyError, NotReadyError, NoSpaceError: none does in time.
            RequestError: it is refused, by a host that could have taken it.
        """
        failures: dict[str, DistkvError] = {}
        deadline, pauses = time.monotonic() + self._wait_s, Backoff(max_s=PAUSE_MAX_S)
        while True:
            for _ in range(len(self._addresses)):
                try:
                    return self._connected().batch(operations)
                except _ELSEWHERE as error:
                    self.close()
                    failures[address_text(self._addresses[0])] = error
                    self._addresses.rotate(-1)
            rest_s = deadline - time.monotonic()
            if rest_s <= 0:
                raise self._given_up(failures)
            time.sleep(min(pauses.next_s(1.0), rest_s))

    # -- inside

    def _connected(self) -> Client:
        if self._client is None:
            patience = PATIENCE
            address = self._addresses[0]
            self._client = Client((address,), connect_s=patience.connect_s, reply_s=patience.reply_s)
        return self._client

    def _given_up(self, failures: dict[str, DistkvError]) -> DistkvError:
        why = "; ".join(f"{address}: {error}" for address, error in failures.items())
        refusal = next((error for error in failures.values() if isinstance(error, RequestError)), None)
        kind = UnreachableError if refusal is None else type(refusal)
        return kind(
            f"no host took the next rows for {self._wait_s:g} s ({why}); "
            "what was written before stays: see to the hosts, and write all rows again"
        )

    def _step(self, batch: list[RowWrite]) -> list[list[RowWrite]]:
        """Try a batch; what is left to do of it, in order."""
        try:
            results = self.ask([write.operation for write in batch])
        except RequestError as error:
            if isinstance(error, ConflictError) and not isinstance(error, FencedError):
                return [self._without_late_ones(batch, error)]
            if len(batch) == 1:
                self._refuse_undone(batch[0], error)
                return []
            at = error.op
            if isinstance(error, TooLargeError) or at is None or not 0 <= at < len(batch):
                half = len(batch) // 2
                return [batch[:half], batch[half:]]
            self._refuse_undone(batch[at], error)
            return [batch[:at] + batch[at + 1 :]]
        changed = sum(result.changed for result in results)
        self.written += changed
        self.same += len(results) - changed
        return []

    def _refuse_undone(self, write: RowWrite, error: RequestError) -> None:
        """It can never be made; but at a path that a token holds its value may be there already."""
        if isinstance(error, FencedError) and write.ttl is None:
            (entry,) = self.ask([Get(write.path)])
            if _is_done(write, entry):
                self.same += 1
                return
        self._refuse(write, error)

    def _without_late_ones(self, batch: list[RowWrite], error: ConflictError) -> list[RowWrite]:
        """The writes whose condition holds still."""
        left: list[RowWrite] = []
        for write in batch:
            (entry,) = self.ask([Get(write.path)])
            if _is_done(write, entry):
                self.same += 1
            elif _holds(write, entry):
                left.append(write)
            else:
                self._leave(write)
        if len(left) == len(batch):  # it holds again: somebody undid what was in the way
            at = error.op if error.op is not None and 0 <= error.op < len(left) else 0
            self._leave(left.pop(at))
        return left

    def _leave(self, write: RowWrite) -> None:
        self.conflicts += 1
        if self.first_conflict is None:
            self.first_conflict = write.path


def _is_done(write: RowWrite, entry: Entry | None) -> bool:
    """Whether a path has what the write asks for."""
    if write.value is None or entry is None:
        return write.value is None and entry is None
    return entry.ttl == write.ttl and same_value(pack_value(entry.value), write.value)


def _holds(write: RowWrite, entry: Entry | None) -> bool:
    if write.new:
        return entry is None
    return write.head is None or (entry is not None and entry.chain[0] == write.head)
