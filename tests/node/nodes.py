"""Whole nodes in one trio run in virtual time: real replica, committer, driver, sessions, log; the rest in memory.

Knows: how the parts of a node are put together, and how nodes, clients and a lying disk are connected to them.
Does not know what is right: tests do.

Invariant: nothing here uses a thread or real time, and no sockets but in pairs, where what is sent is there at once;
so a `MockClock` may jump. A commit that would run on a thread waits in virtual time instead, before and after the
disk is touched, and whatever can happen meanwhile does. With all that leaves a node stands what its disk had then.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, cast

import attrs
import trio
from trio.testing import MockClock, lockstep_stream_pair, memory_stream_pair

from distkv.config import Limits, ScrubConfig, TreeConfig
from distkv.core.ground.machine import ServiceMachine
from distkv.core.ready import Input, Ready
from distkv.core.replica import Replica
from distkv.core.server_tree.machine import ServerTree
from distkv.core.server_tree.settings import TreeSettings
from distkv.daemon.directory import Directory
from distkv.daemon.failure import first_failure
from distkv.engine.caller import Caller
from distkv.engine.commit import INLINE_SYNC_S, Append, Committer, RunBlocking
from distkv.engine.driver import Driver
from distkv.engine.scrub import Scrub
from distkv.engine.settler import Settler
from distkv.errors import DistkvError
from distkv.model.event import NodeName, first_tick
from distkv.services.connections import serve_listeners
from distkv.sim.told import core_settings
from distkv.storage.archive import Archive, open_archive
from distkv.storage.base import Log
from distkv.storage.log import open_log
from distkv.storage.memory import DiskCrashed, MemoryDisk, keep_all
from distkv.transport.base import GroupMember, KeyDesk, Report, Transport
from distkv.transport.memory import MemoryNetwork, MemoryTransport, MessageFaults
from distkv.transport.pull import PeerCaller
from distkv.wire import packing
from distkv.wire.framing import FrameReader
from distkv.wire.message import EventRecord, LifeRecord, Message, Start, Update
from distkv.wire.records import decode_record
from distkv.wire.replies import decode_reply
from distkv.wire.values import pack_value

SEGMENT_BYTES = 128 << 10
CLOCK_MS = 1000

OVER_SOCKETS = ContextVar("OVER_SOCKETS", default=False)
"""Whether clients come over pairs of real sockets, which the server serves without tasks and beside the streams' taps;
else over streams in memory."""


def run(main: Callable[[], Awaitable[None]]) -> None:
    """Run a test in virtual time; usable inside hypothesis, where the fixture of pytest-trio is not."""
    trio.run(main, clock=MockClock(autojump_threshold=0))


def durable_copy(disk: MemoryDisk) -> MemoryDisk:
    """What a backup of the whole machine has of it."""
    return disk.after_power_loss(keep_all, keep_names=True)


async def until(condition: Callable[[], bool], every_s: float) -> None:
    """Wait, in virtual time, until a condition holds that no event tells of."""
    while not condition():  # noqa: ASYNC110
        await trio.sleep(every_s)


def committing_in(seconds: float | Callable[[], float]) -> RunBlocking:
    """A stand-in for the commit thread: half of the virtual time passes before the disk is touched, half after.

    `seconds`: the same for all, or asked for anew for each commit.
    """

    async def run_blocking(append: Append, records: Sequence[bytes]) -> int:
        half_s = (seconds() if callable(seconds) else seconds) / 2
        await trio.sleep(half_s)
        lsn = append(records)
        await trio.sleep(half_s)
        return lsn

    return run_blocking


def replayed(name: str, log: Log, **settings: Any) -> Replica:
    """The machine of a node, with its log replayed into it."""
    replica = new_replica(name, **settings)
    replay(replica, log)
    return replica


def new_replica(
    name: str,
    services: Mapping[str, ServiceMachine] | None = None,
    tree: TreeConfig | None = None,
    **settings: Any,
) -> Replica:
    """The machine of a node, empty."""
    told = {"addr": f"{name}:1", "start": Start(1.7e9, 1), "clock_ms": CLOCK_MS, **settings}
    core = core_settings(NodeName(name), **told)
    if tree is None:
        return Replica(core, random.Random(name), services or {})
    planted = TreeSettings(core.node, core.addr, tree.fanout, round(tree.announce_s * 1000))
    return Replica(core, random.Random(name), services or {}, partial(ServerTree, planted, random.Random(name)))


def replay(replica: Replica, log: Log) -> None:
    """Repeat a whole log."""
    for batch in log.replay():
        for record in batch:
            replica.store.replay(decode_record(record))


async def on_the_loop(function: Callable[..., Any], *arguments: Any) -> Any:
    """A stand-in for a thread that works on the archive."""
    await trio.lowlevel.checkpoint()
    return function(*arguments)


# -- what leaves a node -------------------------------------------------------------------------------------------


@attrs.frozen
class Kept:
    """What a disk had at one moment, by what was written, and not by what the node believes."""

    tick: int = 0
    """The highest own tick."""
    records: int = 0
    """How many were written since the start."""


@attrs.define
class DiskWatch:
    """Sees every batch that a log has written, with its sync."""

    me: str
    log: Log
    now: Kept = attrs.field(factory=Kept)

    def append(self, records: Sequence[bytes]) -> int:
        end = self.log.append(records)
        own = [self.now.tick]
        for record in map(decode_record, records):
            if isinstance(record, EventRecord):
                own += [tick for node, tick in record.event.chain if node == self.me]
            elif isinstance(record, LifeRecord):
                own.append(first_tick(record.life) - 1)  # what a node says of itself before it writes anything in it
        self.now = Kept(max(own), self.now.records + len(records))
        return end

    def reserve_nowait(self, size: int) -> None:
        self.log.reserve_nowait(size)


@attrs.define
class Copy:
    """What was sent on one connection."""

    data: bytearray = attrs.field(factory=bytearray)
    sizes: list[int] = attrs.field(factory=list)
    """Of each send."""
    kept: list[Kept] = attrs.field(factory=list)
    """What the sender's disk had at each send."""


