"""One connection to a node, on which tokens are acquired and released, one after another, and so many times as said.

Knows: four requests.  Does not know what is measured: the code that answers may be an older one, so nothing but the
protocol is used.

Invariant: one request is under way, and each is granted.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import attrs
import msgspec

from bench.load import LoadError

NAMES: Final = 16
"""Tokens, which are taken in turn."""
TTL_S: Final = 600
SILENCE_S: Final = 60.0
READ_BYTES: Final = 1 << 16


@attrs.define
class TokenTurns:
    """A connection, with one session after another: a busy machine may take longer than one lives."""

    _socket: socket.socket
    _session: str = ""
    _seq: int = 0
    _turn: int = 0

    def begin(self) -> None:
        """Wait for the greeting.

        Raises:
            LoadError: the node refuses, or is silent; as all here.
        """
        self._read()

    def open_session(self) -> None:
        """Those that were opened before are left to themselves."""
        self._session = str(self._asked("token_open", {"ttl": TTL_S})["session"])

    def take(self, count: int) -> None:
        """Acquire and release so many times."""
        for _ in range(count):
            self._turn += 1
            named = {"session": self._session, "token": f"turn{self._turn % NAMES:05d}"}
            grant = self._asked("token_acquire", {**named, "wait": 15})
            self._asked("token_release", {**named, "epoch": grant["epoch"], "counter": grant["counter"]})

    def _asked(self, action: str, fields: dict[str, Any]) -> dict[str, Any]:
        self._seq += 1
        self._socket.sendall(msgspec.msgpack.encode({"seq": self._seq, "action": action, **fields}))
        found = self._read()
        if "error" in found:
            raise LoadError(f"{action}: {found}")
        return found

    def _read(self) -> dict[str, Any]:
        data = b""
        while True:
            more = self._socket.recv(READ_BYTES)
            if not more:
                raise LoadError("the node closed the connection")
            data += more
            try:
                return msgspec.msgpack.decode(data, type=dict[str, Any])
            except msgspec.DecodeError:
                continue  # it is not whole


@contextmanager
def open_turns(port: int) -> Iterator[TokenTurns]:
    """A connection to the node at this port of loopback."""
    with socket.create_connection(("127.0.0.1", port), SILENCE_S) as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        turns = TokenTurns(stream)
        turns.begin()
        yield turns
