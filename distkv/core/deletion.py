"""Which tombstones may be forgotten: a deletion that every node has, and that no older value can follow any more.

Knows: the tombstones of this node by age, and what other nodes reported of those it wants to forget.
Does not know who is registered or alive, nor how a node is asked: it is handed the one, and says whom to ask.

Invariant: a tombstone is forgotten only when every other registered node has reported, in one message, the ticks that
it holds, all deletions at the path among them, and that nothing there stands below the tombstone; and this node
holds every tick of these reports (docs/protocol, PURGE-1 to PURGE-6). Then whatever came before the deletion was here,
from every node that could still send it; so none of it can be new to this one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import attrs

from distkv.core.ready import Rng
from distkv.model.entry import Entry
from distkv.model.event import Event, Kind, Link, NodeName, first_tick, is_above, life_of
from distkv.model.fence import NO_FENCE
from distkv.model.invariant import must
from distkv.model.ledger import Ledger
from distkv.model.service_paths import service_key
from distkv.model.tick_ranges import TickRanges, without
from distkv.model.tree import Tree
from distkv.wire.message import TickMaps, Tombstone

BATCH: Final = 500
"""So many tombstones are asked for at once."""
BATCH_BYTES: Final = 128 << 10
"""And about so many bytes of them: a request must not become too large."""
LOOKED_AT: Final = 2000
"""So many are looked at in one step, whether they can be asked for or not."""
AGAIN_MS: Final = (20, 120)
"""After a round that forgot something and had no room for more."""
GAP_MS: Final = 500
"""How often it is seen whether the ticks of all reports have come."""


@attrs.define(slots=True)
class _NodeReport:
    """What one node said."""

    life: int
    needed: TickRanges
    """What it held and we did not, as far as that has not come."""
    outlived: Mapping[Link, None]


@attrs.define(slots=True)
class _Round:
    """One attempt to forget some tombstones."""

    stones: dict[Link, tuple[Event, Tombstone]]
    is_full: bool
    end_ms: int
    reports: dict[NodeName, _NodeReport] = attrs.field(factory=dict)
    asking: NodeName | None = None
    was_asked: dict[NodeName, None] = attrs.field(factory=dict)


class Deletion:
    """The machine. All times are monotonic milliseconds."""

    def __init__(self, clock_ms: int, retention_ms: int, rng: Rng) -> None:
        self._clock_ms = clock_ms
        self._retention_ms = retention_ms
        self._rng = rng
        self._young: deque[tuple[int, Event]] = deque()  # by when they are old enough
        self._old: deque[Event] = deque()  # they take turns
        self._next_ms = 0
        self._round: _Round | None = None

    # -- tombstones

    def begin(self, events: Iterable[Event], now_ms: int, wall: float) -> None:
        """What the disk had; how long it was here the writer's clock tells about, and nothing depends on it."""
        dues = []
        for event in events:
            if _may_go(event):
                age_ms = max(0.0, wall - event.time) * 1000
                dues.append((now_ms + int(max(0.0, self._retention_ms - age_ms)), event))
        self._young.extend(sorted(dues, key=lambda due: due[0]))

    def came(self, event: Event, tree: Tree, now_ms: int) -> None:
        """A tombstone that is new. What was replaced meanwhile is left out now and then, so that none pile up."""
        if not _may_go(event):
            return
        self._young.append((now_ms + self._retention_ms, event))
        if len(self._young) > 2 * tree.tombstone_count + LOOKED_AT:
            self._young = deque(one for one in self._young if tree.head(one[1].path) is one[1])

    def ripen(self, now_ms: int) -> None:
        """See which are old enough now."""
        while self._young and self._young[0][0] <= now_ms and len(self._old) < LOOKED_AT:
            self._old.append(self._young.popleft()[1])

    @property
    def due_count(self) -> int:
        """How many are known to be old enough, and were still here when they were last looked at."""
        return len(self._old) + (len(self._round.stones) if self._round is not None else 0)

    def wake_ms(self) -> int | None:
        """When there is something to do."""
        if self._round is not None:
            return None if self._round.asking is not None else self._next_ms
        if self._old:
            return self._next_ms
        return max(self._young[0][0], self._next_ms) if self._young else None

    def is_due(self, now_ms: int) -> bool:
        """Whether it is time to do something; cheap."""
        wake_ms = self.wake_ms()
        return wake_ms is not None and now_ms >= wake_ms

    # -- a round

    def begin_round(self, tree: Tree, now_ms: int) -> None:
        """Choose what to ask for, when no round is under way."""
        if self._round is not None:
            return
        self.ripen(now_ms)
        stones: dict[Link, tuple[Event, Tombstone]] = {}
        size = 0
        for _ in range(min(len(self._old), LOOKED_AT)):
            if len(stones) >= BATCH or size >= BATCH_BYTES:
                break
            event = self._old.popleft()
            entry = tree.get(event.path)
            if entry is None or entry.head is not event:
                continue
            if entry.conflicts() or _speaks_of_missing(entry, tree.ledger):
                self._old.append(event)
                continue
            stones[event.link] = event, _tombstone(entry)
            size += 2 * len(str(event.path)) + 100 * (1 + len(entry.losers))
        if stones:
            is_full = len(stones) >= BATCH or size >= BATCH_BYTES
            self._round = _Round(stones, is_full, now_ms + 3 * self._clock_ms)
        else:
            self.wait(now_ms)

    def next_to_ask(self, lives: Mapping[NodeName, int]) -> tuple[NodeName, tuple[Tombstone, ...]] | None:
        """Whom to ask for what now; `lives` are the other registered nodes."""
        round = self._round
        if round is None or round.asking is not None:
            return None
        for name in lives:
            if name not in round.was_asked:
                round.asking = name
                round.was_asked[name] = None
                return name, tuple(stone for _, stone in round.stones.values())
        return None

    def reported(self, maps: TickMaps, tree: Tree) -> None:
        """A node answered an exchange; perhaps it was asked for tombstones."""
        round, name = self._round, maps.header.node
        if round is not None and round.asking == name:
            outlived = dict.fromkeys(maps.outlived)
            round.reports[name] = _NodeReport(maps.header.life, maps.held, outlived)
            _forget_held(round.reports[name], tree.ledger)

    def asked(self, name: NodeName, now_ms: int) -> None:
        """A node that was asked has answered, or will not."""
        round = self._round
        if round is None or round.asking != name:
            return
        round.asking = None
        self._next_ms = now_ms
        if name not in round.reports:
            self.wait(now_ms)

    def decide(self, tree: Tree, lives: Mapping[NodeName, int], now_ms: int) -> list[Tombstone]:
        """When all were asked: what may be forgotten now."""
        round = self._round
        if round is None or round.asking is not None:
            return []
        for report in round.reports.values():
            _forget_held(report, tree.ledger)
        reports = [round.reports.get(name) for name in lives]
        if any(report is not None and report.needed for report in reports) and now_ms < round.end_ms:
            self._next_ms = now_ms + GAP_MS  # the ticks are on their way
            return []
        found = []
        if all(
            report is not None and report.life == life and not report.needed
            for report, life in zip(reports, lives.values(), strict=True)
        ):
            for link, (event, stone) in round.stones.items():
                if all(link in report.outlived for report in reports if report is not None):
                    entry = tree.get(event.path)
                    if entry is not None and _is_still(entry, stone) and not _speaks_of_missing(entry, tree.ledger):
                        found.append(stone)
        self._end_round(now_ms, found)
        return found

    def wait(self, now_ms: int) -> None:
        """Nothing can be done now: somebody cannot be asked, or what there is must stay."""
        self._end_round(now_ms, [])

    # -- inside

    def _end_round(self, now_ms: int, found: list[Tombstone]) -> None:
        round, self._round = self._round, None
        if round is not None:
            gone = dict.fromkeys(stone.links[0] for stone in found)
            self._old.extend(event for link, (event, _) in round.stones.items() if link not in gone)
        if found and round is not None and round.is_full:
            low, high = AGAIN_MS
        else:  # few more will be old enough soon, and a round asks everybody
            low, high = (self._clock_ms // 2, self._clock_ms) if found else (2 * self._clock_ms, 3 * self._clock_ms)
        self._next_ms = now_ms + low + int(self._rng.random() * (high - low))

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self._old) <= LOOKED_AT + BATCH, "those that are old enough are bounded")
        asked = self._round
        if asked is not None:
            must(0 < len(asked.stones) <= BATCH, "a round is about some tombstones, and not about too many")
            must(asked.reports.keys() <= asked.was_asked.keys(), "who has reported was asked")