@attrs.define
class Sent:
    """All that ever left a node, whoever got it."""

    gossip: list[Message] = attrs.field(factory=list)
    gossip_kept: list[Kept] = attrs.field(factory=list)
    """What the disk had when each of these messages left."""
    noticed: list[tuple[str, bool]] = attrs.field(factory=list)
    """What its messenger was told that links say."""
    as_server: list[Copy] = attrs.field(factory=list)
    """What it answered, one stream per connection."""
    as_client: list[Copy] = attrs.field(factory=list)
    """What it asked other nodes, likewise."""


class TappedStream(trio.abc.HalfCloseableStream):
    """Passes everything on, and keeps a copy of what was sent."""

    def __init__(self, inner: trio.abc.HalfCloseableStream, copies: list[Copy], disk: DiskWatch) -> None:
        self._inner = inner
        self._copy = Copy()
        self._disk = disk
        copies.append(self._copy)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        kept = self._disk.now
        await self._inner.send_all(data)
        self._copy.data += data
        self._copy.sizes.append(len(data))
        self._copy.kept.append(kept)

    async def wait_send_all_might_not_block(self) -> None:
        await self._inner.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._inner.receive_some(max_bytes)

    async def send_eof(self) -> None:
        await self._inner.send_eof()

    async def aclose(self) -> None:
        await self._inner.aclose()


class CutStream(trio.abc.HalfCloseableStream):
    """A connection that breaks where the network is cut, at the next that is sent or comes."""

    def __init__(self, inner: trio.abc.HalfCloseableStream, reaches: Callable[[], bool]) -> None:
        self._inner = inner
        self._reaches = reaches

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._check()
        await self._inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._inner.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data = await self._inner.receive_some(max_bytes)
        await self._check()
        return data

    async def send_eof(self) -> None:
        await self._inner.send_eof()

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _check(self) -> None:
        if not self._reaches():
            await self._inner.aclose()
            raise trio.BrokenResourceError("the network is cut")


