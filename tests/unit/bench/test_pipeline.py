"""What is printed of the pipeline's rounds: medians, ratios within one round, and whether an aim was met."""

from __future__ import annotations

from bench.pipeline import Found, pipeline_table

FOUND = Found(
    events=1000,
    rates={
        "events, json": [90_000.0, 70_000.0, 100_000.0],
        "events, msgpack": [100_000.0, 100_000.0, 100_000.0],
        "archive --once": [60_000.0, 60_000.0, 60_000.0],
        "table": [500_000.0, 200_000.0, 600_000.0],
        "plain Parquet": [500_000.0, 500_000.0, 500_000.0],
        "table, compacted": [400_000.0, 300_000.0, 600_000.0],
        "view state": [90.0, 90.0, 90.0],
        "client dump": [30.0, 30.0, 30.0],
        "import": [9.0, 10.0, 20.0],
        "client load": [10.0, 10.0, 10.0],
    },
    asof_s=[1.0, 5.0, 2.0],
    set_p99_ms=[5.0, 30.0, 21.0],
    resident_before=100_000_000,
    resident_after=110_000_000,
)


def line(begin: str) -> str:
    (found,) = [each for each in pipeline_table(FOUND).splitlines() if each.startswith(begin)]
    return " ".join(found.split())


def test_rates_are_medians_beside_their_aims() -> None:
    assert line("events, json  ") == "events, json 90,000 70,000 100,000 ok, aim 80,000"
    assert line("events, msgpack  ") == "events, msgpack 100,000 100,000 100,000 MISSED, aim 150,000"
    assert line("plain Parquet") == "plain Parquet 500,000 500,000 500,000"


def test_ratios_are_taken_within_one_round() -> None:
    assert line("events, json is") == "events, json is 0.18 x table: MISSED, aim 0.2"
    assert line("table is") == "table is 1.00 x plain Parquet: ok, aim 0.8"
    assert line("table, compacted is") == "table, compacted is 0.80 x plain Parquet: ok, aim 0.8"
    assert line("import is") == "import is 1.00 x client load: ok, aim 0.9"
    assert line("view state is") == "view state is 3.00 x client dump: ok, aim 3"


def test_what_the_node_felt_is_told() -> None:
    assert line("a set on another") == "a set on another connection meanwhile, p99: 21.0 ms: MISSED, aim 20"
    assert line("the node's memory") == "the node's memory grew by 10 MB: ok, aim 32"
    assert line("as of now") == "as of now, with digest: 2.0 s for 1,000 events"
