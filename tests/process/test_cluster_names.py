"""One name twice: the younger server ends with one line, the older one goes on.

Knows: a name that is given twice, a directory that is copied or used twice.  Does not know who notices.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from shutil import copytree

import pytest
import trio

from tests.process.agents import wait_members
from tests.process.cluster import Cluster, open_cluster
from tests.process.load import get_many
from tests.process.ports import free_port
from tests.process.servers import Server

NOTICED_S = 200.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes, and an agent d without one."""
    with open_cluster(tmp_path_factory.mktemp("cluster")) as found:
        agent = trio.run(partial(found.agents.start, "d", join=[found.agent("a")]))
        trio.run(wait_members, agent, 4)
        for server in found.others("b"):
            found.wait(lambda s=server: _knows_of_b(s), f"{server.name} knows that b is alive", 20)  # type: ignore[misc]
        yield found


def _knows_of_b(server: Server) -> bool:
    members = server.state()["members"]
    assert isinstance(members, list)
    return any(member["node"] == "b" and member["state"] == "alive" for member in members)


@pytest.fixture
def twin(cluster: Cluster, tmp_path: Path) -> Iterator[Server]:
    """A server beside agent d, also called b. It is not started yet."""
    agent = cluster.agents.started[-1]
    config = tmp_path / "config.yaml"
    config.write_text(f"ping: {{clock: {cluster.clock_s}}}\nserf: {{port: {agent.rpc_port}}}\n")
    environment = {**cluster.servers.environment, "DISTKV_CONFIG": str(config)}
    with Server("b", free_port(), tmp_path, environment) as server:
        yield server


def _assert_ends_in_one_line(twin: Server) -> None:
    assert twin.wait_end(NOTICED_S) == 1
    complaints = [line for line in twin.errors.splitlines() if line.startswith("distkv: ")]
    assert len(complaints) == 1
    assert "called b" in complaints[0]
    assert "Traceback" not in twin.errors


def _assert_all_go_on(cluster: Cluster, path: str) -> None:
    with cluster["b"].client() as client:
        client.set(path, "b")
    cluster.wait_equal(30)
    for server in cluster:
        assert get_many(server, [path]) == {path: "b"}


def test_new_node_with_a_name_that_is_taken_ends(cluster: Cluster, twin: Server) -> None:
    twin.start()
    _assert_ends_in_one_line(twin)
    _assert_all_go_on(cluster, "after.name")


def test_server_on_a_copied_directory_ends(cluster: Cluster, twin: Server) -> None:
    cluster["b"].kill()
    copytree(cluster["b"].data_dir, twin.data_dir)
    cluster.start("b")
    twin.start()
    _assert_ends_in_one_line(twin)
    _assert_all_go_on(cluster, "after.copy")


def test_second_server_in_one_directory_is_refused_in_one_line(cluster: Cluster) -> None:
    directory = cluster["b"].data_dir
    agent = cluster.agents.started[-1]
    ran = cluster.servers.run(
        *("server", "e", "--data-dir", str(directory), "--bind", f"127.0.0.1:{free_port()}"),
        *("--serf", f"127.0.0.1:{agent.rpc_port}"),
    )
    assert ran.code == 1
    assert ran.err.startswith("distkv: ")
    assert ran.err.count("\n") == 1
    assert str(directory) in ran.err
    _assert_all_go_on(cluster, "after.directory")
