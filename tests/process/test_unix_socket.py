"""A real server at a Unix socket: command and library reach it, and the file comes and goes with the server.

Knows: servers and the command.  What is bound and removed when is tested in tests/unit/daemon.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.process.servers import Ran, Server, Servers


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.sock"


def start(servers: Servers, path: Path, *arguments: str) -> Server:
    return servers.start("a", "--transport", "solo", "--bind", f"unix:{path}", *arguments)


def ask(servers: Servers, path: Path, *arguments: str) -> Ran:
    return servers.run("client", "-h", f"unix:{path}", *arguments)


def test_node_at_a_socket_alone_serves_the_command(servers: Servers, path: Path) -> None:
    line = start(servers, path, "--init", "hello").wait_ready()
    assert line.startswith(f"distkv: a ready on unix:{path} (")
    assert ask(servers, path, "set", "x", "21").code == 0
    assert servers.run("client", "get", "x", DISTKV_HOST=f"unix:{path}").text == "21\n"
    assert ask(servers, path, "ping").text.startswith(f"a at unix:{path} is ready")


def test_socket_goes_with_the_server(servers: Servers, path: Path) -> None:
    server = start(servers, path, "--init", "hello")
    server.wait_ready()
    assert path.is_socket()
    assert server.terminate() == 0
    assert not path.exists()
    assert ask(servers, path, "ping").code == 5


def test_server_that_was_killed_starts_again_at_its_socket(servers: Servers, path: Path) -> None:
    server = start(servers, path, "--init", "hello")
    server.wait_ready()
    server.kill()
    assert path.is_socket()
    assert ask(servers, path, "ping").code == 5
    start(servers, path).wait_ready()
    assert ask(servers, path, "get", ":").text == "hello\n"


def test_second_server_at_one_socket_is_refused(servers: Servers, path: Path, tmp_path: Path) -> None:
    start(servers, path, "--init", "hello").wait_ready()
    ran = servers.run(
        *("server", "b", "--transport", "solo", "--init", "x", "--bind", f"unix:{path}"),
        *("--data-dir", str(tmp_path / "b")),
    )
    assert (ran.code, ran.err) == (
        2, f"distkv: cannot listen on unix:{path}: a server listens there already; name another address with --bind\n"
    )  # fmt: skip
    assert not (tmp_path / "b").exists()
    assert ask(servers, path, "get", ":").text == "hello\n"


def test_node_at_both_kinds_of_address_tells_others_the_port(servers: Servers, path: Path) -> None:
    server = servers.add("a")
    line = start(servers, path, "--bind", server.address, "--init", "hello").wait_ready()
    assert f" ready on unix:{path}, {server.address} (" in line
    assert json.loads(ask(servers, path, "get", ":n.node.a", "-o", "json").text)["addr"] == server.address
    assert server.run("get", ":").text == "hello\n"


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_node_that_tells_others_of_all_its_addresses_is_not_started(servers: Servers, host: str) -> None:
    ran = servers.run("server", "b", "--init", "x", "--bind", f"{host}:27999", "--data-dir", "b")
    assert ran.code == 2
    assert "name it with advertise" in ran.err
    assert ran.err.count("\n") == 1


def test_node_that_no_other_could_reach_is_not_started(servers: Servers, path: Path, tmp_path: Path) -> None:
    ran = servers.run("server", "b", "--init", "x", "--bind", f"unix:{path}", "--data-dir", str(tmp_path / "b"))
    assert ran.code == 2
    assert ran.err.startswith("distkv: listen names Unix sockets only")
    assert ran.err.count("\n") == 1
    assert not path.exists()
