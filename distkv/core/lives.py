"""Whether this node may go on as who it is: in its life, under its name, with its disk.

Knows: what ends a life, what marks a disk as old and what clears it, and what others' words about our name mean.
Does not know how anybody is asked or told, nor whether the node serves: it is told that, and answers what to do next.

Invariant: a life in which a tick may have been used elsewhere is not written in again; a disk of which others may have
forgotten something stays marked until a good node, or all others, hold the same (docs/protocol, 'Lives and names').
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import StrEnum
from typing import Final, TypeAlias

import attrs

from distkv.core.ready import CoreSettings, Note, Rng
from distkv.core.registry import node_path, registration_of, retired_of
from distkv.core.update import Store
from distkv.core.witnesses import Witnesses
from distkv.errors import DistkvError, DuplicateNameError, StaleError
from distkv.model.event import Event, NodeName, first_tick, life_of
from distkv.model.invariant import must
from distkv.model.ranges import Ranges
from distkv.model.tree import Sums
from distkv.wire.message import Header, Record


class Duty(StrEnum):
    """What the node shall do now."""

    BEGIN_LIFE = "begin a new life"
    REGISTER = "register"
    COMPARE = "compare with others"
    HAND_OVER = "hand over"
    HAND_NOTHING_OVER = "hand nothing over"


@attrs.frozen(slots=True)
class Keep:
    """These belong into the log."""

    records: tuple[Record, ...]


@attrs.frozen(slots=True)
class SeekNamesake:
    """Somebody at this address is said to have our name: ask there."""

    addr: str


@attrs.frozen(slots=True)
class SeekWitness:
    """Ask this node what it heard of our life."""

    name: NodeName


Consequence: TypeAlias = Duty | Note | Keep | SeekNamesake | SeekWitness | DistkvError
"""What follows from an input, for the node to carry out in this order; an error ends it."""


class Lives:
    """The machine. It marks and begins lives in `store.own`, and hands on the records of that."""

    def __init__(self, settings: CoreSettings, store: Store, rng: Rng) -> None:
        self._settings, self._store, self._rng = settings, store, rng
        self.witnesses = Witnesses(settings.clock_ms)
        self._old_disk = OldDisk(settings.clock_ms, settings.beginning.restarts)
        self._has_reclaimed = False

    # -- the disk

    def begin(self) -> list[Consequence]:
        """The disk was read. Whether others may have forgotten what it holds, or heard more of its life."""
        store, own = self._store, self._store.own
        if not store.has_data:
            return self._damage()
        if store.others():
            self.witnesses.need()
        is_retired = own.life is not None and store.registry.is_retired(store.me, own.life)
        is_old = store.is_damaged or own.is_life_over or self._settings.beginning.restored or is_retired
        return [*self._damage(), *(self._mark(True) if is_old else ())]

    def downloading(self, *, is_stale: bool) -> list[Consequence]:
        """What was here is void; `is_stale`: others may have forgotten what the sponsor has."""
        self.witnesses.life_is_void()
        return self._mark(is_stale)

    def downloaded(self, life: int) -> list[Consequence]:
        """A sponsor gave us a life of which nobody has heard before."""
        return [Keep(tuple(self._store.own.begin_life(life)))]

    def found_stale(self, why: str, *, is_serving: bool) -> list[Consequence]:
        """Others know more of this disk, or of our name, than it does itself.

        Nothing more is written in its life; a node that serves already begins a new one at once.
        """
        found: list[Consequence] = [] if self._store.own.is_life_over else [self._note(why)]
        found += self._mark_as_stale(is_serving=is_serving)
        return [*found, Duty.BEGIN_LIFE] if is_serving else found

    def found_own_missing(self, ranges: Ranges, *, is_serving: bool) -> list[Consequence]:
        """We lack these changes that we made: the disk was set back, perhaps beyond a change of life."""
        own = self._store.own
        if own.life is None or own.is_stale:
            return []
        if not ranges & Ranges([(first_tick(own.first_life), first_tick(own.life + 1))]):
            return []  # another disk made them
        return [Note("own_missing", {}), *self._mark_as_stale(is_serving=is_serving)]

    def agreed(self, name: NodeName, *, is_good: bool = False) -> list[Consequence]:
        """A node holds what we hold; `is_good`: it serves, and its disk is no old one. Perhaps ours is good again."""
        store = self._store
        if store.own.is_stale and self._old_disk.agreed(name, store.tree.sums, store.others(), is_good=is_good):
            return [*self._mark(False), Duty.HAND_NOTHING_OVER]
        return []

    def differed(self, name: NodeName, now_ms: int, *, has_same_ticks: bool) -> list[Consequence]:
        """A registered node whose disk is good does not hold what our old one holds. When that lasts, ours must go."""
        if not self._old_disk.differed(now_ms, has_same_ticks=has_same_ticks):
            return []
        error = f"the disk of {self._store.me} is older than that of {name}: it must start anew, and download"
        return [Note("stale", {"node": name}), StaleError(error)]

    # -- the life

    @property
    def is_rolled_back(self) -> bool:
        """Whether somebody heard a tick of our life that we never wrote: our disk is older than we are."""
        store = self._store
        book = store.tree.ledger.book((store.me, store.own.life)) if store.own.life is not None else None
        return book is not None and book.last > store.own.tick

    def before_writes(self, writes: int = 1) -> list[Consequence]:
        """So many own writes come: no tick is used twice, so go on under a new life when this one cannot be."""
        own = self._store.own
        if own.is_life_over:
            return [Duty.BEGIN_LIFE]  # why was said when it was found
        if self.is_rolled_back:
            return [self._note("rolled_back"), Duty.BEGIN_LIFE]
        if self.witnesses.is_needed:
            return [self._note("unwitnessed"), Duty.BEGIN_LIFE]
        return [] if own.ticks_left >= writes else [Duty.BEGIN_LIFE]

    def begin_life(self, wall: float) -> list[Consequence]:
        """Go on under a life of our own that nobody heard of, in the same directory."""
        store = self._store
        life = self.next_life(store.me, wall)
        self.witnesses.need_not()
        return [Note("new_life", {"life": life}), Keep(tuple(store.own.begin_life(life))), Duty.REGISTER]

    def next_life(self, name: NodeName, started: float) -> int:
        """A life for the directory that the node `name` made at `started`, seconds since 1970; see `Registry`."""
        mine = self._store.own.life if name == self._store.me else None
        return self._store.registry.next_life(name, started, self._rng, mine or 0)

    def heard_own(self, event: Event, *, is_serving: bool) -> list[Consequence]:
        """An event that carries our name came, and was not applied yet."""
        own = self._store.own
        if event.tick > own.tick and life_of(event.tick) == own.life:
            return self.found_stale("rolled_back", is_serving=is_serving)  # it is ours, and our disk does not know it
        return []

    def heard_maps(self, behind: int | None, *, is_serving: bool) -> list[Consequence]:
        """A peer's ticks were taken in; `behind`: the life in which it says that we went back."""
        if self.is_rolled_back or (behind is not None and behind == self._store.own.life):
            return self.found_stale("rolled_back", is_serving=is_serving)
        return []

    def seek_witnesses(self, now_ms: int, is_alive: Callable[[NodeName], bool] | None) -> list[Consequence]:
        """Ask all others what they heard of our life; when they have answered we may go on in it.

        `is_alive` tells who seems alive; None: there is no transport.
        """
        store, witnesses = self._store, self.witnesses
        witnesses.registered(store.others, store.registry.changes)
        if witnesses.have_all and not store.missing():  # what is missing may be another one's registration
            witnesses.need_not()
        elif is_alive is not None:
            return [SeekWitness(name) for name in witnesses.take_due(now_ms, is_alive)]
        return []

    # -- the name

    def became_ready(self) -> list[Consequence]:
        """From now on clients are served: as whom?"""
        store, addr = self._store, self._settings.addr
        life, mine = store.own.life or 0, store.registry.nodes.get(store.me)
        if self.is_rolled_back or store.own.is_life_over:
            return self.before_writes()
        if mine is None or (mine.life == life and mine.addr != addr):
            return self.before_writes() or [Duty.REGISTER]
        if mine.life <= life:
            return []
        if mine.addr == addr:  # an earlier attempt to join registered us higher, where our sponsor did not see
            return [Duty.BEGIN_LIFE]
        return self.name_claimed(mine.addr)  # it was given to somebody; is he there?

    def saw_reserved(self, event: Event, *, is_serving: bool) -> list[Consequence]:
        """One of the system's own entries changed: whether somebody said something about us."""
        store, own = self._store, self._store.own
        if own.life is None:
            return []
        mine, retired = store.registry.nodes.get(store.me), retired_of(event.path)
        found: list[Consequence] = []
        if self._stands_in(event):
            found += self._doubt(is_serving=is_serving)
        if mine is not None and mine.life > own.life:
            if mine.addr == self._settings.addr:  # our next disk's, or an attempt to join that broke off
                found += self.found_stale("later_life", is_serving=is_serving)
            elif is_serving:
                found += self.name_claimed(mine.addr)  # a sponsor who did not know of us gave our name to somebody
        if retired is not None and retired[0] == store.me and retired[1] >= own.first_life:
            # Also a life before this one, or that of somebody who had our name since: nobody asked this disk meanwhile.
            found += self.found_stale("retired", is_serving=is_serving)
        return found

    def name_claimed(self, addr: str) -> list[Consequence]:
        """Somebody at `addr` is said to have our name: whether he is there, and started earlier, is asked over TCP."""
        if addr in ("", self._settings.addr):
            return []
        return [Note("name_claimed", {"addr": addr}), SeekNamesake(addr)]

    def namesake_met(self, header: Header) -> list[Consequence]:
        """Somebody with our name is there, perhaps ourselves: of two starts the younger ends."""
        store, mine, other = self._store, self._settings.start, header.start
        if other is None or other == mine:
            return []
        if (mine.time, mine.id) > (other.time, other.id):
            why = f"another live node is called {store.me} and started earlier"
            do = "give this one a name and a directory of its own; a copy of a directory is of no use, remove it"
            return [DuplicateNameError(f"{why}: {do}")]
        is_copy = store.has_data and header.life == store.own.life  # it may have used the ticks that we would use next
        return [Note("name_twice", {"start": other.time}), *([Duty.BEGIN_LIFE] if is_copy else ())]

    def namesake_silent(self, addr: str, *, is_serving: bool) -> list[Consequence]:
        """Nobody is at the address at which our name is registered with a higher life: it is ours.

        Once in a start only: somebody may be there whom we cannot reach, and do the same.
        """
        store = self._store
        mine = store.registry.nodes.get(store.me)
        is_theirs = mine is not None and mine.addr == addr and mine.life > (store.own.life or 0)
        if not is_theirs or not is_serving or self._has_reclaimed:
            return []
        self._has_reclaimed = True
        # While it was theirs nobody asked this disk before he forgot something.
        return self.found_stale("name_lost", is_serving=True)

    # -- inside

    def _note(self, why: str) -> Note:
        return Note(why, {"tick": self._store.own.tick})

    def _damage(self) -> list[Consequence]:
        return [self._note("damaged")] if self._store.is_damaged else []

    def _stands_in(self, event: Event) -> bool:
        """Whether it gave our name to somebody else, since our data was downloaded."""
        store, own = self._store, self._store.own
        given = registration_of(event) if event.path == node_path(store.me) else None
        if given is None or given.addr in ("", self._settings.addr):
            return False
        return given.life > own.first_life and given.life != own.life

    def _doubt(self, *, is_serving: bool) -> list[Consequence]:
        """Others may have asked whoever had our name before they forgot something (docs/protocol, NAME-5)."""
        records = self._store.own.doubt()
        if not records:
            return []
        return [Note("stood_in", {}), Keep(tuple(records)), Duty.COMPARE if is_serving else Duty.HAND_OVER]

    def _mark(self, is_stale: bool) -> list[Consequence]:
        return [Keep(tuple(self._store.own.mark_stale(is_stale)))]

    def _mark_as_stale(self, *, is_serving: bool) -> list[Consequence]:
        """Others may have forgotten what is here: compare before it is served, or else soon."""
        return [*self._mark(True), Duty.COMPARE if is_serving else Duty.HAND_OVER]

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        own = self._store.own
        self.witnesses.check()
        self._old_disk.check()
        must(not self.witnesses.is_needed or own.life is not None, "witnesses are asked about a life")


