"""The ledger: single facts that its properties do not name."""

from __future__ import annotations

from distkv.model.event import NodeName, Tick
from distkv.model.ledger import Ledger
from distkv.model.ranges import Ranges

A, B = NodeName("a"), NodeName("b")


def test_fresh_ledger_is_whole_and_knows_nobody() -> None:
    ledger = Ledger()
    assert (ledger.is_whole, ledger.ticks(), ledger.last(A), ledger.book((A, 0))) == (True, {}, 0, None)


def test_writer_that_was_only_heard_of_is_missing_from_its_first_tick() -> None:
    """All up to the last tick that is not held is missing (docs/protocol, LEDGER-1, LEDGER-2)."""
    ledger = Ledger()
    ledger.hear((A, Tick((5 << 32) + 3)))
    assert ledger.missing() == {A: Ranges([((5 << 32) + 1, (5 << 32) + 4)])}


def test_name_that_has_written_nothing_in_its_life_lacks_nothing() -> None:
    ledger = Ledger()
    assert not ledger.hear((A, Tick(5 << 32)))
    assert ledger.is_whole


def test_filled_gap_is_missing_no_more() -> None:
    ledger = Ledger()
    ledger.hold((A, Tick(3)))
    ledger.hold_range(A, 1, 3)
    assert (ledger.is_whole, ledger.missing()) == (True, {})


def test_ledger_that_was_loaded_knows_what_it_lacks_and_of_whom() -> None:
    before, after = Ledger(), Ledger()
    before.hold((A, Tick(2)))
    before.hold((B, Tick(1)))
    after.load(before.writers())
    assert (after.is_whole, after.missing()) == (False, {A: Ranges([(1, 2)])})
    assert after.ticks_unheld((A, 9)) == {A: [Tick(2)]}
    after.hold((A, Tick(1)))
    assert after.is_whole


def test_lost_tick_that_arrives_is_lost_no_more() -> None:
    ledger = Ledger()
    ledger.hear((A, Tick(2)))
    assert ledger.mark_lost({A: Ranges([(1, 9)]), B: Ranges([(1, 2)])}) == {A: Ranges([(1, 3)])}
    ledger.hold((A, Tick(1)))
    assert ledger.lost() == {A: Ranges([(2, 3)])}


def test_lost_tick_is_missing_still() -> None:
    ledger = Ledger()
    ledger.hear((A, Tick(1)))
    ledger.mark_lost(ledger.missing())
    assert (ledger.is_whole, ledger.missing(), ledger.missing(but_lost=True)) == (False, {A: Ranges([(1, 2)])}, {})


def test_marking_lost_again_marks_nothing() -> None:
    ledger = Ledger()
    ledger.hear((A, Tick(1)))
    ledger.mark_lost(ledger.missing())
    assert ledger.mark_lost(ledger.missing()) == {}


def test_ticks_that_were_given_up_are_named_with_what_is_held_between_them() -> None:
    ledger = Ledger()
    for tick in range(2, 100, 2):
        ledger.hold((A, Tick(tick)))
    marked = ledger.mark_lost({A: Ranges([(1, 50), (60, 99)])})
    assert ledger.spans(marked) == {A: Ranges([(1, 51), (52, 53), (54, 55), (56, 57), (58, 59), (60, 98)])}


def test_what_is_read_is_a_copy() -> None:
    ledger = Ledger()
    ledger.hold((A, Tick(1)))
    ledger.held()[A].add(7)
    assert ledger.held() == {A: Ranges([(1, 2)])}


def test_writers_come_by_name_and_life() -> None:
    ledger = Ledger()
    for node, tick in ((B, 1), (A, (2 << 32) + 1), (A, 1)):
        ledger.hold((node, Tick(tick)))
    assert [writer for writer, _ in ledger.writers()] == [(A, 0), (A, 2), (B, 0)]


def test_hash_covers_what_is_held_and_not_what_is_heard() -> None:
    ledger = Ledger()
    ledger.hold((A, Tick(1)))
    before = ledger.hash()
    ledger.hear((A, Tick(4)))
    assert ledger.hash() == before
    ledger.hold((A, Tick(4)))
    assert ledger.hash() != before


def test_ranges_are_equal_to_ranges_only() -> None:
    assert Ranges([(1, 2)]) != [(1, 2)]
    assert repr(Ranges([(1, 2), (4, 9)])) == "Ranges([(1, 2), (4, 9)])"
