"""How many bytes may leave, and when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from distkv.swim.allowance import Allowance


def test_one_second_is_there_at_first() -> None:
    assert Allowance(1000).left_bytes(0) == 1000


def test_what_left_is_made_up_for_with_time() -> None:
    allowance = Allowance(1000)
    allowance.spend(0, 1000)
    assert [allowance.left_bytes(now_ms) for now_ms in (0, 1, 500, 1000, 5000)] == [0, 1, 500, 1000, 1000]


def test_debt_is_paid_before_anything_is_left() -> None:
    allowance = Allowance(1000)
    allowance.spend(0, 1500)
    assert (allowance.left_bytes(0), allowance.left_bytes(500), allowance.wait_ms(0, 100)) == (-500, 0, 600)


def test_debt_has_a_bound() -> None:
    allowance = Allowance(1000)
    allowance.spend(0, 1_000_000)
    assert allowance.left_bytes(0) == -1000


def test_no_more_is_waited_for_than_there_can_be() -> None:
    assert Allowance(1000).wait_ms(0, 5000) == 0


def test_small_spendings_make_up_for_nothing_twice() -> None:
    allowance = Allowance(1000)
    for now_ms in range(100):
        allowance.spend(now_ms, 11)
    assert allowance.left_bytes(99) <= 1000 - 100 * 11 + 99


@given(st.integers(1, 10_000), st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 5000)), max_size=50))
def test_after_the_wait_as_much_is_left_as_told(rate: int, steps: list[tuple[int, int]]) -> None:
    allowance, now_ms = Allowance(rate), 0
    for passed_ms, size in steps:
        now_ms += passed_ms
        allowance.spend(now_ms, size)
        allowance.check()
        wanted = min(size, rate)
        assert allowance.left_bytes(now_ms + allowance.wait_ms(now_ms, wanted)) >= wanted
