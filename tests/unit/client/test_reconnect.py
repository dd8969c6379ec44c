"""What becomes of requests when the connection breaks, the same for each client.

Knows: what a user sees of a server that closes, and what such a server is sent again.  Does not know real nodes.
"""

from __future__ import annotations

import anyio
import attrs
import pytest

from distkv.client.addresses import address_text
from distkv.client.blocking import connect
from distkv.client.questions import Delete, Set, Written
from distkv.errors import (
    BusyError,
    ChainMismatchError,
    ConnectionLostError,
    PeerError,
    TooLargeError,
    UnreachableError,
)
from distkv.model.event import NodeName, Tick
from distkv.wire.node_requests import PingRequest
from distkv.wire.replies import encode_error, encode_hello, encode_reply
from distkv.wire.value_requests import Batch, SetValue
from tests.unit.client.scripted_server import HELLO, Last, ScriptedServer, close, open_server, refusal, reply, silence
from tests.unit.client.shells import SHELLS, Named, hosts, opened, perform

HEAD = (NodeName("a"), Tick(1))
ENTRY = {"chain": {"node": "a", "tick": 1, "prev": None}, "tock": 1, "time": 1.5}
DONE = {"changed": True, "chain": {"node": "a", "tick": 2, "prev": None}}
WRITTEN = Written(True, (NodeName("a"), Tick(2)))
OTHER = encode_hello(attrs.evolve(HELLO, node=NodeName("other")))
FULL = encode_error(0, BusyError("full"))

def farewell(seq: int) -> bytes:
    """Answers, and closes."""
    return Last(encode_reply(seq, {}))


each_shell = pytest.mark.parametrize("shell", SHELLS)


@each_shell
def test_read_is_repeated_when_the_connection_breaks(shell: str) -> None:
    with open_server(close, reply({"value": 1} | ENTRY)) as server:
        (entry,) = perform(shell, [server], ("get", "a"))
    assert getattr(entry, "value", None) == 1
    assert len(server.requests) == 2


@each_shell
@pytest.mark.parametrize("call", [("set", "a", 1), ("delete", "a"), ("delete_tree", "a"), ("batch", [Delete("a")])])
def test_write_is_sent_once_and_its_fate_is_said_to_be_unknown(shell: str, call: tuple[object, ...]) -> None:
    with open_server(close, reply({})) as server:
        failure, after = perform(shell, [server], call, ("ping",))
    assert type(failure) is ConnectionLostError
    assert "unknown" in str(failure)
    assert len(server.requests) == 2
    assert server.requests[1] == PingRequest(1)
    assert after is None


@each_shell
def test_write_with_a_head_is_repeated(shell: str) -> None:
    with open_server(close, reply(DONE)) as server:
        assert perform(shell, [server], ("set", "a", 1, Named(head=HEAD))) == [WRITTEN]
    assert [request.chain for request in server.requests if isinstance(request, SetValue)] == [(HEAD,)] * 2


@each_shell
def test_batch_with_a_head_is_repeated(shell: str) -> None:
    with open_server(close, reply({"results": [DONE, DONE]})) as server:
        (results,) = perform(shell, [server], ("batch", [Set("a", 1, head=HEAD), Delete("b")]))
    assert results == (WRITTEN, WRITTEN)
    assert [type(request) for request in server.requests] == [Batch, Batch]


@each_shell
def test_repeated_write_that_is_refused_is_unknown(shell: str) -> None:
    with open_server(close, refusal(ChainMismatchError("another change"))) as server:
        (failure,) = perform(shell, [server], ("set", "a", 1, Named(head=HEAD)))
    assert type(failure) is ConnectionLostError
    assert "another change" in str(failure)


@each_shell
def test_write_with_a_head_is_not_repeated_on_another_node(shell: str) -> None:
    with open_server(close, greetings=[encode_hello(HELLO), OTHER]) as server:
        (failure,) = perform(shell, [server], ("set", "a", 1, Named(head=HEAD)))
    assert type(failure) is ConnectionLostError
    assert "now other answers" in str(failure)
    assert len(server.requests) == 1


@each_shell
def test_next_address_is_taken_when_the_first_has_no_room_any_more(shell: str) -> None:
    with (
        open_server(close, greetings=[encode_hello(HELLO)], greeting=FULL) as first,
        open_server(reply({"state": "ready"})) as second,
    ):
        assert perform(shell, [first, second], ("state",)) == [{"state": "ready"}]
    assert (len(first.requests), len(second.requests)) == (1, 1)


@each_shell
def test_same_address_is_tried_first(shell: str) -> None:
    with open_server(close, reply({})) as first, open_server() as second:
        assert perform(shell, [first, second], ("ping",)) == [None]
    assert (len(first.requests), len(second.requests)) == (2, 0)


@each_shell
def test_attempts_go_on_until_a_node_has_room(shell: str) -> None:
    with open_server(close, reply({}), greetings=[encode_hello(HELLO), FULL, FULL]) as server:
        assert perform(shell, [server], ("ping",)) == [None]


@each_shell
def test_attempts_end_with_the_time_for_a_reply(shell: str) -> None:
    with open_server(close, greetings=[encode_hello(HELLO)], greeting=FULL) as server:
        (failure,) = perform(shell, [server], ("ping",), reply_s=0.2)
    assert type(failure) is UnreachableError
    assert "full" in str(failure)
    assert 3 <= server.connections <= 8  # pauses: 0, then up to 0.05, 0.1, 0.2 seconds; without them, hundreds


