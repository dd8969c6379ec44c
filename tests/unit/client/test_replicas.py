"""Writes that wait for other nodes, the same for each client.

Knows: what a user asks and sees, and how long a client waits.  Does not know real nodes.
"""

from __future__ import annotations

import time

import pytest

from distkv.client.questions import Written
from distkv.errors import ConnectionLostError, RequestError, UnreachableError
from distkv.model.event import NodeName, Tick
from distkv.model.path import Path
from distkv.wire.replicated import ReplicatedWrite
from distkv.wire.value_requests import SetValue
from distkv.wire.values import pack_value
from tests.unit.client.scripted_server import close, open_server, reply, silence
from tests.unit.client.shells import SHELLS, Named, perform

HEAD = (NodeName("a"), Tick(1))
DONE = {"changed": True, "chain": {"node": "a", "tick": 2, "prev": None}}
LINK = (NodeName("a"), Tick(2))
PACKED = pack_value(1)

each_shell = pytest.mark.parametrize("shell", SHELLS)


@each_shell
@pytest.mark.parametrize(
    ("call", "value", "answer"),
    [
        (("set", "a", 1), PACKED, Written(True, LINK, 2)),
        (("set_packed", "a", PACKED), PACKED, Written(True, LINK, 2)),
        (("set_packed", "a", None), None, Written(True, LINK, 2)),
        (("delete", "a"), None, True),
    ],
)
def test_write_asks_for_replicas_and_tells_how_many_there_are(
    shell: str, call: tuple[object, ...], value: bytes | None, answer: object
) -> None:
    with open_server(reply(DONE | {"replicas": 2})) as server:
        assert perform(shell, [server], (*call, Named(replicas=3, timeout_s=2.5))) == [answer]
    assert server.requests == [ReplicatedWrite(SetValue(1, Path(("a",)), value, nchain=1), 3, 2.5)]


@each_shell
@pytest.mark.parametrize("call", [("set", "a", 1), ("set_packed", "a", PACKED), ("delete", "a")])
def test_write_waits_for_ten_seconds_if_nothing_else_is_said(shell: str, call: tuple[object, ...]) -> None:
    with open_server(reply(DONE | {"replicas": 2})) as server:
        perform(shell, [server], (*call, Named(replicas=2)))
    assert [getattr(request, "timeout_s", None) for request in server.requests] == [10.0]


@each_shell
def test_write_without_replicas_is_on_the_node_that_was_asked(shell: str) -> None:
    with open_server(reply(DONE)) as server:
        assert perform(shell, [server], ("set", "a", 1)) == [Written(True, LINK, 1)]
    assert [type(request) for request in server.requests] == [SetValue]


@each_shell
def test_client_waits_for_as_long_as_the_node_may_and_then_for_the_reply(shell: str) -> None:
    with open_server(silence) as server:
        began = time.monotonic()
        (failure,) = perform(shell, [server], ("set", "a", 1, Named(replicas=3, timeout_s=0.2)), reply_s=0.1)
        took_s = time.monotonic() - began
    assert type(failure) is ConnectionLostError
    assert took_s >= 0.3


@each_shell
def test_other_questions_are_not_waited_for_longer(shell: str) -> None:
    with open_server(reply(DONE | {"replicas": 3}), silence) as server:
        wish = Named(replicas=3, timeout_s=3600.0)
        _, failure = perform(shell, [server], ("set", "a", 1, wish), ("ping",), reply_s=0.1)
    assert type(failure) is UnreachableError


@each_shell
def test_write_with_replicas_is_sent_once(shell: str) -> None:
    with open_server(close, reply({})) as server:
        failure, _ = perform(shell, [server], ("set", "a", 1, Named(replicas=2)), ("ping",))
    assert type(failure) is ConnectionLostError
    assert len(server.requests) == 2


@each_shell
def test_write_with_replicas_and_a_head_is_repeated(shell: str) -> None:
    with open_server(close, reply(DONE | {"replicas": 2})) as server:
        answers = perform(shell, [server], ("set", "a", 1, Named(head=HEAD, replicas=2)))
    assert answers == [Written(True, LINK, 2)]
    assert [type(request) for request in server.requests] == [ReplicatedWrite] * 2


@each_shell
@pytest.mark.parametrize("wish", [{"replicas": 0}, {"replicas": 2, "timeout_s": float("inf")}])
def test_wish_that_no_node_takes_is_not_sent(shell: str, wish: dict[str, object]) -> None:
    with open_server() as server:
        (failure,) = perform(shell, [server], ("delete", "a", Named(wish)))
    assert type(failure) is RequestError
    assert server.requests == []
