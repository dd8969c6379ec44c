"""What nobody can mean is refused in one line that names the argument, and nothing is sent: the same for each client.

Knows: arguments of all public functions that a type checker would refuse, or that are beyond a bound.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import anyio
import pytest

import distkv
from distkv.client.blocking import Client, connect
from distkv.client.conflicts import dismiss, restore
from distkv.client.questions import Delete, Get, Set
from distkv.errors import BadPathError, BadValueError, DistkvError, RequestError, SettingsError
from distkv.model.event import NodeName, Tick
from distkv.model.path import Path
from distkv.wire.value_requests import Batch, SetValue
from distkv.wire.values import pack_value
from tests.unit.client.scripted_server import open_server, refusal, reply
from tests.unit.client.shells import LOOPS, SHELLS, Named, perform

HEAD = (NodeName("a"), Tick(1))
DONE = {"changed": True, "chain": {"node": "a", "tick": 2, "prev": None}}



class Unknown:
    """Nothing that can be stored; it is called the same in each process of tests."""

    def __repr__(self) -> str:
        return "Unknown"


UNKNOWN = Unknown()

each_shell = pytest.mark.parametrize("shell", SHELLS)


async def no_plain_function(*_: object) -> None:
    pass


NO_PATHS: list[tuple[Any, ...]] = [
    ("get", ("a", "b")),
    ("get", ["a"]),
    ("get", 5),
    ("get", None),
    ("get", b"a"),
    ("get", "a..b"),
    ("get", 5, Named(at=1.0)),
    ("set", 5, 1),
    ("set_packed", None, b"\x01"),
    ("delete", ["a"]),
    ("get_tree", 5),
    ("history", 5),
    ("list", 5),
    ("delete_tree", 5),
    ("conflicts", 5),
    ("restore", 5),
    ("restore", ("a", "1")),
    ("restore", ("a b", 1)),
    ("restore", ("a", 0)),
    ("restore", ("a", 2**70)),
    ("restore", "no change"),
    ("restore", "a:1", Named(path=5)),
    ("dismiss", None),
    ("watch", 5),
    ("watch_events", ("a",)),
    ("batch", [Get(5)]),  # type: ignore[arg-type]
]
NO_VALUES: list[tuple[Any, ...]] = [
    ("set", "a", None),
    ("set", "a", UNKNOWN),
    ("set", "a", {1, 2}),
    ("set", "a", 1, Named(previous=UNKNOWN)),
    ("set_packed", "a", "text"),
    ("set_packed", "a", b"\x01", Named(previous=1)),
    ("delete", "a", Named(previous=UNKNOWN)),
    ("batch", [Set("a", UNKNOWN)]),
    ("batch", [Delete("a", previous=UNKNOWN)]),
    ("request", "x", {"y": UNKNOWN}),
]
NO_OPTIONS: list[tuple[Any, ...]] = [
    ("get", "a", Named(at="yesterday")),
    ("get", "a", Named(at=float("nan"))),
    ("set", "a", 1, Named(new="yes")),
    ("set", "a", 1, Named(idem=1)),
    ("set", "a", 1, Named(head="a:1")),
    ("set", "a", 1, Named(head=["a", 1])),
    ("set", "a", 1, Named(head=("a", "1"))),
    ("set", "a", 1, Named(ttl="1")),
    ("set", "a", 1, Named(ttl=True)),
    ("set", "a", 1, Named(replicas="2")),
    ("set", "a", 1, Named(replicas=True)),
    ("set", "a", 1, Named(replicas=2, timeout_s="1")),
    ("set", "a", 1, Named(timeout_s=None)),
    ("delete", "a", Named(head="a:1")),
    ("delete", "a", Named(replicas=1.0)),
    ("batch", Set("a", 1)),
    ("batch", 5),
    ("batch", "ab"),
    ("batch", [("a", 1)]),
    ("batch", [Set("a", 1, new="yes")]),  # type: ignore[arg-type]
    ("batch", [Delete("a", head="a:1")]),  # type: ignore[arg-type]
    ("history", "a", Named(limit="1")),
    ("history", "a", Named(before=1.5)),
    ("conflicts", "a", Named(limit="1")),
    ("conflicts", "a", Named(closed="no")),
    ("restore", "a:1", Named(head="a:2")),
    ("restore", "a:1", Named(closed=None)),
    ("dismiss", "a:1", Named(head=5)),
    ("get_tree", "a", Named(min_depth="1")),
    ("get_tree", "a", Named(max_depth=-1)),
    ("get_tree", "a", Named(limit=True)),
    ("watch", "a", Named(fetch=1)),
    ("watch", "a", Named(since="token")),
    ("watch", "a", Named(min_depth=None, max_depth="x")),
    ("watch", "a", Named(on_disconnect="x")),
    ("watch_events", "a", Named(on_connect=no_plain_function)),
    ("retire_node", 5),
    ("retire_node", "a b"),
    ("retire_node", "a", Named(force="yes")),
    ("retry_aside", 5),
    ("drop_aside", None),
    ("request", 5),
    ("request", "x", [1]),
    ("request", "x", {1: 2}),
    ("request", "x", {}, Named(is_read="yes")),
]


def named(call: tuple[Any, ...]) -> str:
    """The same in each process of tests: an address of a function is not."""
    return re.sub(" at 0x[0-9a-f]+", "", " ".join(map(str, call)))


def refused(shell: str, call: tuple[Any, ...]) -> DistkvError:
    with open_server(refusal(RequestError("it was sent"))) as server:
        (failure,) = perform(shell, [server], call)
    assert server.requests == []
    assert isinstance(failure, DistkvError)
    assert len(str(failure).splitlines()) == 1
    return failure


@each_shell
@pytest.mark.parametrize("call", NO_PATHS, ids=named)
def test_what_is_no_path_and_no_change_is_refused(shell: str, call: tuple[Any, ...]) -> None:
    assert type(refused(shell, call)) is BadPathError


@each_shell
@pytest.mark.parametrize("call", NO_VALUES, ids=named)
def test_what_cannot_be_stored_is_refused(shell: str, call: tuple[Any, ...]) -> None:
    assert type(refused(shell, call)) is BadValueError


@each_shell
@pytest.mark.parametrize("call", NO_OPTIONS, ids=named)
def test_option_that_is_none_is_refused(shell: str, call: tuple[Any, ...]) -> None:
    assert type(refused(shell, call)) is RequestError


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (("get", ("a", "b")), r"distkv\.Path\(\('a', 'b'\)\)"),
        (("set", "a", 1, Named(new="yes")), "new is 'yes'"),
        (("set", "a", None), "use delete"),
        (("set", "a", 1, Named(head="x" * 100)), "head is 'x{40}'..., 100 characters"),
        (("set", "a", 1, Named(ttl=10**5000)), "ttl is an integer of 16610 bits"),
    ],
)
def test_refusal_says_what_to_write(call: tuple[Any, ...], says: str) -> None:
    failure = refused("blocking", call)
    with pytest.raises(type(failure), match=says):
        raise failure


@pytest.mark.parametrize("begin", ["watch", "watch_events", "get_tree", "history"])
def test_long_result_is_refused_before_it_is_iterated(begin: str) -> None:
    with open_server() as server, Client([server.address]) as client, pytest.raises(BadPathError):
        getattr(client, begin)(5)


# -- nothing is no value ------------------------------------------------------------------------------------------


def test_operation_that_would_store_nothing_is_refused_when_it_is_made() -> None:
    with pytest.raises(BadValueError, match="use delete"):
        Set("a", None)


@each_shell
@pytest.mark.parametrize("value", [False, 0, "", [], {}, b"", [None]], ids=repr)
def test_values_that_are_falsy_are_stored(shell: str, value: object) -> None:
    with open_server(reply(DONE)) as server:
        perform(shell, [server], ("set", "a", value))
    assert [getattr(request, "value", None) for request in server.requests] == [pack_value(value)]


# -- conditions of a deletion -------------------------------------------------------------------------------------


@each_shell
def test_deletion_carries_its_conditions(shell: str) -> None:
    with open_server(reply(DONE)) as server:
        assert perform(shell, [server], ("delete", "a", Named(head=HEAD, previous=21))) == [True]
    assert server.requests == [SetValue(1, Path(["a"]), None, (HEAD,), False, pack_value(21), nchain=1)]


@each_shell
def test_deletion_in_a_batch_carries_its_conditions(shell: str) -> None:
    with open_server(reply({"results": [DONE]})) as server:
        perform(shell, [server], ("batch", [Delete("a", head=HEAD, previous=21)]))
    assert server.requests == [
        Batch(1, (SetValue(0, Path(["a"]), None, (HEAD,), False, pack_value(21), nchain=1),))
    ]


def test_operation_that_is_refused_here_is_named_by_its_number() -> None:
    failure = refused("blocking", ("batch", [Get("a"), Get("b"), Get("a..b")]))
    assert isinstance(failure, BadPathError)
    assert (failure.op, str(failure)[:6]) == (2, "op 2: ")


# -- connecting ---------------------------------------------------------------------------------------------------

NO_PLACES: list[dict[str, Any]] = [
    {"port": "1"},
    {"port": 1.0},
    {"port": True},
    {"port": None},
    {"port": 0},
    {"port": 65536},
    {"host": 5},
    {"host": None},
    {"host": b"127.0.0.1"},
    {"host": ["127.0.0.1", 27586]},
    {"host": ("127.0.0.1", 27586)},
    {"host": {"127.0.0.1"}},
    {"host": []},
    {"host": ""},
    {"connect_s": "5"},
    {"connect_s": 0},
    {"connect_s": -1},
    {"connect_s": float("nan")},
    {"connect_s": float("inf")},
    {"reply_s": None},
    {"reply_s": True},
]


@pytest.mark.parametrize("arguments", NO_PLACES, ids=str)
def test_place_or_time_that_is_none_is_refused_by_the_blocking_client(arguments: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=r"(port|host|connect_s|reply_s) is|no host is named"):
        connect(**arguments)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("arguments", [*NO_PLACES, {"open_max": 0}, {"open_max": "9"}, {"open_max": 1.5}], ids=str)
def test_place_time_or_bound_that_is_none_is_refused_by_the_async_client(loop: str, arguments: dict[str, Any]) -> None:
    async def main() -> None:
        with pytest.raises(SettingsError, match=r"(port|host|connect_s|reply_s|open_max) is|no host is named"):
            await distkv.open_client(**arguments)

    anyio.run(main, backend=loop)


@pytest.mark.parametrize("addresses", ["127.0.0.1:1", [], ["a:1"], [("a", "1")], [("a",)], 5, ("127.0.0.1", 1)])
def test_addresses_that_are_none_are_refused_with_what_takes_hosts(addresses: Any) -> None:
    with pytest.raises(SettingsError, match=r"distkv\.connect"):
        Client(addresses)


@pytest.mark.parametrize("decide", [restore, dismiss])
def test_link_as_text_and_as_a_pair_are_the_same_change(decide: Callable[..., Any]) -> None:
    assert decide("a:1", head=None).encode(1) == decide(HEAD, head=None).encode(1)
