"""Three stock agents with servers beside them: what is written on one is on all, soon and whole, however fast it came.

Knows: the figures that are promised; the settings are the defaults.  Does not know how an update travels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tests.process.cluster import DEFAULT_CLOCK_S, NAMES, QUEUE_MAX, Cluster, QueueWatch, open_cluster
from tests.process.load import get_many, set_many

JOINED_ENTRIES = 10_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes with the default clock. A test may add data and nodes, and leaves all nodes ready."""
    with open_cluster(tmp_path_factory.mktemp("cluster"), clock_s=DEFAULT_CLOCK_S) as found:
        yield found


def _values(top: str, count: int) -> dict[str, object]:
    return {f"{top}.n{number}": f"{number} {'x' * 90}" for number in range(count)}


def _written_on_a(cluster: Cluster, values: Mapping[str, object], deadline_s: float) -> int:
    """Write at full speed, wait until all are equal; the longest queue of any agent."""
    with QueueWatch(cluster) as watch:
        set_many(cluster["a"], values)
        cluster.wait_equal(deadline_s)
    return watch.longest


@pytest.mark.parametrize("name", NAMES)
def test_value_set_on_one_node_is_readable_on_the_others(cluster: Cluster, name: str) -> None:
    with cluster[name].client() as client:
        client.set(f"from.{name}", name)
    for other in cluster.others(name):
        with other.client() as client:
            entry = cluster.wait(lambda c=client: c.get(f"from.{name}"), f"{other.name} has it", 30)  # type: ignore[misc]
            assert entry.value == name


def test_deletion_reaches_the_others(cluster: Cluster) -> None:
    with cluster["a"].client() as a, cluster["b"].client() as b:
        a.set("gone", 1)
        cluster.wait(lambda: b.get("gone"), "b has it", 30)
        b.delete("gone")
        cluster.wait(lambda: a.get("gone") is None, "a has it no more", 30)


def test_thousand_sets_at_full_speed_are_on_all_nodes_within_10_s(cluster: Cluster) -> None:
    values = _values("thousand", 1_000)
    longest = _written_on_a(cluster, values, 10)
    assert all(get_many(server, values) == values for server in cluster)
    assert longest < QUEUE_MAX


@pytest.mark.slow
def test_fifty_thousand_sets_are_on_all_nodes_within_60_s(cluster: Cluster) -> None:
    values = _values("fifty", 50_000)
    longest = _written_on_a(cluster, values, 60)
    assert all(get_many(server, values) == values for server in cluster)
    assert longest < QUEUE_MAX


def test_fourth_node_is_ready_after_a_few_clocks(cluster: Cluster) -> None:
    """Two where the machine has nothing else to do, from the start of the process on; it fetches 60,000 entries."""
    values = _values("before", JOINED_ENTRIES)
    set_many(cluster["a"], values)
    cluster.wait_equal(30)
    cluster.add("d").start().wait_ready(6 * DEFAULT_CLOCK_S)
    assert get_many(cluster["d"], values) == values
