"""Half a minute of kills, freezes, dead agents and wiped disks upon three nodes, six writers and three watchers.

Knows: what must hold afterwards.  Does not know how it is found out. For longer, and with other faults:
`make soak ONLY=kills`, or `python -m tests.process.hunt --seconds 600 --seed 1`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.process.hunt import Found, hunt

pytestmark = pytest.mark.slow

SECONDS = 30.0
SEED = "18256"
"""Of the few that wipe each disk once, nine seconds apart, and draw every kind of fault in so short a time."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    return hunt(tmp_path_factory.mktemp("hunt") / "hunt", SECONDS, SEED)


def test_no_acknowledged_write_is_lost(found: Found, record_property: Callable[[str, object], None]) -> None:
    """Only the exceptions are excused (docs/protocol, KEEP-1, KEEP-2)."""
    record_property("told", found.summary)
    assert not found.lost(), f"{found.lost()}\n{found.summary}"


def test_every_writer_was_served(found: Found) -> None:
    assert len({write.by for write in found.writes}) == 6, found.summary


def test_every_acknowledged_write_was_on_the_disk_of_the_node_that_said_so(found: Found) -> None:
    assert not found.not_durable(), found.not_durable()


def test_no_tick_stands_for_two_changes(found: Found) -> None:
    assert not found.not_as_written(), found.not_as_written()


def test_write_acknowledged_as_on_two_nodes_outlives_one_disk(found: Found) -> None:
    assert not found.not_replicated(), found.not_replicated()


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_resuming_watcher_missed_nothing_in_silence(found: Found, name: str) -> None:
    assert not found.missed[name], "\n".join([*found.missed[name], found.summary])


def test_all_nodes_list_the_same_open_losers(found: Found) -> None:
    assert found.conflicts["a"] == found.conflicts["b"] == found.conflicts["c"]


def test_no_server_ended_by_itself_but_for_want_of_data_and_an_agent(found: Found) -> None:
    ended = [one for one in found.ended if not one.is_allowed]
    assert not ended, "\n".join(map(str, ended))


def test_no_write_is_closed_by_the_word_of_a_disk_that_burned(found: Found) -> None:
    assert not found.closed_by_hearsay(), f"{found.closed_by_hearsay()}\n{found.summary}"
