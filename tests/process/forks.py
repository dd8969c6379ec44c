"""`distkv` as a process that need not load anything first, because it is a fork of one that has.

Knows: how to start a command as `subprocess.Popen` does, and when a fork is as good as a new interpreter.  Does not
know what is started, nor how a fork becomes the command (`fork_server` does).

To load the command takes longer than what most tests let it do, and they call it thousands of times.  So each process
of tests has one server of forks, from the first time on that it wants one.  A fork becomes a child of the tests, which
wait for it, signal and kill it as any other.

Invariant: the forks of a process of tests, and their server, are dead when that is, however it ended.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import inspect
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, AnyStr, Final

import attrs

from tests.process.fork_server import ANSWER_BYTES_MAX, Answer, Request, die_with_parent

ROOT: Final = Path(__file__).parents[2]
CHECKOUT: Final = (sys.executable, "-m", "distkv")
"""The command as it is in this checkout."""
PYTHONPATH: Final = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
"""What finds this checkout, wherever a command begins."""

READ_AT_BEGIN: Final = ("PYTHON", "LC_", "LANG", "LD_", "GLIBC_", "MALLOC_")
"""How variables begin that an interpreter, or the C library, reads when it begins, and never again."""
SERVER_ENVIRONMENT: Final = {**os.environ, "PYTHONPATH": PYTHONPATH}

ENTERING: Final = re.compile(r"(nsenter --(net|mount)=(?P<namespace>\S+)( --)?)?")
"""What may stand before the command: one namespace of another process, in which it begins."""

_PR_SET_CHILD_SUBREAPER: Final = 36
_LIBC: Final = ctypes.CDLL(None)
_PIPE_ENDS: Final = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
_USUAL: Final = {
    "executable": None, "pass_fds": (), "shell": False, "startupinfo": None, "creationflags": 0,
    "close_fds": True, "restore_signals": True, "gid": None, "gids": None, "uid": None, "umask": -1,
    "process_group": -1,
}  # fmt: skip
"""What `Popen` may be told that a fork heeds anyway."""
_BEGIN: Final = inspect.signature(subprocess.Popen._execute_child)  # type: ignore[attr-defined]  # noqa: SLF001


class Command(subprocess.Popen[AnyStr]):
    """A program as `subprocess.Popen` starts it; but when that is `distkv`, and a fork of it does as well, a fork.

    A `Popen` has one method that makes the process; on other systems it has another one. So has a command, and all
    else is as the library has it.
    """

    def _execute_child(self, *arguments: Any) -> None:
        given = _BEGIN.bind(self, *arguments).arguments
        environment = given["env"] if given["env"] is not None else dict(os.environ)
        forked = as_fork(given["args"], environment)
        if forked is None or not _is_usual(given):
            super()._execute_child(*arguments)  # type: ignore[misc]
            return
        files = [given["p2cread"], given["c2pwrite"], given["errwrite"]]
        request = Request(
            forked.arguments,
            environment,
            os.path.abspath(given["cwd"] or "."),
            os.getpid(),
            given["start_new_session"],
            forked.namespace,
        )
        self.pid = _server().fork(request, [number if file == -1 else file for number, file in enumerate(files)])
        self._child_created = True
        self._close_pipe_fds(*(given[name] for name in _PIPE_ENDS))  # type: ignore[attr-defined]


@attrs.frozen
class Forked:
    """What of a command a fork is told."""

    arguments: list[str]
    namespace: str
    """The file of one in which it begins; empty: those of the tests."""


def as_fork(words: Any, environment: Mapping[str, str]) -> Forked | None:
    """When these words are the command, and a running interpreter can take over this environment: what a fork is told
    instead."""
    if isinstance(words, str | bytes | os.PathLike):
        return None
    if _read_at_begin(environment) != _read_at_begin(SERVER_ENVIRONMENT):
        return None
    own = [os.fsdecode(word) for word in words]
    begin = next((place for place, word in enumerate(own) if word == CHECKOUT[0]), len(own))
    entering = ENTERING.fullmatch(" ".join(own[:begin]))
    if entering is None or tuple(own[begin : begin + len(CHECKOUT)]) != CHECKOUT:
        return None
    return Forked(own[begin + len(CHECKOUT) :], entering["namespace"] or "")


def _read_at_begin(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(READ_AT_BEGIN)}


def _is_usual(given: Mapping[str, Any]) -> bool:
    return given["preexec_fn"] in (None, die_with_parent) and all(
        given.get(name, usual) == usual for name, usual in _USUAL.items()
    )


# -- the server ---------------------------------------------------------------------------------------------------


@attrs.frozen
class _Server:
    process: subprocess.Popen[bytes]
    line: socket.socket
    turn: threading.Lock = attrs.field(factory=threading.Lock)

    def fork(self, request: Request, files: Sequence[int]) -> int:
        """The pid of a new child of this process.

        Raises:
            ChildProcessError: it could not become the command.
        """
        data = request.packed()
        with self.turn, _adopting():
            sent = socket.send_fds(self.line, [data], files)
            self.line.sendall(data[sent:])
            told = self.line.recv(ANSWER_BYTES_MAX)
        if not told:
            raise ChildProcessError(f"the server of forks ended with {self.process.wait()}")
        answer = Answer.unpacked(told)
        if answer.error:
            os.waitpid(answer.pid, 0)
            raise ChildProcessError(answer.error)
        return answer.pid

    def end(self) -> None:
        self.line.close()
        self.process.wait()


@contextmanager
def _adopting() -> Iterator[None]:
    """What becomes an orphan below this process, now, becomes its child."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


_starting: Final = threading.Lock()


def _server() -> _Server:
    with _starting:
        return _started_once()


@functools.cache
def _started_once() -> _Server:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.process.fork_server", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env=SERVER_ENVIRONMENT,
            cwd="/",
        )
    server = _Server(process, ours)
    atexit.register(server.end)
    return server
