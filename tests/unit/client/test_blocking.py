"""The blocking client against a server that answers as the test says.

Knows: what a user of the client sees.  Does not know a real node: tests/process does.
"""

from __future__ import annotations

import socket
import threading

import attrs
import pytest

from distkv.client.blocking import Client
from distkv.client.questions import Entry, Set, Written
from distkv.errors import (
    BadPathError,
    BadValueError,
    BusyError,
    ChainMismatchError,
    ConnectionLostError,
    DistkvError,
    ExistsError,
    NoSpaceError,
    NotReadyError,
    PeerError,
    RequestError,
    TooLargeError,
    UnreachableError,
    ValueMismatchError,
)
from distkv.model.event import NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.model.state import State
from distkv.wire.node_requests import GetState, PingRequest
from distkv.wire.replies import encode_error, encode_hello, encode_reply
from distkv.wire.value_requests import Batch, GetValue, SetValue
from distkv.wire.values import pack_value
from tests.unit.client.scripted_server import (
    HELLO,
    ScriptedServer,
    close,
    open_server,
    refusal,
    reply,
    silence,
)

A1 = {"node": "a", "tick": 1, "prev": None}


def connect(*servers: ScriptedServer, connect_s: float = 5.0, reply_s: float = 5.0) -> Client:
    return Client([server.address for server in servers], connect_s=connect_s, reply_s=reply_s)


