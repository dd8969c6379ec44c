"""What was overwritten is dropped, and the tree of no later cut is another one.

Knows: histories as the protocol allows them, clocks that differ, events that come late; and events that no honest node
would write.  Does not know Spark.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.model.event import Event, Kind, Link, NodeName, Tick, Tock, Writer, new_event, order
from distkv.model.fence import NO_FENCE, Fence
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges, ranges_of
from distkv.spark.forgetting import FILE, ROW_COLUMNS, Settled, forgetter, settled
from tests.profiles import examples
from tests.property.folds import Folded, fold_events, rising
from tests.property.histories import NAMES, History, histories, outcomes

pytestmark = pytest.mark.slow

some = examples(25)

A, B, C = NodeName("a"), NodeName("b"), NodeName("c")
X = Path(["x"])
LAST = 1_000.0
"""A time behind all others."""


# -- what is dropped ----------------------------------------------------------------------------------------------


def dropped_of(events: Iterable[Event], time: float, ticks: TickRanges | None = None, rows_max: int = 7) -> set[Link]:
    """What may be dropped of the events of a table that were overwritten up to a time."""
    events = list(events)
    later: dict[Writer, Tick] = {}
    for event in events:
        if event.time > time:
            later[event.writer] = min(event.tick, later.get(event.writer, event.tick))
    known = settled(ranges_of(event.link for event in events) if ticks is None else ticks, later)
    return forgotten([event for event in events if event.time <= time], known, rows_max)


def forgotten(events: Collection[Event], known: Settled, rows_max: int = 7) -> set[Link]:
    if not events:
        return set()
    table = rising(events)
    table = table.append_column(FILE, pa.array(["file"] * len(table))).select(ROW_COLUMNS)
    found = [row for batch in forgetter(known)(table.to_batches(rows_max)) for row in batch.to_pylist()]
    links = {(NodeName(row["node"]), Tick(row["tick"])) for row in found}
    assert len(links) == len(found)
    assert {row[FILE] for row in found} <= {"file"}
    return links


def timed(history: History, chance: random.Random) -> list[Event]:
    """The events with the time at which each was written, by clocks that are wrong by up to a third of the whole."""
    size = len(history.events)
    wrong = {event.node: chance.uniform(0, size / 3) for event in history.events}
    return [
        new_event(e.path, e.kind, e.value, e.chain, e.tock, number + wrong[e.node], e.truncated, fence=e.fence)
        for number, e in enumerate(history.events)
    ]


def tree(events: Collection[Event]) -> tuple[object, ...]:
    """All that `asof` shows of a cut but the number of its events."""
    found = fold_events(events) if events else Folded({}, 0, 0, 0, 0)
    return found.values, found.conflicts, found.deletions, found.digest


def without(events: Iterable[Event], links: Collection[Link]) -> list[Event]:
    return [event for event in events if event.link not in links]


# -- histories of honest nodes ------------------------------------------------------------------------------------


@some
@given(histories(), st.randoms(use_true_random=False), st.floats(0, 1), st.sampled_from([0.0, 0.1, 0.5]))
def test_every_later_cut_gives_the_same_tree_also_with_events_that_come_late(
    history: History, chance: random.Random, part: float, late: float
) -> None:
    """Some events are not in the table when it forgets. A cut has all that was there up to the time, and any others."""
    events = timed(history, chance)
    time = part * len(events)
    absent = chance.sample(NAMES, chance.choice((1, len(NAMES))))
    table = [event for event in events if event.node not in absent or chance.random() >= late]
    gone = dropped_of(table, time)
    old = {event.link for event in table if event.time <= time}
    assert gone <= old
    for share in (0.0, 0.3, 0.7, 1.0):
        cut = [event for event in events if event.link in old or chance.random() < share]
        assert tree(without(cut, gone)) == tree(cut)


@some
@given(histories(), st.randoms(use_true_random=False), st.lists(st.floats(0, 1), min_size=2, max_size=3))
def test_forgetting_again_gives_the_same_tree(history: History, chance: random.Random, parts: list[float]) -> None:
    """What was dropped is not read again; times need not rise, and more comes in between."""
    events = timed(history, chance)
    come = sorted(chance.random() for _ in parts)
    arrivals = {event.link: chance.random() for event in events}
    left, old = events, set[Link]()
    for part, now in zip(parts, come, strict=True):
        here = [event for event in left if arrivals[event.link] <= now]
        ticks = ranges_of(event.link for event in events if arrivals[event.link] <= now)
        old |= {event.link for event in here if event.time <= part * len(events)}
        left = without(left, dropped_of(here, part * len(events), ticks))
    for share in (0.0, 0.5, 1.0):
        cut = {event.link for event in events if event.link in old or chance.random() < share}
        kept = [event for event in left if event.link in cut]
        assert tree(kept) == tree([event for event in events if event.link in cut])


@some
@given(histories(), st.randoms(use_true_random=False))
def test_whole_table_is_left_with_winners_and_open_losers(history: History, chance: random.Random) -> None:
    events = timed(history, chance)
    kept = without(events, dropped_of(events, LAST))
    found = outcomes(events)
    assert {event.link for event in kept} == {
        event.link for result in found.values() for event in (result.winner, *result.losers)
    }


@some
@given(histories(), st.randoms(use_true_random=False), st.floats(0, 1))
def test_nothing_that_is_later_is_dropped(history: History, chance: random.Random, part: float) -> None:
    events = timed(history, chance)
    time = part * len(events)
    gone = dropped_of(events, time)
    assert not gone & {event.link for event in events if event.time > time}


# -- events that no honest node writes: chains of anything --------------------------------------------------------


def anything(seed: int, count: int, nodes: int) -> list[Event]:
    """Events of one path of many writers, with chains that name any ticks; in rising order."""
    chance = random.Random(seed)
    names = [NodeName(f"n{number:02}") for number in range(nodes)]
    ticks, found = dict.fromkeys(names, 0), []
    for number in range(count):
        if number % 8 == 0:  # for a while writers know nothing of each other, then much
            known = chance.choice((0, 0, 0.3, 2, 0.7 * nodes)) / nodes
        node = chance.choice(names)
        ticks[node] += chance.choice((1, 1, 2))
        others = [name for name in names if name != node and chance.random() < known]
        links = [(node, Tick(ticks[node])), *((name, Tick(chance.randint(1, ticks[name] + 2))) for name in others)]
        kind = chance.choice((Kind.SET, Kind.SET, Kind.SET, Kind.DELETE, Kind.EXPIRE))
        value = bytes([number % 128]) if kind is Kind.SET else b""
        fence = chance.choice((NO_FENCE, NO_FENCE, Fence(number // 40, 1, number // 9, "t")))
        found.append(new_event(X, kind, value, tuple(links), Tock(1 + number // 2), float(number), fence=fence))
    return sorted(found, key=order)


@examples(37)
@given(st.integers(0, 1 << 32), st.integers(1, 120), st.integers(1, 40), st.floats(0, 1), st.floats(0, 1))
def test_path_with_more_open_losers_than_are_kept_gives_the_same_tree(
    seed: int, count: int, nodes: int, part: float, whole: float
) -> None:
    """What is cut at 16 goes by the order of events, so what comes later is above here."""
    events = anything(seed, count, nodes)
    at = round(part * count)
    old, later = events[:at], events[at:]
    firsts = {event.writer: min(e.tick for e in later if e.writer == event.writer) for event in later}
    chance = random.Random(seed)
    ticks = {node: Ranges([(1, 400)]) for node in sorted({e.node for e in events}) if chance.random() < whole}
    gone = forgotten(old, settled(ticks, firsts))
    for cut in (old, [*old, *later], [*old, *later[: len(later) // 2]]):
        assert tree(without(cut, gone)) == tree(cut)


# -- one by one ---------------------------------------------------------------------------------------------------


def event(
    links: str, tock: int, kind: Kind = Kind.SET, *, time: float = 0.0, fence: Fence = NO_FENCE
) -> Event:
    """Such as `a2 b1`: the change 2 of a, which knew the change 1 of b."""
    chain = tuple((NodeName(link[0]), Tick(int(link[1:]))) for link in links.split())
    return new_event(X, kind, b"\x01" if kind is Kind.SET else b"", chain, Tock(tock), time, fence=fence)


OLDER, NEWER = Fence(0, 1, 1, "t"), Fence(0, 1, 2, "t")


@pytest.mark.parametrize(
    ("events", "kept"),
    [
        ([event("a1", 1), event("a2", 2), event("a3", 3)], "a3"),
        ([event("a1", 1), event("b1 a1", 2)], "b1"),
        ([event("a1", 1), event("b1", 2)], "a1 b1"),
        ([event("a1", 1), event("a2", 2, Kind.DELETE)], "a2"),
        ([event("a1", 1), event("b1", 2), event("c1 b1 a1", 3)], "c1"),
        ([event("a1", 1), event("a2", 2, Kind.EXPIRE), event("b1 a1", 2)], "b1"),
        ([event("a1", 1), event("b1 a1", 2), event("c1 b1", 3)], "c1"),
        ([event("a1", 9), event("b1", 2, fence=OLDER)], "a1 b1"),
        ([event("a1", 9, fence=OLDER), event("b1 a1", 2, fence=NEWER)], "b1"),
        ([event("a1", 1, fence=OLDER), event("b1 a1", 2, Kind.DELETE, fence=NEWER)], "b1"),
        ([event("a1", 1, fence=OLDER), event("a2", 2, Kind.DELETE, fence=Fence(1, 0, 0, ""))], "a2"),
        ([event("a1", 1, Kind.DELETE, fence=OLDER), event("b1 a1", 2, fence=NEWER)], "b1"),
    ],
    ids=[
        "own", "known", "conflict", "deletion", "decided", "expiry-lost", "chain-cut", "fenced-off", "token-passed-on",
        "token's-deletion", "lifted-deletion", "token's-deletion-replaced",
    ],
)  # fmt: skip
def test_what_is_kept_of_a_whole_table(events: list[Event], kept: str) -> None:
    gone = dropped_of(events, LAST)
    assert [f"{node}{tick}" for node, tick in (e.link for e in without(events, gone))] == kept.split()


def test_late_write_of_a_former_holder_stays_a_loser_also_when_a_deletion_is_above_it() -> None:
    """Its tock is the highest; what is above it is kept, though all that is left there is a deletion."""
    events = [event("a1", 1, fence=OLDER), event("b1 a1", 2, Kind.DELETE, fence=NEWER)]
    late = event("a2", 9, fence=OLDER)
    gone = dropped_of(events, LAST)
    assert gone == {(A, Tick(1))}
    assert tree(without([*events, late], gone)) == tree([*events, late])


def test_event_that_alone_names_a_writer_is_kept_while_changes_of_that_may_come() -> None:
    """a1 is not in the table: b1 names a2, c1 only b1. If b1 went, a1 would be open once it comes."""
    events = [event("a2", 2), event("b1 a2", 3), event("c1 b1", 4)]
    gone = dropped_of(events, LAST)
    assert gone == {(A, Tick(2))}
    late = event("a1", 1)
    assert tree(without([*events, late], gone)) == tree([*events, late])
    assert tree([late, events[2]]) != tree([late, *events])  # so it is b1 that closes it


def test_event_that_is_kept_for_what_may_come_is_not_open_for_want_of_what_closed_it() -> None:
    """b1 is kept as above; c1 alone names b1, and would not be kept otherwise."""
    events = [event("b1 a2", 3), event("c1 b1", 4), event("d1 c1", 5)]
    assert dropped_of(events, LAST) == set()
    assert tree(without(events, [(C, Tick(1))])) != tree(events)


def test_what_is_below_an_event_does_not_count_as_what_closed_it() -> None:
    """No honest node names a tick before it was: x1 names b9, and is below b2, which c1 closed."""
    events = [event("x1 b9", 1), event("b2 a5", 2), event("c1 b3", 3), event("d1 c1", 4)]
    ticks = {NodeName(name): Ranges([(1, 10)]) for name in "bcdx"}
    assert dropped_of(events, LAST, ticks) == set()
    assert tree(without(events, [(C, Tick(1))])) != tree(events)


def test_event_that_alone_names_a_writer_is_kept_while_that_has_later_changes_by_its_clock() -> None:
    events = [event("a1", 1, time=9.0), event("b1 a1", 2), event("c1 b1", 3)]
    assert dropped_of(events, 5.0) == set()
    assert dropped_of(events, 9.0) == {(A, Tick(1)), (B, Tick(1))}


def test_ticks_of_a_writer_are_settled_up_to_the_first_that_is_not_there_or_later() -> None:
    life = 1 << 32
    ticks = ranges_of([(A, Tick(t)) for t in (1, 2, 4, life + 1)] + [(B, Tick(2)), (C, Tick(1)), (C, Tick(2))])
    assert settled(ticks, {(C, 0): Tick(2)}) == {(A, 0): 2, (A, 1): life + 1, (C, 0): 1}
