"""A node whose disk and address are lost comes back under its name somewhere else.

Knows: real agents that go on, or are gone, or come back with their tags.  Does not know who decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import trio

from tests.process.agents import Agent
from tests.process.cluster import Cluster, open_cluster
from tests.process.load import get_many
from tests.process.ports import free_port
from tests.process.servers import Server

NAMES = ("a", "b")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with open_cluster(tmp_path / "cluster", NAMES) as found:
        yield found


def beside(cluster: Cluster, agent: Agent, directory: Path) -> Server:
    """A server called b beside an agent, empty and at an address of its own."""
    directory.mkdir()
    config = directory / "config.yaml"
    config.write_text(f"ping: {{clock: {cluster.clock_s}}}\nserf: {{port: {agent.rpc_port}}}\n")
    environment = {**cluster.servers.environment, "DISTKV_CONFIG": str(config)}
    return Server("b", free_port(), directory, environment)


def members_of(server: Server) -> list[dict[str, object]]:
    members = server.state()["members"]
    assert isinstance(members, list)
    return members


@pytest.mark.parametrize("lost", ["its agent lives on", "its agent goes with it", "it has its agent back"])
def test_lost_node_comes_back_under_its_name_at_a_new_address(cluster: Cluster, tmp_path: Path, lost: str) -> None:
    with cluster["b"].client() as client:
        client.set("of.b", 1)
    cluster.wait_equal(30)
    cluster["b"].kill()
    agent = cluster.agent("b")
    if lost == "its agent goes with it":
        agent.kill()
    if lost != "it has its agent back":
        agent = trio.run(partial(cluster.agents.start, "d", join=[cluster.agent("a")]))
    with beside(cluster, agent, tmp_path / "again") as again:
        again.start().wait_ready()
        assert get_many(again, ["of.b"]) == {"of.b": 1}
        (member,) = members_of(cluster["a"])
        assert (member["node"], member["addr"]) == ("b", again.address)
