"""The limit of open files with which a process begins does not bound how many connections a server takes.

Knows: rlimits.  Does not know why a connection is slow to be accepted.
"""

from __future__ import annotations

import shlex
import sys
from contextlib import ExitStack

from tests.process.load import Wire
from tests.process.servers import Servers

FEW = 64
CONNECTIONS = 100


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
        wires = [stack.enter_context(Wire(server, timeout_s=5)) for _ in range(CONNECTIONS)]
        assert {str(wire.hello["node"]) for wire in wires} == {"solo"}
    assert "few_files" not in server.errors


def test_low_hard_limit_is_said(servers: Servers) -> None:
    server = limited(servers, "-n 512").start("solo", "--transport", "solo", "--init", "hello")
    server.wait_ready()
    assert "few_files allowed=512 wanted=4352" in server.errors
