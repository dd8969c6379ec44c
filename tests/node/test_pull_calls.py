"""One request to a peer: whatever the peer does, it ends within bounded time, with an answer or with one error.

Knows: the caller, and peers that lie, fall silent or refuse.  Does not know what is asked.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, lockstep_stream_pair, memory_stream_pair

from distkv.engine.followed import HeldTicks
from distkv.errors import BusyError, ExistsError, NoSpaceError, NotReadyError, PeerError, RequestError, TooLargeError
from distkv.model.event import NodeName, Tick, Tock
from distkv.model.ranges import Ranges
from distkv.model.state import State
from distkv.transport.base import FollowHooks
from distkv.transport.peer_line import CONNECT_S, IDLE_S, LINGER_S, Connect
from distkv.transport.pull import PeerCaller
from distkv.wire import packing
from distkv.wire.codec import Payload, encode_payload
from distkv.wire.following import encode_alive
from distkv.wire.framing import FrameReader
from distkv.wire.message import EventBatch, PullEnd
from distkv.wire.replies import Hello, addressed, encode_end, encode_error, encode_hello, encode_reply, encode_start
from distkv.wire.request import Follow, GetEvents
from tests.node.gossip_samples import event

HELLO = encode_hello(Hello((0, 1, 0), NodeName("b"), Tick(1), Tock(1), State.READY, b"12345678", 0))
REQUEST = GetEvents(1, {NodeName("b"): Ranges([(1, 9)])})
BATCH = EventBatch((event(NodeName("b"), 1),))
END = PullEnd({}, {})
ANSWER = encode_start(1) + encode_payload(1, BATCH) + encode_payload(1, END) + encode_end(1)

Serve = Callable[[trio.abc.Stream], Awaitable[None]]


def says(*parts: bytes, closes: bool = True) -> Serve:
    """A peer that says this whatever it is asked, with a pause before each part, and then closes or falls silent."""

    async def serve(stream: trio.abc.Stream) -> None:
        await stream.receive_some()
        for part in parts:
            await trio.sleep(1)
            await stream.send_all(part)
        if not closes:
            await trio.sleep_forever()

    return serve


async def called(serve: Serve, *, lockstep: bool = False, answer_bytes_max: int = 1 << 20) -> list[Payload]:
    """Ask a peer that is served by `serve`; what it answered."""
    taken: list[Payload] = []

    async def take(payload: Payload) -> None:
        await trio.lowlevel.checkpoint()
        taken.append(payload)

    async with trio.open_nursery() as nursery:

        async def connect(host: str, port: int) -> trio.abc.Stream:
            await trio.lowlevel.checkpoint()
            ours, theirs = lockstep_stream_pair() if lockstep else memory_stream_pair()

            async def run() -> None:
                async with theirs:
                    await serve(theirs)

            nursery.start_soon(run)
            return ours

        caller = PeerCaller(connect=connect, answer_bytes_max=answer_bytes_max)
        caller.begin(nursery)
        try:
            await caller.call("b:1", REQUEST, take)
        finally:
            nursery.cancel_scope.cancel()
    return taken


async def failure(serve: Serve, *, lockstep: bool = False, answer_bytes_max: int = 1 << 20) -> PeerError:
    """The error with which a call to such a peer fails."""
    with pytest.RaisesGroup(PeerError, allow_unwrapped=True, flatten_subgroups=True) as caught:
        await called(serve, lockstep=lockstep, answer_bytes_max=answer_bytes_max)
    error: BaseException = caught.value
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, PeerError)
    return error


@pytest.mark.trio
async def test_whole_answer_is_handed_over_item_by_item(autojump_clock: MockClock) -> None:
    taken = await called(says(HELLO + ANSWER))
    assert [type(item) for item in taken] == [EventBatch, PullEnd]


@pytest.mark.trio
async def test_answer_arriving_in_pieces_and_slowly_is_whole(autojump_clock: MockClock) -> None:
    data = HELLO + ANSWER
    pieces = [data[at : at + 20] for at in range(0, len(data), 20)]
    assert [type(item) for item in await called(says(*pieces))] == [EventBatch, PullEnd]


@pytest.mark.trio
async def test_single_reply_ends_the_call_while_the_peer_stays(autojump_clock: MockClock) -> None:
    assert await called(says(HELLO + encode_payload(1, END), closes=False)) == [END]


@pytest.mark.trio
@pytest.mark.parametrize("said", [(), (HELLO,), (HELLO, encode_start(1)), (HELLO, ANSWER[:40])])
async def test_silent_peer_fails_within_the_idle_time(autojump_clock: MockClock, said: tuple[bytes, ...]) -> None:
    began = trio.current_time()
    await failure(says(*said, closes=False))
    assert trio.current_time() - began == pytest.approx(len(said) + IDLE_S)


@pytest.mark.trio
async def test_peer_that_does_not_read_fails_within_the_idle_time(autojump_clock: MockClock) -> None:
    async def deaf(stream: trio.abc.Stream) -> None:
        await trio.sleep_forever()

    began = trio.current_time()
    await failure(deaf, lockstep=True)
    assert trio.current_time() - began == pytest.approx(IDLE_S)


@pytest.mark.trio
@pytest.mark.parametrize("said", [(), (HELLO,), (HELLO, ANSWER[:-2]), (HELLO, encode_start(1))])
async def test_peer_closing_too_early_fails(autojump_clock: MockClock, said: tuple[bytes, ...]) -> None:
    assert "closed the connection" in str(await failure(says(*said)))


@pytest.mark.trio
@pytest.mark.parametrize(
    "said",
    [
        b"\xc1",
        b"HTTP/1.1 400 Bad Request\r\n",
        packing.pack([1, 2]),
        packing.pack({"seq": "x"}),
        HELLO + b"\xc1",
        HELLO + packing.pack({"seq": 1}),
        HELLO + packing.pack({"seq": 1, "events": 7}),
        HELLO + encode_start(1) + packing.pack({"seq": 1, "events": [{"path": []}]}),
        HELLO + packing.pack({"seq": 1, 2: 3}),
    ],
)
async def test_garbage_from_a_peer_fails(autojump_clock: MockClock, said: bytes) -> None:
    assert "cannot be read" in str(await failure(says(said, closes=False)))


@pytest.mark.trio
async def test_answer_without_a_greeting_fails(autojump_clock: MockClock) -> None:
    assert "cannot be read" in str(await failure(says(ANSWER, closes=False)))


@pytest.mark.trio
async def test_answer_above_the_limit_fails(autojump_clock: MockClock) -> None:
    big = HELLO + b"\xc6\x00\x10\x00\x00" + bytes(5000)
    error = await failure(says(big, closes=False), answer_bytes_max=4000)
    assert "at most 4000 bytes" in str(error)


@pytest.mark.trio
@pytest.mark.parametrize("kind", [ExistsError, NotReadyError, NoSpaceError, TooLargeError, BusyError, RequestError])
@pytest.mark.parametrize("before", [b"", HELLO, HELLO + encode_start(1)])
async def test_refusal_of_a_peer_keeps_its_class_and_words(
    autojump_clock: MockClock, before: bytes, kind: type[RequestError]
) -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(kind, match="^no, says the peer$"), allow_unwrapped=True) as caught:
        await called(says(before + encode_error(1 if before else 0, kind("no, says the peer"))))
    assert caught.value is not None


@pytest.mark.trio
async def test_refusal_with_an_unknown_code_is_a_peer_error(autojump_clock: MockClock) -> None:
    error = await failure(says(HELLO + packing.pack({"seq": 1, "error": "odd", "code": "from_the_future"})))
    assert "odd (from_the_future)" in str(error)


def never(error: Exception | None) -> Connect:
    """No connection: this error, or no answer at all."""

    async def connect(host: str, port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        if error is not None:
            raise error
        await trio.sleep_forever()
        raise AssertionError

    return connect


async def failed(caller: PeerCaller, addr: str, why: str = "cannot connect") -> None:
    """A call to an address where nobody can be reached."""
    async with trio.open_nursery() as nursery:
        caller.begin(nursery)
        with pytest.raises(PeerError, match=f"^{re.escape(addr)}: {why}"):
            await caller.call(addr, REQUEST, no_item)


async def no_item(payload: Payload) -> None:
    await trio.lowlevel.checkpoint()
    raise AssertionError(payload)


@pytest.mark.trio
@pytest.mark.parametrize("error", [ConnectionRefusedError("no"), OSError("no route"), UnicodeError("too long")])
async def test_peer_that_cannot_be_connected_to_fails(autojump_clock: MockClock, error: Exception) -> None:
    await failed(PeerCaller(connect=never(error)), "b:1")


@pytest.mark.trio
async def test_reason_is_that_of_the_only_attempt() -> None:
    with socket.socket() as bound:  # nobody listens at it
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        await failed(PeerCaller(), f"127.0.0.1:{port}", "cannot connect: .*refused")


@pytest.mark.trio
async def test_peer_that_never_accepts_fails_in_time(autojump_clock: MockClock) -> None:
    began = trio.current_time()
    await failed(PeerCaller(connect=never(None)), "b:1")
    assert trio.current_time() - began == pytest.approx(CONNECT_S)


@pytest.mark.trio
@pytest.mark.parametrize("addr", ["", "b", "b:", ":1", "b:70000", "b:x"])
async def test_address_that_is_none_fails(autojump_clock: MockClock, addr: str) -> None:
    await failed(PeerCaller(connect=never(None)), addr)


@pytest.mark.trio
@pytest.mark.parametrize("host", ["a..b", "y" * 300, "x\0y"])
async def test_host_that_no_resolver_takes_fails(host: str) -> None:
    await failed(PeerCaller(), f"{host}:1")


# -- a connection that requests share -----------------------------------------------------------------------------


@attrs.define
class Answering:
    """A peer that answers each request with `answer`, some time after it; and what came on each connection."""

    nursery: trio.Nursery
    pause_s: float = 1.0
    heard: list[list[dict[str, Any]]] = attrs.field(factory=list)
    closed: list[float] = attrs.field(factory=list)

    async def connect(self, host: str, port: int) -> trio.abc.Stream:  # noqa: ARG002
        await trio.sleep(0.1)
        ours, theirs = memory_stream_pair()
        self.nursery.start_soon(self._serve, theirs)
        return ours

    async def _serve(self, stream: trio.abc.Stream) -> None:
        heard: list[dict[str, Any]] = []
        self.heard.append(heard)
        await stream.send_all(HELLO)
        reader, turn = FrameReader(), trio.Lock()
        async with trio.open_nursery() as nursery:
            async for data in stream:
                reader.feed(bytes(data))
                for frame in reader:
                    heard.append(packing.unpack(frame))
                    nursery.start_soon(self._answer, stream, turn, heard[-1]["seq"], heard[-1]["action"])
            nursery.cancel_scope.cancel()
        self.closed.append(trio.current_time())

    async def _answer(self, stream: trio.abc.Stream, turn: trio.Lock, seq: int, action: str) -> None:
        parts = [encode_start(seq), encode_payload(seq, BATCH), encode_payload(seq, END), encode_end(seq)]
        if action == "follow":
            parts = [encode_start(seq)] + [addressed(encode_alive(), seq)] * 100
        for part in parts if action in ("get_events", "follow") else [encode_reply(seq, {})]:
            async with turn:
                await stream.send_all(part)
            await trio.sleep(self.pause_s)


@asynccontextmanager
async def answering(pause_s: float = 1.0) -> AsyncIterator[tuple[PeerCaller, Answering]]:
    async with trio.open_nursery() as nursery:
        peer = Answering(nursery, pause_s)
        caller = PeerCaller(connect=peer.connect)
        caller.begin(nursery)
        yield caller, peer
        nursery.cancel_scope.cancel()


async def any_item(item: object) -> None:
    await trio.lowlevel.checkpoint()


def any_seconds(round_trip_s: float) -> None:
    assert round_trip_s >= 0


def actions(heard: list[dict[str, Any]]) -> list[str]:
    return [fields["action"] for fields in heard]


async def nothing_held() -> dict[NodeName, Tick]:
    await trio.sleep_forever()
    raise AssertionError


@pytest.mark.trio
async def test_requests_run_side_by_side_on_one_connection(autojump_clock: MockClock) -> None:
    async with answering() as (caller, peer):
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(caller.call, "b:1", REQUEST, any_item)
        assert trio.current_time() - began < 5
        await caller.call("b:1", REQUEST, any_item)
        assert [[fields["seq"] for fields in heard] for heard in peer.heard] == [[1, 2, 3, 4, 5, 6]]


@pytest.mark.trio
async def test_connection_without_requests_is_closed_after_a_while(autojump_clock: MockClock) -> None:
    async with answering() as (caller, peer):
        await caller.call("b:1", REQUEST, any_item)
        ended = trio.current_time()
        await trio.sleep(3 * LINGER_S)
        assert peer.closed == [pytest.approx(ended + LINGER_S, abs=0.2)]
        await caller.call("b:1", REQUEST, any_item)
        assert len(peer.heard) == 2


@pytest.mark.trio
async def test_each_address_has_a_connection(autojump_clock: MockClock) -> None:
    async with answering() as (caller, peer), trio.open_nursery() as nursery:
        for addr in ("b:1", "c:1", "b:1"):
            nursery.start_soon(caller.call, addr, REQUEST, any_item)
    assert sorted(map(len, peer.heard)) == [1, 2]


@pytest.mark.trio
async def test_follow_that_is_not_wanted_is_stopped_and_its_connection_stays(autojump_clock: MockClock) -> None:
    async with answering() as (caller, peer):
        began: list[bool] = []
        with trio.move_on_after(3.5):
            hooks = FollowHooks(lambda: began.append(True), any_item, lambda: None, nothing_held, any_seconds)
            await caller.follow("b:1", Follow(1, {}), 3.0, hooks)
        await caller.call("b:1", REQUEST, any_item)
        await trio.sleep(0.1)
        assert began == [True]
        assert sorted(actions(peer.heard[0])) == ["follow", "get_events", "ping", "ping", "ping", "stop"]
        (stop,) = [fields for fields in peer.heard[0] if fields["action"] == "stop"]
        assert stop["task"] == peer.heard[0][0]["seq"]


@pytest.mark.trio
async def test_what_is_held_is_said_beside_the_items(autojump_clock: MockClock) -> None:
    async with answering() as (caller, peer):
        held = HeldTicks()

        async def say() -> None:
            for tick in (1, 2, 3):
                await trio.sleep(0.3)
                held.say({NodeName("b"): Tick(tick)})

        with trio.move_on_after(1.5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(say)
                hooks = FollowHooks(lambda: None, any_item, lambda: None, held.next, any_seconds)
                await caller.follow("b:1", Follow(1, {}), 3.0, hooks)
        said = [fields["nodes"] for fields in peer.heard[0] if fields["action"] == "held"]
        assert said == [{"b": 1}, {"b": 2}, {"b": 3}]


@pytest.mark.trio
async def test_what_breaks_one_request_breaks_all_on_the_connection(autojump_clock: MockClock) -> None:
    async with answering() as (caller, peer):
        errors: list[str] = []

        async def refuse(item: object) -> None:
            await trio.sleep(0.5)
            raise PeerError("the disk is full")

        async def ask(take: Callable[[object], Awaitable[None]]) -> None:
            with pytest.raises(PeerError) as caught:
                await caller.call("b:1", REQUEST, take)
            errors.append(str(caught.value))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, any_item)
            nursery.start_soon(ask, refuse)
        assert errors == ["the disk is full"] * 2
        await caller.call("b:1", REQUEST, any_item)
        assert len(peer.heard) == 2


@pytest.mark.trio
async def test_time_that_an_item_takes_here_is_not_the_silence_of_the_peer(autojump_clock: MockClock) -> None:
    async with answering() as (caller, _):

        async def slow(item: object) -> None:
            await trio.sleep(3 * IDLE_S)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(caller.call, "b:1", REQUEST, slow)
            nursery.start_soon(caller.call, "b:1", REQUEST, any_item)