MET_CLOCKS: Final = 8
"""So long it is compared with one whose ticks are always others."""
RESTARTS_MAX: Final = 8
"""Past so many the patience grows no more."""


@attrs.define(slots=True)
class OldDisk:
    """What others show of a disk that is marked stale: whether it is as good as theirs again, or older indeed. All
    times are monotonic milliseconds.

    Invariant: one good node, or all others together, may say that it is good; that it is old one says for half a clock
    at least (docs/protocol, LIFE-10, LIFE-15 to LIFE-17)."""

    clock_ms: int
    restarts: int = 0
    """How often the node has begun anew because of it: each time it waits twice as long, in case that cannot help."""
    _sums: Sums | None = None
    _agree: dict[NodeName, None] = attrs.field(factory=dict)
    """Which of the others hold just that."""
    _differs_ms: int | None = None
    _met_ms: int | None = None

    def agreed(self, name: NodeName, sums: Sums, others: Collection[NodeName], *, is_good: bool) -> bool:
        """A node holds what we hold, whose `sums` these are. Whether our disk is as good as any other now.

        `is_good`: the node serves, and its own disk is no old one. `others` are all that are registered.
        """
        self._differs_ms = self._met_ms = None
        if sums != self._sums:
            self._sums, self._agree = sums, {}
        if name in others:
            self._agree[name] = None
        return is_good or all(other in self._agree for other in others)

    def differed(self, now_ms: int, *, has_same_ticks: bool) -> bool:
        """A good node does not hold what we hold, or has other ticks just now. Whether that lasts: then ours is old.

        With the same ticks half a clock is enough; where all write all the time, nobody has the same ticks for long.
        """
        if self._met_ms is None:
            self._met_ms = now_ms
        if has_same_ticks and self._differs_ms is None:
            self._differs_ms = now_ms
        factor = 1 << min(self.restarts, RESTARTS_MAX)
        if self._differs_ms is not None and has_same_ticks and now_ms - self._differs_ms >= factor * self.clock_ms // 2:
            return True
        return now_ms - self._met_ms >= factor * MET_CLOCKS * self.clock_ms

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(self._differs_ms is None or self._met_ms is not None, "who differs was met")
        must(self._differs_ms is None or self._met_ms is None or self._met_ms <= self._differs_ms, "it was met first")
