"""Clients of the activity network as others may write them: a socket, and lines of JSON.

Knows: how lines travel.  Does not know the library of ours, nor what is right.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Self

from tests.process.servers import Server, wait_until

SILENCE_S = 30.0


def listener_port(server: Server) -> int:
    """Where its listener is, as its ready line says."""
    found = re.search(r"activity on 127\.0\.0\.1:(\d+)", server.wait_ready())
    assert found is not None
    return int(found[1])


class Stranger:
    """One connection; close it."""

    def __init__(self, at: int | socket.socket) -> None:
        """`at`: a port of this host, or a connection."""
        self.socket = socket.create_connection(("127.0.0.1", at), SILENCE_S) if isinstance(at, int) else at
        self._lines = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._lines.close()
        self.socket.close()

    def say(self, command: str, **fields: object) -> Self:
        """Send a message."""
        return self.send(json.dumps({"command": command, **fields}).encode() + b"\n")

    def send(self, data: bytes) -> Self:
        """Send bytes; whoever is at the other end may be gone."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)
        return self

    def hear(self) -> dict[str, Any]:
        """The next message; empty: the connection has ended, perhaps within a line that nobody had room for."""
        try:
            line = self._lines.readline()
        except ConnectionResetError:
            return {}
        found: dict[str, Any] = json.loads(line) if line.endswith(b"\n") else {}
        return found

    def hear_all(self) -> list[str]:
        """The commands that come until the connection ends."""
        found = []
        while message := self.hear():
            found.append(str(message["command"]))
        return found


def logged_in(port: int, **fields: object) -> Stranger:
    """Somebody without a name who is logged in."""
    found = Stranger(port).say("LOGIN", username="anonymous", **fields)
    answer = found.hear()
    assert answer["command"] == "LOGIN_SUCCESS", answer
    return found


@contextmanager
def strangers(port: int, count: int) -> Iterator[Sequence[Stranger]]:
    """Some who are logged in."""
    found = [logged_in(port) for _ in range(count)]
    try:
        yield found
    finally:
        for one in found:
            one.close()


def shown(server: Server) -> Mapping[str, Any]:
    """What a node shows of its listener."""
    found = server.state()["activity"]
    assert isinstance(found, dict)
    return found


def wait_clients(server: Server, count: int) -> None:
    """Until so many are logged in there."""
    wait_until(lambda: shown(server)["clients"] == count, f"{count} clients at {server.name}", 30, server.dump)
