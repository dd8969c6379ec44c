"""Many tasks on one client, under trio and under asyncio.

Knows: what pipelining, cancellation and closing look like to tasks.  What both clients share is in `test_reconnect`.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import aclosing

import anyio
import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from distkv.client.async_client import AsyncClient, open_client
from distkv.client.questions import Set
from distkv.errors import ConnectionLostError, NotReadyError, UnreachableError
from distkv.model.event import NodeName, Tick
from distkv.model.path import Path
from distkv.wire.frames import decode_request
from distkv.wire.framing import FrameReader
from distkv.wire.node_requests import GetState, PingRequest
from distkv.wire.replies import encode_end, encode_error, encode_hello, encode_reply, encode_start
from distkv.wire.value_requests import Batch, SetValue
from distkv.wire.values import pack_value
from tests.unit.client.scripted_server import HELLO, Last, ScriptedServer, close, open_server, reply, silence
from tests.unit.client.shells import DEADLINE_S, LOOPS, hosts, opened, running_loop

pytestmark = pytest.mark.anyio

SHOWN = {"chain": {"node": "a", "tick": 1, "prev": None}, "tock": 1, "time": 1.5, "value": 7}


@pytest.fixture(params=LOOPS)
def anyio_backend(request: pytest.FixtureRequest) -> str:
    loop: str = request.param
    return loop


async def test_test_runs_on_the_loop_that_it_asked_for(anyio_backend: str) -> None:
    assert running_loop() == anyio_backend


async def test_greeting_is_shown(anyio_backend: str) -> None:
    with open_server() as server:
        async with opened(anyio_backend, server) as client:
            assert client.hello == HELLO
            assert client.address == f"127.0.0.1:{server.address[1]}"


# -- many tasks ---------------------------------------------------------------------------------------------------


async def test_requests_do_not_wait_for_one_anothers_replies(anyio_backend: str) -> None:
    """The server answers the first request only when it has got the third."""
    answers: list[object] = []

    async def ask(number: int) -> None:
        found = await client.request("x", {"number": number})
        answers.append((number, found["echo"]))

    def all_three(seq: int) -> bytes:
        return b"".join(encode_reply(at, {"echo": at}) for at in (seq - 1, seq, seq - 2))

    with open_server(silence, silence, all_three) as server:
        async with opened(anyio_backend, server) as client, anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(ask, number)
    assert len(answers) == 3
    assert {echo for _, echo in answers} == {1, 2, 3}  # type: ignore[misc]


async def test_cancelled_request_disturbs_no_other(anyio_backend: str) -> None:
    """Its reply comes late, between two others."""
    seen: list[object] = []

    async def ask_in_vain(scope: anyio.CancelScope) -> None:
        with scope:
            seen.append(await client.state())

    with open_server(silence, reply({}), lambda seq: encode_reply(1, {}) + encode_reply(seq, {"state": "x"})) as server:
        async with opened(anyio_backend, server) as client:
            async with anyio.create_task_group() as tasks:
                scope = anyio.CancelScope()
                tasks.start_soon(ask_in_vain, scope)
                await anyio.wait_all_tasks_blocked()
                await client.ping()
                scope.cancel()
            assert await client.state() == {"state": "x"}
    assert seen == []
    assert server.requests == [GetState(1), PingRequest(2), GetState(3)]


async def test_requests_beyond_the_bound_are_not_sent(anyio_backend: str) -> None:
    with open_server(silence) as server:
        bounds = {"open_max": 1, "reply_s": 0.5}
        async with opened(anyio_backend, server, **bounds) as client, anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(_expect, UnreachableError, client.ping)
    assert server.requests == [PingRequest(1)]


async def test_cancelled_request_counts_until_it_is_answered(anyio_backend: str) -> None:
    with open_server(silence) as server:
        async with opened(anyio_backend, server, open_max=1, reply_s=0.1) as client:
            with anyio.move_on_after(0.01) as scope:
                await client.ping()
            assert scope.cancelled_caught
            await _expect(UnreachableError, client.ping)
    assert server.requests == [PingRequest(1)]


async def test_answer_makes_room_for_the_next_request(anyio_backend: str) -> None:
    with open_server(*[reply({})] * 5) as server:
        async with opened(anyio_backend, server, open_max=1) as client, anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(client.ping)
    assert len(server.requests) == 5


async def test_break_makes_room_for_the_next_request(anyio_backend: str) -> None:
    with open_server(close, close, reply({})) as server:
        async with opened(anyio_backend, server, open_max=1) as client:
            for _ in range(2):
                await _expect(ConnectionLostError, lambda: client.set("a", 1))
            await client.ping()
    assert len(server.requests) == 3


async def test_request_that_may_not_be_sent_again_makes_room_for_the_next(anyio_backend: str) -> None:
    other = encode_hello(attrs.evolve(HELLO, node=NodeName("other")))
    with open_server(close, reply({}), greetings=[encode_hello(HELLO)], greeting=other) as server:
        async with opened(anyio_backend, server, open_max=1) as client:
            await _expect(ConnectionLostError, lambda: client.set("a", 1, head=(NodeName("a"), Tick(1))))
            await client.ping()
    assert len(server.requests) == 2


async def test_break_repeats_the_reads_and_fails_the_writes_of_all_tasks(anyio_backend: str) -> None:
    with open_server(silence, silence, close, reply({"echo": 1})) as server:
        async with opened(anyio_backend, server) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(_expect, ConnectionLostError, lambda: client.set("a", 1))
            tasks.start_soon(_expect, ConnectionLostError, lambda: client.delete("a"))
            assert await client.request("x", is_read=True) == {"echo": 1}
    assert len(server.requests) == 4


# -- leaving ------------------------------------------------------------------------------------------------------


async def test_error_of_the_block_comes_out_as_it_is(anyio_backend: str) -> None:
    with open_server() as server, pytest.raises(KeyError, match="mine"):
        async with opened(anyio_backend, server):
            raise KeyError("mine")


async def test_cancellation_of_the_block_ends_it(anyio_backend: str) -> None:
    with open_server(silence) as server:
        with anyio.move_on_after(0.05) as scope:
            async with opened(anyio_backend, server) as client:
                await client.ping()
        assert scope.cancelled_caught


async def test_closed_client_asks_nothing(anyio_backend: str) -> None:
    with open_server() as server:
        async with opened(anyio_backend, server) as client:
            pass
        await _expect(UnreachableError, client.ping)
        await _expect(UnreachableError, client.get_tree("a").__anext__)
    assert server.requests == []


async def test_task_that_waits_when_the_client_is_closed_is_told(anyio_backend: str) -> None:
    async def leave() -> None:
        async with opened(anyio_backend, server) as client:
            tasks.start_soon(_expect, UnreachableError, client.ping)
            await anyio.wait_all_tasks_blocked()

    with open_server(silence) as server:
        async with anyio.create_task_group() as tasks:
            await leave()
    assert server.requests == [PingRequest(1)]


async def test_no_server_is_unreachable(anyio_backend: str) -> None:
    with open_server() as server:
        address = server.address
    assert running_loop() == anyio_backend
    with pytest.raises(UnreachableError, match="distkv server NAME"):
        async with open_client(*address):
            pass


@pytest.mark.parametrize("host", ["x" * 300, "a..b", "host.invalid"])
async def test_host_that_cannot_be_one_is_unreachable(anyio_backend: str, host: str) -> None:
    assert running_loop() == anyio_backend
    with pytest.raises(UnreachableError, match="no server answers at"):
        async with open_client(host):
            pass


async def test_mute_server_is_unreachable(anyio_backend: str) -> None:
    with open_server(greeting=b"") as server, pytest.raises(UnreachableError, match="does not answer"):
        async with opened(anyio_backend, server, connect_s=0.05):
            pass


# -- long results -------------------------------------------------------------------------------------------------


def items(*numbers: int, end: Callable[[int], bytes] | None = encode_end) -> Callable[[int], bytes]:
    def answer(seq: int) -> bytes:
        found = [encode_start(seq), *(encode_reply(seq, {"path": ["a", number], **SHOWN}) for number in numbers)]
        return b"".join(found) + (b"" if end is None else end(seq))

    return answer


async def test_tree_is_iterated(anyio_backend: str) -> None:
    with open_server(items(1, 2, 3), pieces=True) as server:
        async with opened(anyio_backend, server) as client:
            found = [path async for path, entry in client.get_tree("a") if entry.value == 7]
    assert found == [Path(("a", 1)), Path(("a", 2)), Path(("a", 3))]


async def test_other_requests_pass_while_a_tree_is_read(anyio_backend: str) -> None:
    with open_server(items(1, 2), reply({}), reply({})) as server:
        async with opened(anyio_backend, server) as client:
            async for _ in client.get_tree("a"):
                await client.ping()
    assert len(server.requests) == 3


async def test_tree_that_is_left_early_is_closed(anyio_backend: str) -> None:
    with open_server(items(1, 2, end=None)) as server:
        async with opened(anyio_backend, server) as client:
            async with aclosing(client.get_tree("a")) as tree:
                async for _ in tree:
                    break
            assert await anyio.to_thread.run_sync(lambda: server.closed.acquire(timeout=100))
            with pytest.raises(StopAsyncIteration):
                await tree.__anext__()


async def test_tree_that_is_forgotten_is_closed_with_the_client(anyio_backend: str) -> None:
    with open_server(items(1, 2, end=None)) as server:
        async with opened(anyio_backend, server) as client:
            tree = client.get_tree("a")
            await tree.__anext__()
    assert server.closed.acquire(timeout=100)


async def test_refusal_amid_a_tree_is_raised(anyio_backend: str) -> None:
    with open_server(items(1, end=lambda seq: encode_error(seq, NotReadyError("no more")))) as server:
        async with opened(anyio_backend, server) as client:
            tree = client.get_tree("a")
            await tree.__anext__()
            await _expect(NotReadyError, tree.__anext__)


@pytest.mark.parametrize("step", [items(1, end=None), lambda seq: Last(items(1, end=None)(seq))], ids=["mute", "gone"])
async def test_tree_that_breaks_is_unreachable(anyio_backend: str, step: Callable[[int], bytes]) -> None:
    with open_server(step) as server:
        async with opened(anyio_backend, server, reply_s=0.2) as client:
            tree = client.get_tree("a")
            await tree.__anext__()
            await _expect(UnreachableError, tree.__anext__)


# -- what leaves when ---------------------------------------------------------------------------------------------


async def test_question_of_a_task_that_is_cancelled_already_is_not_sent(anyio_backend: str) -> None:
    with open_server(reply({})) as server:
        async with opened(anyio_backend, server) as client:
            with anyio.CancelScope() as scope:
                scope.cancel()
                await client.set("a", 1)
            assert scope.cancelled_caught
            await client.ping()
    assert server.requests == [PingRequest(1)]


async def test_questions_that_the_socket_takes_in_parts_arrive_whole_and_in_order(anyio_backend: str) -> None:
    """The first has no room in the socket at once; those behind it must not pass it, nor tear it."""
    operations = [Set(f"p{number}", "x" * 900_000) for number in range(12)]
    done = reply({"results": [{"changed": True}] * len(operations)})  # for all: tasks begin in any order
    with open_server(done, done, done, limit=20_000_000) as server:
        async with opened(anyio_backend, server) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(client.batch, operations)
            tasks.start_soon(client.ping)
            tasks.start_soon(client.batch, operations)
    sent = tuple(SetValue(0, Path((str(op.path),)), pack_value(op.value), nchain=1) for op in operations)
    requests = sorted(server.requests, key=lambda request: request.seq)  # type: ignore[attr-defined]
    assert requests == server.requests
    assert [request.ops for request in requests if isinstance(request, Batch)] == [sent, sent]


async def test_questions_after_answers_that_came_together_leave_together(anyio_backend: str) -> None:
    """Sent alone, the first of them would be a commit of its own for a node, and the others would wait for two."""
    received: list[bytes] = []

    def serve(listener: socket.socket) -> None:
        line, _ = listener.accept()
        with line:
            line.sendall(encode_hello(HELLO))
            reader, seqs = FrameReader(), []
            while len(seqs) < 4:
                reader.feed(line.recv(1 << 16))
                seqs += [request.seq for request in map(decode_request, reader)]
            line.sendall(b"".join(encode_reply(seq, {}) for seq in seqs))
            received.append(line.recv(1 << 16))
            line.sendall(b"".join(encode_reply(seq + 4, {}) for seq in seqs))
            line.recv(1)

    async def ask_twice(client: AsyncClient) -> None:
        await client.ping()
        await client.ping()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        host, port = listener.getsockname()
        async with opened(anyio_backend, f"{host}:{port}") as client, anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(ask_twice, client)
        thread.join(DEADLINE_S)
    reader = FrameReader()
    reader.feed(received[0])
    assert [decode_request(frame) for frame in reader] == [PingRequest(seq) for seq in range(5, 9)]


async def test_each_task_waits_as_long_as_its_own_question_may_take(anyio_backend: str) -> None:
    """The one that was asked first has an hour, the other one 0.1 s."""
    is_asked = threading.Event()

    def hear(seq: int) -> bytes:
        is_asked.set()
        return silence(seq)

    with open_server(hear, silence) as server:
        async with opened(anyio_backend, server, reply_s=0.1) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(_expect, ConnectionLostError, lambda: client.set("a", 1, replicas=2, timeout_s=3600.0))
            await anyio.to_thread.run_sync(is_asked.wait, DEADLINE_S)
            await _expect(UnreachableError, client.ping)
    assert len(server.requests) == 2


def test_time_is_watched_again_after_nobody_waited_for_long() -> None:
    clock = MockClock()
    is_asked = threading.Event()

    def hear(seq: int) -> bytes:
        is_asked.set()
        return silence(seq)

    async def main(server: ScriptedServer) -> None:
        async with open_client(hosts([server]), reply_s=30.0) as client, trio.open_nursery() as nursery:
            await client.ping()
            clock.jump(1000.0)
            await wait_all_tasks_blocked()
            nursery.start_soon(_expect, UnreachableError, client.ping)
            await trio.to_thread.run_sync(is_asked.wait, DEADLINE_S)
            clock.jump(31.0)

    with open_server(reply({}), hear) as server:
        trio.run(main, server, clock=clock)
    assert len(server.requests) == 2


async def _expect(kind: type[Exception], call: Callable[[], object]) -> None:
    with pytest.raises(kind):
        await call()  # type: ignore[misc]
