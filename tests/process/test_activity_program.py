"""Five real nodes with 200 clients, 20 of which send: nodes that are killed, that end in order, and one that joins.

Knows: what happens to the servers.  Does not know how activities travel, nor what the clients do (`activity_program`).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from tests.process.activities import shown
from tests.process.activity_crowd import wait_whole
from tests.process.activity_program import HOPS_MAX, CrowdProgram, open_program
from tests.process.cluster import Cluster, open_cluster
from tests.process.ports import free_port
from tests.process.servers import Server

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: apt-get install gcc libc6-dev"),
]
FIVE = ("a", "b", "c", "d", "e")
SETTINGS = "activity: {listen: '127.0.0.1:LISTENER'}\ntokens: {servers: [a, b, c]}\n"
CLIENTS = 200
SENDERS = 20
RATE = 20
SOON_S = 60.0
SPREAD_S = 90.0
"""Who was sent on stays for a minute: then the last ones go."""


@attrs.define
class Fleet:
    """Nodes whose listeners have a port for good."""

    cluster: Cluster
    ports: dict[str, int]
    directory: Path

    def prepare(self, server: Server) -> None:
        file, port = server.directory / "config.yaml", free_port()
        self.ports[server.name] = port
        file.write_text(file.read_text().replace("LISTENER", str(port)))

    def loads(self) -> dict[str, int]:
        return {server.name: int(shown(server)["clients"]) for server in self.cluster if server.is_running}

    def parents(self) -> dict[str, str | None]:
        trees = {server.name: server.state()["tree"] for server in self.cluster}
        return {name: tree["parent"] for name, tree in trees.items() if isinstance(tree, dict)}

    def root(self) -> str:
        return next(name for name, parent in self.parents().items() if parent is None)

    def inner(self) -> str:
        """A node with a child, and a parent if there is such a one."""
        parents = self.parents()
        found = [name for name in parents if name in parents.values()]
        return next((name for name in found if parents[name] is not None), found[0])

    def kill(self, *names: str) -> None:
        for name in names:
            self.cluster[name].kill()

    def start(self, *names: str) -> None:
        self.cluster.start(*names)
        wait_whole(self.cluster)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    found = Fleet(None, {}, tmp_path)  # type: ignore[arg-type]  # until there is one
    with open_cluster(
        tmp_path / "cluster", FIVE, extra=SETTINGS, prepare=dict.fromkeys(FIVE, found.prepare)
    ) as found.cluster:
        wait_whole(found.cluster)
        yield found


def _sending(crowd: CrowdProgram) -> None:
    crowd.wait_in()
    crowd.say("send")
    crowd.wait_echoes(SENDERS * 10)


def test_whoever_resumes_is_told_each_echoed_activity_once_whatever_is_killed(fleet: Fleet) -> None:
    with open_program(fleet.directory, [*fleet.ports.values()], CLIENTS, SENDERS, RATE) as crowd:
        _sending(crowd)
        for of in (fleet.inner, fleet.root):
            victim = of()
            fleet.kill(victim)
            crowd.wait_echoes(SENDERS * 20)
            fleet.start(victim)
        root = fleet.root()
        victims = [root, next(name for name, parent in fleet.parents().items() if parent == root)]
        fleet.kill(*victims)
        crowd.wait_echoes(SENDERS * 20)
        fleet.start(*victims)
        victim = fleet.inner()
        fleet.kill(victim)
        fleet.start(victim)
        crowd.wait_echoes(SENDERS * 20)
        story = crowd.end()
    assert story.wrong()[:20] == [], story.summary()


def test_node_that_ends_under_load_loses_and_repeats_nothing(fleet: Fleet) -> None:
    with open_program(fleet.directory, [*fleet.ports.values()], CLIENTS, SENDERS, RATE) as crowd:
        _sending(crowd)
        victim = fleet.root()
        fleet.cluster[victim].terminate(deadline_s=30)
        crowd.wait_echoes(SENDERS * 20)
        story = crowd.end()
    assert story.wrong()[:20] == [], story.summary()
    assert (story.lost, story.crowded_moves(but=[fleet.ports[victim]])) == (0, {}), story.summary()


def test_node_that_joins_under_load_gets_its_part_of_the_clients(fleet: Fleet) -> None:
    with open_program(fleet.directory, [*fleet.ports.values()], CLIENTS, SENDERS, RATE) as crowd:
        _sending(crowd)
        fleet.prepare(fleet.cluster.add("f"))
        fleet.cluster.start("f")

        def has_its_part() -> bool:
            loads = fleet.loads()
            mean = sum(loads.values()) / len(loads)
            return abs(loads["f"] - mean) <= max(2, 0.1 * mean)

        fleet.cluster.wait(has_its_part, "the new node has its part", SOON_S)
        crowd.wait_echoes(SENDERS * 20)
        story = crowd.end()
    assert story.wrong()[:20] == [], story.summary()
    assert story.crowded_moves() == {}, story.summary()


def test_clients_that_all_log_in_at_one_node_are_spread(fleet: Fleet) -> None:
    with open_program(fleet.directory, [fleet.ports["a"]], CLIENTS, 1, RATE) as crowd:
        crowd.wait_in()
        fleet.cluster.wait(lambda: _difference(fleet) <= 2, "all nodes have as many", SPREAD_S)
        story = crowd.end()
    assert story.hops <= HOPS_MAX


def _difference(fleet: Fleet) -> int:
    loads = fleet.loads().values()
    return max(loads) - min(loads)
