"""How many files a process may open, and what it makes of that when many connect.

Knows: rlimits.  Does not know why a connection is slow to be accepted.
"""

from __future__ import annotations

import resource
import shlex
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.process.cluster import open_cluster
from tests.process.load import Wire
from tests.process.servers import Server, Servers

FEW = 64
CONNECTIONS = 100
IDLE = 2000


def limited(servers: Servers, limits: str) -> Servers:
    """The same, whose servers begin with other limits: `distkv` is a script that sets them first."""
    servers.directory.mkdir(parents=True)
    servers.installed = servers.directory / "distkv"
    paths = shlex.quote(":".join(sys.path))
    servers.installed.write_text(
        f'#!/bin/sh\nulimit {limits}\nPYTHONPATH={paths} exec {shlex.quote(sys.executable)} -m distkv "$@"\n'
    )
    servers.installed.chmod(0o700)
    return servers


def test_low_soft_limit_is_raised_so_that_connections_beyond_it_are_greeted(servers: Servers) -> None:
    server = limited(servers, f"-Sn {FEW}").start("solo", "--transport", "solo", "--init", "hello")
    server.wait_ready()
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(server)) for _ in range(CONNECTIONS)]
        assert {str(wire.hello["node"]) for wire in wires} == {"solo"}
    assert "few_files" not in server.errors


def test_low_hard_limit_is_said(servers: Servers) -> None:
    server = limited(servers, "-n 512").start("solo", "--transport", "solo", "--init", "hello")
    server.wait_ready()
    assert "few_files allowed=512 wanted=4352 connections=384" in server.errors


def test_limit_with_which_nobody_could_be_served_is_refused(servers: Servers) -> None:
    server = limited(servers, "-n 40").start("solo", "--transport", "solo", "--init", "hello")
    assert server.wait_end() == 2
    assert "this process may open 40 files, and a server needs 64" in server.errors
    assert not server.data_dir.exists()


@pytest.fixture
def many_files() -> Iterator[None]:
    """For this process, which holds the other ends."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, before[1]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("many_files")
@pytest.mark.parametrize(("limit", "connections"), [(64, 16), (256, 192), (1024, 768)])
def test_node_writes_and_links_whatever_connects(tmp_path: Path, limit: int, connections: int) -> None:
    def limit_files(server: Server) -> None:
        server.program = ("/bin/sh", "-c", f'ulimit -n {limit}; exec {shlex.join(server.program)} "$@"', "sh")

    with open_cluster(tmp_path, ("a", "b"), prepare={"a": limit_files}) as cluster, ExitStack() as stack:
        a = cluster["a"]
        client = stack.enter_context(a.client())
        client.set("before", 1)
        for number in range(IDLE):
            with suppress(OSError):  # it is closed at once, perhaps before it is ours
                stack.enter_context(socket.create_connection((a.host, a.port), 5))
            if number % 200 == 0:
                client.set(f"during.{number}", 1)
        cluster["b"].kill()  # its connections to a begin anew
        cluster["b"].start().wait_ready()
        client.set("after", 1)
        with cluster["b"].client() as other:
            cluster.wait(lambda: other.get("after"), "b has what a writes", 60)
            other.set("of.b", 1)
        cluster.wait(lambda: client.get("of.b"), "a has what b writes", 60)
        assert f"connections={connections}" in a.errors
        counters: Any = client.state()["counters"]
        assert counters["connections_refused"] >= IDLE - connections
        assert len(a.errors.splitlines()) < 20, "few lines about it"
