"""Accounts on real servers: they are kept, hidden, listed and removed; a name has one owner, whatever is killed.

Knows: commands, listeners, and three token servers beside agents.  Does not know how an account is made.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.account_users import RIGHT, WRONG, listener_port, login, register
from tests.process.cluster import Cluster, open_cluster
from tests.process.servers import Server, open_servers, run_command, wait_until
from tests.process.tokens import SETTINGS, wait_states
from tests.profiles import size

SECRET = "never-to-be-seen"
OPTIONS = ("-C", "tokens.servers=[a]", "-C", "activity.listen=127.0.0.1:0")
NAMES = [f"user-{count}" for count in range(size(8, 20))]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with open_servers(tmp_path_factory.mktemp("accounts")) as servers:
        server = servers.add("a")
        server.start("--init", "hello", "--transport", "solo", options=OPTIONS).wait_ready()
        wait_until(lambda: server.run("token", "servers").code == 0, "tokens are served", 30, server.dump)
        yield server


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with open_cluster(tmp_path / "cluster", extra=f"{SETTINGS}activity: {{listen: '127.0.0.1:0'}}\n") as found:
        wait_states(found, {"a": "ready", "b": "ready", "c": "ready"})
        yield found


def test_account_outlives_a_kill_and_is_hidden_listed_and_removed(server: Server) -> None:
    """ACCOUNT-1."""
    assert register(server, listener_port(server), "ann", SECRET)["command"] == "REGISTER_SUCCESS"
    server.kill()
    server.start("--transport", "solo", options=OPTIONS).wait_ready()
    port = listener_port(server)
    assert (login(server, port, "ann", SECRET), login(server, port, "ann", "other")) == (RIGHT, WRONG)
    assert server.run("get", ":n.service.accounts.ann").code == 6
    shown = [server.run(*words).text for words in (("state",), ("list", ":n"), ("activity", "account", "list"))]
    assert shown[-1] == "ann\n"
    asked = ("client", "-p", str(server.port), "activity", "account", "remove", "a")
    found = run_command(*asked, environment=server.environment | {"_DISTKV_COMPLETE": "fish"})
    assert found.text.split("\t")[1] == "ann"
    assert not any(SECRET in text for text in (*shown, server.errors))
    wait_until(lambda: server.run("token", "servers").code == 0, "tokens are served", 30, server.dump)
    removed = [server.run("activity", "account", "remove", name).code for name in ("ann", "ann", "\n")]
    assert removed == [0, 3, 2]
    assert server.run("activity", "account", "list").text == ""
    assert login(server, port, "ann", SECRET) == WRONG


def test_token_of_services_is_refused_to_commands_in_one_line(server: Server) -> None:
    """ACCOUNT-2."""
    ran = server.run("token", "acquire", ":user ann")
    assert (ran.code, ran.err.count("\n")) == (6, 1)
    assert "are for services" in ran.err


def test_name_that_many_register_at_once_has_one_owner_also_when_a_token_server_is_killed(cluster: Cluster) -> None:
    """ACCOUNT-4."""
    ports = {server.name: listener_port(server) for server in cluster}
    succeeded: dict[str, list[str]] = {name: [] for name in NAMES}

    def run(node: str, name: str) -> None:
        try:
            answer = register(cluster[node], ports[node], name, f"{name} of {node}")
        except (OSError, ValueError):  # it was killed
            return
        if answer["command"] == "REGISTER_SUCCESS":
            succeeded[name].append(node)

    threads = [threading.Thread(target=run, args=(node, name)) for name in NAMES for node in "abc"]
    for count, thread in enumerate(threads):
        thread.start()
        if count == len(threads) // 2:
            cluster["c"].kill()
    for thread in threads:
        thread.join()
    assert all(len(nodes) <= 1 for nodes in succeeded.values()), succeeded
    cluster.start("c")
    wait_states(cluster, {"a": "ready", "b": "ready", "c": "ready"})
    ports["c"] = listener_port(cluster["c"])
    for name, nodes in succeeded.items():
        owners = wait_until(lambda name=name: owners_of(cluster, ports, name), f"all nodes agree about {name}", 30)
        assert len(owners[0]) <= 1
        assert not nodes or owners == [nodes] * 3


def owners_of(cluster: Cluster, ports: dict[str, int], name: str) -> list[list[str]]:
    """Of each node, whose secrets log in there; nothing while nobody knows."""
    found = [[node for node in "abc" if is_right(cluster[at], ports[at], name, f"{name} of {node}")] for at in "abc"]
    return found if found[0] == found[1] == found[2] else []


def is_right(server: Server, port: int, name: str, secret: str) -> bool:
    return login(server, port, name, secret) == RIGHT
