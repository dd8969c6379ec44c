"""The client library with a real node that is killed and started again.

Knows: the public API, and when the server lives.  Does not know how the clients do it; that is tests/unit/client.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import anyio
import pytest

import distkv
from distkv import Delete, Get, Path, Set
from tests.process.servers import Server, Servers, open_servers, wait_until
from tests.unit.client.shells import LOOPS, SHELLS, Named, perform, running_loop


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One node for all tests that leave it running."""
    with open_servers(tmp_path_factory.mktemp("shared")) as servers:
        yield start(servers)


def start(servers: Servers) -> Server:
    server = servers.start("a", "--transport", "solo", "--init", "hello")
    server.wait_ready()
    return server


def restart(server: Server) -> None:
    """As a power cut would end it."""
    server.kill()
    server.start("--transport", "solo")
    server.wait_ready()


each_shell = pytest.mark.parametrize("shell", SHELLS)
each_loop = pytest.mark.parametrize("loop", LOOPS)


@asynccontextmanager
async def opened(loop: str, *servers: Server) -> AsyncIterator[distkv.AsyncClient]:
    """A client under the event loop that the test asked for, for a bounded time."""
    assert running_loop() == loop
    with anyio.fail_after(60):
        async with distkv.open_client([server.address for server in servers]) as client:
            yield client


# -- what can be asked --------------------------------------------------------------------------------------------


@each_shell
def test_value_is_stored_read_and_deleted(shared: Server, shell: str) -> None:
    path = f"{shell}.value"
    written, entry, deleted, again, gone = perform(
        shell, [shared.address], ("set", path, {"x": b"y"}), ("get", path), *[("delete", path)] * 2, ("get", path)
    )
    assert isinstance(written, distkv.Written)
    assert isinstance(entry, distkv.Entry)
    assert (entry.value, entry.chain[0]) == ({"x": b"y"}, written.link)
    assert (deleted, again, gone) == (True, False, None)


@each_shell
def test_tree_is_listed_read_and_deleted(shared: Server, shell: str) -> None:
    place = Path((shell, "tree"))
    sets = [("set", Path((*place.names, number, "x")), number) for number in range(3)]
    *_, names, items, some, count, rest = perform(
        shell,
        [shared.address],
        *sets,
        ("list", place),
        ("get_tree", place),
        ("get_tree", place, Named(limit=2, min_depth=2)),
        ("delete_tree", place),
        ("get_tree", place),
    )
    assert names == tuple(distkv.Listed(number, False, 1) for number in range(3))
    assert [(path, entry.value) for path, entry in items] == [(path, value) for _, path, value in sets]  # type: ignore[attr-defined]
    assert len(some) == 2  # type: ignore[arg-type]
    assert (count, rest) == (3, [])


@each_shell
def test_batch_takes_place_as_a_whole_or_not_at_all(shared: Server, shell: str) -> None:
    a, b = f"{shell}.batch.a", f"{shell}.batch.b"
    done, refused, after = perform(
        shell,
        [shared.address],
        ("batch", [Set(a, 1), Get(a), Delete(b)]),
        ("batch", [Set(b, 2), Set(a, 3, new=True)]),
        ("get", b),
    )
    assert isinstance(done, tuple)
    assert [type(result) for result in done] == [distkv.Written, distkv.Entry, distkv.Written]
    assert isinstance(refused, distkv.Exists)
    assert refused.op == 1
    assert after is None


@each_shell
def test_deletion_whose_condition_does_not_hold_deletes_nothing(shared: Server, shell: str) -> None:
    path = f"{shell}.condition"
    first, second = perform(shell, [shared.address], ("set", path, 1), ("set", path, 2))
    assert isinstance(first, distkv.Written)
    assert isinstance(second, distkv.Written)
    *refused, entry, deleted, gone, nothing = perform(
        shell,
        [shared.address],
        ("delete", path, Named(head=first.link)),
        ("delete", path, Named(previous=1)),
        ("batch", [Delete(path, head=first.link)]),
        ("batch", [Delete(path, previous=1)]),
        ("get", path),
        ("delete", path, Named(head=second.link, previous=2)),
        ("delete", path, Named(head=second.link)),
        ("delete", path, Named(previous=2)),
    )
    assert [type(error) for error in refused] == [distkv.ChainMismatch, distkv.ValueMismatch] * 2
    assert isinstance(entry, distkv.Entry)
    assert (entry.value, deleted) == (2, True)
    assert [type(error) for error in (gone, nothing)] == [distkv.ChainMismatch, distkv.NotFound]


@each_shell
def test_long_tree_arrives_whole(shared: Server, shell: str) -> None:
    """In many parts of the server, each more than a socket holds."""
    parts = range(1000, 5000, 500)
    batches = [("batch", [Set(f"{shell}.long.{at + n}", "x" * 1000) for n in range(500)]) for at in parts]
    *_, items = perform(shell, [shared.address], *batches, ("get_tree", f"{shell}.long"))
    assert [path.names[-1] for path, _ in items] == [str(at) for at in range(1000, 5000)]  # type: ignore[attr-defined]


