"""What a soak runs next, given what was run."""

from __future__ import annotations

import attrs
import pytest
from testing.kinds import DAY, KINDS, SPAN, Draws, Kind, Slice
from testing.record import Row
from testing.steps import step
from testing.turns import LOOKED_BACK, TURN_S, Turn, following, next_turn

from tests.profiles import SPAN as DRAWN_MAX
from tests.unit.testing.rows import row

HERE = "2 x Fast"
SIM = Kind("sim", "seeds", lambda _: step("sim"), each_s=3.0, least=10, most=1000, draws=Draws.EACH, begin=60)
TESTS = Kind("tests", "tests", lambda _: step("tests"), each_s=100.0)
ROUND = attrs.evolve(TESTS, name="round", each_s=60.0, most=10, list_items=lambda: ["a", "b", "c", "d"])


def turn(*kinds: Kind, rows: list[Row] | None = None, left_s: float = 7200, is_first: bool = False) -> Turn | None:
    return next_turn(kinds, rows or [], left_s, HERE, 20_000, is_first=is_first)


def sliced(*kinds: Kind, rows: list[Row] | None = None, left_s: float = 7200, is_first: bool = False) -> Slice | None:
    found = turn(*kinds, rows=rows, left_s=left_s, is_first=is_first)
    return found and found.slice


# -- whose turn


def test_kind_that_never_ran_comes_first() -> None:
    assert sliced(SIM, TESTS, rows=[row()]) == Slice("tests", 20_000 * DAY, 1)


def test_kind_that_waited_longest_comes_first() -> None:
    late = row(kind="tests", began="2026-01-02T00:00:00Z")
    found = sliced(TESTS, SIM, rows=[late, row()])
    assert found is not None
    assert found.kind == "sim"


def test_kinds_that_never_ran_come_in_their_order() -> None:
    found = [sliced(TESTS, SIM), sliced(SIM, TESTS)]
    assert [one.kind for one in found if one] == ["tests", "sim"]


# -- which seeds


def test_first_slice_of_all_begins_where_none_was_drawn() -> None:
    assert sliced(SIM) == Slice("sim", 60, 60)


@pytest.mark.parametrize("is_finished", [True, False])
def test_seeds_go_on_after_the_last_ones(is_finished: bool) -> None:
    rows = [row(after=900), row(first=900, after=1000, is_finished=is_finished), row(after=500)]
    found = sliced(SIM, rows=rows)
    assert found is not None
    assert found.first == 1000


def test_number_of_a_day_is_used_once() -> None:
    first = sliced(TESTS)
    assert first is not None
    second = sliced(TESTS, rows=[row(kind="tests", first=first.first, after=TESTS.after(first))])
    assert second is not None
    assert second.first == first.first + SPAN


def test_number_of_an_earlier_day_is_left_behind() -> None:
    assert sliced(TESTS, rows=[row(kind="tests", after=19_999 * DAY + SPAN)]) == Slice("tests", 20_000 * DAY, 1)


def test_tests_draw_no_more_from_a_number_than_lies_between_two() -> None:
    assert DRAWN_MAX <= SPAN


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_slice_goes_on_behind_itself(kind: Kind) -> None:
    one = Slice(kind.name, 1000, kind.least)
    assert kind.after(one) > 1000
    assert kind.after(one) >= 1000 + one.size or kind.draws is Draws.ONE


# -- how much


def test_slice_has_the_size_of_a_turn() -> None:
    found = turn(SIM)
    assert found is not None
    assert found.expected_s == TURN_S
    assert found.within_s > 2 * TURN_S


def test_what_a_unit_takes_is_learned_from_the_last_slices_on_this_machine() -> None:
    old = row(wall_s=9999.0)
    elsewhere, ended = row(machine="64 x Other", wall_s=1.0), row(is_finished=False, wall_s=1.0)
    rows = [old, *[row(wall_s=100.0)] * LOOKED_BACK, elsewhere, ended]
    found = sliced(SIM, rows=rows)
    assert found is not None
    assert found.size == TURN_S / 2


def test_slice_is_made_smaller_when_little_time_is_left() -> None:
    found = sliced(SIM, left_s=45)
    assert found is not None
    assert found.size == 15


def test_slice_that_would_end_too_late_is_not_begun() -> None:
    assert turn(SIM, TESTS, left_s=20) is None


def test_kind_that_still_fits_takes_the_turn_of_one_that_does_not() -> None:
    found = sliced(TESTS, SIM, left_s=90)
    assert found is not None
    assert found.kind == "sim"


def test_first_slice_of_a_soak_is_begun_in_any_case() -> None:
    assert sliced(SIM, TESTS, left_s=1, is_first=True) == Slice("sim", 60, 10)


def test_what_was_never_run_on_this_machine_has_more_time() -> None:
    unknown, known = turn(SIM, rows=[row(machine="64 x Other")]), turn(SIM, rows=[row()])
    assert unknown is not None
    assert known is not None
    assert unknown.within_s > known.within_s + 3000


# -- lists


def items(rows: list[Row] | None = None, left_s: float = 7200, most: int = 10) -> tuple[str, ...]:
    found = sliced(attrs.evolve(ROUND, most=most), rows=rows, left_s=left_s)
    assert found is not None
    assert found.size == len(found.items)
    return found.items


def had(**seconds: float) -> Row:
    return row(kind="round", items=seconds, size=len(seconds))


def test_list_is_gone_round() -> None:
    done: list[str] = []
    for _ in range(4):
        done += following(["a", "b", "c"], done)[:2]
    assert done == ["a", "b", "c", "a", "b", "c", "a", "b"]


def test_item_that_is_new_comes_first_and_one_that_is_gone_is_forgotten() -> None:
    assert following(["a", "b", "new"], ["gone", "b", "a"]) == ["new", "b", "a"]


def test_slice_has_so_many_items_as_a_turn_has_room_for() -> None:
    assert items() == ("a", "b", "c")
    assert items(most=2) == ("a", "b")


def test_slice_of_a_list_goes_on_behind_the_last_one() -> None:
    assert items([had(a=60, b=60)]) == ("c", "d", "a")


def test_what_an_item_takes_is_learned() -> None:
    assert items([had(a=10, b=10, c=10, d=10)]) == ("a", "b", "c", "d")
    assert items([had(b=170), had(c=999)]) == ("a", "d")


def test_item_that_takes_longer_than_a_turn_is_a_slice_of_its_own() -> None:
    assert items([had(b=10, c=10, d=10), had(a=999), had(b=10, c=10, d=10)]) == ("a",)


def test_item_that_there_is_no_time_for_lets_others_pass() -> None:
    assert items([had(a=999), had(b=10, c=10, d=10)], left_s=500) == ("b", "c", "d")


def test_item_of_which_nothing_is_known_lets_none_pass() -> None:
    assert turn(ROUND, rows=[had(a=10)], left_s=50) is None
    assert items([had(a=10)], left_s=150) == ("b", "c")


def test_kind_without_an_item_that_there_is_time_for_does_not_fit() -> None:
    assert turn(ROUND, left_s=50) is None
    assert sliced(ROUND, left_s=50, is_first=True) == Slice("round", 20_000 * DAY, 1, ("a",))
