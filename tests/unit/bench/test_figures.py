"""Medians, ratios and tables of the benchmark, from samples that are made up.

Knows: what a sample is.  Starts nothing.
"""

from __future__ import annotations

import attrs
import pytest
from bench.fanout import FAN_OUTS
from bench.figures import AIMS, AIMS_MAX, Ratio, quantile, ratio, ratio_of, rounds_table, summarize, table
from bench.load import Load
from bench.rounds import CELLS, DEEP_CELLS, HELD_CELLS, Sample, takes_part, turned
from bench.servers import NUMBERS

NAMES = [cell.name for cell in CELLS]
GOOD = Load(1000, 1.0, 10, 20, 1000, 0, 0, 0, 0.5, "")
REFUSED = attrs.evolve(GOOD, errors=1, note="busy")


def _sample(server: str, number: int, rate: int, cell: str = "get 1x1", load: Load = GOOD) -> Sample:
    return Sample(number, cell, server, attrs.evolve(load, ops=rate), 0.5)


def _rounds(server: str, *rates: int) -> list[Sample]:
    return [_sample(server, number, rate) for number, rate in enumerate(rates)]


def test_ratio_is_the_median_of_the_rounds_and_not_of_the_rates() -> None:
    assert ratio(_rounds("distkv", 10, 20, 90), _rounds("redis", 10, 40, 30)) == Ratio(1.0, 0.5, 3.0)


def test_ratio_pairs_rounds_by_their_number() -> None:
    assert ratio(_rounds("distkv", 10, 20), _rounds("redis", 10, 40)[::-1]) == Ratio(0.75, 0.5, 1.0)


def test_ratio_of_an_even_count_is_between_the_middle_two() -> None:
    assert ratio(_rounds("distkv", 1, 2, 3, 10), _rounds("redis", 1, 1, 1, 1)) == Ratio(2.5, 1.0, 10.0)


@pytest.mark.parametrize("bad", ["distkv", "redis"])
def test_ratio_with_one_bad_run_is_none(bad: str) -> None:
    samples = {name: _rounds(name, 10, 10) for name in ("distkv", "redis")}
    samples[bad][1] = _sample(bad, 1, 10, load=REFUSED)
    assert ratio(samples["distkv"], samples["redis"]) is None


def test_ratio_without_the_same_rounds_is_none() -> None:
    assert ratio(_rounds("distkv", 10, 20), _rounds("redis", 10)) is None


def test_ratio_of_nothing_is_none() -> None:
    assert ratio([], []) is None


def test_summary_stands_in_the_order_of_cells_with_ours_first() -> None:
    samples = [
        _sample("etcd", 0, 1, "set 1x1"),
        _sample("distkv", 0, 1, "set 1x1"),
        _sample("redis", 0, 1),
        _sample("distkv", 0, 1),
    ]
    assert [(figure.cell, figure.server) for figure in summarize(samples, NAMES)] == [
        ("get 1x1", "distkv"),
        ("get 1x1", "redis"),
        ("set 1x1", "distkv"),
        ("set 1x1", "etcd"),
    ]


def test_summary_gives_medians_and_the_busiest_generator() -> None:
    loads = [attrs.evolve(GOOD, p50_us=us, p99_us=2 * us, busy=us / 100) for us in (10, 50, 20)]
    (figure,) = summarize([_sample("redis", at, 1000 * at, load=load) for at, load in enumerate(loads)], NAMES)
    assert (figure.rate, figure.p50_us, figure.p99_us, figure.busy) == (1000, 20, 40, 0.5)


def test_processor_time_is_shared_among_all_operations_of_the_run() -> None:
    load = attrs.evolve(GOOD, ops=10, acknowledged=50_000)
    (figure,) = summarize([Sample(0, "get 1x1", "redis", load, cpu_s=0.5)], NAMES)
    assert figure.cpu_us == pytest.approx(10.0)


