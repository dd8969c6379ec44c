"""Consumers and producers of topics in each client: who waits, who is interrupted or cancelled, and what is closed.

Knows: what they ask a node, and what they tell their user.  Does not know what their halves decide
(`test_consuming`, `test_producing`).
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import anyio.to_thread
import attrs
import pytest

from distkv.client.async_client import open_client
from distkv.client.blocking import connect
from distkv.client.topic_handle import Failing
from distkv.errors import DistkvError, NotFoundError, NotReadyError, RequestError, UnreachableError
from distkv.wire.replies import encode_error, encode_reply
from distkv.wire.topic_requests import TopicGet, TopicPut, TopicSubscribe
from tests.unit.client.answering_server import AnsweringServer, open_answering
from tests.unit.client.shells import LOOPS, SHELLS

LONG_S = 3600.0


@attrs.define
class FakeNode:
    """One that has a topic with some messages, and keeps whoever waits for more waiting."""

    given: Callable[[int], list[int] | DistkvError]
    """What the get with this number is answered, from 1 on."""
    gets: list[TopicGet] = attrs.field(factory=list)

    def answer(self, request: object) -> bytes:
        match request:
            case TopicSubscribe(seq=seq, op=op):
                return encode_reply(seq, {"op": op or 1, "changed": False, "copies": 1, "unknown": {}})
            case TopicPut(seq=seq):
                return b""
            case TopicGet(seq=seq, wait_s=wait_s):
                self.gets.append(request)
                given = self.given(len(self.gets))
                if isinstance(given, DistkvError):
                    return encode_error(seq, given)
                if wait_s and not given:
                    return b""
                messages = [{"producer": "p", "counter": one, "value": one, "time": 1.0} for one in given]
                return encode_reply(seq, {"messages": messages, "left": 0})
        raise AssertionError(request)

    @property
    def waits(self) -> list[float]:
        """How long each get said to wait, if it did."""
        return [get.wait_s for get in self.gets if get.wait_s]


def nothing(_: int) -> list[int]:
    return []


def received(shell: str, server: AnsweringServer, *waits_s: float) -> list[object]:
    """What a consumer receives, one after another: values, None, and errors."""
    if shell != "blocking":
        return anyio.run(_received, server, waits_s, backend=shell)
    found = list[object]()
    with connect([server.host]) as client, client.consumer("log", id="s") as consumer:
        for wait_s in waits_s:
            try:
                message = consumer.receive(wait_s)
            except DistkvError as error:
                found.append(error)
            else:
                found.append(message and message.value)
    return found


async def _received(server: AnsweringServer, waits_s: tuple[float, ...]) -> list[object]:
    found = list[object]()
    async with open_client([server.host]) as client, client.consumer("log", id="s") as consumer:
        for wait_s in waits_s:
            try:
                message = await consumer.receive(wait_s)
            except DistkvError as error:
                found.append(error)
            else:
                found.append(message and message.value)
    return found


@pytest.mark.parametrize("shell", SHELLS)
def test_receive_waits_for_the_next_message_while_one_is_not_done(shell: str) -> None:
    node = FakeNode(lambda number: [1] if number < 5 else [1, 2])
    with open_answering(node.answer) as server:
        assert received(shell, server, 0.0, LONG_S) == [1, 2]


@pytest.mark.parametrize("shell", SHELLS)
def test_each_receive_says_that_it_is_not_subscribed_any_more(shell: str) -> None:
    ended = NotFoundError("it is not subscribed")
    node = FakeNode(lambda number: ended if number > 2 else [])
    with open_answering(node.answer) as server:
        found = received(shell, server, 0.0, 1.0, 1.0)
    assert [str(one) for one in found] == ["None", str(ended), str(ended)]


def test_errors_are_borne_for_the_patience_from_the_first_one_on() -> None:
    """However long it was that nothing came before."""
    failing, error = Failing(3.0), NotReadyError("it starts")
    assert [failing.refused(error, now_s) for now_s in (1000.0, 1002.0, 1003.0)] == [False, False, True]
    failing.answered()
    assert not failing.refused(error, 2000.0)


def test_lost_connection_is_borne_no_longer() -> None:
    assert Failing(3.0).refused(UnreachableError("no node answers"), 1000.0)


# -- the end of a consumer ----------------------------------------------------------------------------------------


class Interrupt(BaseException):
    """What a signal handler raises."""


@contextmanager
def interrupted_when(server: AnsweringServer, kind: type, count: int) -> Iterator[None]:
    """The block is interrupted by a signal when the server got so many requests of a kind."""

    def handle(_: int, __: FrameType | None) -> None:
        raise Interrupt

    def interrupt() -> None:
        server.wait_asked(kind, count)
        signal.pthread_kill(main, signal.SIGUSR1)

    main, old = threading.get_ident(), signal.signal(signal.SIGUSR1, handle)
    other = threading.Thread(target=interrupt)
    other.start()
    try:
        with pytest.raises(Interrupt):
            yield
    finally:
        other.join()
        signal.signal(signal.SIGUSR1, old)


def test_interrupted_consumer_waits_for_no_message_when_it_is_closed() -> None:
    node = FakeNode(nothing)
    with open_answering(node.answer) as server, connect([server.host]) as client:
        consumer = client.consumer("log", id="s")
        with interrupted_when(server, TopicGet, 2):
            consumer.receive(LONG_S)
        consumer.close()
    assert len(node.waits) == 1


def test_interrupted_consumer_receives_what_comes_later() -> None:
    node = FakeNode(lambda number: [1] if number > 2 else [])
    with open_answering(node.answer) as server, connect([server.host]) as client:
        consumer = client.consumer("log", id="s")
        with interrupted_when(server, TopicGet, 2):
            consumer.receive(LONG_S)
        message = consumer.receive(LONG_S)
    assert message is not None
    assert message.value == 1


def is_interrupted_at(moment: int, call: Callable[[], object]) -> bool:
    """Make a call, which is interrupted at this one of the moments at which Python runs signal handlers: where a
    function begins, or one that is written in C has returned. False: it ended before."""
    left = moment

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal left
        if event in ("call", "c_return") and "/distkv/client/" in frame.f_code.co_filename:
            left -= 1
            if left == 0:
                sys.setprofile(None)
                raise Interrupt

    sys.setprofile(count)
    try:
        call()
    except Interrupt:
        pass
    finally:
        sys.setprofile(None)
    return left <= 0


def test_interrupted_consumer_receives_the_message_that_it_was_about_to_hand_out() -> None:
    """At whichever moment of a call that finds messages here."""
    got: list[int] = []
    with open_answering(FakeNode(lambda _: [*range(1, 100)]).answer) as server, connect([server.host]) as client:
        consumer = client.consumer("log", id="s")

        def receive() -> None:
            message = consumer.receive()
            assert message is not None
            got.append(message.counter)

        receive()
        moment = 1
        while is_interrupted_at(moment, receive):
            moment += 1
        receive()
    assert moment > 5
    assert got == [1, 2, 3]


@pytest.mark.parametrize("loop", LOOPS)
def test_cancelled_consumer_waits_for_no_message_when_it_is_closed(loop: str) -> None:
    node = FakeNode(nothing)

    async def run(server: AnsweringServer) -> None:
        async with (
            open_client([server.host]) as client,
            client.consumer("log", id="s") as consumer,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(consumer.receive, LONG_S)
            await anyio.to_thread.run_sync(server.wait_asked, TopicGet, 2)
            tasks.cancel_scope.cancel()

    with open_answering(node.answer) as server:
        anyio.run(run, server, backend=loop)
    assert len(node.waits) == 1


@pytest.mark.parametrize("loop", LOOPS)
def test_task_that_waits_for_a_message_hears_that_the_consumer_is_closed(loop: str) -> None:
    node, heard = FakeNode(nothing), list[str]()

    async def run(server: AnsweringServer) -> None:
        async with open_client([server.host]) as client:
            consumer = client.consumer("log", id="s")

            async def receive() -> None:
                with pytest.raises(UnreachableError) as caught:
                    await consumer.receive(LONG_S)
                heard.append(str(caught.value))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(receive)
                await anyio.to_thread.run_sync(server.wait_asked, TopicGet, 2)
                await consumer.aclose()

    with open_answering(node.answer) as server:
        anyio.run(run, server, backend=loop)
    assert heard == ["the consumer 's' of 'log' is closed: make another one"]


# -- what is closed -----------------------------------------------------------------------------------------------


def test_closed_client_makes_none_and_locks_no_state(tmp_path: Path) -> None:
    file = tmp_path / "state"
    with open_answering(FakeNode(nothing).answer) as server:
        client = connect([server.host])
        client.close()
        for _ in range(2):
            with pytest.raises(UnreachableError, match="is closed: connect anew"):
                client.producer("p", state=file)
            with pytest.raises(UnreachableError, match="is closed: connect anew"):
                client.consumer("log", id="p", state=file)


@pytest.mark.parametrize("state", [5, b"x", "", "a\0b"])
def test_state_that_is_no_file_is_refused(state: Any) -> None:
    with open_answering(FakeNode(nothing).answer) as server, connect([server.host]) as client:
        with pytest.raises(RequestError, match=r"^state is .*: give the name of a file$"):
            client.producer("p", state=state)
        with pytest.raises(RequestError, match=r"^state is .*: give the name of a file, or a database$"):
            client.consumer("log", id="p", state=state)


def test_done_of_what_is_no_message_is_refused() -> None:
    nobody: Any = None
    with open_answering(FakeNode(nothing).answer) as server, connect([server.host]) as client:
        consumer = client.consumer("log", id="s")
        with pytest.raises(RequestError, match=r"^the message is None: give one"), consumer.done(nobody):
            pass


def test_closed_producer_and_consumer_say_so() -> None:
    with open_answering(FakeNode(nothing).answer) as server, connect([server.host]) as client:
        consumer, producer = client.consumer("log", id="s"), client.producer("p")
        consumer.close()
        producer.close()
        for call in (consumer.receive, consumer.subscribe, consumer.unsubscribe, partial(producer.put, "log", 1)):
            with pytest.raises(UnreachableError, match=r"^the (consumer|producer) .* is closed: make another one$"):
                call()


@pytest.mark.parametrize("loop", LOOPS)
def test_closed_async_producer_and_consumer_say_so(loop: str) -> None:
    async def run(server: AnsweringServer) -> None:
        async with open_client([server.host]) as client:
            consumer, producer = client.consumer("log", id="s"), client.producer("p")
            await consumer.aclose()
            await producer.aclose()
            for call in (consumer.receive, consumer.subscribe, consumer.unsubscribe, partial(producer.put, "log", 1)):
                with pytest.raises(UnreachableError, match=r"^the (consumer|producer) .* is closed: make another one$"):
                    await call()

    with open_answering(FakeNode(nothing).answer) as server:
        anyio.run(run, server, backend=loop)
