"""The activity network of five real servers: two that are killed at once, one the parent of the other; one that joins.

Knows: clients of ours that resume by themselves.  Does not know how activities travel.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.process.activities import shown
from tests.process.activity_crowd import open_crowd, wait_whole
from tests.process.cluster import Cluster, open_cluster

FIVE = ("a", "b", "c", "d", "e")
SETTINGS = "activity: {listen: '127.0.0.1:0'}\n"
CLIENTS = 24
SENDERS = 4
JOINED_S = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Five nodes that know each other's listeners; each test leaves them so, and perhaps more."""
    with open_cluster(tmp_path_factory.mktemp("fleet") / "cluster", FIVE, extra=SETTINGS) as found:
        wait_whole(found)
        yield found


def _parents(cluster: Cluster) -> dict[str, str | None]:
    trees = {server.name: server.state()["tree"] for server in cluster}
    return {name: tree["parent"] for name, tree in trees.items() if isinstance(tree, dict)}


def _loads(cluster: Cluster) -> list[int]:
    return [int(shown(server)["clients"]) for server in cluster]


def test_root_and_a_child_of_it_that_are_killed_at_once_lose_nothing_that_was_echoed(cluster: Cluster) -> None:
    parents = _parents(cluster)
    root = next(name for name, parent in parents.items() if parent is None)
    victims = [root, next(name for name, parent in parents.items() if parent == root)]
    with open_crowd([*cluster], CLIENTS, SENDERS) as crowd:
        crowd.wait_echoes(100)
        for name in victims:
            cluster[name].kill()
        for name in victims:
            cluster.start(name)
        crowd.wait_echoes(300)
        crowd.end()
        assert crowd.wrong() == []
    wait_whole(cluster)


@pytest.mark.soak  # a client that came a minute ago stays
def test_node_that_joins_gets_its_part_of_the_clients_and_nothing_is_lost(cluster: Cluster) -> None:
    with open_crowd([*cluster], CLIENTS, SENDERS) as crowd:
        crowd.wait_echoes(100)
        cluster.add("f")
        cluster.start("f")
        cluster.wait(lambda: max(_loads(cluster)) - min(_loads(cluster)) <= 2, "all have as many clients", JOINED_S)
        crowd.wait_echoes(100)
        crowd.end()
        assert (crowd.wrong(), crowd.unknown) == ([], 0)