@each_shell
def test_request_without_a_method_is_answered(shared: Server, shell: str) -> None:
    reply, refusal = perform(shell, [shared.address], ("request", "ping"), ("request", "dance"))
    assert reply == {}
    assert isinstance(refusal, distkv.UnknownAction)


def test_threads_that_share_a_blocking_client_each_get_their_own_values(shared: Server) -> None:
    wrong: list[object] = []

    def use(client: distkv.Client, number: int) -> None:
        path = f"threads.{number}"
        for step in range(200):
            client.set(path, [number, step])
            entry = client.get(path)
            if entry is None or entry.value != [number, step]:
                wrong.append(entry)

    with distkv.connect("127.0.0.1", shared.port) as client:
        threads = [threading.Thread(target=use, args=(client, number)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        values = [entry.value for _, entry in client.get_tree("threads")]
    assert (wrong, values) == ([], [[number, 199] for number in range(4)])


# -- a node that dies ---------------------------------------------------------------------------------------------


def test_blocking_client_goes_on_after_a_crash_of_the_node(servers: Servers) -> None:
    server = start(servers)
    with distkv.connect("127.0.0.1", server.port) as client:
        client.set("a", 1)
        restart(server)
        wait_ready(client)
        entry = client.get("a")
        assert entry is not None
        assert entry.value == 1
        restart(server)
        wait_ready(client)
        assert client.set("a", 2, head=entry.chain[0]).changed


@each_loop
def test_async_client_goes_on_after_a_crash_of_the_node(servers: Servers, loop: str) -> None:
    server = start(servers)

    async def main() -> None:
        async with opened(loop, server) as client:
            written = await client.set("a", 1)
            await anyio.to_thread.run_sync(restart, server)
            entry = await client.get("a")
            assert entry is not None
            assert entry.chain[0] == written.link
            await anyio.to_thread.run_sync(restart, server)
            assert (await client.set("a", 2)).changed

    anyio.run(main, backend=loop)


@each_loop
def test_crash_repeats_the_reads_under_way_and_fails_the_writes(servers: Servers, loop: str) -> None:
    server = start(servers)
    values: list[object] = []

    async def read(client: distkv.AsyncClient) -> None:
        entry = await client.get("a")
        values.append(None if entry is None else entry.value)

    async def write(client: distkv.AsyncClient) -> None:
        with pytest.raises(distkv.ConnectionLost, match="unknown"):
            await client.set("b", 1)
        values.append("unknown")

    async def main() -> None:
        async with opened(loop, server) as client:
            await client.set("a", 1)
            server.send_signal(signal.SIGSTOP)
            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(read, client)
                    tasks.start_soon(write, client)
                await anyio.wait_all_tasks_blocked()
                await anyio.to_thread.run_sync(restart, server)

    anyio.run(main, backend=loop)
    assert sorted(map(str, values)) == ["1"] * 5 + ["unknown"] * 5


@each_loop
def test_acknowledged_writes_survive_the_crash_that_breaks_their_connection(servers: Servers, loop: str) -> None:
    """Writes in a row until the node is killed amid them: those that were answered are there."""
    server = start(servers)
    answered: list[int] = []

    async def write(client: distkv.AsyncClient, enough: anyio.Event, over: anyio.Event) -> None:
        try:
            while not over.is_set():
                await client.set("count", len(answered) + 1)
                answered.append(len(answered) + 1)
                if len(answered) == 100:
                    enough.set()
        except distkv.ConnectionLost:
            pass

    async def main() -> None:
        enough, over = anyio.Event(), anyio.Event()
        async with opened(loop, server) as client:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(write, client, enough, over)
                await enough.wait()
                await anyio.to_thread.run_sync(restart, server)
                over.set()
            entry = await client.get("count")
            assert entry is not None
            assert entry.value in (len(answered), len(answered) + 1)  # the last one was under way

    anyio.run(main, backend=loop)
    assert len(answered) >= 100


@each_shell
def test_next_address_is_taken_when_the_first_node_is_gone(servers: Servers, shell: str) -> None:
    first, second = (servers.start(name, "--transport", "solo", "--init", name) for name in ("a", "b"))
    first.wait_ready()
    second.wait_ready()
    first.kill()
    assert perform(shell, [first.address, second.address], ("get", "x"), ("request", "ping")) == [None, {}]


def test_client_moves_to_another_node_when_its_own_dies(servers: Servers) -> None:
    first, second = (servers.start(name, "--transport", "solo", "--init", name) for name in ("a", "b"))
    first.wait_ready()
    second.wait_ready()
    with distkv.connect([first.address, second.address]) as client:
        assert client.hello.node == "a"
        first.kill()
        assert client.state()["node"] == "b"
        assert client.hello.node == "b"


def wait_ready(client: distkv.Client) -> None:
    wait_until(lambda: client.state()["state"] == "ready", "the node serves")
