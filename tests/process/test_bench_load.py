"""The load generator of the benchmark believes nothing: what is not the right answer is no operation.

Knows: how each protocol answers, on one connection with one request under way.  Measures nothing.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable
from functools import partial

import attrs
import pytest
from bench.load import Generator, Load, build

from distkv.errors import BusyError
from distkv.model.fence import Fence
from distkv.wire.frames import BadRequest, decode_request
from distkv.wire.replicated import ReplicatedWrite
from distkv.wire.replies import encode_error, encode_reply
from distkv.wire.value_requests import GetValue, SetValue
from distkv.wire.values import pack_value
from tests.process.fakes import serve

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: apt-get install gcc libc6-dev")

TAG = 5
KEYS = 7
RIGHT_S = 0.5
"""A right answer counts when it comes in this time, and not in its first 15 %."""
WRONG_S = 0.1
"""A wrong one always counts."""

FENCE = Fence(0, 2, 7, "load")
"""Of what is set."""

Answer = Callable[[bytes], bytes]


@pytest.fixture(scope="module")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Generator:
    return build(tmp_path_factory.mktemp("load"))


@attrs.frozen
class FakeServer:
    """Answers every request, of which each comes with one receive."""

    greeting: bytes
    answer: Answer

    def receive(self, stream: socket.socket, data: bytes) -> None:
        stream.sendall(self.answer(data))


def _value(number: int) -> str:
    return f"v{number:08d}.{TAG:08d}".ljust(100, "x")


def _load(generator: Generator, protocol: str, verb: str, answer: Answer, *, seconds: float = WRONG_S) -> Load:
    is_ours = protocol in ("distkv", "numbers", "fenced", "held", "held2")
    greeting = encode_reply(0, {"node": "a"}) if is_ours else b""
    with serve(FakeServer(greeting, answer)) as port:
        run = partial(generator.run, protocol, port, keys=KEYS, family="k", tag=TAG, seconds=seconds)
        return run("get") if verb == "get" else run("fill")


# -- distkv -------------------------------------------------------------------------------------------------------


def _distkv(request: bytes, *, shift: int = 0, suffix: str = "", changed: bool = True) -> bytes:
    asked = decode_request(request)
    assert not isinstance(asked, BadRequest)
    seq = asked.seq + shift
    if isinstance(asked, GetValue):
        number = int(str(asked.path)[-8:])
        return encode_reply(seq, {"tock": 1, "time": 1.5}, pack_value(_value(number)[: 100 - len(suffix)] + suffix))
    return encode_reply(seq, {"changed": changed, "tick": 1, "tock": 1})


def _distkv_numbers(request: bytes) -> bytes:
    """Knows the keys by their numbers only."""
    asked = decode_request(request)
    assert isinstance(asked, GetValue | SetValue)
    top, number = asked.path.names
    assert (top, type(number)) == ("k", int)
    if isinstance(asked, SetValue):
        assert asked.value == pack_value(_value(number))
        return encode_reply(asked.seq, {"changed": True, "tick": 1, "tock": 1})
    return encode_reply(asked.seq, {"tock": 1, "time": 1.5}, pack_value(_value(number)))


def _distkv_held(request: bytes, *, holders: int | None = 3, wanted: int = 3) -> bytes:
    """So many nodes hold what was set; None: it is not said."""
    asked = decode_request(request)
    if not isinstance(asked, ReplicatedWrite):
        return _distkv(request)
    assert asked.replicas == wanted
    said = {} if holders is None else {"replicas": holders}
    return encode_reply(asked.seq, {"changed": True, "tick": 1, "tock": 1, **said})


def _distkv_fenced(request: bytes, *, shown: Fence | None = FENCE) -> bytes:
    """What is read has this fence."""
    asked = decode_request(request)
    if isinstance(asked, SetValue):
        assert asked.fence == FENCE
        return _distkv(request)
    assert isinstance(asked, GetValue)
    assert asked.nchain == 1
    said = {} if shown is None else {"fence": [shown.token, shown.epoch, shown.counter]}
    value = pack_value(_value(int(str(asked.path)[-8:])))
    return encode_reply(asked.seq, {"tock": 1, "time": 1.5, **said}, value)


def _refuse(request: bytes) -> bytes:
    asked = decode_request(request)
    return encode_error(asked.seq, BusyError("later"))


@pytest.mark.parametrize("verb", ["get", "set"])
def test_right_answers_are_operations(generator: Generator, verb: str) -> None:
    found = _load(generator, "distkv", verb, _distkv, seconds=RIGHT_S)
    assert found.failure == ""
    assert found.checked == (KEYS if verb == "set" else 0)


@pytest.mark.parametrize("verb", ["get", "set"])
def test_names_that_are_numbers_are_asked_for_by_integers(generator: Generator, verb: str) -> None:
    found = _load(generator, "numbers", verb, _distkv_numbers, seconds=RIGHT_S)
    assert found.failure == ""
    assert found.checked == (KEYS if verb == "set" else 0)


def test_set_that_three_nodes_hold_is_an_operation(generator: Generator) -> None:
    found = _load(generator, "held", "set", _distkv_held, seconds=RIGHT_S)
    assert found.failure == ""
    assert found.checked == KEYS


@pytest.mark.parametrize("holders", [2, None])
def test_set_that_fewer_nodes_hold_is_no_operation(generator: Generator, holders: int | None) -> None:
    found = _load(generator, "held", "set", partial(_distkv_held, holders=holders))
    assert found.ops == 0
    assert found.wrong > 0


@pytest.mark.parametrize(("holders", "is_right"), [(1, False), (2, True), (3, True)])
def test_set_that_two_nodes_or_more_hold_is_an_operation_where_two_are_wanted(
    generator: Generator, holders: int, is_right: bool
) -> None:
    found = _load(generator, "held2", "set", partial(_distkv_held, holders=holders, wanted=2), seconds=RIGHT_S)
    assert (found.failure == "") == is_right


@pytest.mark.parametrize("verb", ["get", "set"])
def test_sets_are_made_under_a_fence_which_is_read_back(generator: Generator, verb: str) -> None:
    found = _load(generator, "fenced", verb, _distkv_fenced, seconds=RIGHT_S)
    assert found.failure == ""
    assert found.checked == (KEYS if verb == "set" else 0)


@pytest.mark.parametrize("shown", [None, Fence(0, 2, 6, "load"), Fence(0, 3, 7, "load"), Fence(0, 2, 7, "lo")])
def test_set_without_its_fence_is_wrong(generator: Generator, shown: Fence | None) -> None:
    found = _load(generator, "fenced", "set", partial(_distkv_fenced, shown=shown))
    assert (found.acknowledged, found.checked, found.wrong) == (KEYS, KEYS, KEYS)


@pytest.mark.parametrize("verb", ["get", "set"])
def test_error_replies_are_no_operations(generator: Generator, verb: str) -> None:
    found = _load(generator, "distkv", verb, _refuse)
    assert (found.ops, found.acknowledged) == (0, 0)
    assert found.errors > 0
    assert "later" in found.failure


@pytest.mark.parametrize(
    ("verb", "answer"),
    [
        ("get", partial(_distkv, shift=1)),
        ("set", partial(_distkv, shift=1)),
        ("get", partial(_distkv, suffix="y")),
        ("set", partial(_distkv, changed=False)),
        ("get", lambda request: encode_reply(decode_request(request).seq, {})),
    ],
    ids=["seq of get", "seq of set", "last byte of value", "unchanged", "no value"],
)
def test_answers_to_something_else_are_no_operations(generator: Generator, verb: str, answer: Answer) -> None:
    found = _load(generator, "distkv", verb, answer)
    assert found.ops == 0
    assert found.wrong > 0
    assert found.errors == 0


def test_acknowledged_value_that_cannot_be_read_back_is_wrong(generator: Generator) -> None:
    found = _load(generator, "distkv", "set", partial(_distkv, suffix="y"))
    assert (found.acknowledged, found.checked, found.wrong) == (KEYS, KEYS, KEYS)
    assert found.failure


# -- the peers ----------------------------------------------------------------------------------------------------


def _redis(request: bytes, *, to_get: bytes = b"", to_set: bytes = b"+OK\r\n") -> bytes:
    words = request.split(b"\r\n")
    if words[2] == b"SET":
        return to_set
    return to_get or b"$100\r\n" + _value(int(words[4][1:])).encode() + b"\r\n"


@pytest.mark.parametrize("verb", ["get", "set"])
def test_right_answers_of_redis_are_operations(generator: Generator, verb: str) -> None:
    assert _load(generator, "redis", verb, _redis, seconds=RIGHT_S).failure == ""


@pytest.mark.parametrize(
    ("verb", "answer", "errors"),
    [
        ("get", partial(_redis, to_get=b"$-1\r\n"), False),
        ("get", partial(_redis, to_get=b"$100\r\n" + b"x" * 100 + b"\r\n"), False),
        ("get", partial(_redis, to_get=b"-ERR no\r\n"), True),
        ("set", partial(_redis, to_set=b"-MISCONF no\r\n"), True),
        ("set", partial(_redis, to_set=b"$-1\r\n"), False),
    ],
    ids=["nil", "another value", "error of get", "error of set", "nil for set"],
)
def test_other_answers_of_redis_are_not(generator: Generator, verb: str, answer: Answer, *, errors: bool) -> None:
    found = _load(generator, "redis", verb, answer)
    assert found.ops == 0
    assert (found.errors > 0, found.wrong > 0) == (errors, not errors)


def _etcd(status: str, body: str) -> Answer:
    return lambda _: f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


@pytest.mark.parametrize(
    ("verb", "answer", "errors"),
    [
        ("get", _etcd("200 OK", '{"header":{"revision":"1"}}'), False),
        ("get", _etcd("200 OK", '{"kvs":[{"value":"eHh4"}]}'), False),
        ("get", _etcd("500 Oops", '{"error":"no"}'), True),
        ("set", _etcd("503 Busy", '{"revision":"1"}'), True),
    ],
    ids=["no value", "another value", "error of get", "error of set"],
)
def test_other_answers_of_etcd_are_not(generator: Generator, verb: str, answer: Answer, *, errors: bool) -> None:
    found = _load(generator, "etcd", verb, answer)
    assert found.ops == 0
    assert (found.errors > 0, found.wrong > 0) == (errors, not errors)
