"""Where a node listens: at TCP ports and Unix sockets.

Knows: how each is bound, and what may be removed for it.  Does not know who is served there.

Invariant: a file is removed only if it is a socket at which nobody listens, or the one that was made here; nobody can
connect to a Unix socket before its permissions are set.
"""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import Final

import trio

from distkv.errors import SettingsError
from distkv.naming import UNIX, parse_address, parse_socket

SOCKET_MODE: Final = 0o660
"""Owner and group may connect: nobody is asked for a password, so the file's permissions are all there is."""
TURN_S: Final = 5.0
"""How long another server may take to bind its socket in the same directory."""
TURN_PAUSE_S: Final = 0.02

log = logging.getLogger("distkv.daemon")


@asynccontextmanager
async def open_listeners(
    addresses: Sequence[str], option: str = "--bind"
) -> AsyncIterator[list[trio.SocketListener]]:
    """Listen at each of `addresses`, HOST:PORT or unix:/PATH, until the block is left. `option` names another one.

    Raises:
        SettingsError: it is not possible at one of them; then nothing stays bound.
    """
    with ExitStack() as stack:
        found: list[trio.SocketListener] = []
        for text in addresses:
            path = parse_socket(text, option)
            try:
                if path is None:
                    found += await _open_tcp(text, option, stack)
                else:
                    found.append(await _open_unix(path, option, stack))
            except OSError as error:
                raise _cannot(text, error.strerror or str(error), option) from error
            except UnicodeError as error:
                raise _cannot(text, "nothing can have this name", option) from error
        yield found


def listener_text(listener: trio.SocketListener) -> str:
    """Its address, as people write it."""
    name = listener.socket.getsockname()
    if listener.socket.family == socket.AF_UNIX:
        return f"{UNIX}{name}"
    host, port = name[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


# -- inside -------------------------------------------------------------------------------------------------------


def _cannot(text: str, why: str, option: str) -> SettingsError:
    return SettingsError(f"cannot listen on {text}: {why}; name another address with {option}")


async def _open_tcp(text: str, option: str, stack: ExitStack) -> list[trio.SocketListener]:
    host, port = parse_address(text, option)
    found = await trio.open_tcp_listeners(port, host=host)
    for listener in found:
        stack.callback(listener.socket.close)
    return found


async def _open_unix(path: str, option: str, stack: ExitStack) -> trio.SocketListener:
    async with _turn_at(path, option):
        _clear(path, option)
        bound = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        bound.bind(path)
        stack.callback(_remove, path, os.lstat(path))
        os.chmod(path, SOCKET_MODE)
        bound.listen(socket.SOMAXCONN)
    bound.setblocking(False)
    return trio.SocketListener(trio.socket.from_stdlib_socket(bound))


@asynccontextmanager
async def _turn_at(path: str, option: str) -> AsyncIterator[None]:
    """One server at a time: of two that find the same dead socket, the slower would remove the other's new one."""
    handle = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        with trio.move_on_after(TURN_S) as patience:
            while not _is_locked(handle):  # noqa: ASYNC110  # nothing tells when it is unlocked
                await trio.sleep(TURN_PAUSE_S)
        if patience.cancelled_caught:
            raise _cannot(f"{UNIX}{path}", "somebody holds a lock on its directory", option)
        yield
    finally:
        os.close(handle)


def _is_locked(handle: int) -> bool:
    """Whether the lock is ours now."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _clear(path: str, option: str) -> None:
    """Remove the socket that a killed server left.

    Raises:
        SettingsError: something else is there.
    """
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise _cannot(f"{UNIX}{path}", "what is there is no socket, and stays", option)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            log.info("stale_socket_removed path=%s", path)
            return
        except BlockingIOError:
            pass  # so many wait there already that there is no room for one more
    raise _cannot(f"{UNIX}{path}", "a server listens there already", option)


def _remove(path: str, ours: os.stat_result) -> None:
    """The end: remove our socket, unless somebody else did and perhaps put another one there."""
    try:
        if os.path.samestat(os.lstat(path), ours):
            os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        log.warning("socket_not_removed path=%s reason=%s", path, error.strerror)
