"""The whole node as one pure machine: `step(now, wall, input) -> Ready`.

Knows: which part handles which input, and what is due after any of them.  Does not know sockets, disks, clocks or logs.

Invariant: an input is taken in whole or, when it is refused, changes nothing; the same inputs in the same order with
the same rng give the same outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final, assert_never

from distkv.core.ageing import Ageing
from distkv.core.bounds import ObservedBounds
from distkv.core.client_writes import LocalBatch, LocalDecision, LocalSet, ReplaceChange, RetireNode
from distkv.core.clients import Clients
from distkv.core.edges import EdgeAsked, EdgeEnded, EdgeTaken, EdgeTold, NodeMeasured
from distkv.core.following import Following
from distkv.core.gossip import Gossip
from distkv.core.ground.machine import ServiceMachine
from distkv.core.ground.services import Services
from distkv.core.links import Links
from distkv.core.node import Deliveries, Node
from distkv.core.node_footing import NodeFooting
from distkv.core.peers import Peers, answer_pull
from distkv.core.ready import (
    FOR_SERVICES,
    AnnounceDue,
    AskEvents,
    AskMaps,
    CoreSettings,
    FollowBegan,
    FollowEnded,
    FollowersSeen,
    FollowTold,
    HeardMessage,
    Input,
    JoinerAsked,
    LendEnded,
    LineLent,
    MembersSeen,
    PeerAnswered,
    PeerDone,
    PeerOffered,
    Ready,
    Rng,
    SetAside,
    StoreInput,
    TransportDown,
    TransportGap,
    TransportUp,
    Wake,
)
from distkv.core.registry import Registry
from distkv.core.server_tree.machine import ServerTree
from distkv.core.sponsor import Sponsor
from distkv.core.steps import take
from distkv.core.tree_part import MakeTree, TreePart
from distkv.core.turn import Turn
from distkv.errors import InitRefusedError, NotReadyError
from distkv.model.event import Event, Link, NodeName, Tick, Tock
from distkv.model.state import State
from distkv.model.tree import Tree
from distkv.wire.message import PingChain, PullEnd, TickMaps

NEVER_MS: Final = 1 << 62


class Replica:
    """One node. It may be read at any time; it is changed by `replay`, `begin` and `step` only."""

    def __init__(
        self,
        settings: CoreSettings,
        rng: Rng,
        services: Mapping[str, ServiceMachine] = MappingProxyType({}),
        tree: MakeTree | None = None,
    ) -> None:
        """`services`: the machine of each service that this node has, by its name. `tree` makes its machine in the
        server tree; None: it takes no part."""
        self._node = Node(settings, rng)
        self.store: Final = self._node.store
        """What it holds: before it begins, the disk and the log fill it; from then on it changes by steps only."""
        self._gossip = Gossip(self._node, rng)
        self._sponsor = Sponsor(self._node)
        self._peers = Peers(self._node, self._sponsor)
        self._links = Links(self._node, rng)
        self._ageing = Ageing(self._node)
        self._clients = Clients(self._node)
        self._tree_part = TreePart(self._node, tree)
        self._services = Services(NodeFooting(self._node, self._tree_part), services, rng)
        self.services: Final = services
        """The machines of the services that this node has, by name. What one holds that failed is not looked at."""
        self._due_ms: int | None = None
        """When the first part of it that is no service wants to be woken; None: not known since the last step."""

    # -- the start

    def begin(self, now_ms: int, wall: float, boot_ms: int | None = None) -> Ready:
        """The log is replayed: start; the times are those of `step`. Fatal when `--init` meets a directory that holds a
        network."""
        node, store = self._node, self._node.store
        turn = Turn(now_ms, wall, now_ms if boot_ms is None else boot_ms)
        node.begin(now_ms)
        self._peers.begin(now_ms)
        if store.registry.network is not None and node.settings.beginning.init_value is not None:
            turn.ready.fatal = InitRefusedError(
                f"the data directory holds a network already (id {store.registry.network.id.hex()}):"
                " start without --init to go on with it, or name an empty directory"
            )
            return turn.ready
        is_begun = store.own.is_stale or bool(store.tree.ledger.ticks())
        if is_begun and store.own.life is None and store.registry.network is None:
            turn.ready.records += store.reset()  # a download was cut short before it said whose it is
        is_void = node.settings.beginning.restored or store.own.is_life_over
        self._services.begin(is_stale=store.own.is_stale, is_void=is_void)
        node.follow(node.lives.begin(), turn)
        self._links.see_addresses()
        self._ageing.begin(turn)
        held, missing = store.tree.ledger.held(), store.missing()
        take(node.startup.begin(now_ms, held, missing, has_data=store.has_data), node, turn)
        if store.own.is_stale or (store.registry.network is not None and not store.has_data):
            node.startup.begin_hand_over(turn.now_ms)
        self._do_what_is_due(turn)
        return turn.ready

    # -- the one entrance

    def step(self, now_ms: int, wall: float, what: Input, boot_ms: int | None = None) -> Ready:
        """Take one input. `now_ms` is monotonic, `wall` is seconds since 1970 and only ever stored; `boot_ms` goes on
        while the machine sleeps, and is the time of services (None: it is the same as `now_ms`)."""
        turn = Turn(now_ms, wall, now_ms if boot_ms is None else boot_ms)
        if isinstance(what, FOR_SERVICES):
            due_ms = self._due_ms = self._store_wake_ms() if self._due_ms is None else self._due_ms
            self._services.take(what, turn)
            if turn.now_ms < due_ms and self._services.is_at_rest(turn):
                return turn.ready
        else:
            self._take(what, turn)
        self._due_ms = None
        self._do_what_is_due(turn)
        return turn.ready

    def _take(self, what: StoreInput, turn: Turn) -> None:
        node = self._node
        match what:
            case LocalSet() | LocalBatch() | RetireNode() | LocalDecision() | ReplaceChange():
                self._clients.take(what, turn)
            case SetAside(links=links):
                self._links.set_aside(links, turn)
            case HeardMessage(message=message):
                self._gossip.hear(message, turn)
            case PeerAnswered():
                self._peers.answered(what, turn)
            case PeerDone():
                self._peers.done(what, turn)
            case FollowBegan():
                self._links.began(what, turn)
            case FollowersSeen(names=names):
                node.following.seen(names)
            case FollowTold():
                self._links.told(what, turn)
            case FollowEnded():
                self._links.ended(what, turn)
            case LendEnded():
                self._links.lend_ended(what, turn)
            case LineLent():
                self._links.lent(what, turn)
            case PeerOffered(maps=maps):
                self._peers.offered(maps, turn)
            case JoinerAsked():
                self._sponsor.asked(what, turn)
            case EdgeAsked() | EdgeTold() | EdgeTaken() | EdgeEnded() | NodeMeasured():
                self._tree_part.take(what, turn)
            case TransportUp():
                self._transport_up(turn)
            case TransportDown():
                node.startup.transport_changed(False, turn.now_ms)
                node.election.sleep(turn.now_ms)
                self._gossip.transport_down()
            case TransportGap():
                node.recovery.exchange_soon(turn.now_ms)
            case AnnounceDue():
                if node.store.own.has_written:
                    node.broadcast_info(turn, {node.store.me: [node.store.own.tick]})
            case MembersSeen(alive=alive):
                others = {NodeName(name): addr for name, addr in alive.items() if name != node.store.me}
                for name in node.recovery.members_seen(others):
                    node.following.heard(name, turn.now_ms)
                for name, addr in others.items():
                    take(node.startup.found_source(name, addr), node, turn)
            case Wake(has_room=has_room):  # whatever else is due is done below, after every input alike
                if node.is_serving:
                    (self._ageing.do_what_is_due if has_room else self._ageing.wait)(turn)
            case _:
                assert_never(what)

    def wake_ms(self) -> int | None:
        """When a `Wake` is wanted, if nothing happens before."""
        own_ms = self._store_wake_ms() if self._due_ms is None else self._due_ms
        service_ms = self._services.wake_ms()
        found = own_ms if service_ms is None else min(own_ms, service_ms)
        return None if found == NEVER_MS else found

    def _store_wake_ms(self) -> int:
        """When something of it that is no service wants to be woken."""
        node = self._node
        repair_ms = node.recovery.wake_ms() if node.store.has_data else None  # without data nothing is repaired
        ageing_ms = self._ageing.wake_ms() if node.is_serving else None
        witnesses_ms = node.lives.witnesses.wake_ms() if node.is_up else None  # nobody is asked without a transport
        wake_ms, follow_ms = node.startup.wake_ms(), node.following.wake_ms()
        tree_ms = self._tree_part.wake_ms()
        for ms in (
            repair_ms, ageing_ms, node.election.wake_ms(), witnesses_ms, self._gossip.wake_ms(), follow_ms, tree_ms,
        ):  # fmt: skip
            if ms is not None and (wake_ms is None or ms < wake_ms):
                wake_ms = ms  # after every step; min() over a generator takes four times as long
        return NEVER_MS if wake_ms is None else wake_ms

    # -- reading

    @property
    def name(self) -> NodeName:
        return self._node.store.me

    @property
    def settings(self) -> CoreSettings:
        """What it was told at its start."""
        return self._node.settings

    @property
    def started(self) -> float:
        """When this start of the server began, seconds since 1970."""
        return self._node.settings.start.time

    @property
    def tree(self) -> Tree:
        return self._node.store.tree

    @property
    def server_tree(self) -> ServerTree | None:
        """Its machine there; None: it takes no part."""
        return self._tree_part.tree

    @property
    def tick(self) -> Tick:
        """The last own tick, durable or not."""
        return self._node.store.own.tick

    @property
    def tock(self) -> Tock:
        return self._node.store.tock

    @property
    def failed_services(self) -> frozenset[str]:
        """Those that failed, and are off until the next start."""
        return self._services.failed | ({"tree"} if self._tree_part.has_failed else frozenset())

    @property
    def ending(self) -> Event | None:
        """The value that a step was about to end when it failed, because its time was over."""
        return self._ageing.at

    def leave(self, links: Iterable[Link]) -> None:
        """Do not end these values from now on, and no others, whatever the time is."""
        self._ageing.resting = frozenset(links)

    @property
    def life(self) -> int | None:
        return self._node.store.own.life

    @property
    def registry(self) -> Registry:
        """The nodes of its network, and the lives that are over."""
        return self._node.store.registry

    @property
    def network_id(self) -> bytes | None:
        """None: it belongs to no network yet."""
        return self._node.network_id

    @property
    def tombstones_due(self) -> int:
        """How many tombstones are old enough to be purged and are still here."""
        return self._node.deletion.due_count

    @property
    def state(self) -> State:
        """How far it is, whoever else is there."""
        return self._node.state

    def state_at(self, now_ms: int) -> State:
        """The state that people are told: a node that hears none of the others is cut off, too (START-1)."""
        node = self._node
        others = node.store.registry.nodes.keys() - {node.store.me}
        is_deaf = bool(others) and not node.settings.alone and not node.recovery.alive(others, now_ms)
        return State.CUT_OFF if node.is_serving and is_deaf else node.state

    @property
    def is_serving(self) -> bool:
        """Whether clients are served."""
        return self._node.is_serving

    def not_ready(self) -> NotReadyError:
        """What it tells clients while it does not serve them."""
        return self._node.not_ready()

    @property
    def waits_for(self) -> str:
        """What a node that is not ready waits for; empty when it is."""
        return self._node.startup.waits_for

    def peers(self, now_ms: int) -> dict[NodeName, tuple[str, bool]]:
        """Every other node that is registered, or seems alive: its address, and whether it does."""
        recovery, registered = self._node.recovery, self.registry.nodes
        found = {name: (peer.addr, recovery.is_alive(name, now_ms)) for name, peer in recovery.peers.items()}
        return {name: peer for name, peer in found.items() if peer[1] or name in registered}

    def addr_of(self, name: NodeName) -> str:
        """Where a node was seen the last time; empty when this start did not hear of it."""
        peer = self._node.recovery.peers.get(name)
        return "" if peer is None else peer.addr

    def retired(self) -> list[NodeName]:
        """The names of which no life counts any more."""
        return sorted(self.registry.retired.keys() - self.registry.nodes.keys() - {self.name})

    @property
    def ping_chain(self) -> PingChain:
        """The ping chain that the next ping will follow; empty when none is known."""
        return self._node.election.basis

    @property
    def deliveries(self) -> Deliveries:
        """How many events came from others, and how many in vain."""
        return self._node.deliveries

    @property
    def bounds(self) -> ObservedBounds:
        """What was seen of the bounds on the ping settings."""
        return self._node.bounds.seen()

    def asked_name(self, ask: int) -> NodeName | None:
        """Whom a request to a peer is for; None when it is not under way."""
        asked = self._node.asks.get(ask)
        return asked.name if asked is not None else None

    def followed(self, follow: int) -> NodeName | None:
        """Whom this follow is for; None when there is another one, or none."""
        return self._node.following.parent_of(follow)

    @property
    def following(self) -> Following:
        """Whom it follows for whom; not to be changed."""
        return self._node.following

    def maps(self, what: AskMaps | None = None) -> TickMaps:
        """Our side of a tick-map exchange, with what goes with a request of ours; made when it leaves."""
        node = self._node
        if what is None:
            return node.maps()
        if what.short_for is None:
            return node.maps(what.tombstones, behind=what.behind)
        there = node.store.registry.nodes.get(what.short_for)
        return node.short_maps(what.short_for, there.life if there is not None else None)

    def pulled(self, asked: AskEvents) -> tuple[list[Event], PullEnd]:
        """The answer to a peer's pull, whole and of this instant; see `answer_pull`."""
        return answer_pull(self._node.store, asked)

    # -- inside

    def _transport_up(self, turn: Turn) -> None:
        node = self._node
        node.startup.transport_changed(True, turn.now_ms)
        if node.store.has_data:
            node.election.wake(turn.now_ms)
            node.recovery.exchange_soon(turn.now_ms)
            node.broadcast_info(turn, node.store.tree.ledger.ticks())

    def _do_what_is_due(self, turn: Turn) -> None:
        """What any input may have made due, and what time has."""
        node, store = self._node, self._node.store
        if node.lives.witnesses.is_needed:
            is_alive = partial(node.recovery.is_alive, now_ms=turn.now_ms)
            node.follow(node.lives.seek_witnesses(turn.now_ms, is_alive if node.is_up else None), turn)
        if not node.is_serving:
            is_waiting = node.lives.witnesses.is_waiting(turn.now_ms)
            take(node.startup.woken(turn.now_ms, store.missing(), is_waiting=is_waiting), node, turn)
        is_serving, registry = node.is_serving, store.registry
        if node.election.advance(turn.now_ms, len(store.registry.nodes)):
            node.send_ping(turn)
        self._gossip.answer_due(turn)
        self._gossip.speak_due(turn)
        self._links.do_what_is_due(turn, is_serving=is_serving)
        self._peers.do_what_is_due(turn)
        changes = registry.changes + registry.entry_changes
        if self._tree_part.tree is not None:
            self._tree_part.do_what_is_due(turn)
        self._services.do_what_is_due(turn, changes, is_serving=is_serving, is_stale=store.own.is_stale)
        if self._tree_part.given:
            self._tree_part.give(turn)
        self._ageing.note_new(turn)
        turn.ready.records += store.raise_ceiling(bool(turn.ready.records))

    def check(self, *, is_whole: bool = True) -> None:
        """For tests. `is_whole`: look also at what takes longer the more is kept: the store, and what services keep.

        Raises:
            BrokenInvariantError: what one of the machines promises does not hold.
        """
        if is_whole:
            self._node.store.check()
        for machine in (
            self._node, self._gossip, self._sponsor, self._peers, self._links, self._ageing,
        ):  # fmt: skip
            machine.check()
        for part in (self._services, self._tree_part):
            part.check(is_whole=is_whole)