def outlives(tree: Tree, stones: Iterable[Tombstone]) -> Iterator[Link]:
    """Of these tombstones those that nothing here stands against: all their ticks are held, and what is at the path
    is the tombstone, or above it, or nothing at all."""
    for stone in stones:
        head = tree.head(stone.path)
        if all(map(tree.ledger.has, stone.links)) and (head is None or not _is_below(head, stone)):
            yield stone.links[0]


def _may_go(event: Event) -> bool:
    """Whether a deletion is forgotten at all. One with a fence is not: it is the floor for what is written late, and
    for what is written anew (docs/protocol, FENCE-5). Of the system's own paths those are that services delete."""
    return event.fence is NO_FENCE and (not event.path.is_reserved or service_key(event.path) is not None)


def _is_below(event: Event, stone: Tombstone) -> bool:
    kind = Kind.EXPIRE if stone.expired else Kind.DELETE
    asked = Event(stone.path, kind, b"", stone.links[:1], stone.tock, 0.0)
    return event.link != stone.links[0] and is_above(asked, event)


def _tombstone(entry: Entry) -> Tombstone:
    head = entry.head
    links = tuple(event.link for event in (head, *entry.losers))
    return Tombstone(head.path, links, head.tock, head.kind is Kind.EXPIRE)


def _is_still(entry: Entry, stone: Tombstone) -> bool:
    """Whether the path holds just what was asked for, and no value among it."""
    return not entry.is_live and not entry.conflicts() and _tombstone(entry).links == stone.links


def _speaks_of_missing(entry: Entry, ledger: Ledger) -> bool:
    """Whether a tick is missing, lost or not, that the deletion or anything before it knew: the event might come yet,
    and would be taken for a new one if nothing here knew better."""
    links = [link for event in (entry.head, *entry.losers) for link in event.chain]
    links += [(node, tick) for (node, _), rows in (entry.memory or {}).items() for tick, _ in rows]  # type: ignore[misc]
    for node, tick in links:
        life = life_of(tick)
        book = ledger.book((node, life))
        if book is None or (not book.is_whole and book.held.gaps(first_tick(life), tick + 1)):
            return True
    return False


def _forget_held(report: _NodeReport, ledger: Ledger) -> None:
    if report.needed:
        report.needed = without(report.needed, ledger.held(report.needed))
