"""How long a suspect has.

Knows: times and confirmations.  Does not know who says what.
"""

from __future__ import annotations

import pytest

from distkv.swim.suspicion import Suspicions, suspected_ms


@pytest.mark.parametrize(
    ("size", "confirmations", "expected"),
    [(2, 0, 3_000), (3, 0, 18_000), (3, 1, 3_000), (12, 3, 3_237), (12, 0, 19_425), (100, 3, 6_000), (1000, 3, 9_000)],
)
def test_time_follows_from_the_size_and_the_confirmations(size: int, confirmations: int, expected: int) -> None:
    """docs/protocol, SWIM-28."""
    assert suspected_ms(500, size, confirmations) == expected


def test_suspect_has_its_time_from_the_first_word_on() -> None:
    """docs/protocol, SWIM-28."""
    some = Suspicions(500)
    some.begin("lamp", 7, "desk", 12, 1_000)
    for number, by in enumerate(("sofa", "vase", "rug"), 1):
        assert some.confirm("lamp", by, 12)
        some.check()
        until_ms = 1_000 + suspected_ms(500, 12, number)
        assert some.ripe(until_ms - 10) == []
    assert some.ripe(1_000 + suspected_ms(500, 12, 3) + 10) == [("lamp", 7)]
    assert not some.has("lamp", 7)


def test_confirmation_counts_once() -> None:
    some = Suspicions(500)
    some.begin("lamp", 7, "desk", 12, 0)
    assert not some.confirm("lamp", "desk", 12)
    assert some.confirm("lamp", "sofa", 12)
    assert not some.confirm("lamp", "sofa", 12)


def test_more_confirmations_than_needed_change_nothing() -> None:
    some = Suspicions(500)
    some.begin("lamp", 7, "desk", 4, 0)
    assert [some.confirm("lamp", by, 4) for by in ("sofa", "vase", "rug")] == [True, True, False]


def test_pause_lengthens_all() -> None:
    """docs/protocol, SWIM-33."""
    some = Suspicions(500)
    some.begin("lamp", 7, "desk", 2, 0)
    some.lengthen(10_000)
    some.check()
    assert some.ripe(12_000) == []
    assert some.ripe(13_000) == [("lamp", 7)]


def test_suspicion_that_ended_does_not_ripen() -> None:
    some = Suspicions(500)
    some.begin("lamp", 7, "desk", 2, 0)
    some.end("lamp")
    assert some.ripe(1_000_000) == []


def test_suspicion_of_a_newer_generation_takes_the_place() -> None:
    some = Suspicions(500)
    some.begin("lamp", 7, "desk", 2, 0)
    some.begin("lamp", 8, "desk", 2, 2_000)
    assert some.ripe(4_000) == []
    assert some.ripe(5_000) == [("lamp", 8)]
