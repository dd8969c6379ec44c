"""Nodes in network namespaces: a server and a stock Serf agent beside it on each host.

Knows: how the two are started on a host, and what an agent has noticed.  Does not know what a test does to the network.

A server is asked at a Unix socket, which no cut network keeps the tests from.

Invariant: when `open_lab` is left, every process it started is dead, by its pid, and its networks are gone, however the
test ended; a server that printed a traceback fails the test that left it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import attrs

from distkv.model.event import Link
from distkv.wire.fields import read_ranges
from tests.netns.network import Network, open_network
from tests.process.agents import Agent, Agents
from tests.process.cluster import DEFAULT_CLOCK_S, Cluster
from tests.process.forks import CHECKOUT
from tests.process.servers import Server, Servers

NAMES = "abcd"
GOSSIP_PORT, RPC_PORT, PORT = 7946, 7373, 27586
"""The defaults: no host is shared."""
STOCK: Mapping[str, object] = {}
"""An agent that nobody configured."""
SUITED: Mapping[str, object] = {"user_event_size_limit": 1390, "reconnect_interval": "2s"}
"""What docs/serf.rst recommends: agents meet again within seconds."""
ASK_S = 0.2
"""How often all nodes are asked what their agents see; they ask these every 2 s."""
START_S = 60.0
"""Several labs are started at once, on few processors."""
FAILED_S = 60.0
"""An agent that nobody confirms calls another one failed after 24 s."""
AGAIN_S = 75.0
"""A stock agent looks for one of those that failed every 30 s."""


@attrs.define
class Lab(Cluster):
    """Servers by name, each on a host of its own, beside the agent of that host."""

    network: Network = attrs.field(kw_only=True)
    sockets: Path = attrs.field(kw_only=True)
    """A directory with a short name: that of a Unix socket may have 107 bytes."""
    config: Mapping[str, object] = attrs.field(kw_only=True)
    """The agents'."""

    def add(self, name: str) -> Server:
        """An agent that looks for the others, and a server beside it that is not started yet."""
        agent = self.agent_on(name)
        agent.launch()
        server = self.add_beside(agent)
        server.program = (*self.network.hosts[name].program, *CHECKOUT)
        server.host, server.port = agent.host, PORT
        server.socket_path = self.sockets / name
        return server

    # -- the network

    def wait_apart(self, sides: Iterable[str]) -> None:
        """Until every agent sees those of its side only, as its server knows it."""
        self._wait_agents({name: len(side) for side in sides for name in side}, FAILED_S)

    def wait_together(self) -> None:
        """Until every agent sees all."""
        names = [server.name for server in self]
        self._wait_agents(dict.fromkeys(names, len(names)), AGAIN_S)

    def _wait_agents(self, counts: Mapping[str, int], deadline_s: float) -> None:
        def are_right() -> bool:
            return all(self.transport(name)["agents"] == count for name, count in counts.items())

        self.wait(are_right, f"so many agents are alive for each: {counts}", deadline_s, pause_s=ASK_S)

    def transport(self, name: str) -> Mapping[str, object]:
        """What this node says of its transport."""
        found = self[name].state()["transport"]
        assert isinstance(found, dict)
        return found

    def failures_seen(self, name: str) -> int:
        """How often the agent of `name` has called another one failed."""
        return self.agent(name).log().count("EventMemberFailed")

    def has_heard(self, name: str, links: Iterable[Link]) -> list[Link]:
        """Those of which this node knows that they exist."""
        last = self[name].state()["nodes"]
        assert isinstance(last, dict)
        return [(node, tick) for node, tick in links if last.get(node, 0) >= tick]

    def lacks(self, name: str, links: Iterable[Link]) -> list[Link]:
        """Those that this node does not hold."""
        held = read_ranges(self[name].state()["held"], "held")
        return [(node, tick) for node, tick in links if node not in held or tick not in held[node]]

    def agent_on(self, name: str) -> Agent:
        """An agent on the host of this name, which looks for the others; not launched yet."""
        directory = self.agents.directory / name
        directory.mkdir()
        (directory / "config.json").write_text(json.dumps(dict(self.config)))
        others = [address for other, address in self.network.addresses.items() if other != name]
        options = (
            *(f"-retry-join={address}" for address in others),
            "-retry-interval=1s",
            f"-config-file={directory / 'config.json'}",
        )
        agent = Agent(
            *(name, GOSSIP_PORT, RPC_PORT, directory, options, None),
            host=self.network.addresses[name],
            program=(*self.network.hosts[name].program, "serf"),
        )
        self.agents.started.append(agent)
        return agent


@contextmanager
def open_lab(
    directory: Path,
    names: str = NAMES,
    *,
    config: Mapping[str, object] = SUITED,
    clock_s: float = DEFAULT_CLOCK_S,
    extra: str = "",
    spare: str = "",
) -> Iterator[Lab]:
    """A network of ready nodes whose agents see each other; `a` founded it. `extra`: more settings of the servers.

    On the `spare` hosts are agents only.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="distkv") as sockets, open_network(names + spare) as network:
        agents = Agents(directory / "agents")
        agents.directory.mkdir()
        servers = Servers(directory / "servers")
        lab = Lab(agents, servers, clock_s, extra=extra, network=network, sockets=Path(sockets), config=config)
        try:
            for name in names:
                lab.add(name)
            lab["a"].start("--init", "hello").wait_ready(START_S)
            for server in lab.others("a"):
                server.start()
            for server in lab.others("a"):
                server.wait_ready(START_S)
            lab.wait_together()
            for name in spare:
                lab.agent_on(name).launch()
            yield lab
        finally:
            for server in lab:
                server.kill()
            agents.kill_all()
    assert not lab.tracebacks()
