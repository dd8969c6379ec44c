"""What is printed of nodes without agents: medians of rounds, ratios within a round, and whether an aim is met.

Knows: what was measured, made up.  Starts nothing.
"""

from __future__ import annotations

import attrs
import pytest
from bench.load import Load
from bench.swim import LINKED_CELLS, SERF, SWIM, Idle, Linked, Twelve
from bench.swim_tables import idle_table, linked_table, twelve_lines

LOAD = Load(100, 10.0, 1000, 2000, 120, 0, 0, 120, 0.1, "")
FOUND = Twelve(
    20.0, (300.0, 4096.0, 400.0), 18_000, 60.0, told=198_000, told_soon=196_020, gossiped=198_000, pulled=0,
    p50_ms=5.0, p99_ms=400.0, longest_ms=3000.0, writer_bytes_per_s=102_400.0, busy=0.07,
)  # fmt: skip


def linked(way: str, *p50_us: int, gossiped: int = 0) -> list[Linked]:
    return [
        Linked(number, way, {cell: attrs.evolve(LOAD, p50_us=us) for cell in LINKED_CELLS}, gossiped)
        for number, us in enumerate(p50_us)
    ]


def idle(way: str, *rounds: tuple[float, ...]) -> list[Idle]:
    return [Idle(number, way, delays) for number, delays in enumerate(rounds)]


def verdicts(text: str) -> list[str]:
    """The last word of each line that has an aim."""
    return [each.split()[-1] for each in text.splitlines() if "aim" in each]


def line(text: str, begin: str) -> str:
    """The line that begins so, with single spaces."""
    return next(found for each in text.splitlines() if (found := " ".join(each.split())).startswith(begin))


def test_linked_nodes_stand_beside_those_on_agents_with_the_ratio_of_each_round() -> None:
    text = linked_table([*linked(SWIM, 2000, 3000, 9000), *linked(SERF, 2000, 6000, 3000)])
    assert line(text, "told swim") == "told swim 300 3.00 2.00"
    assert line(text, "told serf") == "told serf 300 3.00 2.00 1.00 x 0.50 - 3.00"


@pytest.mark.parametrize(("p50_us", "verdict"), [(1100, "met"), (1101, "missed")])
def test_linked_nodes_take_a_tenth_longer_at_the_most(p50_us: int, verdict: str) -> None:
    text = linked_table([*linked(SWIM, p50_us), *linked(SERF, 1000)])
    assert verdicts(text) == [*[verdict] * len(LINKED_CELLS), "met"]


def test_event_that_is_gossiped_while_all_follow_misses_the_aim() -> None:
    text = linked_table([*linked(SWIM, 1000, gossiped=1), *linked(SERF, 1000, gossiped=7)])
    assert line(text, "swim, events gossiped") == "swim, events gossiped while all follow: 1, aim <= 0: missed"


def test_p99_of_nodes_without_links_is_that_of_all_rounds() -> None:
    text = idle_table([*idle(SWIM, (1.0, 2.0, 3.0), (5.0, 6.0, 240.0)), *idle(SERF, (20.0,), (60.0,))])
    assert line(text, SWIM) == "swim 6 4.00 240.00 240.00"
    assert line(text, SERF) == "serf 2 40.00 60.00 60.00 0.10 x 0.10 - 0.10"


@pytest.mark.parametrize(
    ("ours", "theirs", "found"),
    [
        ((20.0, 20.0, 250.0), 100.0, ["met", "met", "met"]),
        ((20.1, 20.1, 250.0), 200.0, ["missed", "met", "met"]),
        ((20.0, 20.0, 250.1), 200.0, ["met", "missed", "met"]),
        ((20.0, 20.0, 250.0), 99.0, ["met", "met", "missed"]),
    ],
)
def test_times_without_links_are_held_against_their_aims(
    ours: tuple[float, ...], theirs: float, found: list[str]
) -> None:
    assert verdicts(idle_table([*idle(SWIM, ours), *idle(SERF, (theirs,))])) == found


def test_twelve_that_are_as_they_should_be_meet_every_aim() -> None:
    assert verdicts(twelve_lines(FOUND)) == ["met", "met", "met"]


@pytest.mark.parametrize(
    ("change", "begin"),
    [
        ({"written_s": 61.0}, "sets/s"),
        ({"told_soon": 196_019}, "% by gossip"),
        ({"gossiped": 197_999, "pulled": 1}, "% by gossip"),
        ({"rest_bytes_per_s": (300.0, 4097.0)}, "at rest, bytes/s"),
    ],
)
def test_twelve_miss_an_aim_just_beyond_it(change: dict[str, object], begin: str) -> None:
    (missed,) = [each for each in twelve_lines(attrs.evolve(FOUND, **change)).splitlines() if each.endswith("missed")]
    assert missed.startswith(begin)


def test_share_by_gossip_takes_it_that_those_that_came_late_were_not_pulled() -> None:
    found = attrs.evolve(FOUND, told=100, told_soon=90, gossiped=80, pulled=20)
    assert found.soon_by_gossip == pytest.approx(0.7)
