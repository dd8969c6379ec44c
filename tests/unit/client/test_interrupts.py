"""A signal handler that raises, as that of Ctrl-C does, at each step of what the main thread asks of a blocking client.

Knows: every step of the client's code, which a trace function counts, and what other calls get afterwards.  Does not
know signals: they come at some of these steps, by chance.
"""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from distkv.client.blocking import Client, connect
from distkv.errors import RequestError, UnreachableError
from distkv.model.path import Path
from distkv.wire.node_requests import PingRequest
from distkv.wire.replies import encode_end, encode_reply, encode_start
from distkv.wire.subtrees import GetTree, Watch
from distkv.wire.token_requests import TokenAcquire, TokenClose, TokenData, TokenKeep, TokenOpen
from distkv.wire.value_requests import GetValue
from tests.unit.client.answering_server import open_answering
from tests.unit.client.scripted_server import Last
from tests.unit.client.test_threads import WAIT_S, Other

OWN = ("/distkv/", "/contextlib.py", "/weakref.py")


@pytest.fixture(autouse=True)
def _quick_garbage_collection() -> Iterator[None]:
    """Of what a test makes itself: the tests before it made much, which takes longer than the test."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _raised_amid_garbage_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes nowhere, and sockets are closed by that collection; pytest would keep both."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)


class Interrupt(BaseException):
    """What the handler raises."""


def is_interrupted(step: int, call: Callable[[], object]) -> bool:
    """Make a call, which is interrupted before this step of it; False: it ended before."""
    left = step

    def count(_: FrameType, event: str, __: object) -> Any:
        nonlocal left
        if event == "opcode":
            left -= 1
            if left == 0:
                sys.settrace(old)
                raise Interrupt
        return count

    def enter(frame: FrameType, _: str, __: object) -> Any:
        if not any(part in frame.f_code.co_filename for part in OWN):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return count

    old = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
    except Interrupt:
        pass
    finally:
        sys.settrace(old)
    return left <= 0


# -- what the server answers --------------------------------------------------------------------------------------

ENTRY = {"chain": {"node": "a", "tick": 1, "prev": None}, "tock": 1, "time": 1.5}


def answer(request: object) -> bytes:
    """As a node would. The value of a path is its text; a keep-alive waits for news."""
    match request:
        case GetValue(seq=seq, path=path):
            return encode_reply(seq, {**ENTRY, "value": str(path)})
        case GetTree(seq=seq):
            item = encode_reply(seq, {**ENTRY, "path": ["t"], "value": 7})
            return encode_start(seq) + item + encode_end(seq)
        case Watch(seq=seq):
            change = {"path": ["w"], "value": 7, "node": "a", "tick": 1, "tock": 1, "time": 1.5, "token": b"t"}
            return encode_reply(seq, {"state": "start"}) + encode_reply(seq, change)
        case TokenOpen(seq=seq):
            return encode_reply(seq, {"session": "5-abc", "ttl": 15.0, "version": 7})
        case TokenAcquire(seq=seq, token=token):
            grant = {"token": token, "epoch": 2, "counter": 3, "shared": False, "version": 7, "data": None}
            return encode_reply(seq, grant)
        case TokenClose(seq=seq, session=session):
            return encode_reply(seq, {"session": session})
        case TokenKeep() | PingRequest():
            return b""
        case TokenData(seq=seq):
            return encode_reply(seq, {})
    raise NotImplementedError(request)


def closing_answer(request: object) -> bytes:
    """The same, but the connection ends with it."""
    return Last(answer(request))


def assert_answered(client: Client) -> None:
    """Both another thread and this one get their own answers, at once."""
    other = Other(lambda: client.get("other"))
    entry = other.result()
    assert getattr(entry, "value", entry) == "other"
    found = client.get("own")
    assert found is not None
    assert found.value == "own"


# -- at each step -------------------------------------------------------------------------------------------------


def get(client: Client) -> None:
    client.get("a")


def read_tree(client: Client) -> None:
    assert [entry.value for _, entry in client.get_tree("t")] == [7]


def watch(client: Client) -> None:
    next(client.watch("w"))


@pytest.mark.parametrize("call", [get, read_tree, watch])
def test_interrupted_call_costs_no_other_call_its_answer(call: Callable[[Client], object]) -> None:
    with open_answering(answer) as server, connect(server.host) as client:
        step = 1
        while is_interrupted(step, lambda: call(client)):
            assert_answered(client)
            step += 1 if call is get else 5
        assert step > 500, "the trace function counts steps"
        gc.collect()
        server.wait_open(1)


def test_interrupted_reconnection_costs_no_other_call_its_answer() -> None:
    with open_answering(closing_answer) as server, connect(server.host) as client:
        step = 1
        while is_interrupted(step, lambda: client.get("a")):
            assert_answered(client)
            step += 17
        gc.collect()
        server.wait_open(0)


def test_interrupted_close_can_be_repeated_and_wakes_who_waits() -> None:
    with open_answering(answer) as server:
        step, is_going_on = 1, True
        while is_going_on:
            with connect(server.host) as client:
                other = Other(client.ping)
                server.wait_asked(PingRequest, step)
                is_going_on = is_interrupted(step, client.close)
                client.close()
                assert isinstance(other.result(), UnreachableError)
            step += 1
        gc.collect()
        server.wait_open(0)


def test_interrupted_holder_of_a_token_keeps_no_session() -> None:
    with open_answering(answer) as server, connect(server.host) as client:

        def hold() -> None:
            with client.token("job") as token:
                token.set_data(1)
                token.check()

        step = 1
        while is_interrupted(step, hold):
            gc.collect()
            server.wait_open(1)  # the session has a connection of its own
            step += 13
        hold()
        server.wait_open(1)
        assert server.requests[TokenClose] >= server.requests[TokenOpen]


def test_signal_handler_that_asks_amid_a_question_of_its_thread_is_refused() -> None:
    found: list[object] = []
    is_handled = threading.Event()

    def handle(*_: object) -> None:
        with pytest.raises(RequestError) as caught:
            client.get("b")
        found.append(caught.value)
        is_handled.set()

    def answer_and_signal(request: object) -> bytes:
        if isinstance(request, GetValue) and request.path == Path.parse("a"):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
            is_handled.wait(WAIT_S)
        return answer(request)

    old = signal.signal(signal.SIGUSR1, handle)
    try:
        with open_answering(answer_and_signal) as server, connect(server.host) as client:
            get(client)
            assert_answered(client)
    finally:
        signal.signal(signal.SIGUSR1, old)
    assert "a client of its own" in str(found[0])
