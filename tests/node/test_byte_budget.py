"""How many bytes a node may say to all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from distkv.transport.byte_budget import BURST_S, PACKET_BYTES, ByteBudget

RATE = 512 << 10


@given(
    waits=st.lists(st.floats(0, 5), max_size=60), copies=st.integers(1, 16), size=st.integers(1, PACKET_BYTES)
)
def test_no_more_bytes_leave_than_burst_and_rate_allow(waits: list[float], copies: int, size: int) -> None:
    budget = ByteBudget(RATE)
    budget.copies = copies
    now, sent = 100.0, 0
    for wait in waits:
        now += wait
        places = budget.available(now)
        budget.take(now, [size] * places)
        sent += places * size * copies
    assert sent <= RATE * (BURST_S + now - 100.0) + 1


def test_a_budget_that_is_smaller_than_all_copies_of_one_packet_lets_one_leave_in_the_end() -> None:
    budget = ByteBudget(16 << 10)
    budget.copies = 16
    now = 0.0
    for _ in range(3):
        now += budget.wait_s(now)
        assert budget.available(now) >= 1
        budget.take(now, [PACKET_BYTES])
    assert 16 * 2 * PACKET_BYTES / (16 << 10) >= now > 1


def test_who_waits_as_long_as_is_said_may_send() -> None:
    budget = ByteBudget(RATE)
    budget.take(0.0, [PACKET_BYTES] * budget.available(0.0))
    assert budget.available(0.0) == 0
    assert budget.available(budget.wait_s(0.0)) == 1
