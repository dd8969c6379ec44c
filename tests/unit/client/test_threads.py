"""Several threads on one blocking client: whose turn it is, and what `close` does to those who wait.

Knows: what each thread gets.  Does not know real nodes; that answers reach who asked is also in tests/process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs
import pytest

from distkv.client.blocking import Client, connect
from distkv.errors import BusyError, ConnectionLostError, UnreachableError
from distkv.wire.replies import encode_error, encode_hello, encode_reply, encode_start
from tests.unit.client.scripted_server import HELLO, Last, Step, close, open_server, reply, silence
from tests.unit.client.shells import hosts

WAIT_S = 30.0


@attrs.define
class Other:
    """A call in another thread, and what came of it."""

    call: Callable[[], object]
    _found: list[object] = attrs.field(factory=list)
    _thread: threading.Thread = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._found.append(self.call())
        except Exception as error:
            self._found.append(error)

    def result(self) -> object:
        """What it returned or raised."""
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive(), "it still waits"
        return self._found[0]


def heard(step: Step) -> tuple[Step, threading.Event]:
    """The same step, and an event when the server has got the question."""
    event = threading.Event()

    def answer(seq: int) -> bytes | None:
        event.set()
        return step(seq)

    return answer, event


@contextmanager
def waiting(step: Step, call: Callable[[Client], object]) -> Iterator[tuple[Client, Other]]:
    """A client on which another thread asked something, which the server has got."""
    first, is_asked = heard(step)
    with open_server(first) as server, connect(hosts([server])) as client:
        other = Other(lambda: call(client))
        assert is_asked.wait(WAIT_S)
        yield client, other


def started(seq: int) -> bytes:
    """A long result that begins, with an item of a tree; nothing more comes."""
    shown = {"path": ["a"], "value": 7, "chain": {"node": "a", "tick": 1, "prev": None}, "tock": 1, "time": 1.5}
    return encode_start(seq) + encode_reply(seq, shown)


def watched(seq: int) -> bytes:
    return encode_reply(seq, {"state": "start"})


# -- taking turns -------------------------------------------------------------------------------------------------


def test_question_that_gets_no_turn_in_time_says_that_others_had_it() -> None:
    first, is_asked = heard(silence)
    with open_server(first) as server, connect(hosts([server]), reply_s=0.1) as client:
        other = Other(lambda: client.set("a", 1, replicas=2, timeout_s=3600.0))
        assert is_asked.wait(WAIT_S)
        with pytest.raises(UnreachableError, match="other threads"):
            client.ping()
        client.close()
        assert isinstance(other.result(), ConnectionLostError)
    assert len(server.requests) == 1


def test_turn_is_given_back_by_a_question_that_failed() -> None:
    with open_server(close, reply({})) as server, connect(hosts([server])) as client:
        with pytest.raises(ConnectionLostError):
            client.set("a", 1)
        assert Other(client.ping).result() is None


# -- closing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "call"),
    [
        (silence, lambda client: client.ping()),
        (watched, lambda client: next(client.watch("a"))),
        (started, lambda client: list(client.get_tree("a"))),
    ],
    ids=["reply", "watch", "tree"],
)
def test_close_ends_what_another_thread_waits_for(step: Step, call: Callable[[Client], object]) -> None:
    with waiting(step, call) as (client, other):
        client.close()
        failure = other.result()
    assert type(failure) is UnreachableError
    assert "connect anew" in str(failure)


def test_close_amid_a_write_of_another_thread_leaves_its_fate_unknown() -> None:
    with waiting(silence, lambda client: client.set("a", 1)) as (client, other):
        client.close()
        assert isinstance(other.result(), ConnectionLostError)


def test_close_ends_a_watch_that_waits_for_its_node_to_come_back() -> None:
    is_lost = threading.Event()
    greetings, full = [encode_hello(HELLO)] * 2, encode_error(0, BusyError("full"))
    with (
        open_server(lambda seq: Last(watched(seq)), greetings=greetings, greeting=full) as server,
        connect(hosts([server])) as client,
    ):
        other = Other(lambda: next(client.watch("a", on_disconnect=lambda _: is_lost.set())))
        assert is_lost.wait(WAIT_S)
        client.close()
        assert isinstance(other.result(), UnreachableError)


@pytest.mark.parametrize(
    ("step", "begin"),
    [
        (lambda seq: encode_reply(seq, {"state": "start"}) + encode_reply(seq, {"state": "uptodate", "token": b"t"}),
         lambda client: client.watch_events("a", fetch=True)),
        (started, lambda client: client.get_tree("a")),
    ],
    ids=["watch", "tree"],
)  # fmt: skip
def test_result_that_was_begun_ends_when_its_client_is_closed(
    step: Step, begin: Callable[[Client], Iterator[object]]
) -> None:
    with open_server(step) as server, connect(hosts([server])) as client:
        items = begin(client)
        next(items)
        client.close()
        with pytest.raises(UnreachableError, match="connect anew"):
            next(items)
        assert server.closed.acquire(timeout=WAIT_S)


@pytest.mark.parametrize(
    "begin", [lambda client: client.watch("a"), lambda client: client.get_tree("a")], ids=["watch", "tree"]
)
def test_closed_client_begins_no_long_result(begin: Callable[[Client], Iterator[object]]) -> None:
    with open_server() as server:
        client = connect(hosts([server]))
        client.close()
        with pytest.raises(UnreachableError, match="connect anew"):
            next(begin(client))
    assert server.requests == []
