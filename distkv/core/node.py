"""What the parts of a replica share: the machines, the turn that is being taken, and the words every part uses.

Knows: how an own event, a message or a request to a peer is put into the `Ready` of the turn.
Does not know which input is being handled, nor what follows from it.

Invariant: whatever changes the state goes through here with a record; whatever leaves carries a new tock.
"""

from __future__ import annotations

import attrs

from distkv.core.asks import Asks, Why
from distkv.core.bounds import Bounds
from distkv.core.deletion import Deletion, outlives
from distkv.core.election import Election
from distkv.core.expiry import Expiry
from distkv.core.old_disk import OldDisk
from distkv.core.ready import AskEvents, AskMaps, Change, CoreSettings, Question, Ready, Rng
from distkv.core.recovery import Recovery
from distkv.core.registry import retired_of
from distkv.core.resync import Resync
from distkv.core.startup import Startup
from distkv.core.update import Store
from distkv.core.witnesses import Witnesses
from distkv.model.event import Event, NodeName, Tock, first_tick, life_of
from distkv.model.hot import hot_value
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges, count
from distkv.model.tree import Applied
from distkv.wire.message import (
    EventRecord,
    Header,
    Info,
    Ping,
    PingChain,
    PingLink,
    Record,
    State,
    TickMap,
    TickMaps,
    Tombstone,
    Update,
)


@hot_value
class Turn:
    """One step: the times it was given, and what it wants done."""

    now_ms: int
    """Monotonic."""
    wall: float
    """Seconds since 1970; only ever stored."""
    ready: Ready = attrs.field(factory=Ready)


@attrs.define(slots=True)
class Deliveries:
    """How many events came from others since the start, downloads aside, and how many of them were held already."""

    events_gossiped: int = 0
    events_gossiped_again: int = 0
    events_pulled: int = 0
    events_pulled_again: int = 0


