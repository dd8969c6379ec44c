"""Tokens where a majority of servers is missing, founds anew, or lost a disk: nothing is granted twice, and it is said.

Knows: the Python API, requests as a client sends them, and signals.  Does not know how servers agree.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress

import pytest

import distkv
from tests.process.cluster import Cluster
from tests.process.tokens import (
    DEADLINE_S,
    LEASE_S,
    ask,
    clients,
    left_ready,
    open_token_servers,
    pause,
    wait_states,
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three token servers; each test leaves them ready, and no session of long."""
    with open_token_servers(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    with left_ready(shared) as found:
        yield found


def test_reset_founds_anew_with_higher_fences_and_needs_a_majority(cluster: Cluster) -> None:
    with clients(cluster) as client, client.token("founded", wait_s=DEADLINE_S) as token:
        before = token.fence
    for name in "bc":
        cluster[name].kill()
    pause(2 * LEASE_S)
    assert cluster["a"].run("token", "reset").code == 2
    refused = cluster.wait(
        lambda: ran if (ran := cluster["a"].run("token", "reset", "--force")).code else None,
        "b and c are missed",
        DEADLINE_S,
    )
    assert refused is not None
    assert (refused.code, refused.err.count("\n")) == (5, 1)
    cluster.start("b", "c")
    wait_states(cluster, {"a": "ready", "b": "ready", "c": "ready"})
    cluster.wait(lambda: cluster["a"].run("token", "reset", "--force").code == 0, "it founds anew", DEADLINE_S)

    def is_granted() -> distkv.Fence | None:
        with suppress(distkv.Ungranted, distkv.TokenLost), clients(cluster) as client, client.token("founded") as token:
            return token.fence
        return None

    after = cluster.wait(is_granted, "the servers grant again", DEADLINE_S)
    assert after is not None
    assert after > before


def test_without_a_majority_no_leader_is_shown(cluster: Cluster) -> None:
    assert ask(cluster, "a", "token_servers")["leader"] in ("a", "b", "c")
    for name in "bc":
        cluster[name].kill()
    cluster.wait(lambda: ask(cluster, "a", "token_servers")["leader"] is None, "no leader is shown", DEADLINE_S)
    ran = cluster["a"].run("token", "servers")
    assert (ran.code, ran.err.count("\n")) == (0, 1)
    assert "yes" not in ran.text


def test_without_a_majority_nothing_is_granted_and_it_is_said(cluster: Cluster) -> None:
    opened = ask(cluster, "a", "token_open")
    for name in "bc":
        cluster[name].kill()
    pause(2 * LEASE_S)
    refused = ask(cluster, "a", "token_acquire", session=opened["session"], token="refused", wait=30.0)
    assert refused["code"] == "no_quorum"
    assert "\n" not in refused["error"]
    with clients(cluster, "a") as client:
        client.set("x", 1)  # the store takes writes all the same
    cluster.start("b", "c")
    wait_states(cluster, {"a": "ready", "b": "ready", "c": "ready"})

    def is_granted() -> bool:
        with suppress(distkv.Ungranted, distkv.TokenLost), clients(cluster, "a") as client, client.token("refused"):
            return True
        return False

    cluster.wait(is_granted, "it is granted", DEADLINE_S)


def test_server_whose_disk_was_wiped_serves_again_when_it_was_admitted(cluster: Cluster) -> None:
    before = {server["node"]: server["life"] for server in ask(cluster, "a", "token_servers")["servers"]}
    cluster["c"].kill()
    shutil.rmtree(cluster["c"].data_dir)
    cluster.start("c")
    wait_states(cluster, {"a": "ready", "b": "ready", "c": "ready"})
    cluster.wait(
        lambda: {s["node"]: s["life"] for s in ask(cluster, "a", "token_servers")["servers"]}["c"] != before["c"],
        "the new life of c was admitted",
        DEADLINE_S,
    )
    wait_states(cluster, {"a": "ready", "b": "ready", "c": "ready"})
    with clients(cluster) as client, client.token("refused", wait_s=DEADLINE_S) as token:
        assert not token.is_lost
