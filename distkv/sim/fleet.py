"""All hosts and what is between them, in virtual time: no event loop, no socket, no real clock.

Knows: when everything happens, and who meets whom.  Does not know what is right (observers do), nor what shall happen
(a scenario or a test says).

Invariant: the same seed and the same calls give the same run, under any hash seed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from distkv.core.ready import (
    AnnounceDue,
    Ask,
    FollowFrom,
    HeardMessage,
    Input,
    MembersSeen,
    Ready,
    ServiceTell,
    TransportDown,
    TransportUp,
)
from distkv.core.replica import Replica
from distkv.model.event import Event, NodeName
from distkv.services.parts import PartBounds
from distkv.sim.agenda import Agenda
from distkv.sim.clock import HostClock
from distkv.sim.conversation import Conversation
from distkv.sim.following import FollowStream
from distkv.sim.host import Host, Process
from distkv.sim.network import Network, NetworkFaults
from distkv.sim.rot import Choose, ChooseRows, no_rows
from distkv.sim.rule import Observer, Observers
from distkv.sim.service_nodes import ServiceNodes
from distkv.sim.telling import tell_services
from distkv.sim.told import core_settings
from distkv.sim.tree_edges import VirtualEdges
from distkv.sim.trees import TreeNodes
from distkv.storage.memory import MemoryDisk
from distkv.transport.diversion import divert
from distkv.wire.gossip import GossipKind, decode_message, encode_message, kind_of
from distkv.wire.message import Message, Start, Update
from distkv.wire.room import events_room
from distkv.wire.values import pack_value

SECOND_MS: Final = 1000
MEMBERS_MS: Final = 1000
"""How often the agents tell who is there."""
PART_EVENTS: Final = 100
"""A part of a peer's answer has fewer events than a server's, so that something can happen between two."""
STALL_MS: Final = 2000
"""A disk may fall silent for so long, and then go on."""


class Fleet:
    """The network under simulation."""

    def __init__(
        self,
        seed: int | str = 0,
        faults: NetworkFaults | None = None,
        *,
        members_seen: bool = True,
        is_large: bool = False,
        observers: Sequence[Observer] = (),
    ) -> None:
        self._seed = seed
        self.rng = random.Random(seed)
        self.network = Network(seed, faults, is_large=is_large)
        self.agenda = Agenda()
        self.hosts: dict[str, Host] = {}
        self.notes: Counter[str] = Counter()
        self.observers = Observers(observers)
        self.commit_ms = (0, 0)
        """How long a commit takes, by each host's own draw; nothing: it is done at once."""
        self.stalls = 0.0
        """How often one takes up to `STALL_MS` more."""
        self.own_every = 1
        """Of so many messages one comes back to its sender, who drops it: all do, but each costs a step."""
        self.tree_nodes: TreeNodes | None = None
        """The server tree, if there is one."""
        self.services: dict[str, ServiceNodes] = {}
        """Those that servers have, by name."""
        self.part_bounds = PartBounds(events=PART_EVENTS)
        """How large a part of an answer is."""
        self._carried = 0
        self._have_moved = False
        """Whether a host ever had another address than its own, so that two may have the same."""
        if members_seen:
            self.later(300, self._tell_members)
        if self.observers.second:
            self.later(SECOND_MS, self._tell_second)

    # -- machines and processes

    def host(
        self, name: str, *, addr: str | None = None, clock: HostClock | None = None, node: NodeName | None = None
    ) -> Host:
        """The machine of this name; a new one when there is none yet: a stranger's when it comes with a node."""
        host = self.hosts.get(name)
        if host is None:
            clock, is_ours = clock or HostClock(), node is None
            pace = random.Random(f"disk of {name} {self._seed}")
            host = self.hosts[name] = Host(name, addr or f"{name}:1", node or NodeName(name), is_ours, clock, pace)
        host.addr = addr or host.addr
        self._have_moved |= host.addr != host.own_addr
        return host

    def start(self, name: str, *, init: object = None, up: bool = True, addr: str | None = None, **more: Any) -> Host:
        """Start a server on a host; `init` makes it found a network, `up` says whether its agent runs, and `more` are
        fields as `core_settings` takes them."""
        host = self.host(name, addr=addr)
        settings = core_settings(
            node=host.node,
            addr=host.addr,
            start=Start(host.clock.wall(self.now_ms), self.rng.getrandbits(60)),
            init_value=None if init is None else pack_value(init),
            network_id=self.rng.randbytes(8),
            **more,
        )
        services = {name: service.start(host) for name, service in self.services.items() if host.is_ours}
        tree = self.tree_nodes.make(host) if self.tree_nodes is not None and host.is_ours else None
        replica = Replica(settings, random.Random(self.rng.random()), services, tree)
        replica.store.data.check_room = host.disk.check_room
        rotten = host.disk.rotten
        found = [] if rotten is None else rotten.load_into(replica)
        records = host.disk.open()
        for record in records:
            replica.store.replay(record)
        process = host.process = Process(self, host, replica, more)
        host.fatal, host.agent.seen, host.agent.is_up = None, None, False
        for tell in self.observers.started:
            tell(process, [*found, *records])
        process.begin()
        if up and process.is_running:
            host.agent.is_up = True
            process.step(TransportUp())
        return host

    def begin_again(self, process: Process) -> None:
        """A server starts anew on its directory, as the daemon does when its disk turns out to be an old one."""
        host = process.host
        if process.is_running:
            is_up = host.agent.is_up
            self.end(host)
            restarts = process.settings.get("restarts", 0) + 1
            self.start(host.name, up=is_up, **{**process.settings, "restored": False, "restarts": restarts})

    def end(self, host: Host) -> None:
        """End the process; its disk has what it was told to write, or what a kill leaves of it."""
        process = host.process
        if process is None:
            return
        for tell in self.observers.ended:
            tell(process)
        host.disk.kill(self.rng)
        self._gone(host, process)

    def lose_power(self, host: Host) -> None:
        """The machine stops: the process ends, and the disk may have any part of the last write."""
        process = host.process
        if process is not None:
            for tell in self.observers.ended:
                tell(process)
            host.disk.lose_power(self.rng)
            self._gone(host, process)
        host.boot_off_ms = -host.clock.monotonic_ms(self.now_ms)
        host.agent.is_up = False

    def wipe(self, name: str, *, is_copied: bool = False) -> None:
        """End the process if it runs, and lose its disk; observers hear whether another one has all that was on it."""
        host = self.hosts[name]
        self.end(host)
        host.disk.wipe()
        for tell in self.observers.lost_disk:
            tell(host, is_copied=is_copied)

    def rot(self, name: str, choose: Choose, choose_rows: ChooseRows = no_rows) -> bool:
        """End the process if it runs; of what its disk holds some rows rot. Others have all of it but rows of data."""
        host = self.hosts[name]
        self.end(host)
        is_rotten = host.disk.rot(host.node, choose, choose_rows)
        for tell in self.observers.lost_disk if is_rotten else ():
            tell(host, is_copied=True)
        return is_rotten

    def set_back(self, name: str, copy: MemoryDisk, *, is_copied: bool = False) -> None:
        """End the process if it runs; its disk is what it was."""
        host = self.hosts[name]
        self.end(host)
        host.disk.roll_back(copy)
        for tell in self.observers.lost_disk:
            tell(host, is_copied=is_copied)

    def transport(self, name: str, *, up: bool) -> None:
        """The agent starts or stops."""
        host = self.hosts[name]
        host.agent.is_up = up
        if host.process is not None:
            host.give(host.process, lambda: self._tell(host, TransportUp() if up else TransportDown()))

    def running(self) -> Iterator[Host]:
        yield from (host for host in self.hosts.values() if host.process is not None)

    def ours(self) -> Iterator[Host]:
        """Those of them that belong to the fleet that is looked at."""
        yield from (host for host in self.running() if host.is_ours)

    def at_address(self, addr: str) -> Host | None:
        """Who listens there."""
        own = None if self._have_moved else self.hosts.get(addr.rpartition(":")[0])
        if own is not None and own.addr == addr and own.process is not None:
            return own
        for host in self.hosts.values():
            if host.addr == addr and host.process is not None:
                return host
        return None

    def edges_at(self, addr: str) -> VirtualEdges | None:
        """The edges of whoever listens there."""
        host = self.at_address(addr)
        return host.process.edges if host is not None and host.process is not None else None

    # -- the network

    def partition(self, *sides: Iterable[str]) -> None:
        """Cut every way between two sides; who is on none hears nobody."""
        self.network.partition(sides, self.hosts)

    def heal(self) -> None:
        self.network.cut = set()

    # -- time

    def step(self, name: str, what: Input) -> Ready:
        """Hand one input to a process."""
        process = self.hosts[name].process
        if process is None:
            raise ValueError(f"{name} does not run")
        return process.step(what)

    @property
    def now_ms(self) -> int:
        return self.agenda.now_ms

    def later(self, delay_ms: int, do: Callable[[], object]) -> None:
        """Plan something for so many milliseconds from now."""
        self.agenda.later(delay_ms, do)

    def run(self, for_ms: int) -> None:
        """Let time pass."""
        self.agenda.run(for_ms)

    def run_until(self, condition: Callable[[], bool], within_ms: int) -> bool:
        """Let time pass until `condition` holds; False when it does not within the time."""
        return self.agenda.run_until(condition, within_ms)

    # -- for processes and conversations

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:
        """A step was taken, of which nothing is carried out yet."""
        for tell in self.observers.stepped:
            tell(process, what, ready)

    def commit(self, process: Process) -> None:
        """Something waits for the disk: write it."""
        host = process.host
        if host.disk.take_off():
            delay_ms = self._commit_ms(host)
            if delay_ms:
                self.later(delay_ms, lambda: host.give(process, partial(self._landed, process)))
            else:
                self._landed(process)

    def ask(self, process: Process, ask: Ask) -> None:
        for tell in self.observers.left:
            tell(process, ask)
        Conversation(self, process, ask).begin()

    def follow(self, process: Process, follow: FollowFrom) -> None:
        FollowStream(self, process, follow).begin()

    def say(self, process: Process, tells: Sequence[ServiceTell]) -> None:
        tell_services(self, process, tells)

    def gossip(self, process: Process, message: Message) -> None:
        """A message to all, the sender included."""
        for tell in self.observers.left:
            tell(process, message)
        agent = process.host.agent
        if agent.is_limited:
            agent.put(message, self.now_ms)
            self._pump(process.host)
        else:
            self.tell_all(process.host, message)

    def tell_all(self, host: Host, message: Message) -> None:
        """An agent is told to send something, whoever says so."""
        data = encode_message(message)
        self._carry(host, decode_message(kind_of(message), data), len(data))

    def transferred(self, host: Host, other: Host, size: int) -> None:
        """Bytes of a conversation arrived."""
        for tell in self.observers.transferred:
            tell(host, other, size)

    def streamed(self, host: Host, other: Host, size: int) -> None:
        """Bytes of a follow arrived."""
        for tell in self.observers.streamed:
            tell(host, other, size)

    def delivered(self, host: Host, what: Input) -> None:
        """Something from another host is about to be handed to a process."""
        for tell in self.observers.delivered:
            tell(host, what)

    def acknowledge(self, process: Process, event: Event) -> None:
        """A client reads that its write is done."""
        for tell in self.observers.acknowledged:
            tell(process, event)

    def moment(self, what: object) -> None:
        """Something of a service has changed for one of its clients."""
        for tell in self.observers.moment:
            tell(self.now_ms, what)

    def client(self, name: str, what: str) -> None:
        """A client of a service comes to something."""
        for tell in self.observers.client:
            tell(self.now_ms, name, what)

    def befell(self, name: str, what: str) -> None:
        """Something befell a host, or (with an empty name) the ways between all."""
        for tell in self.observers.befell:
            tell(self.now_ms, name, what)

    # -- inside

    def _gone(self, host: Host, process: Process) -> None:
        host.process = None
        process.stop()
        host.resume()
        for conversation in list(process.serving):
            conversation.reset()

    def _commit_ms(self, host: Host) -> int:
        """How long the next commit of a host takes."""
        low, high = self.commit_ms
        if not high:
            return 0
        delay_ms = low + int(host.pace.random() * (high - low + 1))
        if self.stalls and host.pace.random() < self.stalls:
            delay_ms += int(host.pace.random() * STALL_MS)
        return delay_ms

    def _landed(self, process: Process) -> None:
        records = process.host.disk.land()
        for tell in self.observers.landed:
            tell(process, records)
        process.landed()
        if process.is_running:
            self.commit(process)

    def _carry(self, host: Host, message: Message, size: int) -> None:
        """A message leaves the agent for all hosts, its own included."""
        for tell in self.observers.carried:
            tell(host, message, size)
        sender, kind, what = host.name, kind_of(message), HeardMessage(message)
        self._carried += 1
        for name, other in self.hosts.items():
            if name == sender and self._carried % self.own_every:
                continue
            late_ms = divert(self.network.diversions, kind, sender, name)
            if late_ms is None:
                continue
            for delay_ms in self.network.gossip(sender, name, is_update=kind is GossipKind.UPDATE):
                self.later(late_ms + delay_ms, partial(self._arrive, sender, other, what))

    def _pump(self, host: Host) -> None:
        """Let the agent send what its budget allows, and plan when to look again."""
        agent, process = host.agent, host.process
        announces = agent.flush(self.now_ms)
        for message, size in agent.leaving():
            self._carry(host, message, size)
        next_ms = agent.next_flush_ms(self.now_ms)
        if next_ms is not None and next_ms != agent.next_ms:
            agent.next_ms = next_ms
            self.agenda.at(next_ms, partial(self._pump_at, host, next_ms))
        if announces and process is not None and agent.is_up:
            self.later(0, partial(host.give, process, partial(self._tell, host, AnnounceDue())))

    def _pump_at(self, host: Host, at_ms: int) -> None:
        if host.agent.next_ms == at_ms:
            host.agent.next_ms = None
            self._pump(host)

    def _arrive(self, sender: str, host: Host, what: HeardMessage) -> None:
        if not self.network.passes(sender, host.name):
            return
        if host.is_listening:
            self._hear(host, what, sender)
        elif not host.hear(partial(self._hear, host, what, sender)):
            self.notes["gossip_lost"] += 1

    def _hear(self, host: Host, what: HeardMessage, sender: str) -> None:
        message = what.message
        if host.disk.is_short and isinstance(message, Update) and not host.disk.has_room(events_room(message.events)):
            self.notes["dropped_no_space"] += 1
            return
        host.agent.heard(message, self.now_ms)
        if sender != host.name:
            self.delivered(host, what)
        self._tell(host, what)

    def _tell(self, host: Host, what: Input) -> None:
        if host.process is not None:
            host.process.step(what)

    def _tell_second(self) -> None:
        for tell in self.observers.second:
            tell(self)
        self.later(SECOND_MS, self._tell_second)

    def _tell_members(self) -> None:
        """Each agent tells its server who is there, once it has believed so for a while. Agents outlive servers."""
        up = [(host.name, host.node, host.addr) for host in self.hosts.values() if host.agent.is_up]
        unreachable, none = self.network.unreachable(), frozenset[str]()
        views: dict[frozenset[str], dict[str, str]] = {}  # most hosts of a large fleet see the same
        for host in list(self.running()):
            agent = host.agent
            if not agent.is_up or host.is_paused:
                continue
            far = frozenset(unreachable.get(host.name, none))
            alive = views.get(far)
            if alive is None:
                alive = views[far] = {node: addr for name, node, addr in up if name not in far}
            if agent.believes(alive, self.now_ms) and agent.seen != alive:
                agent.seen = alive
                order = list(alive)
                random.Random(f"{host.name} {self.now_ms}").shuffle(order)  # agents list members as they like
                self._tell(host, MembersSeen({name: alive[name] for name in order}))
        self.later(MEMBERS_MS, self._tell_members)
