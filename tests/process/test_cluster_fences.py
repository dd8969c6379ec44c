"""A holder that slept: what it writes late is refused where a later fence is known, and loses where it was not.

Knows: the command line, real nodes, and an agent that is frozen, as if its cable were pulled.  Does not know who hands
fences out.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import pytest

from tests.process.cluster import Cluster, open_cluster
from tests.process.servers import Server

DEADLINE_S = 300.0
EARLY, LATE = "night:7.1", "night:7.2"


@pytest.fixture(scope="module")
def healed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """While c was cut off, a wrote under the later fence, and c more often under the earlier one."""
    with open_cluster(
        tmp_path_factory.mktemp("cluster"), links="follow: false", extra="delete: {retention: 2}\n"
    ) as cluster:
        assert cluster["a"].run("set", "k", "early", "--fence", EARLY).code == 0
        assert cluster["a"].run("set", "gone", "early", "--fence", EARLY).code == 0
        cluster.wait_equal(DEADLINE_S)
        # No side may ask the other, by TCP, for what its agent does not bring: one stands still while the other writes.
        cluster.agent("c").freeze()
        cluster["c"].send_signal(signal.SIGSTOP)
        assert cluster["a"].run("set", "k", "late", "--fence", LATE).code == 0
        assert cluster["a"].run("set", "gone", "late", "--fence", LATE).code == 0
        assert cluster["a"].run("delete", "gone", "--fence", LATE).code == 0
        for name in "ab":
            cluster[name].send_signal(signal.SIGSTOP)
        cluster["c"].send_signal(signal.SIGCONT)
        for number in range(20):
            assert cluster["c"].run("set", "k", f"slept {number}", "--fence", EARLY).code == 0
        for name in "ab":
            cluster[name].send_signal(signal.SIGCONT)
        cluster.agent("c").thaw()
        cluster.wait_equal(DEADLINE_S)
        yield cluster


def shown(server: Server, path: str) -> dict[str, object]:
    """What `get -m` tells of a path."""
    ran = server.run("get", path, "-m", "-o", "json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert isinstance(found, dict)
    return found


def refuses_late(server: Server, path: str) -> bool:
    """Whether the earlier holder is fenced off there, by one line."""
    ran = server.run("set", path, "again", "--fence", EARLY)
    return ran.code == 4 and ran.err.count("\n") == 1 and LATE in ran.err


def test_late_write_with_the_highest_tock_lost_on_all_nodes_and_is_listed(healed: Cluster) -> None:
    for server in healed:
        found = shown(server, "k")
        assert (found["value"], found["fence"]) == ("late", LATE)
        (loser,) = json.loads(server.run("conflicts", "k", "-o", "json").out)
        assert (loser["value"], loser["change"][:2], loser["fence"]) == ("slept 19", "c:", EARLY)
        assert loser["tock"] > int(str(found["tock"]))


def test_late_write_is_refused_on_all_nodes(healed: Cluster) -> None:
    assert [server.name for server in healed if not refuses_late(server, "k")] == []


def test_deletion_under_a_fence_outlives_its_retention(healed: Cluster) -> None:
    """A plain deletion, made later, is forgotten meanwhile."""
    assert healed["b"].run("set", "plain", "1").code == 0
    assert healed["b"].run("delete", "plain").code == 0

    def is_purged() -> bool:
        counters = healed["b"].state()["counters"]
        return isinstance(counters, dict) and counters.get("purged", 0) > 0

    healed.wait(is_purged, "the plain deletion is forgotten", DEADLINE_S)
    assert [server.name for server in healed if not refuses_late(server, "gone")] == []


def test_fences_outlive_kills_of_all_nodes(healed: Cluster) -> None:
    for server in healed:
        server.kill()
    healed.start(*(server.name for server in healed))
    for path in ("k", "gone"):
        assert [server.name for server in healed if not refuses_late(server, path)] == []


def test_fences_come_with_a_download(healed: Cluster) -> None:
    joiner = healed.add("d")
    joiner.start().wait_ready()
    assert [path for path in ("k", "gone") if not refuses_late(joiner, path)] == []
    assert shown(joiner, "k")["fence"] == LATE


def test_fences_come_back_with_a_backup(healed: Cluster) -> None:
    saved, b = str(healed["b"].directory / "saved"), healed["b"]
    assert b.run("backup", "-f", saved).code == 0
    b.kill()
    b.data_dir.rename(b.directory / "old")
    assert healed.servers.run("restore", "-f", saved, "--data-dir", str(b.data_dir)).code == 0
    healed.start("b")
    assert [path for path in ("k", "gone") if not refuses_late(b, path)] == []
    healed.wait_equal(DEADLINE_S)


def test_lifted_fence_lets_the_earlier_holder_write_everywhere(healed: Cluster) -> None:
    assert healed["a"].run("set", "lifted", "1", "--fence", LATE).code == 0
    assert healed["a"].run("set", "lifted", "2", "--refence").code == 0
    healed.wait_equal(DEADLINE_S)
    for server in healed:
        assert server.run("set", "lifted", server.name, "--fence", EARLY).code == 0
        healed.wait_equal(DEADLINE_S)
