"""What a node makes of the messages it hears: updates, pings, infos.

Knows: what may be believed from gossip, which anybody can send, and what must be asked for over TCP.
Does not know how messages travel.

Invariant: a message of another network, of a node that is not registered, or far ahead of our clock changes nothing.
"""

from __future__ import annotations

from typing import Final, assert_never

from distkv.core.election import PingVerdict, has_data
from distkv.core.node import Node
from distkv.core.ready import Rng
from distkv.core.reconcile import Reconciliation
from distkv.core.steps import take
from distkv.core.turn import Turn
from distkv.model.event import Event, Link, NodeName, first_tick, life_of
from distkv.model.invariant import must
from distkv.model.state import State
from distkv.wire.message import Header, Info, Message, Ping, PingChain, PingLink, TickMap, Update

ANSWERS_MAX: Final = 32
"""How many initial pings may wait for our answer at once."""
TICKS_AHEAD: Final = 1_000_000
"""Ticks further ahead than this are not believed from gossip: a lie would make us look for what nobody has."""
BASES_AHEAD: Final = 1 << 32
"""A base of a fence grows by one each time that somebody lifts a fence: it must not be used up by one event."""


class Gossip:
    """Hears for one node."""

    def __init__(self, node: Node, rng: Rng) -> None:
        self._node = node
        self._answers: dict[PingLink, tuple[int, PingChain]] = {}
        self._reconciliation = Reconciliation(node.store.me, node.settings.clock_ms, rng)

    def hear(self, message: Message, turn: Turn) -> None:
        """A message arrived, perhaps our own."""
        node, header = self._node, message.header
        if header.node == node.store.me:
            self._hear_own_name(message, turn)
            return
        if not self._accept(header, turn):
            return
        node.store.tock = max(node.store.tock, header.tock)
        match message:
            case Update(events=events):
                self._hear_update(header, events, turn)
            case Ping():
                self._note_address(header.node, message.addr, turn, is_member=has_data(message.chain))
                self._hear_ping(message, turn)
            case Info():
                self._note_address(header.node, message.addr, turn)
                self._hear_info(message, turn)
            case _:
                assert_never(message)

    def answer_due(self, turn: Turn) -> None:
        """Answer the initial pings whose time has come."""
        if not self._answers:
            return
        node = self._node
        for link in [link for link, (due_ms, _) in self._answers.items() if due_ms <= turn.now_ms]:
            _, chain = self._answers.pop(link)
            node.broadcast_info(turn, node.store.tree.ledger.ticks(), ping=chain)

    def speak_due(self, turn: Turn) -> None:
        """Tell the other side of a split what this one has, when it is our turn."""
        speech = self._reconciliation.take_due(turn.now_ms)
        if speech is not None:
            node = self._node
            kind = "split_took_over" if speech.has_taken_over else "split_told"
            turn.ready.note(kind, has_lost=speech.reason is not None)
            node.broadcast_info(turn, node.store.tree.ledger.ticks(), reason=speech.reason)

    def transport_down(self) -> None:
        """Nothing that is said now is heard."""
        self._reconciliation.forget()

    def wake_ms(self) -> int | None:
        """When `answer_due` or `speak_due` has something to say."""
        speech_ms = self._reconciliation.wake_ms()
        if not self._answers:  # as nearly always, and this is asked after every step
            return speech_ms
        answer_ms = min(due_ms for due_ms, _ in self._answers.values())
        return answer_ms if speech_ms is None else min(answer_ms, speech_ms)

    # -- what is let in

    def _hear_own_name(self, message: Message, turn: Turn) -> None:
        """Our own words come back; anything else in our name may mean that it is used twice.

        It may also be old, from an earlier start of this node, or a lie: anybody can gossip in our name. So a node that
        uses our name is asked over TCP, and the answer decides (`Peers`).
        """
        node, header = self._node, message.header
        if header.start in (None, node.settings.start) or not node.store.has_data:
            return
        if header.network != node.network_id:
            turn.ready.note("foreign_network", node=header.node, network=(header.network or b"").hex())
            return  # a namesake in another network is no other us
        if not isinstance(message, Update):
            node.follow(node.lives.name_claimed(message.addr), turn)

    def _accept(self, header: Header, turn: Turn) -> bool:
        node = self._node
        network_id = node.network_id
        if header.network is not None and network_id is not None and header.network != network_id:
            turn.ready.note("foreign_network", node=header.node, network=header.network.hex())
            return False
        if node.is_serving and header.tock > node.store.tock + node.settings.limits.tock_jump:
            turn.ready.note("tock_jump", node=header.node, tock=header.tock)
            self._compare_later(header.node, turn)
            return False
        return True

    def _note_address(self, name: NodeName, addr: str, turn: Turn, *, is_member: bool = True) -> None:
        """Who has no data only asks, and may be refused yet: it is no member, and nobody lists it (docs/protocol,
        START-17). Two nodes that advertise one address cannot reach each other: said aloud, because nothing else shows
        it."""
        node = self._node
        if is_member:
            node.recovery.saw(name, addr, turn.now_ms)
        if addr and addr == node.settings.addr:
            turn.ready.note("same_address", node=name, addr=addr, hint="give each node an --advertise of its own")

    def _compare_later(self, name: NodeName, turn: Turn) -> None:
        """Something from this sender cannot be taken from gossip: an exchange over TCP tells what is true."""
        self._node.recovery.differed(name, turn.now_ms, turn.now_ms)

    # -- update

    def _hear_update(self, header: Header, events: tuple[Event, ...], turn: Turn) -> None:
        node = self._node
        if node.startup.state is State.PASSIVE:
            return  # without data there is nothing that an event could be merged into
        if header.node not in node.store.registry.nodes:
            turn.ready.note("unregistered", node=header.node)
            self._compare_later(header.node, turn)
            return
        for event in events:
            jump = jump_of(node, event)
            if jump is not None:
                turn.ready.note(jump, node=header.node, tick=event.tick, tock=event.tock)
                if jump != "tock_jump":  # the header shows that one, and its exchange is planned there
                    self._compare_later(header.node, turn)
            else:
                node.deliveries.events_gossiped += 1
                node.deliveries.events_gossiped_again += not node.apply(event, turn)

    # -- ping

    def _hear_ping(self, ping: Ping, turn: Turn) -> None:
        node, name = self._node, ping.header.node
        if not has_data(ping.chain):
            self._plan_answer(ping, turn)
            return
        take(node.startup.heard_data(name, ping.addr), node, turn)
        if not node.store.has_data:
            return
        if name not in node.store.registry.nodes:
            turn.ready.note("unregistered", node=name)
            self._compare_later(name, turn)  # a stranger could keep us from pinging; a new node is registered by then
            return
        before = node.election.basis
        verdict = node.election.heard(ping.chain, turn.now_ms)
        if verdict in (PingVerdict.SPLIT_WON, PingVerdict.SPLIT_LOST):
            turn.ready.note("split_healed", node=name, verdict=verdict.value)
            self._reconcile(name, before, ping.chain, turn, has_lost=verdict is PingVerdict.SPLIT_WON)
        if verdict is not PingVerdict.REPEATED:
            node.bounds.heard(ping.chain, turn.now_ms)
            self._compare_digests(ping, turn)

    def _compare_digests(self, ping: Ping, turn: Turn) -> None:
        node, name = self._node, ping.header.node
        if (ping.digest, ping.ticks_hash) == node.store.tree.sums:
            node.recovery.agreed(name)
            node.follow(node.lives.agreed(name), turn)
            return
        node.recovery.differed(name, node.recovery.changed_ms, turn.now_ms)

    def _reconcile(
        self, sender: NodeName, ours: PingChain, theirs: PingChain, turn: Turn, *, has_lost: bool
    ) -> None:
        """Step zero of recovery: a chain of another side. Who speaks, and who compares with whom."""
        node, peers = self._node, self._node.recovery.peers
        names = dict.fromkeys(link.node for link in theirs)
        reachable = [name for name in names if name in peers and peers[name].addr] or [sender]
        visit = self._reconciliation.met(ours, theirs, reachable, turn.now_ms, has_lost=has_lost)
        if visit is not None:
            node.bounds.met(turn.now_ms)
            node.recovery.exchange_soon(visit.at_ms, visit.name)

    def _plan_answer(self, ping: Ping, turn: Turn) -> None:
        """A node without data asks who is there: the nodes of the chain answer by turn, the latest sender first."""
        node = self._node
        place = node.election.position(node.store.me)
        if not node.store.has_data or (place is None and node.election.basis):
            return
        if len(self._answers) < ANSWERS_MAX:
            delay_ms = (place or 0) * node.settings.clock_ms // node.settings.ping_length
            self._answers[ping.chain[0]] = (turn.now_ms + delay_ms, ping.chain)

    # -- info

    def _hear_info(self, info: Info, turn: Turn) -> None:
        node, name = self._node, info.header.node
        if info.ping:
            self._answers.pop(info.ping[0], None)  # somebody answered that ping before us
        if info.header.network is not None:
            take(node.startup.heard_data(name, info.addr), node, turn)
        if not node.store.has_data:
            return
        if info.reason and node.election.is_foreign(info.reason):
            self._reconcile(name, node.election.basis, info.reason, turn, has_lost=False)
        if name not in node.store.registry.nodes:
            self._compare_later(name, turn)
            return
        if info.reason or (info.ticks is not None and len(info.ticks) > 1):
            self._reconciliation.heard(name, turn.now_ms)  # one with the sender's own tick alone is an announcement
        if info.ticks is not None:
            self._hear_ticks(name, info.ticks, turn)

    def _hear_ticks(self, name: NodeName, ticks: TickMap, turn: Turn) -> None:
        """Gossip says that these ticks exist. What cannot be believed from gossip is asked for over TCP."""
        store, nodes = self._node.store, self._node.store.registry.nodes
        strange = [
            node
            for node, lasts in ticks.items()
            if node not in nodes or node == store.me or not all(is_near(self._node, (node, last)) for last in lasts)
        ]
        store.hear_ticks((node, ticks[node]) for node in ticks if node not in strange)
        own = store.tree.ledger.last(store.me)
        if any(node != store.me or max(ticks[node]) > own for node in strange):
            self._compare_later(name, turn)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._reconciliation.check()
        must(len(self._answers) <= ANSWERS_MAX, "few pings wait for an answer")


def jump_of(node: Node, event: Event) -> str | None:
    """Which number of an event is too far ahead for it to be taken from gossip or a link; None: none is (docs/protocol,
    TOCK-3, INFO-2, JUMP-1)."""
    if node.is_serving and event.tock > node.store.tock + node.settings.limits.tock_jump:
        return "tock_jump"
    if not all(is_near(node, link) for link in event.chain):
        return "tick_jump"
    if event.fence.base:
        head = node.store.tree.head(event.path)
        if event.fence.base > (0 if head is None else head.fence.base) + BASES_AHEAD:
            return "fence_jump"
    return None


def is_near(node: Node, link: Link) -> bool:
    """Whether a tick is as near to those heard before as honest gossip brings it."""
    name, tick = link
    book = node.store.tree.ledger.book((name, life_of(tick)))
    last = book.last if book is not None else first_tick(life_of(tick))
    return tick <= last + TICKS_AHEAD
