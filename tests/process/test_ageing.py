"""What time does to a real node: a value goes by itself, a deletion is forgotten, and both outlive a kill.

Knows: what a user types and sees.
"""

from __future__ import annotations

import json

from tests.process.servers import Server, Servers, wait_until

OPTIONS = ("-v", "-C", "delete.retention=1")


def _tombstones(server: Server) -> object:
    return json.loads(server.run("state", "-o", "json").text)["counters"]["tombstones"]


def test_value_goes_deletion_is_forgotten_and_a_kill_brings_neither_back(servers: Servers) -> None:
    server = servers.add("a").start("--transport", "solo", "--init", "hello", options=OPTIONS)
    server.wait_ready()
    assert server.run("set", "lamp", "on", "--ttl", "0.5").code == 0
    wait_until(lambda: server.run("get", "lamp").code == 3, "the value is gone")
    assert server.run("history", "lamp").text.splitlines()[0].endswith(" expired")
    wait_until(lambda: _tombstones(server) == 0, "nothing is left of it")
    server.kill()
    server.start("--transport", "solo", options=OPTIONS)
    server.wait_ready()
    assert _tombstones(server) == 0
    assert server.run("get", "lamp").code == 3
