"""Token servers for tests: their settings, requests as a client sends them, and who stands how.

Knows: the fields of these requests.  Does not know what a test does to the servers.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from distkv.client.blocking import Client
from distkv.wire import packing
from tests.process.cluster import Cluster, open_cluster
from tests.process.servers import Server, open_servers

LEASE_S, TTL_S = 1.0, 3.0
DEADLINE_S = 120.0
LONG_S = "3600"
"""As it is typed: the ttl of a session that does not end by itself in any test."""
SETTINGS = f"tokens: {{servers: [a, b, c], lease: {LEASE_S:g}, ttl: {TTL_S:g}}}\n"


@contextmanager
def open_token_servers(directory: Path) -> Iterator[Cluster]:
    """Three nodes that serve tokens, all ready to."""
    with open_cluster(directory, extra=SETTINGS) as found:
        wait_states(found, {"a": "ready", "b": "ready", "c": "ready"})
        yield found


@contextmanager
def open_token_node(directory: Path) -> Iterator[Server]:
    """One node, without others, that serves tokens."""
    with open_servers(directory) as servers:
        server = servers.add("a")
        server.start("--init", "hello", "--transport", "solo", options=["-C", "tokens.servers=[a]"]).wait_ready()
        yield server


@contextmanager
def left_ready(cluster: Cluster) -> Iterator[Cluster]:
    """For one test of several that share the servers: those that it killed serve again when this is left."""
    yield cluster
    cluster.start(*(server.name for server in cluster if server.process is None))
    for node in "abc":
        wait_states(cluster, {"a": "ready", "b": "ready", "c": "ready"}, node)


def ask(cluster: Cluster, node: str, action: str, **fields: Any) -> dict[str, Any]:
    """What a node answers, errors included."""
    with cluster[node].dial(DEADLINE_S) as connection:
        connection.sendall(packing.pack({"seq": 1, "action": action, **fields}))
        data = b""
        while True:
            part = connection.recv(1 << 16)
            assert part, "the server closed the connection"
            data += part
            with suppress(Exception):
                for raw in packing.split_all(data):
                    reply = packing.unpack(raw)
                    assert isinstance(reply, dict)
                    if reply["seq"] == 1:
                        return reply


def states(cluster: Cluster, node: str) -> dict[str, str]:
    """How the servers stand, as a node says."""
    shown = ask(cluster, node, "token_servers")
    return {server["node"]: server["state"] for server in shown.get("servers", ())}


def wait_states(cluster: Cluster, wanted: dict[str, str], node: str = "a") -> None:
    """Until a node says that they stand so."""
    cluster.wait(lambda: states(cluster, node) == wanted, f"{node} says {wanted}", DEADLINE_S)


def leader(cluster: Cluster, node: str) -> str:
    """Who leads, as a node says."""
    return str(ask(cluster, node, "token_servers")["leader"])


def show(server: Server, name: str) -> dict[str, Any]:
    """What `token show` prints of a token; empty when it fails."""
    ran = server.run("token", "show", name, "-o", "json")
    found = json.loads(ran.out) if ran.code == 0 else {}
    assert isinstance(found, dict)
    return found


def acquire(server: Server, name: str, *arguments: str) -> tuple[str, str]:
    """The fence and the session that `token acquire` prints."""
    ran = server.run("token", "acquire", name, *arguments)
    assert ran.code == 0, ran.err
    fence, session = ran.text.split()
    return fence, session


def clients(cluster: Cluster, *names: str) -> Client:
    """A client of these nodes, or of all."""
    return Client([("127.0.0.1", cluster[name].port) for name in names or ("a", "b", "c")])


def pause(seconds: float) -> None:
    """Let time pass in which nothing is to happen but faults."""
    threading.Event().wait(seconds)
