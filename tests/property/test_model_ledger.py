"""The ledger against plain sets of (node, tick): whatever is heard, held, lost, in any order."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.model.event import Link, NodeName, Tick
from distkv.model.ledger import Ledger
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges, lives, up_to
from tests.profiles import examples

pytestmark = pytest.mark.slow

few = examples(30)

LIFE = 1 << 32
nodes = st.sampled_from([NodeName("a"), NodeName("b")])
counts = st.integers(1, 12)
bases = st.sampled_from([0, 3 * LIFE])
links = st.builds(lambda node, base, count: (node, Tick(base + count)), nodes, bases, counts)
doings = st.lists(st.tuples(st.sampled_from(["hear", "hold", "hold", "range", "lost"]), links, counts), max_size=25)


@attrs.define
class Plain:
    """The same by sets."""

    heard: set[Link] = attrs.field(factory=set)
    held: set[Link] = attrs.field(factory=set)
    lost: set[Link] = attrs.field(factory=set)

    def last(self) -> dict[tuple[NodeName, int], int]:
        found: dict[tuple[NodeName, int], int] = {}
        for node, tick in self.heard | self.held:
            found[node, tick // LIFE] = max(tick, found.get((node, tick // LIFE), 0))
        return found

    def missing(self) -> set[Link]:
        spans = [(node, range(life * LIFE + 1, last + 1)) for (node, life), last in self.last().items()]
        return {(node, Tick(tick)) for node, ticks in spans for tick in ticks} - self.held


def _flat(ranges: TickRanges) -> set[Link]:
    assert all(ranges.values()), "an empty set of ranges is left out"
    return {(node, Tick(tick)) for node, some in ranges.items() for tick in some}


def _ran(todo: list[tuple[str, Link, int]]) -> tuple[Ledger, Plain]:
    ledger, plain = Ledger(), Plain()
    for what, link, count in todo:
        node, tick = link
        stretch = {(node, Tick(t)) for t in range(tick, tick + count)}
        if what == "hear":
            last = plain.last().get((node, tick // LIFE), 0)
            assert ledger.hear(link) == (tick > last)
            plain.heard.add(link)
        elif what == "hold":
            assert ledger.hold(link) == (link not in plain.held)
            plain.held.add(link)
        elif what == "range":
            assert ledger.hold_range(node, tick, tick + count) == bool(stretch - plain.held)
            plain.held |= stretch
        else:
            ranges = ledger.mark_lost({node: Ranges([(tick, tick + count)])})
            marked = _flat(ranges)
            assert marked == (stretch & plain.missing()) - plain.lost
            assert (_flat(ledger.spans(ranges)) & plain.missing()) - plain.lost == marked, "its record says the same"
            plain.lost |= marked
        plain.lost -= plain.held
    return ledger, plain


@few
@given(doings)
def test_ledger_agrees_with_plain_sets(todo: list[tuple[str, Link, int]]) -> None:
    """What is held, missing and lost is what plain sets say (docs/protocol, LEDGER-1, LEDGER-2)."""
    ledger, plain = _ran(todo)
    assert _flat(ledger.held()) == plain.held
    assert _flat(ledger.missing()) == plain.missing()
    assert _flat(ledger.missing(but_lost=True)) == plain.missing() - plain.lost
    assert _flat(ledger.lost()) == plain.lost
    assert ledger.is_whole == (not plain.missing())


@few
@given(doings)
def test_last_ticks_agree_with_plain_sets(todo: list[tuple[str, Link, int]]) -> None:
    ledger, plain = _ran(todo)
    expected: dict[NodeName, list[int]] = {}
    for (node, _), last in sorted(plain.last().items()):
        expected.setdefault(node, []).append(last)
    assert ledger.ticks() == expected
    assert all(ledger.last(node) == max(expected.get(node, [0])) for node in (NodeName("a"), NodeName("b")))


@few
@given(doings, links)
def test_has_agrees_with_plain_sets(todo: list[tuple[str, Link, int]], link: Link) -> None:
    ledger, plain = _ran(todo)
    assert ledger.has(link) == (link in plain.held)


@few
@given(doings, st.dictionaries(nodes, bases.flatmap(lambda base: counts.map(lambda count: base + count)) | st.just(0)))
def test_held_beside_what_is_up_to_a_tick_is_what_is_above_it(
    todo: list[tuple[str, Link, int]], ticks: dict[NodeName, int]
) -> None:
    ledger, plain = _ran(todo)
    assert _flat(ledger.held_beside(up_to(ticks))) == {(n, t) for n, t in plain.held if n in ticks and t > ticks[n]}


@few
@given(doings, doings, st.booleans())
def test_held_beside_agrees_with_plain_sets(
    todo: list[tuple[str, Link, int]], known: list[tuple[str, Link, int]], others: bool
) -> None:
    (ledger, plain), (beside, plain_beside) = _ran(todo), _ran(known)
    names = {node for node, _ in plain_beside.held}
    assert _flat(ledger.held_beside(beside.held(), others=others)) == {
        (node, tick)
        for node, tick in plain.held
        if (others or node in names) and (node, tick) not in plain_beside.held
    }


@few
@given(doings, doings)
def test_hashes_are_equal_exactly_when_the_same_ticks_are_held(
    one: list[tuple[str, Link, int]], two: list[tuple[str, Link, int]]
) -> None:
    """Nodes compare the hash instead of the ranges (docs/protocol, LEDGER-4)."""
    (a, x), (b, y) = _ran(one), _ran(two)
    assert (a.hash() == b.hash()) == (x.held == y.held)
    for link in x.held | y.held:
        a.hold(link)
        b.hold(link)
    assert a.hash() == b.hash()


@few
@given(st.lists(st.tuples(st.integers(1, 4 * LIFE), st.integers(1, 2 * LIFE)), max_size=4))
def test_lives_cut_ranges_where_a_life_ends(given: list[tuple[int, int]]) -> None:
    """No range that is sent crosses into the next life (docs/protocol, RANGE-1)."""
    ranges = Ranges((begin, begin + size) for begin, size in given)
    pieces = list(lives(ranges))
    assert Ranges(pieces) == ranges
    assert all(begin < end and begin >> 32 == (end - 1) >> 32 for begin, end in pieces)
    assert len(pieces) <= ranges.count() + sum(size // LIFE + 1 for _, size in given)
