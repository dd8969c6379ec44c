"""A server that says what a test tells it to, on real sockets in threads.

Knows: greetings, replies, and how to hold its tongue.  Does not know what a node would answer.

Invariant: when `open_server` is left, its threads have ended and its sockets are closed.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import Final

import attrs

from distkv.client.addresses import Address, UnixAddress, address_text
from distkv.errors import DistkvError, TooLargeError
from distkv.model.event import NodeName, Tick, Tock
from distkv.model.state import State
from distkv.wire.frames import decode_request
from distkv.wire.framing import FRAME_BYTES_MAX, FrameReader
from distkv.wire.replies import Hello, encode_error, encode_hello, encode_reply

HELLO: Final = Hello((0, 1, 0), NodeName("fake"), Tick(7), Tock(9), State.READY, None, 0)

Step = Callable[[int], bytes | None]
"""From the `seq` of the request to what is sent; None: close."""


class Last(bytes):
    """Sent by a step, and then the connection is closed."""


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
    connections: int = 0
    """How many it accepted."""
    closed: threading.Semaphore = attrs.field(factory=lambda: threading.Semaphore(0))
    """Counts the connections that it has closed."""

    @property
    def arguments(self) -> list[str]:
        """How the command line names it."""
        return ["client", "-h", address_text(self.address)]


@contextmanager
def open_server(
    *script: Step,
    greeting: bytes | None = None,
    greetings: Sequence[bytes] = (),
    pieces: bool = False,
    limit: int = FRAME_BYTES_MAX,
    path: Path | None = None,
) -> Iterator[ScriptedServer]:
    """Serve; the script goes on from one connection to the next.

    Args:
        greeting: sent instead of `HELLO`; empty: nothing.
        greetings: those of the first connections.
        pieces: send byte by byte.
        limit: a larger request gets an error, then a close, whatever of it is still to come.
        path: of the Unix socket to listen at; None: at a port of 127.0.0.1.
    """
    with _listener(path) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # so that a large request is sent in parts
        server = ScriptedServer(UnixAddress(str(path)) if path else listener.getsockname()[:2])
        words = encode_hello(HELLO) if greeting is None else greeting
        serving = _Serving(server, iter(script), chain(greetings, repeat(words)), pieces, limit)
        thread = threading.Thread(target=_accept, args=(listener, serving))
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown(socket.SHUT_RDWR)  # wakes the thread from accept
            thread.join(10)
            for other in serving.threads:
                other.join(10)
    threads = [thread, *serving.threads]
    assert not any(one.is_alive() for one in threads), "the client under test left its connection open"


def _listener(path: Path | None) -> socket.socket:
    if path is None:
        return socket.create_server(("127.0.0.1", 0))
    found = socket.socket(socket.AF_UNIX)
    found.bind(str(path))
    found.listen()
    return found


@attrs.define
class _Serving:
    server: ScriptedServer
    steps: Iterator[Step]
    greetings: Iterator[bytes]
    pieces: bool
    limit: int
    threads: list[threading.Thread] = attrs.field(factory=list)


def _accept(listener: socket.socket, serving: _Serving) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        serving.server.connections += 1
        thread = threading.Thread(target=_serve, args=(connection, serving, next(serving.greetings)))
        serving.threads.append(thread)
        thread.start()


def _serve(connection: socket.socket, serving: _Serving, greeting: bytes) -> None:
    try:
        with connection:
            try:
                _send(connection, greeting, serving.pieces)
                _answer(connection, serving.server, serving.steps, serving.pieces, FrameReader(serving.limit))
            except TooLargeError as error:
                connection.sendall(encode_error(0, error))
    except ConnectionError:  # the client left in between, which is for the test to judge
        pass
    serving.server.closed.release()


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
            if isinstance(sent, Last):
                return


def _send(connection: socket.socket, data: bytes, pieces: bool) -> None:
    if not pieces:
        connection.sendall(data)
        return
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for at in range(len(data)):
        connection.sendall(data[at : at + 1])
