"""The generator of messages believes nothing: only the answer to its own put, and the message that is next, count.

Knows: how distkv and Redis answer.  Measures nothing.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Mapping
from typing import Literal

import attrs
import pytest
from bench.load import Generator, Load, build

from distkv.errors import BusyError
from distkv.wire.frames import BadRequest, decode_request
from distkv.wire.replies import encode_error, encode_reply
from distkv.wire.topic_requests import TopicGet, TopicPut, TopicSubscribe
from distkv.wire.values import unpack_value
from tests.process.fakes import serve

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: apt-get install gcc libc6-dev")

CONNECTIONS = 3
MESSAGES = 250
COPIES = 2
TAG = 5
RUN_S = 0.2


@pytest.fixture(scope="module")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Generator:
    return build(tmp_path_factory.mktemp("topics"))


@attrs.define
class FakeTopic:
    """As much of a topic as producers and one subscriber need. `fault` says what is wrong with each answer."""

    fault: str = ""
    messages: list[dict[str, object]] = attrs.field(factory=list)
    """That wait."""
    puts: int = 0
    waiting: tuple[socket.socket, int] | None = None
    """Who gets what comes next, and for which request."""

    @property
    def greeting(self) -> bytes:
        """What it says first."""
        return encode_reply(0, {"version": [0, 1, 0]})

    def receive(self, stream: socket.socket, data: bytes) -> None:
        """One request."""
        request = decode_request(data)
        assert not isinstance(request, BadRequest), request
        match request:
            case TopicSubscribe(seq=seq):
                stream.sendall(encode_reply(seq, {"op": 1, "changed": True, "copies": COPIES}))
            case TopicPut() if self.fault == "refused":
                stream.sendall(encode_error(request.seq, BusyError("later")))
            case TopicPut():
                self._put(stream, request)
            case TopicGet(seq=seq, limit=limit, wait_s=wait_s):
                found, self.messages = self.messages[:limit], self.messages[limit:]
                if found or not wait_s:
                    self._give(stream, seq, found)
                else:
                    self.waiting = stream, seq
            case _:
                raise AssertionError(request)

    def _put(self, stream: socket.socket, put: TopicPut) -> None:
        self.puts += 1
        message = {"producer": put.producer, "counter": put.counter, "value": unpack_value(put.value), "time": 1.0}
        if self.fault != "lost" or self.puts % 10:
            self.messages.append(message)
        fields = {"producer": put.producer, "counter": put.counter, "duplicate": False, "copies": COPIES}
        wrong: Mapping[str, Mapping[str, object]] = {
            "producer": {"producer": "p9"}, "counter": {"counter": 0}, "duplicate": {"duplicate": True},
            "copies": {"copies": COPIES - 1},
        }  # fmt: skip
        stream.sendall(encode_reply(put.seq + (self.fault == "seq"), fields | wrong.get(self.fault, {})))
        if self.waiting is not None:
            found, self.messages = self.messages, []
            waiting, self.waiting = self.waiting, None
            self._give(*waiting, found)

    def _give(self, stream: socket.socket, seq: int, found: list[dict[str, object]]) -> None:
        if self.fault == "value":
            found = [one | {"value": f"{one['value']}x"} for one in found]
        if self.fault == "order":
            found = found[::-1]
        if self.fault == "twice":
            found = [one for one in found for _ in range(2)]
        stream.sendall(encode_reply(seq, {"left": len(self.messages), "messages": found}))


def _run(generator: Generator, verb: Literal["put", "get"], fault: str = "") -> tuple[FakeTopic, Load]:
    fake = FakeTopic(fault)
    with serve(fake) as port:
        found = generator.put(
            "distkv", port, verb, connections=CONNECTIONS, depth=1, seconds=RUN_S, count=MESSAGES, copies=COPIES,
            tag=TAG,
        )  # fmt: skip
    return fake, found


def test_put_that_is_answered_is_an_operation_and_all_are_got(generator: Generator) -> None:
    fake, found = _run(generator, "put")
    assert found.failure == ""
    assert found.acknowledged == found.checked == fake.puts


def test_message_that_is_got_is_an_operation(generator: Generator) -> None:
    _, found = _run(generator, "get")
    assert (found.failure, found.ops) == ("", MESSAGES)


def test_message_that_was_waited_for_is_an_operation(generator: Generator) -> None:
    fake = FakeTopic()
    with serve(fake) as port:
        found = generator.put(
            "distkv", port, "tell", connections=1, depth=1, seconds=RUN_S, count=port, copies=COPIES, tag=TAG
        )
    assert found.failure == ""
    assert found.acknowledged == fake.puts


@pytest.mark.parametrize("fault", ["seq", "producer", "counter", "duplicate", "copies"])
def test_answer_to_another_put_is_wrong(generator: Generator, fault: str) -> None:
    _, found = _run(generator, "put", fault)
    assert (found.ops, found.errors) == (0, 0)
    assert found.wrong > 0


@pytest.mark.parametrize("fault", ["lost", "value", "order", "twice"])
@pytest.mark.parametrize("verb", ["put", "get"])
def test_other_messages_than_those_that_were_put_are_wrong(
    generator: Generator, verb: Literal["put", "get"], fault: str
) -> None:
    _, found = _run(generator, verb, fault)
    assert found.wrong > 0


def test_refusals_are_no_operations(generator: Generator) -> None:
    _, found = _run(generator, "put", "refused")
    assert (found.ops, found.acknowledged) == (0, 0)
    assert found.errors > 0
    assert "later" in found.failure
