"""A server that was given up as gone while it served, and comes back with what the others have deleted and forgotten.

Knows: what a client and an operator see.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.cluster import Cluster, open_cluster
from tests.process.servers import Server

OPTIONS = ("-v", "-C", "delete.retention=1")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Two nodes that forget deletions after a second."""
    with open_cluster(tmp_path / "cluster", ("a", "b"), links="follow: false") as found:
        for name in ("a", "b"):
            found[name].terminate()
        for name in ("a", "b"):
            found[name].start(options=OPTIONS)
        for name in ("a", "b"):
            found[name].wait_ready()
        yield found


def _tombstones(server: Server) -> object:
    return json.loads(server.run("state", "-o", "json").text)["counters"]["tombstones"]


def test_retired_server_that_comes_back_starts_anew_by_itself_and_brings_nothing_back(cluster: Cluster) -> None:
    a, b = cluster["a"], cluster["b"]
    assert a.run("set", "gone", "1").code == 0
    cluster.wait_equal(30)
    cluster.agent("b").kill()  # a frozen one would be told what was deleted meanwhile
    try:
        cluster.wait_state("b", "cut-off", 30)
        assert b.run("set", "only.b", "2").code == 0
        b.send_signal(signal.SIGSTOP)  # else it might ask a what it missed, and learn of all this at once
        assert a.run("node", "retire", "b", "--force").code == 0
        assert a.run("delete", "gone").code == 0
        cluster.wait(lambda: _tombstones(a) == 0, "the deletion is forgotten", 30)
    finally:
        b.send_signal(signal.SIGCONT)
        cluster.agent("b").launch()
    cluster.wait(lambda: "begins_again" in b.errors, "b starts anew", 30)
    cluster.wait_equal(30)
    assert [server.run("get", "gone").code for server in cluster] == [3, 3]
    assert a.run("get", "only.b").text == "2\n"
    assert len([line for line in b.printed if " ready on " in line]) == 2
    assert b.is_running
