"""A thread that plays a server for the generators of the benchmark.

Knows: sockets.  Does not know what is said on them: a `Fake` does.

Invariant: one thread serves all connections, so a fake needs no locks; it has ended when the block is left.
"""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Fake(Protocol):
    """What is said."""

    @property
    def greeting(self) -> bytes:
        """What it says first."""

    def receive(self, stream: socket.socket, data: bytes) -> None:
        """What a client sent."""


@contextmanager
def serve(fake: Fake) -> Iterator[int]:
    """One thread for all connections, until the block is left; yields the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener, selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        thread = threading.Thread(target=_serve, args=(fake, listener, selector))
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for key in list(selector.get_map().values()):
                assert isinstance(key.fileobj, socket.socket)
                key.fileobj.close()


def _serve(fake: Fake, listener: socket.socket, selector: selectors.BaseSelector) -> None:
    while True:
        for key, _ in selector.select():
            stream = key.fileobj
            assert isinstance(stream, socket.socket)
            try:
                if stream is listener:
                    stream, _ = listener.accept()
                    selector.register(stream, selectors.EVENT_READ)
                    stream.sendall(fake.greeting)
                elif data := stream.recv(1 << 16):
                    fake.receive(stream, data)
                else:
                    raise ConnectionError
            except OSError:
                if stream is listener:
                    return
                selector.unregister(stream)
                stream.close()
