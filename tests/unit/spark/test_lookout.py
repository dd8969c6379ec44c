"""On which host a stream waits, and what it makes of silence, with servers that say what the test wants.

Knows: the requests that come to a host.  Does not know what is streamed.
"""

from __future__ import annotations

import attrs
import pytest

from distkv.errors import BusyError, PeerError, UnreachableError
from distkv.model.event import NodeName
from distkv.model.ranges import Ranges
from distkv.model.state import State
from distkv.spark.source.lookout import Lookout
from distkv.wire.node_requests import GetState
from distkv.wire.replies import encode_hello
from distkv.wire.request import EventsWait
from tests.process.servers import wait_until
from tests.unit.client.scripted_server import HELLO, Step, close, open_server, refusal, reply

A = NodeName("a")
NEWS = reply({"held": {"a": [5]}})
NOTHING = reply({"held": {}})
AWAY = ("127.0.0.1", 1)


def state(node: str = "a", network: str = "00" * 8) -> Step:
    return reply({"node": node, "network": network, "held": {"a": [[1, 5]]}, "missing": {}, "lost": {}, "members": []})


@pytest.mark.parametrize(("answer", "is_news"), [(NEWS, True), (NOTHING, False)], ids=["news", "nothing"])
def test_wait_tells_whether_a_host_holds_something_new(answer: Step, is_news: bool) -> None:
    with open_server(answer) as server:
        assert Lookout([server.address], 9).wait({A: Ranges([(1, 5)])}, None, 7) is is_news
        (request,) = server.requests
    assert isinstance(request, EventsWait)
    assert (request.nodes, request.others) == ({A: Ranges([(1, 5)])}, True)
    assert 0 < request.timeout_s <= 7


def test_wait_for_some_writers_is_not_ended_by_others() -> None:
    with open_server(NOTHING) as server:
        Lookout([server.address], 9).wait({A: Ranges([(1, 5)])}, {"a", "b"}, 7)
        (request,) = server.requests
    assert isinstance(request, EventsWait)
    assert not request.others
    assert set(request.nodes) == {"a", "b"}
    assert request.nodes[A] == Ranges([(1, 5)])


@pytest.mark.parametrize("failure", [refusal(BusyError("too many")), close], ids=["busy", "gone"])
def test_host_that_refuses_is_replaced_by_the_next_one_and_left_alone(failure: Step) -> None:
    with open_server(failure, failure) as one, open_server(NEWS, NEWS, NEWS) as other:
        lookout = Lookout([one.address, other.address], 9)
        assert all(lookout.wait({}, None, 7) for _ in range(3))
        assert len(one.requests) == 1
        assert len(other.requests) == 3


def test_host_that_is_not_ready_is_not_waited_on() -> None:
    greeting = encode_hello(attrs.evolve(HELLO, state=State.RECOVERING))
    with open_server(greeting=greeting) as one, open_server(NEWS, NEWS) as other:
        lookout = Lookout([one.address, other.address], 9)
        assert lookout.wait({}, None, 7)
        assert lookout.wait({}, None, 7)
        assert not one.requests


def test_hosts_are_waited_on_in_turn() -> None:
    with open_server(*[NOTHING] * 3) as one, open_server(*[NOTHING] * 3) as other:
        lookout = Lookout([one.address, other.address], 9)
        for _ in range(6):
            lookout.wait({}, None, 7)
        assert len(one.requests) == len(other.requests) == 3


def test_silence_is_borne_for_a_while_and_then_told_in_a_line() -> None:
    lookout = Lookout([AWAY], 0.2)
    assert lookout.views() == []
    assert lookout.is_silent

    told: list[str] = []

    def has_ended() -> bool:
        try:
            lookout.views()
        except UnreachableError as error:
            told.append(str(error))
        return bool(told)

    wait_until(has_ended, "the silence is told")
    assert told[0].startswith("no host answers: ")
    assert told[0].endswith("; none has for 0.2 s (gapWait)")


def test_answer_ends_the_silence() -> None:
    with open_server(refusal(BusyError("too many")), state()) as server:
        lookout = Lookout([server.address], 9)
        assert lookout.views() == []
        assert [view.node for view in lookout.views()] == ["a"]
        assert not lookout.is_silent


def test_host_that_is_away_is_left_alone_while_another_one_answers() -> None:
    with open_server(refusal(BusyError("too many"))) as one, open_server(*[state("b")] * 3) as other:
        lookout = Lookout([one.address, other.address], 9)
        for _ in range(3):
            assert [view.node for view in lookout.views()] == ["b"]
        assert [type(request) for request in one.requests] == [GetState]
        assert not lookout.is_due


def test_hosts_of_two_networks_are_refused() -> None:
    with (
        open_server(state("a")) as one,
        open_server(state("b", "11" * 8)) as other,
        pytest.raises(PeerError, match="name hosts of one network"),
    ):
        Lookout([one.address, other.address], 9).views()
