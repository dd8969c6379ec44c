"""Users of listeners for tests: who registers and logs in, one JSON line each.

Knows: the first messages of the client protocol of activity.  Does not know what a test does to the servers.
"""

from __future__ import annotations

import json
import socket
from typing import Any

from tests.process.servers import Server

PATIENCE_S = 60.0
RIGHT, WRONG = "LOGIN_SUCCESS", "LOGIN_FAILED"


def listener_port(server: Server) -> int:
    """Where its listener is."""
    with server.client() as client:
        found = client.request("activity_place", {}, is_read=True)["port"]
    assert isinstance(found, int)
    return found


def said(server: Server, port: int, **message: Any) -> dict[str, Any]:
    """The first answer on a connection of its own."""
    with socket.create_connection((server.host, port), PATIENCE_S) as connection:
        connection.sendall(json.dumps(message).encode() + b"\n")
        with connection.makefile("rb") as lines:
            found = json.loads(lines.readline())
    assert isinstance(found, dict)
    return found


def register(server: Server, port: int, name: str, secret: str) -> dict[str, Any]:
    return said(server, port, command="REGISTER", username=name, secret=secret)


def login(server: Server, port: int, name: str, secret: str) -> str:
    """What the server says to that; while nobody knows, it is asked again by who wants to know."""
    return str(said(server, port, command="LOGIN", username=name, secret=secret)["command"])
