"""Connections that are lent, at either end: who takes one, who gives one, and how one ends.

Knows: a caller and peers that say what a test wants.  Does not know nodes (`test_lending`).
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair

from distkv.errors import BusyError, DistkvError, PeerError, RequestError, UnknownActionError
from distkv.model.event import NodeName, Tick, Tock
from distkv.model.state import State
from distkv.transport.base import FollowHooks
from distkv.transport.loans import ANSWER_S, PROBE_S, Lender
from distkv.transport.pull import PeerCaller
from distkv.wire import packing
from distkv.wire.codec import Payload
from distkv.wire.message import EventBatch, PullEnd
from distkv.wire.replies import Hello, encode_error, encode_hello
from distkv.wire.request import Follow, Lend
from tests.node.test_pull_calls import (
    HELLO,
    REQUEST,
    Serve,
    actions,
    answering,
    any_item,
    any_seconds,
    never,
    nothing_held,
    says,
)

B = NodeName("b")
NETWORK = b"12345678"
LENDER = Lender(B, 0, NETWORK, "b:1", "shut")
TAKEN = packing.pack({"seq": 1})


# -- an offer, as the node that makes it sees it ------------------------------------------------------------------


async def offered(serve: Serve) -> DistkvError | None:
    """Why a peer that is served by `serve` did not take a connection; None: it did."""
    async with trio.open_nursery() as nursery:

        async def connect(host: str, port: int) -> trio.abc.Stream:
            await trio.lowlevel.checkpoint()
            ours, theirs = memory_stream_pair()
            nursery.start_soon(serve_and_close, theirs)
            return ours

        async def serve_and_close(stream: trio.abc.Stream) -> None:
            async with stream:
                await serve(stream)

        error: DistkvError | None = None
        try:
            async with PeerCaller(connect=connect).loans.lend(B, "b:1", Lend(1, NodeName("u"), 3, NETWORK)):
                pass
        except (PeerError, RequestError) as cause:
            error = cause
        nursery.cancel_scope.cancel()
    return error


@pytest.mark.trio
async def test_offer_that_is_taken_gives_a_connection(autojump_clock: MockClock) -> None:
    assert await offered(says(HELLO, TAKEN)) is None


@pytest.mark.trio
@pytest.mark.parametrize("kind", [RequestError, BusyError, UnknownActionError])
async def test_refusal_of_an_offer_keeps_its_class(autojump_clock: MockClock, kind: type[RequestError]) -> None:
    assert type(await offered(says(HELLO, encode_error(1, kind("no"))))) is kind


def hello(name: str = "b", network: bytes = NETWORK) -> bytes:
    return encode_hello(Hello((0, 1, 0), NodeName(name), Tick(1), Tock(1), State.READY, network, 0))


@pytest.mark.trio
@pytest.mark.parametrize(
    ("said", "why"),
    [
        ((hello("c"), TAKEN), "c greets there"),
        ((hello(network=b"87654321"), TAKEN), "not of this network"),
        ((HELLO, packing.pack({"seq": 2})), "says more"),
        ((HELLO, TAKEN + b"\x81"), "says more"),
        ((HELLO,), "closed the connection"),
        ((TAKEN,), "cannot be read"),
        ((b"\xc1",), "cannot be read"),
    ],
)
async def test_peer_that_answers_an_offer_with_something_else_gets_none(
    autojump_clock: MockClock, said: tuple[bytes, ...], why: str
) -> None:
    assert why in str(await offered(says(*said)))


@pytest.mark.trio
@pytest.mark.parametrize("said", [(), (HELLO,)])
async def test_peer_that_does_not_answer_an_offer_is_left(autojump_clock: MockClock, said: tuple[bytes, ...]) -> None:
    began = trio.current_time()
    assert "it is silent" in str(await offered(says(*said, closes=False)))
    assert trio.current_time() - began == pytest.approx(ANSWER_S)


# -- an offer, as the node that gets it sees it -------------------------------------------------------------------


@pytest.mark.trio
async def test_offers_that_come_at_once_share_one_attempt_to_dial(autojump_clock: MockClock) -> None:
    dialled = list[str]()

    async def connect(host: str, port: int) -> trio.abc.Stream:
        dialled.append(host)
        return await never(None)(host, port)

    async with trio.open_nursery() as nursery:
        caller, reasons = PeerCaller(connect=connect), list[str]()
        caller.begin(nursery)

        async def check() -> None:
            reasons.append((await caller.loans.check(LENDER)).reason)

        async with trio.open_nursery() as checking:
            for _ in range(10):
                checking.start_soon(check)
        assert (dialled, reasons) == (["b"], ["b:1: cannot connect: no answer within 3 s"] * 10)


@pytest.mark.trio
async def test_node_that_answers_when_it_is_dialled_needs_to_lend_nothing(autojump_clock: MockClock) -> None:
    async with answering() as (caller, _):
        with pytest.raises(RequestError, match="can be dialled"):
            await caller.loans.check(LENDER)


@pytest.mark.trio
async def test_node_at_whose_address_another_one_answers_cannot_be_dialled(autojump_clock: MockClock) -> None:
    async with answering() as (caller, _):
        found = await caller.loans.check(Lender(NodeName("c"), 0, NETWORK, "b:1"))
        assert found.reason == "b:1: another node answers there"


# -- answers that are under way -----------------------------------------------------------------------------------


@pytest.mark.trio
async def test_answer_that_is_under_way_is_whole_when_the_lender_can_be_dialled_again(
    autojump_clock: MockClock,
) -> None:
    async with answering(pause_s=8) as (_, peer), trio.open_nursery() as nursery:
        is_shut, taken, why = True, list[Payload](), list[str]()

        async def connect(host: str, port: int) -> trio.abc.Stream:
            if is_shut:
                raise ConnectionRefusedError("shut")
            return await peer.connect(host, port)

        async def take(payload: Payload) -> None:
            await trio.lowlevel.checkpoint()
            taken.append(payload)

        async def follow() -> None:
            hooks = FollowHooks(lambda: None, any_item, lambda: None, nothing_held, any_seconds)
            with pytest.raises(PeerError) as caught:
                await caller.follow("b:1", Follow(1, {}), 9.0, hooks)
            why.append(str(caught.value))

        caller = PeerCaller(connect=connect)
        caller.begin(nursery)
        nursery.start_soon(caller.loans.borrow, LENDER, await peer.connect("b", 1), lambda: None)
        await trio.sleep(1)
        nursery.start_soon(follow)
        await trio.sleep(PROBE_S - 6)
        nursery.start_soon(caller.call, "b:1", REQUEST, take)
        await trio.sleep(1)
        is_shut = False
        await trio.sleep(5)
        assert (why, caller.loans.reason("b:1"), taken) == (["b:1: it can be dialled again"], None, [])
        await caller.call("b:1", REQUEST, any_item)
        assert [type(item) for item in taken] == [EventBatch, PullEnd]
        assert [actions(heard)[0] for heard in peer.heard] == ["follow", "ping"]
        assert actions(peer.heard[1]).count("get_events") == 1
        assert len(peer.closed) == 1
        nursery.cancel_scope.cancel()
