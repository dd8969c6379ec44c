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

from functools import partial
from typing import Final

import attrs
import trio

from distkv.core.client_writes import WriteDone
from distkv.engine.driver import Driver
from distkv.engine.followers import AwaitedEvent
from distkv.errors import BusyError, DistkvError
from distkv.model.event import Event, NodeName, Tick
from distkv.services import kv
from distkv.services.sender import Sender
from distkv.wire.replicated import ReplicatedWrite

LOOK_S: Final = 0.5
"""How often new nodes are looked for; and how long one that failed, or has a gap before the event, is left alone."""


@attrs.define(eq=False)
class _OpenWrite:
    """A write that was carried out and is not answered yet."""

    request: ReplicatedWrite
    written: WriteDone
    position: int
    """It is durable when so many records are."""
    began_s: float
    awaited: AwaitedEvent | None = None
    """None: nobody else is waited for."""
    asking: _Asking | None = None
    """The task that answers it. None: it is answered from where the last of those who hold it says so."""

    @property
    def event(self) -> Event | None:
        """What others are to hold."""
        return self.written.event or self.written.prev

    @property
    def reply(self) -> bytes:
        """What it is answered with now. This node is counted, too."""
        count = 1 if self.awaited is None else 1 + len(self.awaited.holders)
        return kv.written_reply(self.request.write, self.written, replicas=count)


class ReplicatedWrites:
    """Those of one connection. Each is carried out at once, and in its turn; only its answer waits.

    While enough nodes follow this one, no task waits for the answer: it leaves when the last of them says that it holds
    the write. What is not answered soon gets a task, which asks others.
    """

    def __init__(self, driver: Driver, sender: Sender, nursery: trio.Nursery) -> None:
        self._driver: Final = driver
        self._sender: Final = sender
        self._nursery: Final = nursery
        self._holders: Final = driver.hub.followers.holders
        self._open: Final = dict[int, _OpenWrite]()
        self._is_looked_after = False

    def begin(self, request: ReplicatedWrite, size: int) -> None:
        """Carry out a write of `size` bytes, and answer it when so many nodes hold it, or its time is over.

        Raises:
            BusyError: this connection waits for too many already; nothing was written.
            RequestError: as for `kv.set_value`; nothing was written.
        """
        driver, wanted = self._driver, request.replicas - 1
        limit = driver.limits.event_waits
        if len(self._open) >= limit:
            raise BusyError(f"this connection waits for {limit} writes already: wait for one, or open another one")
        written = kv.write(driver, request.write, size)
        if written.event is not None:
            driver.committer.is_wanted = True
        found = self._open[request.seq] = _OpenWrite(request, written, driver.position, trio.current_time())
        if found.event is not None and wanted > 0:
            found.awaited = self._holders.begin(found.event.link, wanted, partial(self._enough, found))
        is_new, are_there = written.event is not None, 0 < wanted <= driver.follower_count
        if not (is_new and are_there and request.timeout_s > LOOK_S):
            self._give_task(found)
        elif not self._is_looked_after:
            self._is_looked_after = True
            self._nursery.start_soon(self._look_after)

    def stop(self, seq: int) -> bool:
        """Let the write of this request be answered at once; whether there was one."""
        found = self._open.get(seq)
        if found is not None:
            self._give_task(found).scope.cancel()
        return found is not None

    # -- inside

    def _enough(self, found: _OpenWrite) -> None:
        """So many others hold it as were wanted; maybe said again, or before it is durable here."""
        if found.asking is None and self._driver.committer.durable < found.position:
            self._give_task(found)
        if found.asking is not None:
            found.asking.are_enough.set()
        elif self._forget(found) and not self._sender.send_nowait(reply := found.reply):
            self._nursery.start_soon(self._sender.send, reply)

    async def _look_after(self) -> None:
        """Give a task to those that were not answered soon, as long as some have none."""
        try:
            while waiting := [found for found in self._open.values() if found.asking is None]:
                soon_s = waiting[0].began_s + LOOK_S
                await trio.sleep_until(soon_s)
                for found in waiting:
                    if found.began_s + LOOK_S <= soon_s and found.request.seq in self._open:
                        self._give_task(found)
        finally:
            self._is_looked_after = False
            for found in [found for found in self._open.values() if found.asking is None]:
                self._forget(found)  # the connection has ended

    def _give_task(self, found: _OpenWrite) -> _Asking:
        if found.asking is None:
            found.asking = _Asking(self._driver, found.event, found.awaited)
            self._nursery.start_soon(self._answer, found, found.asking)
        return found.asking

    async def _answer(self, found: _OpenWrite, asking: _Asking) -> None:
        committer, is_late = self._driver.committer, trio.current_time() >= found.began_s + LOOK_S
        try:
            await committer.wait_durable(found.position)
            with asking.scope as scope:
                scope.deadline = (found.began_s if is_late else trio.current_time()) + found.request.timeout_s
                await asking.wait(is_new=found.written.event is not None and not is_late)
            await self._sender.send(found.reply)
        finally:
            self._forget(found)

    def _forget(self, found: _OpenWrite) -> bool:
        """It is answered, or will never be; whether it was not before."""
        if self._open.pop(found.request.seq, None) is None:
            return False
        if found.awaited is not None:
            self._holders.end(found.awaited)
        return True


class _Asking:
    """How a write is waited for by a task."""

    def __init__(self, driver: Driver, event: Event | None, awaited: AwaitedEvent | None) -> None:
        self.scope: Final = trio.CancelScope()
        self.are_enough: Final = trio.Event()
        self._driver: Final = driver
        self._event: Final = event
        self._awaited: Final = awaited
        self._asked: Final = set[NodeName]()

    async def wait(self, *, is_new: bool) -> None:
        """Wait until so many hold it: those who follow say so; all others are asked, those that turn up meanwhile
        included, and who follows and does not say it soon. None holds nothing."""
        event, awaited = self._event, self._awaited
        if event is None or awaited is None:
            return
        if is_new and self._driver.follower_count >= awaited.wanted:
            with trio.move_on_after(LOOK_S):
                await self.are_enough.wait()
                return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._ask_all, event, awaited, nursery)
            await self.are_enough.wait()
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
