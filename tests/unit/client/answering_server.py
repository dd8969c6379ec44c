"""A server that answers each request by what is in it, on real sockets in threads.

Knows: requests, and how many connections are open.  Does not know in which order things happen; `scripted_server` does.

Invariant: when `open_answering` is left, its threads have ended and its sockets are closed.
"""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import attrs

from distkv.client.addresses import address_text
from distkv.wire.frames import decode_request
from distkv.wire.framing import FrameReader
from distkv.wire.replies import encode_hello
from tests.unit.client.scripted_server import HELLO, Last

Answer = Callable[[object], bytes]
"""From a request to what is sent; after a `Last` the connection is closed."""

DEADLINE_S = 300.0


@attrs.define
class AnsweringServer:
    """What the server has seen."""

    host: str
    requests: Counter[type] = attrs.field(factory=Counter)
    _open: int = 0
    _changed: threading.Condition = attrs.field(factory=threading.Condition)

    def wait_open(self, count: int) -> None:
        """Until so many connections are open."""
        self._wait(lambda: self._open == count)

    def wait_asked(self, kind: type, count: int) -> None:
        """Until it got so many requests of a kind."""
        self._wait(lambda: self.requests[kind] == count)

    def opened(self, count: int) -> None:
        """So many more are open."""
        with self._changed:
            self._open += count
            self._changed.notify_all()

    def asked(self, request: object) -> None:
        """A request came."""
        with self._changed:
            self.requests[type(request)] += 1
            self._changed.notify_all()

    def _wait(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, DEADLINE_S), (self._open, self.requests)


@contextmanager
def open_answering(answer: Answer) -> Iterator[AnsweringServer]:
    """Serve at a port of 127.0.0.1."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = AnsweringServer(address_text(listener.getsockname()[:2]))
        thread = threading.Thread(target=_accept, args=(listener, server, answer))
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown(socket.SHUT_RDWR)  # wakes the thread from accept
            thread.join(DEADLINE_S)
            server.wait_open(0)


def _accept(listener: socket.socket, server: AnsweringServer, answer: Answer) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        server.opened(1)
        threading.Thread(target=_serve, args=(connection, server, answer)).start()


def _serve(connection: socket.socket, server: AnsweringServer, answer: Answer) -> None:
    with connection, suppress(ConnectionError):
        connection.sendall(encode_hello(HELLO))
        reader, is_last = FrameReader(), False
        while not is_last and (data := connection.recv(1 << 16)):
            reader.feed(data)
            for frame in reader:
                request = decode_request(frame)
                server.asked(request)
                sent = answer(request)
                connection.sendall(sent)
                is_last = isinstance(sent, Last)
    server.opened(-1)
