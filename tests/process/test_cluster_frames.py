"""Frames of a service in the server tree of real servers, more than a slow child takes.

Knows: servers with the echo mounted, and what `distkv client state` shows.  Does not know how frames are sent.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.process.cluster import Cluster, open_cluster
from tests.process.proving import PROGRAM, asked
from tests.process.servers import Server

DEADLINE_S = 120.0
NAMES = "abc"
AT_ONCE = 2000
BURST = 100_000
PAUSE_S = 0.2
"""So long the slow child stands still at a time."""


def _prove(server: Server) -> None:
    server.program = PROGRAM


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("frames") / "cluster"
    with open_cluster(directory, NAMES, prepare=dict.fromkeys(NAMES, _prove)) as found:
        yield found


def _tree(cluster: Cluster, name: str) -> dict[str, Any]:
    tree: dict[str, Any] = cluster[name].state()["tree"]
    return tree


def _edges_failed(cluster: Cluster) -> list[object]:
    counters: list[dict[str, Any]] = [cluster[name].state()["counters"] for name in NAMES]  # type: ignore[misc]
    return [some.get("edges_failed", 0) for some in counters]


def _slow_down(server: Server, is_over: threading.Event) -> None:
    """Let it stand still half of the time."""
    while not is_over.wait(PAUSE_S):
        server.send_signal(signal.SIGSTOP)
        is_over.wait(PAUSE_S)
        server.send_signal(signal.SIGCONT)


def test_burst_of_one_service_beside_a_slow_child_loses_no_announcement_and_moves_no_parent(cluster: Cluster) -> None:
    """(docs/protocol, TREE-11)"""

    def root() -> str | None:
        trees = [_tree(cluster, name) for name in NAMES]
        tops = [tree["root"] for tree in trees if len(tree["children"]) == len(NAMES) - 1]
        return tops[0] if tops and all(tree["root"] == tops[0] for tree in trees) else None

    top = cluster.wait(root, "one tree in which both others are children", DEADLINE_S)
    assert top is not None
    slow, other = sorted(set(NAMES) - {top})
    before, failed = {name: _tree(cluster, name)["path"] for name in NAMES}, _edges_failed(cluster)
    is_over = threading.Event()
    slowing = threading.Thread(target=_slow_down, args=(cluster[slow], is_over))
    slowing.start()
    try:
        for _ in range(BURST // AT_ONCE):
            assert "text" in asked(cluster[top], "echo_shout", text="x", times=AT_ONCE)
            assert _tree(cluster, other)["path"] == before[other]
    finally:
        is_over.set()
        slowing.join()
    asked(cluster[other], "echo_shout", text="one more")

    def all_know() -> bool:
        shouts = {top: BURST, other: 1}
        return all(
            tree["announced"][name].get("services", {}).get("echo") == {"shouts": count}
            for tree in (_tree(cluster, name) for name in NAMES)
            for name, count in shouts.items()
        )

    cluster.wait(all_know, "all nodes know what the last announcements say", DEADLINE_S)
    assert {name: _tree(cluster, name)["path"] for name in NAMES} == before
    assert _edges_failed(cluster) == failed
