"""Where a node listens: what is bound, what is removed for it, and what stays.

Knows: real sockets in a directory of the test.  Does not know what is served there.
"""

# ruff: noqa: ASYNC240  # the files of a test are at hand

from __future__ import annotations

import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from distkv.daemon.listeners import listener_text, open_listeners
from distkv.errors import SettingsError

pytestmark = pytest.mark.trio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s"


@pytest.fixture
def dead(path: Path) -> Path:
    """A socket as a killed server leaves it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(path))
    return path


@pytest.fixture
def listening(path: Path) -> Iterator[socket.socket]:
    """Somebody who listens at `path`, with room for one who waits."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as found:
        found.bind(str(path))
        found.listen(0)
        yield found


async def refusal(*addresses: str) -> str:
    """What is said of addresses at which one cannot listen."""
    with pytest.raises(SettingsError) as caught:
        async with open_listeners(addresses):
            pass
    return str(caught.value)


async def test_tcp_and_unix_are_bound_together_and_shown_as_written(path: Path) -> None:
    async with open_listeners(("127.0.0.1:0", f"unix:{path}", "[::1]:0")) as listeners:
        tcp, unix, six = map(listener_text, listeners)
    assert (tcp.rpartition(":")[0], unix, six.rpartition(":")[0]) == ("127.0.0.1", f"unix:{path}", "[::1]")


async def test_connection_to_the_socket_is_accepted(path: Path) -> None:
    async with (
        open_listeners((f"unix:{path}",)) as (listener,),
        await trio.open_unix_socket(path) as client,
        await listener.accept() as served,
    ):
        await client.send_all(b"x")
        assert await served.receive_some() == b"x"


async def test_only_owner_and_group_may_connect(path: Path) -> None:
    before = os.umask(0)
    try:
        async with open_listeners((f"unix:{path}",)):
            assert stat.filemode(path.lstat().st_mode) == "srw-rw----"
    finally:
        os.umask(before)


async def test_socket_is_removed_at_the_end(path: Path) -> None:
    async with open_listeners((f"unix:{path}",)):
        assert path.is_socket()
    assert not path.exists()


async def test_socket_that_somebody_else_removed_is_no_trouble(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with open_listeners((f"unix:{path}",)):
        path.unlink()
    assert caplog.messages == []


async def test_socket_that_cannot_be_removed_is_told(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with open_listeners((f"unix:{path}",)):
        path.parent.rename(path.parent.with_name("elsewhere"))
        path.parent.write_text("no directory")
    assert caplog.messages == [f"socket_not_removed path={path} reason=Not a directory"]


async def test_socket_is_removed_when_a_later_address_cannot_be_bound(path: Path) -> None:
    await refusal(f"unix:{path}", f"unix:{path.parent}/none/s")
    assert not path.exists()


async def test_dead_socket_is_replaced(dead: Path) -> None:
    async with open_listeners((f"unix:{dead}",)), await trio.open_unix_socket(dead) as client:
        assert client.socket.getpeername() == str(dead)


async def test_socket_at_which_somebody_listens_stays(path: Path, listening: socket.socket) -> None:
    assert await refusal(f"unix:{path}") == (
        f"cannot listen on unix:{path}: a server listens there already; name another address with --bind"
    )
    listening.accept()[0].close()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


async def test_socket_at_which_somebody_listens_who_accepts_nobody_stays(path: Path, listening: socket.socket) -> None:
    with socket.socket(socket.AF_UNIX) as waiting:
        waiting.connect(str(path))
        assert "a server listens there already" in await refusal(f"unix:{path}")
        assert path.is_socket()
        listening.accept()[0].close()


async def test_file_that_is_no_socket_stays(path: Path) -> None:
    path.write_text("mine")
    assert "what is there is no socket, and stays" in await refusal(f"unix:{path}")
    assert path.read_text() == "mine"


async def test_link_stays_also_when_it_leads_to_a_dead_socket(dead: Path) -> None:
    link = dead.parent / "link"
    link.symlink_to(dead)
    assert "what is there is no socket, and stays" in await refusal(f"unix:{link}")
    assert link.is_symlink()
    assert dead.is_socket()


async def test_socket_of_somebody_else_at_our_place_stays_at_the_end(path: Path) -> None:
    async with open_listeners((f"unix:{path}",)):
        path.unlink()
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(path))
    assert path.is_socket()


async def test_two_that_find_the_same_dead_socket_take_turns(dead: Path) -> None:
    """The second one is told that somebody listens, though the socket was dead when it came."""
    told: list[str] = []

    async def come_second() -> None:
        told.append(await refusal(f"unix:{dead}"))

    with socket.socket(socket.AF_UNIX) as first:
        lock = os.open(dead.parent, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(come_second)
            await wait_all_tasks_blocked()
            dead.unlink()
            first.bind(str(dead))
            first.listen()
            os.close(lock)
    assert "a server listens there already" in told[0]


async def test_lock_that_is_never_let_go_is_told(path: Path, autojump_clock: MockClock) -> None:  # noqa: ARG001
    lock = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "somebody holds a lock on its directory" in await refusal(f"unix:{path}")
    finally:
        os.close(lock)


async def test_directory_that_is_not_there_is_told(path: Path) -> None:
    assert "No such file or directory" in await refusal(f"unix:{path}/s")


async def test_host_name_that_none_can_have_is_told() -> None:
    assert "cannot listen on a..b:1: nothing can have this name" in await refusal("a..b:1")
