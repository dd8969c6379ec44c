"""What is printed of links: medians of rounds, ratios within a round, and whether an aim is met.

Knows: what was measured, made up.  Starts nothing.
"""

from __future__ import annotations

import attrs
import pytest
from bench.links import ALONE, GOSSIP, LINKED, NATS, ONE, SERF, TOLD, TWO, TWO_GOSSIP, Burst, CatchUp, Cost, Paced
from bench.links_tables import at_least, at_most, bursts_table, catch_ups_table, paced_lines, told_table
from bench.load import Load
from bench.rounds import Sample

LOAD = Load(100, 10.0, 1000, 2000, 120, 0, 0, 120, 0.1, "")
LONELY = Cost(50.0, 0.0, 1.0)
SHARED = Cost(60.0, 30.0, 1.0)
BURST = Burst(
    0, ALONE, 10_000, accepted_s=1.0, arrived_s=1.0, steady=LONELY, full=Cost(40.0, 0.0, 0.5), linked=0, pulled=0,
    queue_longest=0, queue_looks=10, lag_p50_ms=1.0, lag_p99_ms=5.0, lag_count=40,
)  # fmt: skip
CAUGHT = CatchUp(
    0, TWO, 50_000, start_s=1.0, ready_s=3.0, whole_s=6.0, linked=50_000, linked_again=3, pulled=7, pulled_again=1
)


def told(way: str, *p50_us: int, p99_us: int = 20_000) -> list[Sample]:
    return [
        Sample(number, TOLD, way, attrs.evolve(LOAD, p50_us=us, p99_us=p99_us), 0.0) for number, us in enumerate(p50_us)
    ]


def bursts(**changes: object) -> list[Burst]:
    """One round of each network; the changes are to the one with two followers."""
    two = attrs.evolve(BURST, network=TWO, arrived_s=1.25, steady=SHARED, full=Cost(30.0, 20.0, 0.5), linked=20_000)
    return [
        BURST,
        attrs.evolve(BURST, network=ONE, steady=SHARED),
        attrs.evolve(two, **changes),
        attrs.evolve(two, network=TWO_GOSSIP, arrived_s=5.0, pulled=20_000, linked=0),
    ]


def line(text: str, begin: str) -> str:
    """The line that begins so, with single spaces."""
    return next(" ".join(each.split()) for each in text.splitlines() if each.startswith(begin))


def test_ways_stand_beside_ours_with_the_ratio_of_each_round() -> None:
    samples = [*told(LINKED, 2000, 3000, 9000), *told(NATS, 1000, 1000, 1000), *told(SERF, 100_000, 90_000, 90_000)]
    text = told_table([*samples, *told(GOSSIP, 200_000, 150_000, 180_000)])
    assert line(text, "distkv") == "distkv 300 3.00 20.00"
    assert line(text, "nats") == "nats 300 1.00 20.00 3.00 x 2.00 - 9.00"
    assert line(text, GOSSIP) == f"{GOSSIP} 300 180.00 20.00 0.02 x 0.01 - 0.05"


@pytest.mark.parametrize(("p50_us", "p99_us", "verdicts"), [(5000, 20_000, "met met"), (5001, 20_001, "missed missed")])
def test_times_are_held_against_their_aims(p50_us: int, p99_us: int, verdicts: str) -> None:
    samples = told(LINKED, p50_us, p99_us=p99_us)
    text = told_table([*samples, *(one for way in (GOSSIP, NATS, SERF) for one in told(way, 1000))])
    assert " ".join(each.split()[-1] for each in text.splitlines()[-2:]) == verdicts


def test_networks_stand_in_the_order_of_their_size() -> None:
    text = bursts_table(bursts()[::-1])
    assert [each.split("  ")[0] for each in text.splitlines()[2:6]] == [ALONE, ONE, TWO, TWO_GOSSIP]
    assert line(text, f"{TWO}  ") == "two followers 10,000 8,000 1 5 20,000 0 0"


def test_costs_are_by_those_of_a_writer_alone_in_the_same_round() -> None:
    again = [
        attrs.evolve(burst, round=1, steady=attrs.evolve(burst.steady, writer_us=2 * burst.steady.writer_us))
        for burst in bursts()
    ]
    _, steady, full, _ = bursts_table([*bursts(), *again]).split("\n\n")
    assert line(steady, TWO) == "two followers 90.0 30.0 1.0 1.20 x 1.20 - 1.20 0.45 x 0.30 - 0.60"
    assert line(steady, ALONE) == "alone 75.0 0.0 1.0"
    assert line(full, TWO) == "two followers 30.0 20.0 0.5 0.75 x 0.75 - 0.75 0.50 x 0.50 - 0.50"


def test_burst_that_is_as_it_should_be_meets_every_aim() -> None:
    verdicts = [each for each in bursts_table(bursts()).splitlines() if "aim" in each]
    assert len(verdicts) == 12
    assert all(each.endswith("met") for each in verdicts)


@pytest.mark.parametrize(
    ("change", "begin"),
    [
        ({"arrived_s": 1.26}, "two followers, with all/s"),
        ({"lag_p99_ms": 1000.1}, "two followers, lag p99 ms"),
        ({"pulled": 1}, "two followers, pulled"),
        ({"queue_longest": 64}, "two followers, event_queue"),
        ({"steady": attrs.evolve(SHARED, writer_us=60.1)}, "two followers, writer at 1,000/s"),
        ({"steady": attrs.evolve(SHARED, follower_us=30.1)}, "two followers, follower at 1,000/s"),
        ({"full": Cost(48.1, 20.0, 0.5)}, "two followers, writer at full speed"),
        ({"full": Cost(48.0, 24.1, 0.5)}, "two followers, follower at full speed"),
    ],
)
def test_burst_misses_an_aim_just_beyond_it(change: dict[str, object], begin: str) -> None:
    text = bursts_table(bursts(**change))
    (missed,) = [each for each in text.splitlines() if each.endswith("missed")]
    assert missed.startswith(begin)


@pytest.mark.parametrize(("whole_s", "verdict"), [(6.0, "met"), (6.1, "missed")])
def test_start_does_not_count_for_a_node_that_was_away(whole_s: float, verdict: str) -> None:
    gossip = attrs.evolve(CAUGHT, network=TWO_GOSSIP, whole_s=30.0, linked=0, linked_again=0, pulled=50_007)
    text = catch_ups_table([gossip, attrs.evolve(CAUGHT, whole_s=whole_s)])
    seconds = f"{whole_s - 1:.2f}"
    assert line(text, f"{TWO}  ") == f"two followers 50,000 1.00 3.00 {whole_s:.2f} {seconds} 50,000 3 7 1"
    assert line(text, TWO_GOSSIP) == f"{TWO_GOSSIP} 50,000 1.00 3.00 30.00 29.00 0 0 50,007 1"
    assert text.endswith(verdict)


@pytest.mark.parametrize(("count", "verdict"), [(10_000, "met"), (9990, "missed")])
def test_values_of_one_path_are_counted_by_the_second(count: int, verdict: str) -> None:
    told, written = paced_lines(Paced(10.0, attrs.evolve(LOAD, checked=count))).splitlines()
    assert told == f"each of {count:,} values in order on b and on c, p50 1.00 ms, p99 2.00 ms"
    assert written == f"one path, written/s: {count / 10:,g}, aim >= 1,000: {verdict}"


def test_value_that_equals_its_aim_meets_it() -> None:
    assert at_most("x", 5, 5) == "x: 5, aim <= 5: met"
    assert at_least("x", 8000, 8000) == "x: 8,000, aim >= 8,000: met"