class TappedTransport:
    """Passes everything on, and keeps a copy of what was broadcast."""

    def __init__(self, inner: Transport, sent: Sent, disk: DiskWatch) -> None:
        self._inner = inner
        self._sent = sent
        self._disk = disk

    async def run(
        self, report: Callable[[Report], None], *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        await self._inner.run(report, task_status=task_status)

    def appear(self) -> None:
        self._inner.appear()

    def noticed(self, name: str, *, is_well: bool) -> None:
        self._sent.noticed.append((name, is_well))
        self._inner.noticed(name, is_well=is_well)

    def members(self) -> list[GroupMember] | None:
        return self._inner.members()

    def key_desk(self) -> KeyDesk | None:
        return self._inner.key_desk()

    def broadcast(self, message: Message) -> None:
        self._sent.gossip.append(message)
        self._sent.gossip_kept.append(self._disk.now)
        self._inner.broadcast(message)

    def statistics(self) -> Mapping[str, int | float | str | bool | list[str]]:
        return self._inner.statistics()


class MemoryListener(trio.abc.Listener[trio.abc.HalfCloseableStream]):
    """Accepts what is put into it."""

    def __init__(self) -> None:
        self._put, self._take = trio.open_memory_channel[trio.abc.HalfCloseableStream](1000)

    def put(self, stream: trio.abc.HalfCloseableStream) -> None:
        self._put.send_nowait(stream)

    async def accept(self) -> trio.abc.HalfCloseableStream:
        return await self._take.receive()

    async def aclose(self) -> None:
        self._take.close()
        await trio.lowlevel.checkpoint()


# -- nodes --------------------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class World:
    """All nodes and what is between them."""

    nursery: trio.Nursery
    network: MemoryNetwork
    nodes: dict[str, Node] = attrs.field(factory=dict)
    starts: int = 0
    shut: set[tuple[str, str]] = attrs.field(factory=set)
    """Who gets no answer when it dials whom; what is connected stays so."""

    async def start(self, name: str, **options: Any) -> Node:
        """Start a process and wait until it runs, or has ended; see `Node` for the options."""
        self.starts += 1
        node = self.nodes[name] = Node(self, name, **options)
        await self.nursery.start(node.run)
        return node

    async def ready(self, *names: str) -> None:
        """Wait until these nodes serve clients."""
        with trio.fail_after(60):
            for name in names:
                await self.nodes[name].driver.wait_ready()

    async def converged(self, *names: str) -> None:
        """Wait until these nodes miss nothing and hold the same."""
        with trio.fail_after(120):
            await until(
                lambda: len({self._shown(name) for name in names}) == 1 and all(map(self._is_whole, names)), 0.1
            )

    def _shown(self, name: str) -> tuple[object, ...]:
        tree = self.nodes[name].replica.tree
        return tree.digest, str(sorted(tree.ledger.held().items()))

    def _is_whole(self, name: str) -> bool:
        return not self.nodes[name].replica.tree.ledger.missing(but_lost=True)

    async def dial(self, caller: str, addr: str) -> trio.abc.HalfCloseableStream:
        """Connect to a node as another node does."""
        await trio.sleep(0.001)
        node = next((node for node in self.nodes.values() if node.addr == addr and node.is_running), None)
        names = (NodeName(caller), NodeName(node.name if node is not None else ""))
        if names in self.shut:
            await trio.sleep_forever()

        def reaches() -> bool:
            return self.network.reaches(*names) and self.network.reaches(*reversed(names))

        if node is None or not reaches():
            raise ConnectionRefusedError(f"{addr} refuses")
        return CutStream(node.connect(), reaches)


def new_world(nursery: trio.Nursery, *, seed: int = 0, faults: MessageFaults | None = None) -> World:
    return World(nursery, MemoryNetwork(random.Random(seed), faults or MessageFaults(delay_s=(0.001, 0.02))))


@attrs.define(eq=False)
class Node:
    """One process; `init` founds a network, `solo` needs none, `commit_s` is what a commit takes off the loop."""

    world: World
    name: str
    disk: MemoryDisk = attrs.field(factory=MemoryDisk)
    named: str = ""
    """The name of its node, when that is not the host's own."""
    init: object = None
    solo: bool = False
    is_up: bool = True
    """Whether its agent runs when it starts."""
    settings: dict[str, Any] = attrs.field(factory=dict)
    """What else the core is told."""
    commit_s: float | Callable[[], float] = 0.002
    """A function is asked for each commit anew; none of them is done on the loop then."""
    limits: Limits = attrs.field(factory=Limits)
    archive: str | None = None
    """The file of its archive; None: it has none, its log is never settled."""
    scrub: ScrubConfig = attrs.field(factory=ScrubConfig)
    services: Mapping[str, ServiceMachine] = attrs.field(factory=dict)
    """The machines of its services, by their names."""
    asleep_ms: int = 0
    """For how long the machine has slept: so far the clock of services is ahead."""
    caller: Caller | None = None
    """How it reaches peers, if not by dialling into this world."""
    tree: TreeConfig | None = None
    """How it takes part in the server tree; None: not at all."""
    sent: Sent = attrs.field(factory=Sent)
    meant: int = 0
    """The last own tick that its replica wanted to gossip as an update."""
    is_running: bool = False
    failure: BaseException | None = None
    ended: trio.Event = attrs.field(factory=trio.Event)
    listener: MemoryListener = attrs.field(factory=MemoryListener)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    opened: Archive | None = attrs.field(init=False, default=None)
    log: Log = attrs.field(init=False)
    disk_watch: DiskWatch = attrs.field(init=False)
    transport: MemoryTransport | None = attrs.field(init=False, default=None)
    replica: Replica = attrs.field(init=False)
    committer: Committer = attrs.field(init=False)
    driver: Driver = attrs.field(init=False)

    @property
    def addr(self) -> str:
        return f"{self.name}:1"

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until it is killed or fails; what ended it stays in `failure`."""
        try:
            with self.scope:
                await self._run(task_status)
        except (DiskCrashed, DistkvError) as error:
            self.failure = error
        except BaseExceptionGroup as group:
            ended_by, rest = group.split((DiskCrashed, DistkvError, trio.Cancelled))
            if rest is not None or ended_by is None:
                raise
            self.failure = first_failure(ended_by)
        finally:
            was_running, self.is_running = self.is_running, False
            self.ended.set()
            if not was_running:
                task_status.started()

    async def _run(self, task_status: trio.TaskStatus[None]) -> None:
        init = None if self.init is None else pack_value(self.init)
        archive = self.opened = None if self.archive is None else open_archive(self.archive)
        settled_lsn = 0 if archive is None else archive.settled_lsn
        settled_segment = 0 if archive is None else archive.segment
        self.log = open_log(
            self.disk,
            settled_lsn=settled_lsn,
            settled_segment=settled_segment,
            segment_bytes=SEGMENT_BYTES,
            cut_damage=bool(self.settings.get("restored")),
        )
        try:
            network_id = self.world.starts.to_bytes(8, "big")  # another one at each founding, as in life
            told = {"addr": self.addr, "alone": self.solo, "init_value": init, "network_id": network_id}
            restored = {"restored": True} if self.log.recovered.cut else {}
            name = self.named or self.name
            self.replica = new_replica(name, self.services, self.tree, **told, **{**self.settings, **restored})
            self._tap()
            self.disk_watch = DiskWatch(self.replica.name, self.log)
            is_fast = not callable(self.commit_s) and self.commit_s < INLINE_SYNC_S
            self.committer = Committer(
                cast(Log, self.disk_watch),
                run_blocking=committing_in(self.commit_s),
                clock=trio.current_time,
                inline_s=INLINE_SYNC_S if is_fast else 0,
            )
            peers = PeerCaller(connect=self._dial, limits=self.limits)
            caller = self.caller or peers
            settler = scrub = None
            if archive is None:
                replay(self.replica, self.log)
            else:
                settler = Settler(self.replica.store, self.committer, archive, self.log, run_blocking=on_the_loop)
                Directory(self.name, self.log, archive).load_into(self.replica.store, settler)
                scrub = Scrub(settler, archive, self.scrub, run_blocking=on_the_loop, wall=trio.current_time)
            self.disk_watch.now = Kept(self.replica.tick)
            self.driver = Driver(self.replica, self.committer, self._transport(), caller, self.limits, settler, scrub)
            self.driver.boot_ms = lambda: self.driver.now_ms() + self.asleep_ms
            self.driver.loans = peers.loans if self.caller is None else None
            self.driver.tree_edges.attacher = peers
            async with trio.open_nursery() as nursery:
                self.driver.begin()
                nursery.start_soon(serve_listeners, self.driver, [self.listener])
                nursery.start_soon(self._keep_room)
                await nursery.start(self.driver.run)
                self.is_running = True
                task_status.started()
        finally:
            self.log.close()
            if archive is not None:
                archive.close()

    def connect(self, *, lockstep: bool = False) -> trio.abc.HalfCloseableStream:
        """A client's end of a new connection; with `lockstep` a send ends when it was received."""
        if OVER_SOCKETS.get() and not lockstep:
            here, there = trio.socket.socketpair()
            self.listener.put(trio.SocketStream(there))
            return trio.SocketStream(here)
        ours, theirs = lockstep_stream_pair() if lockstep else memory_stream_pair()
        self.listener.put(TappedStream(theirs, self.sent.as_server, self.disk_watch))
        return ours

    def client(self, *, lockstep: bool = False) -> Client:
        return Client(self.connect(lockstep=lockstep))

    def _tap(self) -> None:
        """See what the replica decides, whatever becomes of it."""
        step = self.replica.step

        def tapped(now_ms: int, wall: float, what: Input, boot_ms: int | None = None) -> Ready:
            ready = step(now_ms, wall, what, boot_ms)
            updates = (message.events for message in ready.messages if isinstance(message, Update))
            self.meant = max([self.meant, *(event.tick for events in updates for event in events)])
            return ready

        self.replica.step = tapped

    async def kill(self) -> None:
        """End the process; the disk stays as it is."""
        self.scope.cancel()
        await self.ended.wait()

    def _transport(self) -> Transport | None:
        if self.solo:
            return None
        transport = self.transport = self.world.network.transport(NodeName(self.name), self.addr)
        if not self.is_up:
            transport.disconnect()
        return TappedTransport(transport, self.sent, self.disk_watch)

    async def _dial(self, host: str, port: int) -> trio.abc.Stream:
        return TappedStream(await self.world.dial(self.name, f"{host}:{port}"), self.sent.as_client, self.disk_watch)

    async def _keep_room(self) -> None:
        while True:
            if self.log.wants_refill:
                self.log.refill()
            await trio.sleep(0.2)


@asynccontextmanager
async def solo_node(**options: Any) -> AsyncIterator[Node]:
    """A ready node `a` without others, with nothing left to commit; see `Node` for the options."""
    async with trio.open_nursery() as nursery:
        world = new_world(nursery)
        node = await world.start("a", init=1, solo=True, **options)
        await world.ready("a")
        await node.committer.wait_durable(node.driver.position)
        yield node
        nursery.cancel_scope.cancel()


# -- clients ------------------------------------------------------------------------------------------------------

Reply = dict[str, Any]


class Client:
    """Speaks frames: what a client library does, and what none would."""

    def __init__(self, stream: trio.abc.HalfCloseableStream) -> None:
        self.stream = stream
        self.reader = FrameReader(1 << 26)
        self.seq = 0

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await trio.aclose_forcefully(self.stream)

    def frame(self, action: str, **fields: object) -> bytes:
        """A request with the next seq."""
        self.seq += 1
        return packing.pack({"seq": self.seq, "action": action, **fields})

    async def receive(self) -> Reply | None:
        """The next frame, the greeting included; None at the end of the stream."""
        while (frame := self.reader.next_frame()) is None:
            data = await self.stream.receive_some(1 << 16)
            if not data:
                return None
            self.reader.feed(bytes(data))
        return decode_reply(frame)

    async def replies(self, count: int) -> list[Reply | None]:
        """So many frames, within bounded time."""
        with trio.fail_after(30):
            return [await self.receive() for _ in range(count)]

    async def ask(self, action: str, **fields: object) -> Reply:
        """One request, and its reply; whatever comes before it (the greeting) is dropped."""
        await self.stream.send_all(self.frame(action, **fields))
        while (reply := await self.receive()) is not None:
            if reply["seq"] == self.seq:
                return reply
        raise EOFError("the server closed the connection")

    async def items(self, action: str, **fields: object) -> list[Reply]:
        """One request with a long answer: the items between its start and its end, or with the error that ends it."""
        start = await self.ask(action, **fields)
        found: list[Reply] = []
        if start.get("state") != "start":
            return [start]
        while (reply := await self.receive()) is not None and reply.get("state") != "end":
            found.append(reply)
            if "code" in reply:
                break
        return found

    async def set(self, path: str, value: object, **fields: object) -> Reply:
        return await self.ask("set_value", path=path.split("."), value=value, **fields)

    async def get(self, path: str, **fields: object) -> Reply:
        return await self.ask("get_value", path=path.split("."), **fields)
