"""A way to a node that a test holds up or spoils, in the middle of a read.

Knows: frames, and which requests ask for content.  Does not know who reads, nor what for.

Everything else goes through as it came: so the plan is made as always, and what fails is the read.

Invariant: when it is left, its sockets are closed and its threads have ended.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Self

from distkv.wire.frames import decode_request
from distkv.wire.framing import FrameReader
from distkv.wire.request import GetChanges
from tests.process.servers import Server

CHUNK: Final = 1 << 16

Spoiled = Callable[[int], bytes]
"""What is answered instead of content, by the `seq` of the request."""


class Link:
    """The first read of content that has come so far stands still (`hold_bytes`), until `let_go`, and then breaks; or
    each is answered with something else (`spoiled`)."""

    def __init__(self, server: Server, *, hold_bytes: int | None = None, spoiled: Spoiled | None = None) -> None:
        self.reads = 0
        """How many requests asked for content."""
        self._server = server
        self._hold_bytes = hold_bytes
        self._spoiled = spoiled
        self._is_held = threading.Event()
        self._may_go = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = [self._listener]
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go()
        with self._lock:
            for one in self._sockets:
                _close(one)
        for thread in self._threads:
            thread.join()

    def wait_held(self, timeout_s: float) -> bool:
        """Until a read stands still in the middle; False: none does."""
        return self._is_held.wait(timeout_s)

    def let_go(self) -> None:
        """What stood still breaks."""
        self._may_go.set()

    # -- inside

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        with self._lock:
            self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                try:
                    node = self._server.dial(600)
                except OSError:
                    client.close()
                    continue
                with self._lock:
                    self._sockets += [client, node]
                reads = threading.Event()
                self._start(self._upward, client, node, reads)
                self._start(self._downward, client, node, reads)

    def _upward(self, client: socket.socket, node: socket.socket, reads: threading.Event) -> None:
        frames = FrameReader()
        with suppress(OSError):
            while data := client.recv(CHUNK):
                frames.feed(data)
                for frame in frames:
                    request = decode_request(frame)
                    if isinstance(request, GetChanges) and request.content:
                        self.reads += 1
                        reads.set()
                        if self._spoiled is not None:
                            client.sendall(self._spoiled(request.seq))
                            continue
                    node.sendall(frame)
        _close(client)
        _close(node)

    def _downward(self, client: socket.socket, node: socket.socket, reads: threading.Event) -> None:
        passed = 0
        with suppress(OSError):
            while data := node.recv(CHUNK):
                client.sendall(data)
                passed += len(data) if reads.is_set() else 0
                if self._hold_bytes is not None and passed >= self._hold_bytes and not self._may_go.is_set():
                    self._is_held.set()
                    self._may_go.wait()
                    break
        _close(client)
        _close(node)


def _close(one: socket.socket) -> None:
    """Also for who waits for something of it in another thread."""
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
