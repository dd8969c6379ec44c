"""Writes that are answered when several nodes hold them.

Knows: who says that they hold an event, whom to ask whether they do, and how often.  Does not know sessions, nor how a
write is made.

Nodes that follow this one say it on their connection (`engine.holders`). Only where that is not enough others are
asked, each on a connection of its own.

Invariant: a node is counted when it has said itself that it holds the event's tick, durably. Then the event is on its
disk, or what replaced it: no node holds a tick as superseded on somebody's mere word (docs/protocol, LEDGER-5). This
one is counted when its commit is done. The write stands, whatever the count.
"""

from __future__ import annotations

from typing import Final

import trio

from distkv.core.ready import WriteDone
from distkv.engine.driver import Driver
from distkv.engine.holders import AwaitedEvent
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
        holders = _ReplicaWait(self._driver, written, request.replicas)
        self._nursery.start_soon(self._answer, request, written, holders)

    def stop(self, seq: int) -> bool:
        """Let the write of this request be answered at once; whether there was one."""
        found = self._open.get(seq)
        if found is not None:
            found.cancel()
        return found is not None

    async def _answer(self, request: ReplicatedWrite, written: WriteDone, holders: _ReplicaWait) -> None:
        try:
            await self._driver.committer.wait_durable(self._driver.position)
            with self._open[request.seq] as scope:
                scope.deadline = trio.current_time() + request.timeout_s
                await holders.wait()
            await self._sender.send(kv.written_reply(request.write, written, replicas=holders.count))
        finally:
            holders.close()
            del self._open[request.seq]


class _ReplicaWait:
    """The nodes that hold what was written."""

    def __init__(self, driver: Driver, written: WriteDone, wanted: int) -> None:
        """They are counted from now on, until it is closed."""
        self._driver = driver
        self._wanted = wanted
        self._is_new = written.event is not None
        self._event = written.event or written.prev
        self._asked: set[NodeName] = set()
        self._are_enough = trio.Event()
        self._awaited: AwaitedEvent | None = None
        if self._event is not None and wanted > 1:
            self._awaited = driver.hub.followers.holders.begin(self._event.link, wanted - 1, self._are_enough.set)

    def close(self) -> None:
        """Nobody waits any more."""
        if self._awaited is not None:
            self._driver.hub.followers.holders.end(self._awaited)

    @property
    def count(self) -> int:
        """This one included."""
        return 1 if self._awaited is None else 1 + len(self._awaited.holders)

    async def wait(self) -> None:
        """Wait until so many hold it: those who follow say so; all others are asked, those that turn up meanwhile
        included, and who follows and does not say it soon. None holds nothing."""
        event, awaited = self._event, self._awaited
        if event is None or awaited is None:
            return
        if self._is_new and self._driver.follower_count + 1 >= self._wanted:
            with trio.move_on_after(LOOK_S):
                await self._are_enough.wait()
                return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._ask_all, event, awaited, nursery)
            await self._are_enough.wait()
            nursery.cancel_scope.cancel()

    async def _ask_all(self, event: Event, awaited: AwaitedEvent, nursery: trio.Nursery) -> None:
        while True:
            for name in self._driver.replica.peers(self._driver.now_ms()).keys() - self._asked - awaited.holders:
                self._asked.add(name)
                nursery.start_soon(self._ask, name, event, awaited)
            await trio.sleep(LOOK_S)

    async def _ask(self, name: NodeName, event: Event, awaited: AwaitedEvent) -> None:
        """Ask one node until it holds the event."""
        while name not in awaited.holders:
            if await self._holds(name, event):
                awaited.add(name)
            else:
                await trio.sleep(LOOK_S)

    async def _holds(self, name: NodeName, event: Event) -> bool:
        """Whether a node says so; waits some seconds for it."""
        self._driver.counters["replicas_asked"] += 1
        addr, _ = self._driver.replica.peers(self._driver.now_ms()).get(name, ("", False))
        try:
            held = await self._driver.wait_held(addr, {event.node: Tick(event.tick - 1)})
        except DistkvError:  # it is away, or refuses: the next time it may not
            self._driver.counters["replica_not_asked"] += 1
            return False
        ticks = held.get(event.node)
        return ticks is not None and event.tick in ticks
