"""Writes that are answered when several nodes hold them.

Knows: whom to ask whether they hold an event, and how often.  Does not know sessions, nor how a write is made.

Invariant: a node is counted when it has said itself that it holds the event's tick, durably. Then the event is on its
disk, or what replaced it: no node holds a tick as superseded on somebody's mere word (docs/protocol, LEDGER-5). This
one is counted when its commit is done. The write stands, whatever the count.
"""

from __future__ import annotations

from typing import Final

import trio

from distkv.core.ready import WriteDone
from distkv.engine.driver import Driver
from distkv.errors import BusyError, DistkvError
from distkv.model.event import Event, NodeName, Tick
from distkv.services import kv
from distkv.services.sender import Sender
from distkv.wire.request import ReplicatedWrite

LOOK_S: Final = 0.5
"""How often new nodes are looked for; and how long one that failed, or has a gap before the event, is left alone."""


class ReplicatedWrites:
    """Those of one connection. Each is carried out at once, and in its turn; only its answer waits."""

    def __init__(self, driver: Driver, sender: Sender, nursery: trio.Nursery) -> None:
        self._driver = driver
        self._sender = sender
        self._nursery = nursery
        self._open: dict[int, trio.CancelScope] = {}

    def begin(self, request: ReplicatedWrite, size: int) -> None:
        """Carry out a write of `size` bytes, and answer it when so many nodes hold it, or its time is over.

        Raises:
            BusyError: this connection waits for too many already; nothing was written.
            RequestError: as for `kv.set_value`; nothing was written.
        """
        limit = self._driver.limits.event_waits
        if len(self._open) >= limit:
            raise BusyError(f"this connection waits for {limit} writes already: wait for one, or open another one")
        written = kv.write(self._driver, request.write, size)
        self._open[request.seq] = trio.CancelScope()
        self._nursery.start_soon(self._answer, request, written)

    def stop(self, seq: int) -> bool:
        """Let the write of this request be answered at once; whether there was one."""
        found = self._open.get(seq)
        if found is not None:
            found.cancel()
        return found is not None

    async def _answer(self, request: ReplicatedWrite, written: WriteDone) -> None:
        try:
            await self._driver.committer.wait_durable(self._driver.position)
            holders = _Holders(self._driver, written.event or written.prev)
            with self._open[request.seq] as scope:
                scope.deadline = trio.current_time() + request.timeout_s
                await holders.wait_count(request.replicas)
            await self._sender.send(kv.written_reply(request.write, written, replicas=holders.count))
        finally:
            del self._open[request.seq]


class _Holders:
    """The nodes that hold an event."""

    def __init__(self, driver: Driver, event: Event | None) -> None:
        self.count = 1  # this one
        self._driver = driver
        self._event = event
        self._asked: set[NodeName] = set()

    async def wait_count(self, wanted: int) -> None:
        """Ask all other nodes, those that turn up meanwhile included, until so many hold it. None holds nothing."""
        if self._event is None or self.count >= wanted:
            return
        async with trio.open_nursery() as nursery:
            while True:
                for name in self._driver.replica.peers(self._driver.now_ms()).keys() - self._asked:
                    self._asked.add(name)
                    nursery.start_soon(self._ask, name, self._event, wanted, nursery.cancel_scope)
                await trio.sleep(LOOK_S)

    async def _ask(self, name: NodeName, event: Event, wanted: int, all_asking: trio.CancelScope) -> None:
        """Ask one node until it holds the event."""
        while True:
            if await self._holds(name, event):
                break
            await trio.sleep(LOOK_S)
        self.count += 1
        if self.count >= wanted:
            all_asking.cancel()

    async def _holds(self, name: NodeName, event: Event) -> bool:
        """Whether a node says so; waits some seconds for it."""
        addr, _ = self._driver.replica.peers(self._driver.now_ms()).get(name, ("", False))
        try:
            held = await self._driver.wait_held(addr, {event.node: Tick(event.tick - 1)})
        except DistkvError:  # it is away, or refuses: the next time it may not
            self._driver.counters["replica_not_asked"] += 1
            return False
        ticks = held.get(event.node)
        return ticks is not None and event.tick in ticks