def dead_address() -> tuple[str, int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return "127.0.0.1", probe.getsockname()[1]


# -- requests and replies -----------------------------------------------------------------------------------------


def test_greeting_is_shown() -> None:
    with open_server() as server, connect(server) as client:
        assert client.hello == HELLO
        assert client.address == f"127.0.0.1:{server.address[1]}"


def test_get_of_a_value_returns_the_entry() -> None:
    answer = reply({"chain": {"node": "b", "tick": 5, "prev": A1}, "tock": 3, "time": 1.5}, pack_value([21]))
    with open_server(answer) as server, connect(server) as client:
        entry = client.get("a.b")
    assert entry == Entry([21], ((NodeName("b"), Tick(5)), (NodeName("a"), Tick(1))), Tock(3), 1.5)
    assert isinstance(server.requests[0], GetValue)
    assert server.requests[0].path == Path(("a", "b"))


def test_get_of_nothing_returns_none() -> None:
    with open_server(reply({})) as server, connect(server) as client:
        assert client.get("a") is None


def test_set_sends_value_and_conditions() -> None:
    answer = reply({"changed": True, "tick": 8, "tock": 9, "chain": {"node": "a", "tick": 8}})
    with open_server(answer) as server, connect(server) as client:
        head = (NodeName("b"), Tick(5))
        written = client.set(Path((None, 1)), {"x": b"y"}, new=True, idem=True, head=head, previous=21)
    assert written == Written(True, (NodeName("a"), Tick(8)))
    assert server.requests == [
        SetValue(1, Path((None, 1)), pack_value({"x": b"y"}), (head,), True, pack_value(21), True, nchain=1)
    ]


def test_set_without_conditions_sends_none() -> None:
    with open_server(reply({"changed": True, "tick": 8, "tock": 9})) as server, connect(server) as client:
        client.set("a", 1)
    assert server.requests == [SetValue(1, Path(("a",)), pack_value(1), nchain=1)]


def test_delete_sends_no_value_and_tells_whether_one_was_there() -> None:
    with open_server(reply({"changed": True}), reply({"changed": False})) as server, connect(server) as client:
        assert [client.delete("a"), client.delete("a")] == [True, False]
    assert [request.value for request in server.requests if isinstance(request, SetValue)] == [None, None]


def test_state_returns_all_fields_but_seq() -> None:
    with open_server(reply({"state": "ready", "new_field": [1]})) as server, connect(server) as client:
        assert client.state() == {"state": "ready", "new_field": [1]}
    assert server.requests == [GetState(1)]


def test_requests_are_numbered_upwards() -> None:
    with open_server(reply({}), reply({}), reply({})) as server, connect(server) as client:
        for _ in range(3):
            client.ping()
    assert server.requests == [PingRequest(1), PingRequest(2), PingRequest(3)]


def test_reply_in_pieces_is_read_whole() -> None:
    with open_server(reply({"state": "ready"}), pieces=True) as server, connect(server) as client:
        assert client.state() == {"state": "ready"}


@pytest.mark.parametrize(
    "error",
    [
        RequestError("r"),
        BadPathError("p"),
        BadValueError("v"),
        TooLargeError("t"),
        ExistsError("e"),
        ChainMismatchError("c"),
        ValueMismatchError("m"),
        NotReadyError("n"),
        NoSpaceError("s"),
        BusyError("b"),
    ],
    ids=lambda error: str(error.code),
)
def test_refusal_raises_the_class_of_its_code_and_the_connection_goes_on(error: DistkvError) -> None:
    with open_server(refusal(error), reply({})) as server, connect(server) as client:
        with pytest.raises(type(error)) as caught:
            client.set("a", 1)
        assert type(caught.value) is type(error)
        assert str(caught.value) == str(error)
        client.ping()


def test_refusal_of_a_newer_server_shows_its_code() -> None:
    class NewError(DistkvError):
        code = "fenced_anew"

    with (
        open_server(refusal(NewError("words"))) as server, connect(server) as client,
        pytest.raises(PeerError, match=r"words \(fenced_anew\)"),
    ):
        client.ping()


def test_value_that_cannot_be_stored_is_not_sent() -> None:
    with open_server() as server, connect(server) as client, pytest.raises(BadValueError):
        client.set("a", 2**70)
    assert server.requests == []


# -- connecting ---------------------------------------------------------------------------------------------------


def test_refused_connection_says_how_to_start_a_server() -> None:
    with pytest.raises(UnreachableError, match="distkv server NAME"):
        Client([dead_address()])


def test_name_that_does_not_resolve_is_unreachable() -> None:
    with pytest.raises(UnreachableError, match=r"no server answers at host\.invalid:1 "):
        Client([("host.invalid", 1)])


@pytest.mark.parametrize("host", ["x" * 300, "a..b", "\udcff"])
def test_host_that_cannot_be_one_is_unreachable(host: str) -> None:
    with pytest.raises(UnreachableError, match="this is no host name"):
        Client([(host, 1)])


def test_next_address_is_tried_when_one_is_dead() -> None:
    with open_server() as server, Client([dead_address(), server.address]) as client:
        assert client.address == f"127.0.0.1:{server.address[1]}"


def test_next_address_is_tried_when_one_is_full() -> None:
    with open_server(greeting=encode_error(0, BusyError("full"))) as full, open_server() as server:
        client = connect(full, server)
        client.close()
        assert client.hello == HELLO


def test_all_addresses_are_named_when_all_are_dead() -> None:
    first, second = dead_address(), dead_address()
    with pytest.raises(UnreachableError) as caught:
        Client([first, second])
    assert f"127.0.0.1:{first[1]}" in str(caught.value)
    assert f"127.0.0.1:{second[1]}" in str(caught.value)


def test_server_without_room_raises_its_error() -> None:
    with open_server(greeting=encode_error(0, BusyError("full"))) as server, pytest.raises(BusyError, match="full"):
        connect(server)


def test_mute_server_is_unreachable() -> None:
    with open_server(greeting=b"") as server, pytest.raises(UnreachableError, match="does not answer"):
        connect(server, connect_s=0.05)


@pytest.mark.parametrize(
    "greeting",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-x\r\n", b"\xc1", encode_reply(0, {}), encode_reply(1, {})],
    ids=["http", "ssh", "no-msgpack", "no-fields", "seq-1"],
)
def test_other_program_is_no_server(greeting: bytes) -> None:
    with open_server(greeting=greeting) as server, pytest.raises(PeerError, match="is no distkv server"):
        connect(server)


@pytest.mark.parametrize("version", [(2, 0, 0), (17, 3, 1)])
def test_server_of_a_distant_release_is_refused(version: tuple[int, int, int]) -> None:
    greeting = encode_hello(attrs.evolve(HELLO, version=version))
    with open_server(greeting=greeting) as server, pytest.raises(PeerError, match="neighbouring releases"):
        connect(server)


def test_server_of_the_next_release_is_accepted() -> None:
    greeting = encode_hello(attrs.evolve(HELLO, version=(1, 9, 0), state=State.CUT_OFF))
    with open_server(greeting=greeting) as server, connect(server) as client:
        assert client.hello.state is State.CUT_OFF


# -- broken connections -------------------------------------------------------------------------------------------


def test_server_that_closes_is_unreachable_from_then_on() -> None:
    with open_server(close) as server, connect(server) as client:
        with pytest.raises(UnreachableError, match="closed the connection"):
            client.ping()
        with pytest.raises(UnreachableError, match="connect anew"):
            client.ping()


def test_server_that_does_not_answer_is_unreachable_from_then_on() -> None:
    with open_server(silence) as server, connect(server, reply_s=0.05) as client:
        with pytest.raises(UnreachableError, match="does not answer"):
            client.ping()
        with pytest.raises(UnreachableError, match="connect anew"):
            client.ping()


def test_reply_to_another_request_is_refused() -> None:
    with (
        open_server(lambda seq: encode_reply(seq + 1, {})) as server, connect(server) as client,
        pytest.raises(PeerError, match="what was not asked"),
    ):
        client.ping()


def test_error_about_the_stream_is_raised_and_ends_the_connection() -> None:
    with open_server(lambda _: encode_error(0, TooLargeError("too much"))) as server, connect(server) as client:
        with pytest.raises(TooLargeError, match="too much"):
            client.set("a", 1)
        with pytest.raises(UnreachableError, match="connect anew"):
            client.ping()


@pytest.mark.parametrize(
    "fields",
    [
        {"tock": 1, "time": 1.5},
        {"chain": A1, "time": 1.5},
        {"chain": A1, "tock": 1},
        {"chain": 3, "tock": 1, "time": 1.5},
    ],
    ids=["no-chain", "no-tock", "no-time", "bad-chain"],
)
def test_reply_with_wrong_fields_is_nonsense(fields: dict[str, object]) -> None:
    with (
        open_server(reply(fields, pack_value(1))) as server, connect(server) as client,
        pytest.raises(PeerError, match="answers nonsense"),
    ):
        client.get("a")


@pytest.mark.parametrize("size", [100_000, 32_000_000], ids=["fits-buffers", "does-not"])
def test_request_that_is_refused_while_it_is_sent_is_told_why(size: int) -> None:
    """The server reads a part, says so, and closes: the rest meets a closed connection."""
    value = b"\xc6" + size.to_bytes(4, "big") + bytes(size)  # `pack_value` would refuse it
    with (
        open_server(limit=1000) as server,
        connect(server) as client,
        pytest.raises(TooLargeError, match="at most 1000 bytes"),
    ):
        client.set_packed("a", value)


def test_request_that_the_socket_takes_in_parts_arrives_whole() -> None:
    operations = [Set(f"p{number}", "x" * 900_000) for number in range(12)]
    done = reply({"results": [{"changed": True}] * len(operations)})
    with open_server(done, reply({}), limit=20_000_000) as server, connect(server) as client:
        assert len(client.batch(operations)) == len(operations)
        client.ping()
    sent = [SetValue(0, Path((str(op.path),)), pack_value(op.value), nchain=1) for op in operations]
    assert server.requests == [Batch(1, tuple(sent)), PingRequest(2)]


def test_server_that_takes_nothing_in_is_told_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        name = listener.getsockname()
        accepted: list[socket.socket] = []
        greeter = threading.Thread(target=lambda: accepted.append(_greeted(listener)))
        greeter.start()
        with (
            Client([name], reply_s=0.1) as client,
            pytest.raises(ConnectionLostError, match="takes nothing in"),
        ):
            client.set_packed("a", b"\xc6" + (32_000_000).to_bytes(4, "big") + bytes(32_000_000))
        greeter.join()
        accepted[0].close()


def _greeted(listener: socket.socket) -> socket.socket:
    """A connection that was greeted, and that nobody reads."""
    connection, _ = listener.accept()
    connection.sendall(encode_hello(HELLO))
    return connection


def test_closed_client_asks_nothing() -> None:
    with open_server() as server:
        client = connect(server)
        client.close()
        client.close()
        with pytest.raises(UnreachableError, match="connect anew"):
            client.ping()
