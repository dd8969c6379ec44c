"""What the parts of a replica share: the machines, the turn that is being taken, and the words every part uses.

Knows: how an own event, a message, a request to a peer, or what `lives` decided is put into the `Ready` of the turn.
Does not know which input is being handled, nor what follows from it.

Invariant: whatever changes the state goes through here with a record; whatever leaves carries a new tock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

import attrs

from distkv.core.asks import Asks, Why
from distkv.core.bounds import Bounds
from distkv.core.deletion import Deletion, outlives
from distkv.core.election import Election
from distkv.core.following import Following
from distkv.core.late_joins import LateJoins
from distkv.core.lives import Consequence, Duty, Keep, Lives, SeekNamesake, SeekWitness
from distkv.core.ready import AskEvents, AskMaps, CoreSettings, Note, PathChange, Question, Rng
from distkv.core.recovery import Recovery
from distkv.core.startup import Startup
from distkv.core.turn import Turn
from distkv.core.update import Store
from distkv.errors import DistkvError, NotReadyError
from distkv.model.event import Event, NodeName, Tock, last_tick, life_of
from distkv.model.state import State
from distkv.model.tick_ranges import TickRanges, count, ranges_of, without
from distkv.model.tree import Applied
from distkv.wire.message import (
    EventRecord,
    Header,
    Info,
    KnownRecord,
    Ping,
    PingChain,
    PingLink,
    Record,
    TickMap,
    TickMaps,
    Tombstone,
    Update,
)


@attrs.define(slots=True)
class Deliveries:
    """How many events came from others since the start, downloads aside, and how many of them were held already; and
    how often a node that was followed did not answer any more."""

    events_gossiped: int = 0
    events_gossiped_again: int = 0
    events_linked: int = 0
    events_linked_again: int = 0
    links_lost: int = 0
    events_pulled: int = 0
    events_pulled_again: int = 0


class Node:
    """The machines of one node and what they have in common."""

    def __init__(self, settings: CoreSettings, rng: Rng) -> None:
        name, clock_ms = settings.node, settings.clock_ms
        self.settings = settings
        self.store = Store(name, settings.chain_length_max)
        self.store.data.bytes_max = settings.limits.data_bytes_max
        self.lives = Lives(settings, self.store, rng)
        self.late_joins = LateJoins(self.store)
        self.recovery = Recovery(name, clock_ms, rng, lambda name: name in self.store.registry.nodes)
        self.election = Election(name, clock_ms, settings.ping_length, rng)
        self.deletion = Deletion(clock_ms, settings.delete_retention_ms, rng)
        self.startup = Startup(settings, rng)
        self.asks = Asks()
        self.deliveries = Deliveries()
        self.bounds = Bounds(clock_ms)
        self.following = Following(name, settings.fanout, rng, is_on=settings.follow and not settings.alone)

    def begin(self, now_ms: int) -> None:
        """The log is replayed: what it told is from before now."""
        self.store.replayed()
        self.recovery.changed_ms = now_ms

    # -- what is told

    @property
    def state(self) -> State:
        """The state that people and peers are told."""
        if self.is_serving and not self.is_up and not self.settings.alone:
            return State.CUT_OFF
        return self.startup.state

    @property
    def is_serving(self) -> bool:
        """Whether clients are served."""
        return self.startup.state is State.READY

    def not_ready(self) -> NotReadyError:
        """What clients are told while it is not serving."""
        waits_for = self.startup.waits_for
        return NotReadyError(f"{self.store.me} is {self.state}, it waits for {waits_for}; ask again in a moment")

    @property
    def is_up(self) -> bool:
        """Whether the transport carries messages."""
        return self.startup.is_up

    @property
    def network_id(self) -> bytes | None:
        """None: it belongs to no network yet."""
        network = self.store.registry.network
        return network.id if network is not None else None

    def header(self) -> Header:
        """What our next message carries; its tock is new."""
        store = self.store
        store.tock = Tock(store.tock + 1)
        own = store.own
        return Header(store.me, own.tick, store.tock, own.life or 0, self.network_id, self.settings.start)

    def maps(
        self,
        tombstones: tuple[Tombstone, ...] = (),
        asked: tuple[Tombstone, ...] = (),
        behind: int | None = None,
    ) -> TickMaps:
        """Our side of a tick-map exchange, one consistent snapshot.

        `tombstones` are what we want to forget, `asked` what the other side wants to; `behind`: the life in which the
        peer went back.
        """
        store, tree, ledger = self.store, self.store.tree, self.store.tree.ledger
        return TickMaps(
            self.header(),
            self.settings.addr,
            self.state,
            ledger.ticks(),
            ledger.held(),
            ledger.lost(),
            tree.digest,
            tombstones=tombstones,
            outlived=tuple(outlives(tree, asked)),
            behind=behind,
            is_stale=store.own.is_stale,
        )

    def short_maps(self, name: NodeName, life: int | None, behind: int | None = None) -> TickMaps:
        """The same for a peer that may hold just what we hold: a hash says what, and of the ticks heard only what is
        not held is told, and those of this life of `name`, the peer."""
        store, ledger = self.store, self.store.tree.ledger
        ticks = ledger.ticks_unheld((name, life or 0))
        return TickMaps(
            self.header(), self.settings.addr, self.state, ticks, {}, {}, store.tree.digest,
            behind=behind, is_stale=store.own.is_stale, ticks_hash=ledger.hash(),
        )  # fmt: skip

    def is_too_much(self, ticks: TickRanges) -> bool:
        """Whether these are more than one pull asks for."""
        return count(ticks) > self.settings.limits.pull_events_max

    def unexpected(self) -> TickRanges:
        """What is missing, not given up, and about to come by no link."""
        missing = self.store.missing()
        return without(missing, self.following.expected(missing)) if missing else missing

    # -- what changes the state

    def publish(self, applied: Applied, turn: Turn) -> None:
        """An own event: log it, tell the others, tell the watchers."""
        store, own = self.store, self.store.own
        self.record(applied, turn)
        if self.following.reaches_all:
            return  # all have it sooner than gossip would bring it
        header = Header(store.me, own.tick, store.tock, own.life or 0, self.network_id, None)
        turn.ready.messages.append(Update(header, (applied.event,)))

    def apply(self, event: Event, turn: Turn) -> bool:
        """Somebody's event, from anywhere; whether it said something new."""
        store = self.store
        if event.path.is_reserved and store.is_void(event):
            turn.ready.note("entry_guarded", node=event.node, tick=event.tick)
            return bool(self.learn_known(ranges_of((event.link,)), turn))
        if event.node == store.me:
            self.follow(self.lives.heard_own(event, is_serving=self.is_serving), turn)
        applied = store.remote(event)
        if applied.changed:
            self.recovery.changed_ms = turn.now_ms
        self.record(applied, turn)
        if applied.changed and event.path.is_reserved:
            self.follow(self.lives.saw_reserved(event, is_serving=self.is_serving), turn)
            for name in self.late_joins.saw(event, turn) if self.is_serving else ():
                turn.ready.note("late_join", node=name)
                self.recovery.exchange_soon(turn.now_ms, name)
        return applied.is_new

    def merge(self, event: Event, teller: NodeName, turn: Turn) -> bool:
        """Take in an event that `teller` holds, whatever the ledger says; False when it changes nothing."""
        records = self.store.release(event, teller)
        turn.ready.records += records
        if records:
            self.apply(event, turn)
        return bool(records)

    def record(self, applied: Applied, turn: Turn) -> None:
        """What an event did to the tree: log it, and tell the watchers."""
        event, ready = applied.event, turn.ready
        if applied.two_contents:
            ready.note("two_contents", node=event.node, tick=event.tick)
        if applied.changed:
            ready.records.append(EventRecord(event, turn.wall))
            if applied.unseen:
                ready.records.append(KnownRecord(ranges_of(applied.unseen)))
            if applied.won or applied.closed or applied.is_new:  # new and not the winner: it may be an open loser
                ready.changes.append(PathChange(event, applied.won, applied.closed))

    def learn_known(self, known: TickRanges, turn: Turn) -> list[Record]:
        """Ticks are superseded, says somebody who has what superseded them."""
        records, closed = self.store.learn_known(known)
        if records:
            self.recovery.changed_ms = turn.now_ms
        turn.ready.records += records
        turn.ready.changes += [PathChange(event, False, (event,)) for event in closed]
        return records

    def begin_life_if_due(self, turn: Turn, writes: int = 1) -> bool:
        """Before so many own writes: whether a new life was begun for them, which is registered then."""
        found = self.lives.before_writes(writes)
        self.follow(found, turn)
        return bool(found)

    def follow(self, found: Iterable[Consequence], turn: Turn) -> None:
        """Carry out what `lives` answered, in its order."""
        for what in found:
            match what:
                case Note():
                    turn.ready.notes.append(what)
                case Keep(records=records):
                    turn.ready.records += records
                case Duty.BEGIN_LIFE:
                    self.follow(self.lives.begin_life(turn.wall), turn)
                case Duty.REGISTER:
                    store = self.store
                    self.publish(store.register(store.me, store.own.life or 0, self.settings.addr, turn.wall), turn)
                case Duty.COMPARE:
                    self.recovery.exchange_soon(turn.now_ms)
                case Duty.HAND_OVER:
                    self.startup.begin_hand_over(turn.now_ms)
                case Duty.HAND_NOTHING_OVER:
                    self.startup.end_hand_over()
                case SeekNamesake(addr=addr):
                    if not self.asks.has(Why.NAMESAKE):
                        self.ask(self.store.me, addr, AskMaps(), Why.NAMESAKE, turn)
                case SeekWitness(name=name):
                    short_for = None if self.asks.is_first else name  # the first brings what came while we were away
                    addr = self.store.registry.nodes[name].addr
                    self.ask(name, addr, AskMaps(short_for=short_for), Why.WITNESS, turn)
                case DistkvError():
                    turn.ready.fatal = what
                case _:
                    assert_never(what)

    # -- what leaves

    def send_ping(self, turn: Turn) -> None:
        """Our ping: the next of the chain, or, without data, the question who is there."""
        header, store = self.header(), self.store
        link = PingLink(header.node, header.tick if store.has_data else None, header.tock)
        chain = self.election.next_chain(link) if store.has_data else (link,)
        tree = store.tree
        turn.ready.messages.append(
            Ping(header, chain, self.settings.addr, self.state, tree.digest, tree.ledger.hash())
        )
        if store.has_data:
            self.election.sent(chain, turn.now_ms)
            self.bounds.sent(chain, turn.now_ms)

    def broadcast_info(
        self, turn: Turn, ticks: TickMap, reason: PingChain | None = None, ping: PingChain | None = None
    ) -> None:
        """Say these ticks to all; `reason`: the chain of our side of a split; `ping`: the one that it answers."""
        if self.is_up:
            hash = self.store.tree.ledger.hash()
            header, addr = self.header(), self.settings.addr
            turn.ready.messages.append(Info(header, addr, self.state, ticks, hash, reason=reason, ping=ping))

    def ask(self, name: NodeName, addr: str, what: Question, why: Why, turn: Turn) -> int:
        """Ask the node `name` at `addr` for something; the number of the question."""
        left = frozenset[NodeName]()
        if isinstance(what, AskEvents) and why is Why.PULL:
            if self.store.me in what.ranges:
                own = what.ranges[self.store.me]
                self.follow(self.lives.found_own_missing(own, is_serving=self.is_serving), turn)
            what, left = self._pull(what.doubted)
        missing = self.store.missing() if isinstance(what, AskMaps) and not self.store.tree.ledger.is_whole else {}
        if not self.is_too_much(missing):
            missing = {}  # pulls tell of it soon enough
        ask = self.asks.begin(name, addr, what, why, turn.now_ms, missing=missing, left=left)
        turn.ready.messages.append(ask)
        return ask.id

    def _pull(self, doubted: TickRanges) -> tuple[AskEvents, frozenset[NodeName]]:
        """A pull of all that is missing, but of writers of whom links are about to bring it."""
        ledger = self.store.tree.ledger
        missing, ticks = ledger.missing(), ledger.ticks()
        expected = self.following.expected(missing)
        left = self.following.coming() | expected.keys()
        ticks |= {name: [last_tick(life_of(tick)) for tick in ticks[name]] for name in left & ticks.keys()}
        return AskEvents(without(missing, expected), doubted, ticks, self.settings.limits.pull_events_max), left

    def check(self) -> None:
        """
        Raises:
            BrokenInvariantError: what one of these machines promises does not hold.
        """
        for machine in (
            self.recovery, self.deletion, self.following, self.election, self.startup,
            self.lives, self.asks, self.bounds,
        ):  # fmt: skip
            machine.check()