def test_failed_cell_shows_no_rate_and_says_why() -> None:
    text = rounds_table(summarize([_sample("distkv", 0, 10), _sample("redis", 0, 77_777, load=REFUSED)], NAMES))
    assert "failed" in text
    assert "77,777" not in text
    assert "redis, get 1x1: 1 error replies, 0 wrong ones, first: busy" in text
    assert "missed" in text


@pytest.mark.parametrize(("rate", "word"), [(40, "met"), (39, "missed")])
def test_aim_is_met_from_its_value_on(rate: int, word: str) -> None:
    text = rounds_table(summarize([_sample("distkv", 0, rate), _sample("redis", 0, 100)], NAMES))
    assert text.splitlines()[-1].split()[-1] == word


@pytest.mark.parametrize(("rate", "word"), [(87, "met"), (86, "missed")])
def test_names_that_are_numbers_are_to_cost_no_more_than_their_aim(rate: int, word: str) -> None:
    samples = [_sample("distkv", 0, 100, "set 1x32"), _sample(NUMBERS, 0, rate, "set 1x32")]
    assert rounds_table(summarize(samples, ["set 1x32"])).splitlines()[-1].split()[-4:] == ["<=", "1.15", "x", word]


def test_every_cell_with_an_aim_at_the_most_is_measured() -> None:
    assert {cell for cell, _ in AIMS_MAX} <= {cell.name for cell in DEEP_CELLS}


def test_busy_generator_is_told() -> None:
    text = rounds_table(summarize([_sample("redis", 0, 10, load=attrs.evolve(GOOD, busy=0.97))], NAMES))
    assert "redis, get 1x1: the generator used 97% of a processor" in text


def test_resyncs_of_all_rounds_are_told() -> None:
    samples = [_sample("distkv", number, 10, load=attrs.evolve(GOOD, resyncs=2)) for number in range(3)]
    assert "distkv, get 1x1: watchers were told 6 times to begin anew" in rounds_table(summarize(samples, NAMES))


def test_fan_out_to_100_and_to_1000_watchers_has_an_aim_at_depth_32() -> None:
    names = {cell.name for cell in FAN_OUTS}
    assert {cell for cell, _ in AIMS if cell.startswith("watch")} == {"watch 100x32", "watch 1000x32"}
    assert {"watch 1x1", "watch 10x1", "watch 100x32", "watch 1000x32"} <= names


def test_every_set_that_three_nodes_hold_has_an_aim() -> None:
    sets = {cell for cell, peer in AIMS if peer == "etcd-three" and cell.startswith("set")}
    assert sets == {cell.name for cell in HELD_CELLS}


def test_ratio_of_values_of_other_rounds_is_none() -> None:
    assert ratio_of({0: 1.0}, {1: 1.0}) is None


@pytest.mark.parametrize(("part", "expected"), [(0.5, 3), (0.99, 5), (0.2, 1), (0.21, 2), (0.0, 1)])
def test_quantile_is_one_of_the_values(part: float, expected: int) -> None:
    assert quantile([5, 3, 1, 4, 2], part) == expected


def test_table_puts_numbers_to_the_right_and_words_to_the_left() -> None:
    assert table(["name", "op/s"], [["a", "1,000"], ["bcdef", "7"], ["g", ""]]).splitlines() == [
        "name    op/s",
        "-----  -----",
        "a      1,000",
        "bcdef      7",
        "g",
    ]


def test_every_cell_has_ours_and_a_peer() -> None:
    servers = ("distkv", "redis", "redis-always", "etcd")
    parts = {cell.name: [server for server in servers if takes_part(server, cell)] for cell in CELLS}
    assert all(names[0] == "distkv" and len(names) >= 2 for names in parts.values())
    assert parts["get 1x1"] == ["distkv", "redis", "etcd"]
    assert parts["set 32x1"] == ["distkv", "redis-always", "etcd"]
    assert parts["set 1x32"] == ["distkv", "redis-always"]


def test_order_of_servers_turns_from_round_to_round() -> None:
    assert [turned(["a", "b", "c"], count) for count in (0, 1, 2, 3)] == [
        ["a", "b", "c"],
        ["b", "c", "a"],
        ["c", "a", "b"],
        ["a", "b", "c"],
    ]
