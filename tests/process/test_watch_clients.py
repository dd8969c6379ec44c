"""Watches over real sockets: the command, and the three clients, also when their server goes and comes again.

Knows: `distkv` as a user types it, and the Python API.  Does not know frames.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from distkv.client.async_client import open_client
from distkv.client.blocking import Client, connect
from distkv.client.watch import Change, Resync, UpToDate
from tests.process.servers import Server, Servers, open_servers
from tests.process.watchers import CommandWatch
from tests.unit.client.shells import LOOPS, running_loop


@pytest.fixture
def solo(servers: Servers) -> Server:
    """A server of its own."""
    server = servers.start("solo", "--transport", "solo", "--init", "hello")
    server.wait_ready()
    return server


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for all tests that leave it running; each uses paths of its own."""
    with open_servers(tmp_path_factory.mktemp("shared")) as servers:
        server = servers.start("solo", "--transport", "solo", "--init", "hello")
        server.wait_ready()
        yield server


def restart(server: Server) -> None:
    server.kill()
    server.start("--transport", "solo").wait_ready()


# -- the command --------------------------------------------------------------------------------------------------


def test_command_prints_a_line_per_change_until_interrupted(solo: Server) -> None:
    with CommandWatch(solo, "w") as watch, solo.client() as client:
        watch.wait_watching()
        client.set("w.a", [1, "x"])
        client.set("v", 1)
        client.delete("w.a")
        assert watch.wait_lines(2) == [{"path": "w.a", "value": [1, "x"]}, {"path": "w.a", "deleted": True}]
        assert watch.interrupt() == (130, "")


def test_command_shows_what_is_there_and_ends_after_its_count(shared: Server) -> None:
    with shared.client() as client:
        client.set("state.a", 1)
        client.set("state.b.c", "two words")
    ran = shared.run("watch", "state", "--state", "--count", "2")
    assert (ran.code, ran.text) == (0, "state.a: 1\nstate.b.c: two words\n")


def test_command_goes_on_behind_a_token_it_printed(shared: Server) -> None:
    with shared.client() as client:
        client.set("since", 0)
        with CommandWatch(shared, "since", "-m") as watch:
            watch.wait_watching()
            client.set("since", 1)
            client.set("since", 2)
            token = watch.wait_lines(2)[0]["token"]
        client.set("since", 3)
        ran = shared.run("watch", "since", "--since", token, "--count", "2")
    assert (ran.code, ran.text) == (0, "since: 2\nsince: 3\n")


def test_command_with_a_token_of_nobody_says_resync(shared: Server) -> None:
    with shared.client() as client:
        client.set("nobody", 1)
    ran = shared.run("watch", "nobody", "--since", "00", "--count", "1")
    assert (ran.code, ran.text) == (0, "resync\nnobody: 1\n")


def test_command_refuses_a_token_that_is_none(shared: Server) -> None:
    ran = shared.run("watch", "w", "--since", "no token")
    assert ran.code == 2
    assert "--since" in ran.err


def test_command_misses_nothing_when_the_server_is_killed_and_started_again(solo: Server) -> None:
    with CommandWatch(solo, "w") as watch:
        watch.wait_watching()
        for number in range(4):
            with solo.client() as client:
                for step in range(50):
                    client.set("w", 50 * number + step)
            restart(solo)
        with solo.client() as client:
            client.set("w", 200)
        assert watch.wait_lines(201) == [{"path": "w", "value": value} for value in range(201)]
        assert watch.interrupt()[0] == 130


# -- the clients --------------------------------------------------------------------------------------------------


def write_soon(server: Server, path: str, count: int) -> threading.Thread:
    """Write 0, 1, 2 … to a path from another thread."""

    def write() -> None:
        with server.client() as client:
            for number in range(count):
                client.set(path, number)

    thread = threading.Thread(target=write)
    thread.start()
    return thread


