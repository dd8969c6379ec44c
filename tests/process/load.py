"""Writing and reading at full speed over raw connections, and knowing what was acknowledged.

Knows: frames, pipelining, and that a reply is a promise.  Does not know networks or agents.

Invariant: what `Load.acknowledged` holds was answered with success by the server, whatever became of it later.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Self, TypeAlias, TypeVar

from distkv.errors import DistkvError
from distkv.model.event import Kind, Link, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.wire.asking import encode_request
from distkv.wire.codec import read_payload
from distkv.wire.fields import read_ranges
from distkv.wire.framing import FrameReader
from distkv.wire.message import EventBatch
from distkv.wire.replies import decode_reply, is_end, reply_error
from distkv.wire.request import GetEvents, Request
from distkv.wire.value_requests import GetValue, SetValue
from distkv.wire.values import pack_value
from tests.process.servers import Server

DEPTH: Final = 500
"""Requests under way at a time."""
REPLY_BYTES_MAX: Final = 64 << 20

Content: TypeAlias = tuple[Path, Kind, bytes]
"""What a (node, tick) stands for, for ever."""

Item = TypeVar("Item")


class Wire:
    """A connection on which anything may be sent. A silence of `timeout_s` raises `TimeoutError`."""

    def __init__(self, server: Server, *, timeout_s: float = 20.0) -> None:
        self.socket: Final = server.dial(timeout_s)
        self._reader = FrameReader(REPLY_BYTES_MAX)
        self._seq = 0
        try:
            self.hello: Final = self._receive()
        except BaseException:  # the server may be killed before it says a word
            self.socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def next_seq(self) -> int:
        self._seq += 1
        return self._seq

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> dict[str, object] | None:
        """The next frame; None when the server closed the connection."""
        while (frame := self._reader.next_frame()) is None:
            data = self.socket.recv(1 << 18)
            if not data:
                return None
            self._reader.feed(data)
        return decode_reply(frame)

    def ask(self, requests: Sequence[Request]) -> Iterator[dict[str, object]]:
        """Send all, then give the reply to each as it comes.

        Raises:
            ConnectionError: the server went before the last.
            DistkvError: the first refusal.
        """
        self.send(b"".join(map(encode_request, requests)))
        for _ in requests:
            reply = self._receive()
            error = reply_error(reply)
            if error is not None:
                raise error
            yield reply

    def _receive(self) -> dict[str, object]:
        reply = self.receive()
        if reply is None:
            raise ConnectionResetError("the server closed the connection")
        return reply


def set_many(server: Server, values: Mapping[str, object], depth: int = DEPTH) -> None:
    """Write all, `depth` at a time."""
    with Wire(server) as wire:
        for some in _chunks(values.items(), depth):
            list(wire.ask([SetValue(wire.next_seq(), Path.parse(path), pack_value(value)) for path, value in some]))


def get_many(server: Server, paths: Iterable[str], depth: int = DEPTH) -> dict[str, object]:
    """What is at each of `paths`; those without a value are left out."""
    found: dict[str, object] = {}
    with Wire(server) as wire:
        for some in _chunks(paths, depth):
            replies = wire.ask([GetValue(wire.next_seq(), Path.parse(path)) for path in some])
            found |= {path: reply["value"] for path, reply in zip(some, replies, strict=True) if "value" in reply}
    return found


def events_of(server: Server) -> dict[Link, Content]:
    """Every (node, tick) that this server holds as a winner or an open loser."""
    held = read_ranges(server.state()["held"], "held")
    found: dict[Link, Content] = {}
    with Wire(server) as wire:
        wire.send(encode_request(GetEvents(wire.next_seq(), held)))
        while (item := wire.receive()) is not None and not is_end(item):
            batch = read_payload(item) if "events" in item else None
            if isinstance(batch, EventBatch):
                found |= {event.link: (event.path, event.kind, event.value) for event in batch.events}
    return found


class Load:
    """Writes paths below `top` to one server, in a thread, until it is stopped or the server goes.

    Args:
        server: where to.
        top: the first name of every path.
        depth: how many writes are under way at a time.
        pause_s: between two batches.
        value_bytes: how long a value is, besides its path.
        path_count: how many paths, which are written again and again; None: each is a new one.
    """

    def __init__(
        self,
        server: Server,
        top: str,
        *,
        depth: int = 100,
        pause_s: float = 0.0,
        value_bytes: int = 80,
        path_count: int | None = None,
    ) -> None:
        self.acknowledged: dict[str, object] = {}
        """The last that was written to each path."""
        self.events: dict[Link, Content] = {}
        """All that was written, by the tick that the answer named."""
        self.tocks: dict[Link, Tock] = {}
        self.slowest_s = 0.0
        """The longest that a batch took."""
        self.failure = ""
        """What went wrong, besides that the server went."""
        self.top = top
        self._server = server
        self._depth = depth
        self._pause_s = pause_s
        self._path_count = path_count
        self._filling = "x" * value_bytes
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Wait until the batch under way is answered, or never will be."""
        self._is_over.set()
        self._thread.join()
        assert not self.failure

    def _run(self) -> None:
        try:
            with Wire(self._server) as wire:
                for begin in itertools.count(0, self._depth):
                    if self._is_over.is_set():
                        return
                    self._write(wire, range(begin, begin + self._depth))
                    self._is_over.wait(self._pause_s)
        except ConnectionError:
            return
        except (DistkvError, TimeoutError) as error:
            self.failure = f"{type(error).__name__}: {error}"

    def _write(self, wire: Wire, numbers: Sequence[int]) -> None:
        writes = [(self._path(number), f"{self._server.name} {number} {self._filling}") for number in numbers]
        requests = [SetValue(wire.next_seq(), Path.parse(path), pack_value(value)) for path, value in writes]
        began = time.monotonic()
        for (path, value), request, reply in zip(writes, requests, wire.ask(requests), strict=True):
            tick = reply["tick"]
            assert isinstance(tick, int)
            assert request.value is not None
            self.acknowledged[path] = value
            link = NodeName(self._server.name), Tick(tick)
            self.events[link] = (request.path, Kind.SET, request.value)
            self.tocks[link] = Tock(reply["tock"])  # type: ignore[arg-type]
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)

    def _path(self, number: int) -> str:
        return f"{self.top}.n{number if self._path_count is None else number % self._path_count}"


def _chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    left = iter(items)
    while chunk := list(itertools.islice(left, size)):
        yield chunk
