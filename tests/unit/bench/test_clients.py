"""What counts as an answer to a Python client, and what is printed of it."""

from __future__ import annotations

import time

import attrs
import pytest
from bench.callers import Tally, pairs_of
from bench.clients import CLIENT_CELLS, PEER, clients_table
from bench.figures import AIMS, summarize
from bench.load import VALUE_BYTES, Load
from bench.rounds import Sample

CELLS = [cell.name for cell in CLIENT_CELLS]
LOAD = Load(1000, 1.0, 10, 20, 1000, 0, 0, 0, 0.5, "")


def test_every_aim_is_of_a_cell_that_is_measured() -> None:
    assert {cell for cell, peer in AIMS if peer == PEER} <= set(CELLS)


def test_peer_of_trio_runs_under_asyncio() -> None:
    assert {cell.loop: cell.peer_loop for cell in CLIENT_CELLS} == {
        "blocking": "blocking", "asyncio": "asyncio", "trio": "asyncio",
    }  # fmt: skip


def test_values_tell_their_keys_and_tags() -> None:
    values = [value for tag in (1, 2) for _, value in pairs_of("g", tag)]
    assert len(set(values)) == len(values)
    assert {len(value) for value in values} == {VALUE_BYTES}


def test_answer_to_what_was_asked_in_the_warm_up_does_not_count() -> None:
    tally = Tally(1000.0, time.perf_counter() - 500)
    assert tally.note("a", tally.began + 149, True)
    assert tally.note("b", tally.began + 151, True)
    assert (tally.right, len(tally.times), tally.keys) == (2, 1, {"a", "b"})


def test_answer_after_the_end_does_not_count() -> None:
    tally = Tally(1.0, time.perf_counter() - 2)
    assert not tally.note("a", tally.began + 0.5, True)
    assert tally.load(0.5, 0).failure == "no operation was completed"


def test_wrong_answer_fails_the_run() -> None:
    tally = Tally(1000.0, time.perf_counter() - 500)
    tally.note("a", tally.began + 400, False)
    tally.note("a", tally.began + 400, True)
    assert "1 wrong" in tally.load(0.5, 0).failure


@pytest.mark.parametrize(("ops", "verdict"), [(900, "met"), (899, "missed")])
def test_table_holds_the_ratio_against_the_aim(ops: int, verdict: str) -> None:
    samples = [Sample(0, CELLS[0], "distkv", attrs.evolve(LOAD, ops=ops), 0.02), Sample(0, CELLS[0], PEER, LOAD, 0.01)]
    *_, ours, theirs = clients_table(summarize(samples, CELLS)).splitlines()
    assert ours.split()[-5:] == [f"{ops}", "10", "20", f"{500_000 / ops:.1f}", "20.0"]
    assert theirs.split()[-4:] == [">=", "0.9", "x", verdict]
