"""Distkv nodes, on real Serf agents or without: how a network is started, and when all of it is there.

Knows: how agents and nodes find each other.  Does not know what is measured.

Invariant: a network that is yielded is whole: every node serves, sees each other one alive, and follows it if it is to.
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import attrs

from bench.servers import Server, ServerError, distkv, open_servers, serf_agent, serf_member_count
from distkv.client.blocking import Client
from distkv.wire.token_errors import UngrantedError

NAMES: Final = ("a", "b", "c")
JOINED_S: Final = 60.0
ARRIVED_S: Final = 300.0
EQUAL_POLL_S: Final = 0.02
UNLINKED: Final = "links: {follow: false}\n"
"""The configuration of nodes that get changes by gossip and pulls only."""


@attrs.frozen
class Network:
    """The nodes, and the agents beside them, by the same names."""

    nodes: Mapping[str, Server]
    agents: Mapping[str, Server]


@contextmanager
def open_agents(directory: Path, names: Sequence[str] = NAMES) -> Iterator[Mapping[str, Server]]:
    """Serf agents as packaged, that see each other.

    Raises:
        ServerError: they do not come together.
    """
    agents: dict[str, Server] = {}
    first: str | None = None
    for name in names:
        agents[name], gossip = serf_agent(directory, f"agent-{name}", first)
        first = first or gossip
    with open_servers(agents):
        for agent in agents.values():
            wait(partial(_sees, agent, len(names)), f"{agent.name} sees all", JOINED_S)
        yield agents


@contextmanager
def open_network(
    directory: Path, names: Sequence[str] = NAMES, *, is_linked: bool = True, config: str = "{}\n"
) -> Iterator[Network]:
    """Agents that see each other, and a node with these settings, the default ones, beside each.

    Raises:
        ServerError: they do not come together.
    """
    with open_agents(directory, names) as agents:
        nodes = {
            name: distkv(
                directory,
                name,
                is_first=name == names[0],
                options=["--serf", f"127.0.0.1:{agents[name].port}"],
                config=config if is_linked else UNLINKED,
            )
            for name in names
        }
        with open_servers(nodes):
            for node in nodes.values():
                wait(partial(_is_joined, node, len(names) - 1, is_linked), f"{node.name} follows all", JOINED_S)
            yield Network(nodes, agents)


@contextmanager
def open_swim(directory: Path, names: Sequence[str] = NAMES, *, config: str = "") -> Iterator[Network]:
    """Nodes with these settings that find each other without an agent, and have a secret.

    Raises:
        ServerError: they do not come together.
    """
    settings = f"cluster: {{secret: '{base64.b64encode(os.urandom(32)).decode()}'}}\n{config}"
    nodes: dict[str, Server] = {}
    for name in names:
        join = [] if name == names[0] else ["--join", f"127.0.0.1:{nodes[names[0]].port}"]
        nodes[name] = distkv(
            directory, name, is_first=not join, options=["--transport", "swim", *join], config=settings
        )  # fmt: skip
    with open_servers(nodes):
        for node in nodes.values():
            is_joined = partial(_is_joined, node, len(names) - 1, UNLINKED not in config)
            wait(is_joined, f"{node.name} follows all", JOINED_S)
        yield Network(nodes, {})


def wait_equal(nodes: Sequence[Server], pause_s: float = EQUAL_POLL_S) -> None:
    """Until these nodes hold the same values.

    Raises:
        ServerError: they do not in `ARRIVED_S`.
    """
    clients = [client_of(node) for node in nodes]
    try:
        wait(
            lambda: len({client.state()["digest"] for client in clients}) == 1,
            "all hold the same", ARRIVED_S, pause_s,
        )  # fmt: skip
    finally:
        for client in clients:
            client.close()


def wait_token_servers(node: Server) -> None:
    """Until all token servers are ready, as this node sees it.

    Raises:
        ServerError: they are not in `JOINED_S`.
    """
    wait(partial(_are_ready, node), "all token servers are ready", JOINED_S)


def counters_of(node: Server) -> Mapping[str, int]:
    """What it counted since its start."""
    counters: Mapping[str, int] = _state(node)["counters"]
    return counters


def client_of(node: Server) -> Client:
    """Who asks this node, and no other."""
    return Client([("127.0.0.1", node.port)])


def wait(condition: Callable[[], bool], what: str, deadline_s: float, pause_s: float = 0.05) -> None:
    """Until it holds.

    Raises:
        ServerError: it does not in time.
    """
    deadline = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > deadline:
            raise ServerError(f"after {deadline_s:g} s it does not hold that {what}")
        time.sleep(pause_s)


def _sees(agent: Server, count: int) -> bool:
    return serf_member_count(agent) == count


def _is_joined(node: Server, others: int, is_linked: bool) -> bool:
    state = _state(node)
    alive = [member for member in state["members"] if member["state"] == "alive"]
    up = [link for link in state["links"] if link["state"] == "up"]
    return bool(state["state"] == "ready") and len(alive) == others and len(up) == (others if is_linked else 0)


def _are_ready(node: Server) -> bool:
    with client_of(node) as client:
        try:
            found: Mapping[str, Any] = client.request("token_servers", is_read=True)
        except UngrantedError:
            return False
    return all(server["state"] == "ready" for server in found["servers"])


def _state(node: Server) -> Mapping[str, Any]:
    with client_of(node) as client:
        return client.state()
