"""A server that says what a test tells it to, on a real socket in a thread.

Knows: greetings, replies, and how to hold its tongue.  Does not know what a node would answer.

Invariant: when `open_server` is left, its thread has ended and its sockets are closed.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import attrs

from distkv.client.connection import Address
from distkv.errors import DistkvError, TooLargeError
from distkv.model.event import NodeName, Tick, Tock
from distkv.wire.frames import FRAME_BYTES_MAX, FrameReader, decode_request
from distkv.wire.message import State
from distkv.wire.replies import Hello, encode_error, encode_hello, encode_reply

HELLO: Final = Hello((0, 1, 0), NodeName("fake"), Tick(7), Tock(9), State.READY, None, 0)

Step = Callable[[int], bytes | None]
"""From the `seq` of the request to what is sent; None: close."""


def reply(fields: Mapping[str, object], value: bytes | None = None) -> Step:
    """A reply with these fields."""
    return lambda seq: encode_reply(seq, fields, value)


def refusal(error: DistkvError) -> Step:
    """An error reply."""
    return lambda seq: encode_error(seq, error)


def close(_: int) -> None:
    """Close instead of a reply."""


def silence(_: int) -> bytes:
    """No reply, and no close."""
    return b""


@attrs.define
class ScriptedServer:
    """What the server did so far."""

    address: Address
    requests: list[object] = attrs.field(factory=list)
    """What it was asked, decoded; over all connections."""

    @property
    def arguments(self) -> list[str]:
        """How the command line names it."""
        return ["client", "-h", self.address[0], "-p", str(self.address[1])]


@contextmanager
def open_server(
    *script: Step, greeting: bytes | None = None, pieces: bool = False, limit: int = FRAME_BYTES_MAX
) -> Iterator[ScriptedServer]:
    """Serve connections one after another; the script goes on from one to the next.

    Args:
        greeting: sent instead of `HELLO`; empty: nothing.
        pieces: send byte by byte.
        limit: a larger request gets an error, then a close, whatever of it is still to come.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # so that a large request is sent in parts
        server = ScriptedServer(listener.getsockname()[:2])
        steps = iter(script)
        words = encode_hello(HELLO) if greeting is None else greeting
        thread = threading.Thread(target=_serve, args=(listener, server, steps, words, pieces, limit))
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown(socket.SHUT_RDWR)  # wakes the thread from accept
            thread.join(10)
    assert not thread.is_alive(), "the client under test left its connection open"


def _serve(
    listener: socket.socket,
    server: ScriptedServer,
    steps: Iterator[Step],
    greeting: bytes,
    pieces: bool,
    limit: int,
) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            try:
                _send(connection, greeting, pieces)
                _answer(connection, server, steps, pieces, FrameReader(limit))
            except TooLargeError as error:
                connection.sendall(encode_error(0, error))
            except ConnectionError:  # the client left in between, which is for the test to judge
                continue


def _answer(
    connection: socket.socket, server: ScriptedServer, steps: Iterator[Step], pieces: bool, reader: FrameReader
) -> None:
    while data := connection.recv(1 << 16):
        reader.feed(data)
        for frame in reader:
            request = decode_request(frame)
            server.requests.append(request)
            sent = next(steps, close)(request.seq)
            if sent is None:
                return
            _send(connection, sent, pieces)


def _send(connection: socket.socket, data: bytes, pieces: bool) -> None:
    if not pieces:
        connection.sendall(data)
        return
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for at in range(len(data)):
        connection.sendall(data[at : at + 1])
