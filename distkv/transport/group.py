"""A node's end of a group: the membership machine at its socket, in real time.

Knows: when the machine is stepped, and with what.  Does not know what it decides, nor what the messages are for: it is
also the engine room of groups without a store.

Invariant: one thread steps the machine, and a step is carried out before the next one is taken. What can be read is
handed in before time is, as far as the machine keeps up with what comes. Times are those of the clock that goes on
while the host sleeps.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NoReturn, Protocol, TypeAlias

import trio

from distkv.swim.inputs import (
    DATAGRAMS_MAX,
    Datagrams,
    Dropped,
    KnownNodes,
    LeaveGroup,
    Member,
    SwimInput,
    SwimReport,
    SwimStep,
    Woke,
)
from distkv.transport.datagrams import DatagramSocket
from distkv.transport.seeds import look_up
from distkv.wire.swim_records import GENERATION_MAX, Address

BATCHES_MAX: Final = 16
"""So many times `DATAGRAMS_MAX` are read before time is handed in at the latest: about what the kernel holds."""
REGISTERED_S: Final = 2.0
"""How often we look whether other nodes are registered."""
LEAVE_S: Final = 1.0
"""How long it may take to tell others that we leave."""
PAUSE_S: Final = 0.001
"""Between two wakes at least, whatever the machine wants."""
FAILED_MS: Final = 1000
"""How long after a wake in which the machine failed it is woken again: each failure is logged."""
_REFUTATIONS: Final = 16
"""Bits of a generation in which a start counts them."""

Contain: TypeAlias = Callable[[Exception, str], object]
Reporter: TypeAlias = Callable[[SwimReport], None]


class GroupMachine(Protocol):
    """What is driven: `swim.machine.SwimMachine`."""

    @property
    def is_over(self) -> bool:
        """Whether all was told of our leave."""

    def step(self, now_ms: int, item: SwimInput) -> SwimStep:
        """Take one input."""

    def members(self) -> tuple[Member, ...]:
        """All that are known, this node included."""


def boot_ms() -> int:
    """The clock of the machine, in milliseconds."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def new_generation(before: int = 0) -> int:
    """Of a start: above that of the start before, as far as that is known, or the clock went on since."""
    return min(max(int(time.time() * 1000) << _REFUTATIONS, before + 1), GENERATION_MAX)


def raise_it(error: Exception, _: str) -> NoReturn:
    """For `contain`: nothing is contained."""
    raise error


class Group:
    """One machine at one socket."""

    def __init__(self, machine: GroupMachine, socket: DatagramSocket, report: Reporter) -> None:
        """`report` is quick, and may say something to the group."""
        self.machine: Final = machine
        self.contain: Contain = raise_it
        """Takes a failure that nobody foresaw, and says so in words, or raises it: then what was handed in is left out.
        """
        self._socket: Final = socket
        self._report: Final = report
        self._wake_ms = 0
        self._rewind = trio.Event()

    async def run(self) -> None:
        """Take part until cancelled.

        Raises:
            OSError: the socket is of no use any more.
        """
        failures: list[OSError] = []
        async with trio.open_nursery() as nursery:

            async def attempt(job: Callable[[], Awaitable[None]]) -> None:
                try:
                    await job()
                except OSError as error:
                    failures.append(error)
                    nursery.cancel_scope.cancel()

            nursery.start_soon(attempt, self._listen)
            nursery.start_soon(attempt, self._keep_time)
        raise failures[0]

    def step(self, item: SwimInput) -> None:
        """Hand something in, and carry out what follows."""
        now_ms = boot_ms()
        try:
            done = self.machine.step(now_ms, item)
        except Exception as error:
            self.contain(error, f"the membership machine: {type(item).__name__}")
            if self._wake_ms <= now_ms:
                self._wake_ms = now_ms + FAILED_MS
            return
        for datagram in done.datagrams:
            self._socket.send(datagram.address, datagram.data)
        if done.wake_ms < self._wake_ms:
            self._rewind.set()
        self._wake_ms = done.wake_ms
        for report in done.reports:
            self._report(report)

    async def leave(self) -> None:
        """Say that we leave; `run` has ended."""
        with trio.move_on_after(LEAVE_S, shield=True):
            self.step(LeaveGroup())
            while not self.machine.is_over:
                await self._wait()
                self._take_what_is_there()
                self.step(Woke())

    # -- inside

    async def _listen(self) -> None:
        while True:
            await self._socket.wait_readable()
            self._take_some()

    async def _keep_time(self) -> None:
        while True:
            await self._wait()
            if boot_ms() >= self._wake_ms:
                self._take_what_is_there()
                self.step(Woke())

    async def _wait(self) -> None:
        """Until the machine wants to be woken, or may want that sooner."""
        self._rewind = trio.Event()
        with trio.move_on_after(max(PAUSE_S, (self._wake_ms - boot_ms()) / 1000)):
            await self._rewind.wait()

    def _take_what_is_there(self) -> None:
        for _ in range(BATCHES_MAX):
            if not self._take_some():
                break

    def _take_some(self) -> bool:
        """Hand in what came; whether there may be more."""
        items = self._socket.read(DATAGRAMS_MAX)
        if dropped := self._socket.take_dropped():
            self.step(Dropped(dropped))
        if items:
            self.step(Datagrams(tuple(items)))
        return len(items) == DATAGRAMS_MAX


async def tell_known(group: Group, registered: Callable[[], Mapping[str, str]], *, is_v6: bool) -> None:
    """Tell the machine which nodes are never forgotten, and where they are, whenever that changes. `registered` gives
    HOST:PORT by names; a host that cannot be looked up is left out until it can."""
    told: dict[str, Address] = {}
    while True:
        found = dict[str, Address]()
        for name, text in registered().items():
            try:
                addresses = await look_up(text, is_v6=is_v6)
            except OSError:
                continue
            if addresses:
                found[name] = addresses[0]
        if found != told:
            told = found
            group.step(KnownNodes(dict(found)))
        await trio.sleep(REGISTERED_S)