def test_blocking_client_tells_state_then_changes(shared: Server) -> None:
    with connect("127.0.0.1", shared.port) as client:
        client.set("told", "before")
        with closing(client.watch_events("told", fetch=True)) as events:
            first, mark = next(events), next(events)
            assert isinstance(first, Change)
            assert (first.value, first.token) == ("before", None)
            assert isinstance(mark, UpToDate)
            writer = write_soon(shared, "told", 20)
            assert [getattr(next(events), "value", None) for _ in range(20)] == [*range(20)]
            writer.join()


def test_blocking_watch_tells_what_changes_between_the_call_and_the_first_event(shared: Server) -> None:
    with connect("127.0.0.1", shared.port) as client, connect("127.0.0.1", shared.port) as other:
        for number in range(50):
            with closing(client.watch_events(f"between.{number}")) as events:
                other.set(f"between.{number}", number)
                assert isinstance(event := next(events), Change)
                assert event.value == number


@pytest.mark.parametrize("loop", LOOPS)
def test_async_watch_tells_what_changes_between_entering_and_the_first_event(shared: Server, loop: str) -> None:
    async def main() -> None:
        with anyio.fail_after(300):
            async with (
                open_client("127.0.0.1", shared.port) as client,
                open_client("127.0.0.1", shared.port) as other,
            ):
                for number in range(50):
                    async with client.watch_events(f"entered.{number}") as watch:
                        await other.set(f"entered.{number}", number)
                        assert isinstance(event := await anext(watch), Change)
                        assert event.value == number

    anyio.run(main, backend=loop)


def test_blocking_client_without_reconnect_ends_with_its_server(solo: Server) -> None:
    with Client([("127.0.0.1", solo.port)]) as client, closing(client.watch_events("w", fetch=True)) as events:
        assert isinstance(next(events), UpToDate)
        solo.kill()
        with pytest.raises(Exception, match="closed the connection"):
            next(events)


@pytest.mark.parametrize("loop", LOOPS)
def test_async_client_goes_on_when_the_server_was_killed(solo: Server, loop: str) -> None:
    anyio.run(_watch_over_a_restart, solo, loop, backend=loop)


async def _watch_over_a_restart(server: Server, loop: str) -> None:
    assert running_loop() == loop
    with anyio.fail_after(30):
        async with open_client("127.0.0.1", server.port) as client, client.watch("w", fetch=True) as watch:
            await client.set("w", "first")
            assert (await anext(watch)).value == "first"  # type: ignore[union-attr]
            await anyio.to_thread.run_sync(restart, server)
            await client.set("w", "second")
            found = await anext(watch)
            assert isinstance(found, Change)
            assert found.value == "second"


@pytest.mark.parametrize("loop", LOOPS)
def test_async_client_that_closes_ends_its_watch(shared: Server, loop: str) -> None:
    async def main() -> None:
        with anyio.fail_after(30):
            async with open_client("127.0.0.1", shared.port) as client:
                watch = client.watch_events("closes", fetch=True)
                assert isinstance(await anext(watch), UpToDate)
            with pytest.raises(Exception, match="closed"):
                await anext(watch)

    anyio.run(main, backend=loop)


def test_other_data_under_the_same_name_is_told_as_resync(servers: Servers, tmp_path: Path) -> None:
    server = servers.start("solo", "--transport", "solo", "--init", "one")
    server.wait_ready()
    with connect("127.0.0.1", server.port) as client:
        changes = client.watch("w", fetch=True)
        client.set("w", 1)
        assert isinstance(next(changes), Change)
        server.kill()
        server.data_dir.rename(tmp_path / "old")
        server.start("--transport", "solo", "--init", "two").wait_ready()
        assert isinstance(next(changes), Resync)


def test_sigint_is_told_apart_from_an_error(solo: Server) -> None:
    with CommandWatch(solo, "w") as watch:
        watch.wait_watching()
        solo.send_signal(signal.SIGSTOP)
        try:
            assert watch.interrupt()[0] == 130
        finally:
            solo.send_signal(signal.SIGCONT)