class Node:
    """The machines of one node and what they have in common."""

    def __init__(self, settings: CoreSettings, rng: Rng) -> None:
        name, clock_ms = settings.node, settings.clock_ms
        self.settings, self.rng = settings, rng
        self.store = Store(name, settings.chain_length_max)
        self.recovery = Recovery(name, clock_ms, rng, lambda name: name in self.store.registry.nodes)
        self.election = Election(name, clock_ms, settings.ping_length, rng)
        self.expiry = Expiry()
        self.deletion = Deletion(clock_ms, settings.delete_retention_ms, rng)
        is_founding = settings.init_value is not None
        self.startup = Startup(name, clock_ms, rng, has_data=False, founding=is_founding, alone=settings.alone)
        self.witnesses = Witnesses(clock_ms)
        self.resync = Resync(clock_ms)
        self.old_disk = OldDisk(clock_ms, settings.restarts)
        self.asks = Asks()
        self.deliveries = Deliveries()
        self.bounds = Bounds(clock_ms)
        self.is_up = False
        """Whether the transport carries messages."""
        self.found: TickRanges = {}
        """What the disk held at the start, or what a download that broke off has left."""
        self.changed_ms = 0
        """When somebody else's event last changed our state."""
        self.awaited: TickRanges = {}
        """What was missing when readiness began to wait for it."""
        self._has_reclaimed = False

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

    def missing(self) -> TickRanges:
        """What is missing and not marked lost."""
        return self.store.tree.ledger.missing(but_lost=True)

    def is_too_much(self, ticks: TickRanges) -> bool:
        """Whether these are more than one pull asks for."""
        return count(ticks) > self.settings.pull_events_max

    def others(self) -> list[NodeName]:
        """The other registered nodes; whose life was retired is not among them."""
        store = self.store
        return [name for name in store.registry.nodes if name != store.me]

    # -- what changes the state

    def own(self, applied: Applied, turn: Turn) -> None:
        """An own event: log it, tell the others, tell the watchers."""
        store, own = self.store, self.store.own
        self.record(applied, turn)
        header = Header(store.me, own.tick, store.tock, own.life or 0, self.network_id, None)
        turn.ready.messages.append(Update(header, (applied.event,)))

    def apply(self, event: Event, turn: Turn) -> bool:
        """Somebody's event, from anywhere; whether it said something new."""
        store, own = self.store, self.store.own
        if event.node == store.me and event.tick > own.tick and life_of(event.tick) == own.life:
            self.found_stale("rolled_back", turn)  # it is ours, and our disk does not know it
        applied = store.remote(event)
        if applied.changed:
            self.changed_ms = turn.now_ms
        self.record(applied, turn)
        if applied.changed and event.path.is_reserved and own.life is not None:
            self._saw_reserved(event, own.life, turn)
        return applied.is_new

    def _saw_reserved(self, event: Event, life: int, turn: Turn) -> None:
        """Whether somebody said something about us; `life` is ours."""
        store = self.store
        mine, retired = store.registry.nodes.get(store.me), retired_of(event.path)
        if mine is not None and mine.life > life:
            if mine.addr == self.settings.addr:  # our next disk's, or an attempt to join that broke off
                self.found_stale("later_life", turn)
            elif self.is_serving:
                self.ask_namesake(mine.addr, turn)  # a sponsor who did not know of us gave our name to somebody
        if retired is not None and retired[0] == store.me and store.own.first_life <= retired[1] <= life:
            self.found_stale("retired", turn)  # also a life before this one: nobody asked this disk since

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
            if applied.won or applied.closed or applied.is_new:  # new and not the winner: it may be an open loser
                ready.changes.append(Change(event, applied.won, applied.closed))

    def learn_known(self, known: TickRanges, turn: Turn) -> list[Record]:
        """Ticks are superseded, says somebody who has what superseded them."""
        records, closed = self.store.learn_known(known)
        if records:
            self.changed_ms = turn.now_ms
        turn.ready.records += records
        turn.ready.changes += [Change(event, False, (event,)) for event in closed]
        return records

    @property
    def is_rolled_back(self) -> bool:
        """Whether somebody heard a tick of our life that we never wrote: our disk is older than we are."""
        store = self.store
        book = store.tree.ledger.book((store.me, store.own.life)) if store.own.life is not None else None
        return book is not None and book.last > store.own.tick

    def check_life(self, turn: Turn, writes: int = 1) -> bool:
        """Before so many own writes: no tick is used twice, so go on under a new life when this one cannot be.

        Returns whether a new one was begun, which is registered then.
        """
        own = self.store.own
        if own.is_life_over:
            pass  # it was said when it was found
        elif self.is_rolled_back:
            turn.ready.note("rolled_back", tick=own.tick)
        elif self.witnesses.is_needed:
            turn.ready.note("unwitnessed", tick=own.tick)
        elif own.ticks_left >= writes:
            return False
        self.begin_new_life(turn)
        return True

    def found_stale(self, why: str, turn: Turn) -> None:
        """Others know more of this disk, or of our name, than it does itself.

        Nothing more is written in its life; a node that serves already begins a new one at once.
        """
        own = self.store.own
        if not own.is_life_over:
            turn.ready.note(why, tick=own.tick)
        self._mark_stale(turn)
        if self.is_serving:
            self.check_life(turn)

    def _mark_stale(self, turn: Turn) -> None:
        """Others may have forgotten what is here: compare before it is served, or else soon."""
        turn.ready.records += self.store.own.mark_stale(True)
        if self.is_serving:
            self.recovery.exchange_soon(turn.now_ms)
        else:
            self.startup.must_hand_over(turn.now_ms)

    def _want_own(self, ranges: Ranges, turn: Turn) -> None:
        """We lack changes that we made: the disk was set back, perhaps beyond a change of life."""
        own = self.store.own
        if own.life is None or own.is_stale:
            return
        if ranges & Ranges([(first_tick(own.first_life), first_tick(own.life + 1))]):
            turn.ready.note("own_missing")
            self._mark_stale(turn)

    def agreed(self, name: NodeName, turn: Turn, *, is_good: bool = False) -> None:
        """A node holds what we hold; `is_good`: it serves, and its disk is no old one. Perhaps ours is good again."""
        store = self.store
        if store.own.is_stale and self.old_disk.agrees(name, store.tree.sums, self.others(), is_good=is_good):
            turn.ready.records += store.own.mark_stale(False)
            self.startup.need_not_hand_over()

    def seek_witnesses(self, turn: Turn) -> None:
        """Ask all others what they heard of our life; when they have answered we may go on in it."""
        witnesses = self.witnesses
        witnesses.registered(self.others, self.store.registry.changes)
        if witnesses.have_all and not self.missing():  # what is missing may be another one's registration
            witnesses.is_needed = False
        elif self.is_up:
            for name in witnesses.due(turn.now_ms, lambda name: self.recovery.is_alive(name, turn.now_ms)):
                short_for = None if self.asks.is_first else name  # the first one brings what came while we were away
                addr = self.store.registry.nodes[name].addr
                self.ask(name, addr, AskMaps(short_for=short_for), Why.WITNESS, turn)

    def begin_new_life(self, turn: Turn) -> None:
        """Go on under a life of our own that nobody heard of, in the same directory."""
        store = self.store
        life = store.registry.next_life(store.me, turn.wall, self.rng, store.own.life or 0)
        self.witnesses.is_needed = False
        turn.ready.note("new_life", life=life)
        turn.ready.records += store.own.begin_life(life)
        self.own(store.register(store.me, life, self.settings.addr, turn.wall), turn)

    def reclaim_name(self, addr: str, turn: Turn) -> None:
        """Nobody is at the address at which our name is registered with a higher life: it is ours.

        Once in a start only: somebody may be there whom we cannot reach, and do the same.
        """
        store = self.store
        mine = store.registry.nodes.get(store.me)
        is_theirs = mine is not None and mine.addr == addr and mine.life > (store.own.life or 0)
        if is_theirs and self.is_serving and not self._has_reclaimed:
            self._has_reclaimed = True
            self.found_stale("name_lost", turn)  # while it was theirs nobody asked this disk before he forgot something

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
        if isinstance(what, AskEvents) and why is Why.PULL:
            if self.store.me in what.ranges:
                self._want_own(what.ranges[self.store.me], turn)
            ledger = self.store.tree.ledger
            what = AskEvents(ledger.missing(), what.doubted, ledger.ticks(), self.settings.pull_events_max)
        missing = self.missing() if isinstance(what, AskMaps) and not self.store.tree.ledger.is_whole else {}
        if not self.is_too_much(missing):
            missing = {}  # pulls tell of it soon enough
        ask = self.asks.begin(name, addr, what, why, missing)
        turn.ready.messages.append(ask)
        return ask.id

    def ask_namesake(self, addr: str, turn: Turn) -> None:
        """Somebody at `addr` is said to have our name: whether he is there, and started earlier, is asked over TCP."""
        if addr in ("", self.settings.addr):
            return
        turn.ready.note("name_claimed", addr=addr)
        if not self.asks.has(Why.NAMESAKE):
            self.ask(self.store.me, addr, AskMaps(), Why.NAMESAKE, turn)
