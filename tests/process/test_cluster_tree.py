"""The server tree of real servers beside real agents: who is the root, and how it is repaired.

Knows: what `distkv client state` shows.  Does not know how a parent is chosen: scenarios show that.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.process.cluster import Cluster, open_cluster

DEADLINE_S = 120.0
NAMES = "abc"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes in one tree; each test leaves it so."""
    with open_cluster(tmp_path_factory.mktemp("tree") / "cluster") as found:
        _wait_whole(found, NAMES)
        yield found


def _tree(cluster: Cluster, name: str) -> dict[str, Any]:
    tree: dict[str, Any] = cluster[name].state()["tree"]
    return tree


def _wait_whole(cluster: Cluster, names: str) -> str:
    """Until these nodes are one tree without others, in which each hears all; its root."""

    def root() -> str | None:
        trees = [_tree(cluster, name) for name in names]
        roots = {tree["root"] for tree in trees}
        hear_all = all(set(names) <= tree["announced"].keys() and not tree["apart"] for tree in trees)
        found = roots.pop()
        return found if found is not None and found in names and not roots and hear_all else None

    found = cluster.wait(root, f"one tree of {' '.join(names)}", DEADLINE_S)
    assert found is not None
    return found


def test_nodes_are_one_tree_and_each_hears_all(cluster: Cluster) -> None:
    root = _wait_whole(cluster, NAMES)
    children = sorted(set(NAMES) - {root})
    cluster.wait(lambda: _tree(cluster, root)["children"] == children, "both others are children", DEADLINE_S)
    assert [_tree(cluster, name)["path"] for name in children] == [[name, root] for name in children]
    assert [_tree(cluster, name)["level"] for name in children] == [1, 1]
    assert _tree(cluster, root)["parent"] is None


def test_another_node_is_the_root_when_the_root_is_killed(cluster: Cluster) -> None:
    root = _wait_whole(cluster, NAMES)
    others = "".join(sorted(set(NAMES) - {root}))
    cluster[root].kill()

    def next_root() -> bool:
        return {_tree(cluster, name)["root"] for name in others} == {others[0]}

    cluster.wait(next_root, f"{others[0]} is the root", DEADLINE_S)
    assert _tree(cluster, others[1])["path"] == [others[1], others[0]]
    cluster.start(root)
    assert _wait_whole(cluster, NAMES) == others[0]


def test_root_that_stands_still_is_left_and_comes_back(cluster: Cluster) -> None:
    root = _wait_whole(cluster, NAMES)
    others = "".join(sorted(set(NAMES) - {root}))
    cluster[root].send_signal(signal.SIGSTOP)
    try:

        def have_left() -> bool:
            paths = [_tree(cluster, name)["path"] for name in others]
            return all(path and root not in path for path in paths) and len({path[-1] for path in paths}) == 1

        cluster.wait(have_left, f"{others} have another root than {root}", DEADLINE_S)
        cluster[others[0]].run("set", "tree.test", "1")
    finally:
        cluster[root].send_signal(signal.SIGCONT)
    _wait_whole(cluster, NAMES)
    cluster.wait_equal(DEADLINE_S)


def test_clients_are_the_load_that_each_node_announces(cluster: Cluster) -> None:
    _wait_whole(cluster, NAMES)
    with cluster["a"].client() as one, cluster["a"].client() as two:
        one.ping()
        two.ping()
        cluster.wait(lambda: _tree(cluster, "c")["announced"]["a"]["load"] == 2, "c hears of two clients", DEADLINE_S)
