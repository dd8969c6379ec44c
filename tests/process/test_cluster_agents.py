"""An agent that freezes, stops or starts anew under a server that is being written to: nobody waits for it.

Knows: what a client and an operator see.  Does not know how the transport notices.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.cluster import Cluster, open_cluster
from tests.process.load import Load, get_many
from tests.process.ports import free_port
from tests.process.servers import PATIENCE, Servers

WRITE_S = PATIENCE * 10.0
"""No write may take longer, whatever the agent does. One that waits for it would wait for ever: the agent goes on only
when others were written."""
CUT_OFF_S = 150.0
"""So soon the state says what is the matter."""
PAUSE_S = 0.005
"""Between two writes: enough of them, and no flood."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes; every test leaves all agents running and all nodes ready."""
    with open_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


def _written_under(cluster: Cluster, top: str) -> Load:
    return Load(cluster["b"], top, depth=1, pause_s=PAUSE_S)


def _assert_everywhere(cluster: Cluster, load: Load) -> None:
    cluster.wait_equal(60)
    for server in cluster:
        assert get_many(server, load.acknowledged) == load.acknowledged


def _wait_for_more(cluster: Cluster, load: Load) -> None:
    """Until some more writes are acknowledged."""
    count = len(load.acknowledged)
    cluster.wait(lambda: len(load.acknowledged) > count + 20, "b goes on writing", 30)


def test_frozen_agent_delays_no_write_and_all_converge_when_it_goes_on(cluster: Cluster) -> None:
    with _written_under(cluster, "frozen") as load:
        cluster.wait(lambda: load.acknowledged, "the load is under way", 30)
        cluster.agent("b").freeze()
        try:
            _wait_for_more(cluster, load)
            cluster.wait_state("b", "cut-off", CUT_OFF_S)
            _wait_for_more(cluster, load)
        finally:
            cluster.agent("b").thaw()
        cluster.wait_state("b", "ready", 30)
    assert load.slowest_s < WRITE_S
    _assert_everywhere(cluster, load)


def test_stopped_agent_delays_no_write_and_all_converge_when_it_is_back(cluster: Cluster) -> None:
    with _written_under(cluster, "stopped") as load:
        cluster.wait(lambda: load.acknowledged, "the load is under way", 30)
        cluster.agent("b").kill()
        try:
            _wait_for_more(cluster, load)
            cluster.wait_state("b", "cut-off", CUT_OFF_S)
            _wait_for_more(cluster, load)
        finally:
            cluster.agent("b").launch()
        cluster.wait_state("b", "ready", 30)
    assert load.slowest_s < WRITE_S
    _assert_everywhere(cluster, load)


def test_agent_that_starts_anew_at_once_delays_no_write(cluster: Cluster) -> None:
    ups = _ups(cluster)
    with _written_under(cluster, "anew") as load:
        cluster.wait(lambda: load.acknowledged, "the load is under way", 30)
        cluster.agent("b").kill()
        cluster.agent("b").launch()
        cluster.wait(lambda: _ups(cluster) > ups, "b has found its agent again", 30)
        _wait_for_more(cluster, load)
    assert load.slowest_s < WRITE_S
    _assert_everywhere(cluster, load)


def test_server_without_its_agent_starts_cut_off_and_serves(cluster: Cluster) -> None:
    cluster["c"].kill()
    cluster.agent("c").kill()
    try:
        cluster["c"].start().wait_ready()
        assert cluster["c"].state()["state"] == "cut-off"
        with cluster["c"].client() as client:
            client.set("alone", "c")
    finally:
        cluster.agent("c").launch()
    cluster.wait_state("c", "ready", 30)
    cluster.wait_equal(60)
    assert get_many(cluster["a"], ["alone"]) == {"alone": "c"}


def test_first_start_without_an_agent_is_refused_in_one_line(servers: Servers, tmp_path: Path) -> None:
    agent = f"127.0.0.1:{free_port()}"
    bind = f"127.0.0.1:{free_port()}"
    ran = servers.run("server", "x", "--serf", agent, "--bind", bind, "--data-dir", str(tmp_path / "data"))
    assert ran.code == 5
    assert ran.err.startswith("distkv: ")
    assert ran.err.count("\n") == 1
    assert agent in ran.err


def _ups(cluster: Cluster) -> int:
    return cluster["b"].errors.count("transport_up")