@each_shell
def test_silence_ends_with_the_time_for_a_reply(shell: str) -> None:
    with open_server(silence, silence) as server:
        read, write = perform(shell, [server], ("get", "a"), ("set", "a", 1), reply_s=0.1)
    assert type(read) is UnreachableError
    assert "does not answer" in str(read)
    assert type(write) is ConnectionLostError
    assert [getattr(request, "seq", None) for request in server.requests] == [1, 1]  # on a connection each


@each_shell
def test_nonsense_is_not_asked_for_again(shell: str) -> None:
    with open_server(lambda seq: encode_reply(seq + 1, {}), reply({})) as server:
        failure, after = perform(shell, [server], ("ping",), ("ping",))
    assert type(failure) is PeerError
    assert (after, len(server.requests)) == (None, 2)


@each_shell
def test_refusal_of_the_stream_is_raised_and_the_next_request_goes_out(shell: str) -> None:
    with open_server(lambda _: Last(encode_error(0, TooLargeError("too much"))), reply({})) as server:
        failure, after = perform(shell, [server], ("set", "a", 1), ("ping",))
    assert type(failure) is TooLargeError
    assert after is None


@each_shell
def test_request_that_is_refused_while_it_is_sent_is_told_why(shell: str) -> None:
    value = b"\xc6" + (32_000_000).to_bytes(4, "big") + bytes(32_000_000)  # `pack_value` would refuse it
    with open_server(limit=1000) as server:
        (failure,) = perform(shell, [server], ("set_packed", "a", value))
    assert type(failure) is TooLargeError


def test_blocking_client_sees_before_a_write_that_the_server_is_gone() -> None:
    with open_server(farewell, reply(DONE)) as server, connect(*server.address) as client:
        client.ping()
        assert server.closed.acquire(timeout=100)
        assert client.set("a", 1) == WRITTEN
    assert [type(request) for request in server.requests] == [PingRequest, SetValue]


@each_shell
@pytest.mark.parametrize("reply_s", [0.3, 1.0])
def test_client_finds_a_node_that_was_away_for_many_times_its_patience(shell: str, reply_s: float) -> None:
    """However long the pauses between attempts have become."""
    away = [encode_hello(HELLO), *[FULL] * 9]
    with open_server(close, *[reply({})] * 10, greetings=away) as server:
        found = perform(shell, [server], *[("ping",)] * 10, reply_s=reply_s)
    failed = [failure for failure in found if failure is not None]
    assert all(type(failure) is UnreachableError for failure in failed)
    assert found[len(failed) :] == [None] * (10 - len(failed))
    assert len(failed) < 10


@each_shell
def test_node_that_falls_silent_has_its_share_of_the_time_and_the_next_one_is_asked(shell: str) -> None:
    with open_server(silence) as first, open_server(*[reply({"state": "ready"})] * 2) as second:
        assert perform(shell, [first, second], ("state",), ("state",), reply_s=2.0) == [{"state": "ready"}] * 2
    assert (len(first.requests), len(second.requests)) == (1, 2)


@each_shell
def test_node_that_hangs_when_it_should_greet_has_its_share_of_the_time(shell: str) -> None:
    with (
        open_server(close, greetings=[encode_hello(HELLO)], greeting=b"") as first,
        open_server(reply({"state": "ready"})) as second,
    ):
        assert perform(shell, [first, second], ("state",), reply_s=2.0) == [{"state": "ready"}]


@each_shell
def test_write_waits_all_its_time_for_a_silent_node_and_the_next_call_asks_another_one(shell: str) -> None:
    with open_server(silence) as first, open_server(reply(DONE)) as second:
        lost, done = perform(shell, [first, second], ("set", "a", 1), ("set", "a", 1), reply_s=0.5)
    assert type(lost) is ConnectionLostError
    assert done == WRITTEN


@each_shell
def test_client_is_shown_with_its_node_address_and_state(shell: str) -> None:
    with open_server(close) as server:
        if shell == "blocking":
            with connect(hosts([server])) as client:
                shown = [repr(client)]
            shown.append(repr(client))
        else:
            shown = anyio.run(_shown, shell, server, backend=shell)
    name = {"blocking": "Client"}.get(shell, "AsyncClient")
    where = f"<distkv.{name} fake at {address_text(server.address)}"
    assert shown == [f"{where}, connected>", f"{where}, closed>"]


async def _shown(loop: str, server: ScriptedServer) -> list[str]:
    async with opened(loop, server) as client:
        before = repr(client)
    return [before, repr(client)]


@each_shell
def test_closed_client_gives_no_token(shell: str) -> None:
    with open_server() as server:
        if shell == "blocking":
            with connect(hosts([server])) as client:
                pass
            with pytest.raises(UnreachableError, match="is closed"):
                client.token("t")
        else:
            anyio.run(_ask_for_token_when_closed, shell, server, backend=shell)


async def _ask_for_token_when_closed(loop: str, server: ScriptedServer) -> None:
    async with opened(loop, server) as client:
        pass
    with pytest.raises(UnreachableError, match="is closed"):
        client.token("t")
