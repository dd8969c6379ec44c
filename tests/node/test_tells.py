"""What services tell other nodes: what leaves in how many writes, what waits, and what is dropped.

Knows: the caller, and peers that are slow, silent or away.  Does not know services.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import attrs
import pytest
import trio
from trio.testing import MockClock, memory_stream_pair

from distkv.config import Limits
from distkv.model.event import NodeName, Tick, Tock
from distkv.model.state import State
from distkv.transport.peer_line import CONNECT_S, IDLE_S, LINGER_S, PROBE_S
from distkv.transport.pull import PeerCaller
from distkv.transport.tells import PEACE_S, TELL_BYTES
from distkv.wire.frames import decode_request
from distkv.wire.framing import FrameReader
from distkv.wire.node_requests import PingRequest
from distkv.wire.peering import TELL_BODIES_MAX
from distkv.wire.replies import Hello, encode_hello, encode_reply
from distkv.wire.request import NodeTell, Request

HELLO = encode_hello(Hello((0, 1, 0), NodeName("b"), Tick(1), Tock(1), State.READY, b"12345678", 0))
ADDR = "b:1"


def tell(*bodies: bytes, service: str = "s") -> NodeTell:
    return NodeTell(1, service, NodeName("a"), 0, bodies, b"12345678", is_quiet=True)


@attrs.define
class Peer:
    """The other side: it reads, and answers pings, or not."""

    over_sockets: bool = False
    reads: bool = True
    answers: bool = True
    refuses: bool = False
    dial_s: float = 0.0
    dials: int = 0
    writes: list[bytes] = attrs.field(factory=list)
    """What came by each read."""
    dropped: list[int] = attrs.field(factory=list)
    streams: list[trio.abc.Stream] = attrs.field(factory=list)
    nursery: trio.Nursery | None = None
    caller: PeerCaller = attrs.field(init=False)

    async def connect(self, host: str, port: int) -> trio.abc.Stream:  # noqa: ARG002
        self.dials += 1
        await trio.sleep(self.dial_s)
        if self.refuses:
            raise ConnectionRefusedError("nobody is there")
        ours: trio.abc.Stream
        theirs: trio.abc.Stream
        if self.over_sockets:
            here, there = trio.socket.socketpair()
            ours, theirs = trio.SocketStream(here), trio.SocketStream(there)
        else:
            ours, theirs = memory_stream_pair()
        self.streams.append(theirs)
        assert self.nursery is not None
        self.nursery.start_soon(self._serve, theirs)
        return ours

    async def _serve(self, stream: trio.abc.Stream) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async with stream:
                await self._answer(stream)

    async def _answer(self, stream: trio.abc.Stream) -> None:
        await stream.send_all(HELLO)
        if not self.reads:
            await trio.sleep_forever()
        reader = FrameReader(1 << 24)
        while data := await stream.receive_some(1 << 16):
            self.writes.append(bytes(data))
            reader.feed(bytes(data))
            for request in map(decode_request, reader):
                if isinstance(request, PingRequest) and self.answers:
                    await stream.send_all(encode_reply(request.seq, {}))

    def tell(self, request: NodeTell) -> None:
        self.caller.tell(ADDR, request, self.dropped.append)

    @property
    def bodies(self) -> list[bytes]:
        return [body for one in requests(self.writes) if isinstance(one, NodeTell) for body in one.bodies]


def requests(parts: list[bytes]) -> list[Request]:
    reader, found = FrameReader(1 << 24), list[Request]()
    for part in parts:
        reader.feed(part)
    for frame in reader:
        request = decode_request(frame)
        assert isinstance(request, Request)
        found.append(request)
    return found


@asynccontextmanager
async def peer(limits: Limits | None = None, change: Callable[[Peer], None] = lambda _: None) -> AsyncIterator[Peer]:
    found = Peer()
    change(found)
    async with trio.open_nursery() as nursery:
        found.nursery = nursery
        found.caller = PeerCaller(connect=found.connect, limits=limits or Limits())
        found.caller.begin(nursery)
        yield found
        nursery.cancel_scope.cancel()


def over_sockets(found: Peer) -> None:
    found.over_sockets = True


def slow_to_dial(found: Peer) -> None:
    found.dial_s = 1.0


# -- what leaves


@pytest.mark.trio
async def test_what_is_told_while_the_connection_is_opened_leaves_as_one_request(autojump_clock: MockClock) -> None:
    async with peer(change=slow_to_dial) as b:
        for body in (b"1", b"2", b"3"):
            b.tell(tell(body))
        await trio.sleep(2)
        assert [one.bodies for one in requests(b.writes) if isinstance(one, NodeTell)] == [(b"1", b"2", b"3")]
        assert (b.dials, b.dropped) == (1, [])


@pytest.mark.trio
async def test_services_have_requests_of_their_own_in_the_order_in_which_they_spoke(autojump_clock: MockClock) -> None:
    async with peer(change=slow_to_dial) as b:
        for service in "sst":
            b.tell(tell(b"x", service=service))
        await trio.sleep(2)
        told = [(one.service, one.bodies) for one in requests(b.writes) if isinstance(one, NodeTell)]
        assert told == [("s", (b"x", b"x")), ("t", (b"x",))]


@pytest.mark.trio
async def test_open_connection_takes_it_in_one_write_at_once(autojump_clock: MockClock) -> None:
    async with peer(change=over_sockets) as b:
        b.tell(tell(b"first"))
        await trio.sleep(1)
        b.writes.clear()
        b.tell(tell(b"1", b"2"))
        await trio.sleep(1)
        assert len(b.writes) == 1
        assert b.bodies == [b"1", b"2"]


@pytest.mark.trio
@pytest.mark.parametrize(("count", "size"), [(TELL_BODIES_MAX + 1, 1), (3, TELL_BYTES // 2)])
async def test_request_is_not_larger_than_the_other_side_takes(
    autojump_clock: MockClock, count: int, size: int
) -> None:
    async with peer(change=slow_to_dial) as b:
        for _ in range(count):
            b.tell(tell(bytes(size)))
        await trio.sleep(2)
        told = [one for one in requests(b.writes) if isinstance(one, NodeTell)]
        assert [len(one.bodies) for one in told] == [count - 1, 1]


# -- what is dropped


@pytest.mark.trio
@pytest.mark.parametrize("limits", [Limits(tells=2), Limits(tell_bytes=2)], ids=["count", "bytes"])
async def test_what_is_beyond_the_bounds_is_dropped(autojump_clock: MockClock, limits: Limits) -> None:
    async with peer(limits, slow_to_dial) as b:
        for body in (b"1", b"2", b"3", b"4"):
            b.tell(tell(body))
        assert b.dropped == [1, 1]
        await trio.sleep(2)
        assert b.bodies == [b"1", b"2"]


@pytest.mark.trio
async def test_node_that_cannot_be_dialled_is_not_tried_for_each_message(autojump_clock: MockClock) -> None:
    async with peer() as b:
        b.refuses = True
        for _ in range(20):
            b.tell(tell(b"x"))
            await trio.sleep(PEACE_S / 20)
        assert b.dials == 1
        assert sum(b.dropped) == 20
        await trio.sleep(PEACE_S)
        b.refuses = False
        b.tell(tell(b"again"))
        await trio.sleep(1)
        assert (b.dials, b.bodies) == (2, [b"again"])


@pytest.mark.trio
async def test_node_whose_address_is_silent_costs_one_attempt(autojump_clock: MockClock) -> None:
    async with peer(Limits(tells=3)) as b:
        b.dial_s = 1000.0
        for body in range(10):
            b.tell(tell(b"%d" % body))
        await trio.sleep(CONNECT_S + 0.1)
        assert (b.dials, sum(b.dropped)) == (1, 10)


@pytest.mark.trio
async def test_peer_that_does_not_read_fills_no_more_than_the_bounds(autojump_clock: MockClock) -> None:
    async with peer(Limits(tells=4), over_sockets) as b:
        b.reads = False
        for _ in range(40):
            b.tell(tell(bytes(64 << 10)))
            await trio.sleep(0.01)
        assert sum(b.dropped) > 20
        await trio.sleep(IDLE_S + 1)
        assert b.dials == 2  # the one that was full is broken, and another one opened


# -- how long a connection is kept


@pytest.mark.trio
@pytest.mark.parametrize("is_socket", [False, True])
async def test_connection_is_kept_while_it_is_told_something(autojump_clock: MockClock, is_socket: bool) -> None:
    async with peer(change=lambda found: setattr(found, "over_sockets", is_socket)) as b:
        for _ in range(int(3 * LINGER_S)):
            b.tell(tell(b"x"))
            await trio.sleep(1)
        assert (b.dials, len(b.bodies)) == (1, int(3 * LINGER_S))
        await trio.sleep(LINGER_S + PROBE_S)
        b.tell(tell(b"x"))
        await trio.sleep(1)
        assert b.dials == 2


@pytest.mark.trio
async def test_connection_whose_other_end_is_gone_without_a_word_is_opened_anew(autojump_clock: MockClock) -> None:
    async with peer(change=over_sockets) as b:
        b.answers = False
        for _ in range(int(2 * (IDLE_S + PROBE_S))):
            b.tell(tell(b"x"))
            await trio.sleep(1)
        assert b.dials >= 2


@pytest.mark.trio
async def test_message_for_a_connection_that_broke_leaves_on_another_one(autojump_clock: MockClock) -> None:
    async with peer(change=over_sockets) as b:
        b.tell(tell(b"1"))
        await trio.sleep(1)
        await b.streams[-1].aclose()
        b.tell(tell(b"2"))
        await trio.sleep(1)
        assert (b.dials, b.bodies, b.dropped) == (2, [b"1", b"2"], [])


@pytest.mark.trio
async def test_connection_is_kept_as_long_after_the_last_message_as_after_a_request(autojump_clock: MockClock) -> None:
    async with peer(change=over_sockets) as b:
        for pause_s in (1.0, PROBE_S - 0.5, LINGER_S - 1):  # the second one brings a ping, the third one none
            b.tell(tell(b"x"))
            await trio.sleep(pause_s)
        b.tell(tell(b"x"))
        await trio.sleep(1)
        assert (b.dials, len(b.bodies)) == (1, 4)
