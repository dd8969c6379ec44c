"""Links between real servers: changes come by them alone, and `state` says how.

Knows: what a client and an operator see.  Does not know how soon a change comes: the benchmark measures that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from tests.process.cluster import Cluster, open_cluster
from tests.process.links import DEADLINE_S, Told, counters, links_of, wait_linked, wait_value
from tests.process.servers import Server


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes that follow each other; each test leaves them so."""
    with open_cluster(tmp_path_factory.mktemp("cluster")) as found:
        wait_linked(found, *"abc")
        yield found


def test_changes_come_while_all_agents_are_dead(cluster: Cluster) -> None:
    pulled = {name: counters(cluster[name])["events_pulled"] for name in "abc"}
    for name in "abc":
        cluster.agent(name).kill()
    try:
        for name in "abc":
            cluster.wait_state(name, "cut-off", DEADLINE_S)
        for name in "abc":
            with cluster[name].client() as client:
                client.set(f"of.{name}", name)
        for name in "abc":
            for writer in "abc":
                wait_value(cluster, name, f"of.{writer}", writer)
            assert counters(cluster[name])["events_pulled"] == pulled[name]
    finally:
        for name in "abc":  # b and c join a
            cluster.agent(name).launch()
            trio.run(cluster.agent(name).wait_ready)
    for name in "abc":
        cluster.wait_state(name, "ready", DEADLINE_S)


def test_round_trip_is_measured(cluster: Cluster) -> None:
    cluster.wait(lambda: "rtt_ms" in links_of(cluster["a"])["b"], "a has measured a round trip to b", DEADLINE_S)
    assert 0 < links_of(cluster["a"])["b"]["rtt_ms"] < 1000 * DEADLINE_S


def test_changes_are_counted_on_both_sides(cluster: Cluster) -> None:
    cluster.wait_equal(DEADLINE_S)
    before = links_of(cluster["a"])["b"]["events_out"], links_of(cluster["b"])["a"]["events_in"]
    with cluster["a"].client() as client:
        for number in range(50):
            client.set(f"counted.{number}", number)
    wait_value(cluster, "b", "counted.49", 49)
    after = links_of(cluster["a"])["b"]["events_out"], links_of(cluster["b"])["a"]["events_in"]
    assert [now - then for now, then in zip(after, before, strict=True)] == [50, 50]


def test_nobody_is_behind_when_all_is_told(cluster: Cluster) -> None:
    cluster.wait_equal(DEADLINE_S)
    assert {link["behind"] for server in cluster for link in links_of(server).values()} == {0}


def test_killed_node_is_said_to_be_down_and_has_all_when_it_is_back(cluster: Cluster) -> None:
    cluster["c"].kill()
    cluster.wait(lambda: links_of(cluster["a"])["c"]["state"] == "down", "the link to c is down", DEADLINE_S)
    assert links_of(cluster["a"])["c"]["reason"]
    with cluster["a"].client() as client:
        for number in range(300):
            client.set(f"many.{number}", number)
    wait_value(cluster, "b", "many.299", 299)
    assert links_of(cluster["a"])["b"]["state"] == "up"
    cluster.start("c")
    cluster.wait_equal(DEADLINE_S)
    wait_linked(cluster, *"abc")


def test_node_that_follows_nobody_replicates_with_those_that_do(tmp_path: Path) -> None:
    with open_cluster(tmp_path / "cluster", ("a", "b"), links="follow: false") as cluster:
        cluster["b"].terminate()
        cluster["b"].start(options=("-v", "-C", "links.follow=true"))
        cluster["b"].wait_ready()
        cluster.wait(lambda: links_of(cluster["b"])["a"]["state"] == "up", "b follows a", DEADLINE_S)
        assert links_of(cluster["a"])["b"]["state"] == "down"
        for name in "ab":
            with cluster[name].client() as client:
                client.set(f"of.{name}", name)
        cluster.wait_equal(DEADLINE_S)


def _write_at_a_rate(server: Server, path: str, count: int, rate_hz: float) -> None:
    begin, never = time.monotonic(), threading.Event()
    with server.client() as client:
        for number in range(count):
            never.wait(max(0.0, begin + number / rate_hz - time.monotonic()))
            client.set(path, number)


COUNT, RATE_HZ = 500, 100.0


def test_watcher_is_told_each_of_a_hundred_values_a_second_of_one_path(cluster: Cluster) -> None:
    with Told(cluster["b"], "one", COUNT - 1, COUNT) as b, Told(cluster["c"], "one", COUNT - 1, COUNT) as c:
        _write_at_a_rate(cluster["a"], "one", COUNT, RATE_HZ)
    assert (b.values, b.missed) == ([*range(COUNT)], {})
    assert (c.values, c.missed) == ([*range(COUNT)], {})


def test_without_links_values_and_missed_come_to_what_was_written(tmp_path: Path) -> None:
    with open_cluster(tmp_path / "cluster", links="follow: false") as cluster:
        with Told(cluster["b"], "one", COUNT - 1, COUNT) as b, Told(cluster["c"], "one", COUNT - 1, COUNT) as c:
            _write_at_a_rate(cluster["a"], "one", COUNT, RATE_HZ)
            cluster.wait_equal(DEADLINE_S)
        for told in (b, c):
            assert told.values == [number for number in range(COUNT) if number in told.values]
            assert len(told.values) + told.missed["a"] == COUNT
            assert not told.missed.keys() - {"a"}
