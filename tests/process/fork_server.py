"""A process that has loaded all of `distkv`, and becomes the command, in a fork of it, each time it is asked to.

Knows: what a new interpreter has that a fork of a running one has not, and how a command becomes the child of who asked
for it.  Does not know who asks (`forks` does), nor what commands do.

A command inherits what the server began with: its limits, its group of processes, its mask for new files, and what an
interpreter reads of its environment when it begins.  All commands of a server hash strings alike, too.

Invariant: the server has one thread, and no file but its line; it ends when nobody holds the other end of that.  A
command has no files but its standard ones, and the kernel kills it when who asked for it is gone.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import io
import json
import os
import pkgutil
import random
import runpy
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, Self

import attrs

STREAMS: Final = 3
"""Standard input, output and errors."""
ANSWER_BYTES_MAX: Final = 1 << 16
LENGTH: Final = struct.Struct("!I")

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG: Final = 1


@attrs.frozen
class Request:
    """A command that is to run; its standard files come with it."""

    arguments: Sequence[str]
    """Those of `distkv`."""
    environment: Mapping[str, str]
    directory: str
    parent: int
    """The process that asks."""
    leads: bool
    """Whether it leads a session of its own."""
    namespace: str = ""
    """The file of one in which it is to be; empty: where the server is."""

    def packed(self) -> bytes:
        data = json.dumps(attrs.asdict(self)).encode()
        return LENGTH.pack(len(data)) + data

    @classmethod
    def unpacked(cls, data: bytes) -> Self:
        return cls(**json.loads(data))


@attrs.frozen
class Answer:
    """The process that is to run it."""

    pid: int
    error: str = ""
    """Why it cannot, and ends."""

    def packed(self) -> bytes:
        return json.dumps(attrs.asdict(self)).encode()

    @classmethod
    def unpacked(cls, data: bytes) -> Self:
        return cls(**json.loads(data))


def die_with_parent() -> None:
    """From now on the kernel kills this process when the thread is gone that started it, or its adoptive parent."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@attrs.define
class Ending:
    """How the command ends, once it has."""

    code: int | None = None
    """Its exit code; None: it ends by an error, or has not ended."""

    def skip(self) -> None:
        """The last step before Python lets go, one by one, of all that is loaded, which takes longer than most
        commands: not to take it, but to see to what is left of the command itself."""
        if self.code is not None:
            gc.collect()  # a file in it may have something to write
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            except (OSError, ValueError):
                return  # Python knows what to say to that
            os._exit(self.code)


def main(line: socket.socket) -> None:
    """Serve until nobody can ask any more; in a fork: run the command, and end as it ends."""
    ending = Ending()
    atexit.register(ending.skip)  # first, hence called last
    load()
    generators = [found for found in gc.get_objects() if isinstance(found, random.Random)]
    gc.collect()
    gc.freeze()  # else the first look for garbage in each fork would copy all that is loaded
    # An interrupt waits until the command can take it; one that the server itself gets, with its group, waits for ever.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    if serve(line):
        for generator in generators:
            generator.seed()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        try:
            runpy.run_module("distkv", run_name="__main__", alter_sys=True)
        except SystemExit as asked:
            if isinstance(asked.code, int):
                ending.code = asked.code & 0xFF
            raise


def load() -> None:
    """All that `distkv server` and the commands of clients load, sooner or later."""
    import difflib  # noqa: F401
    import encodings.idna  # noqa: F401

    for package in ("distkv.cli", "distkv.client", "distkv.daemon", "distkv.doctor", "distkv.text"):
        for found in pkgutil.iter_modules(import_module(package).__path__, f"{package}."):
            import_module(found.name)


def serve(line: socket.socket) -> bool:
    """Fork for each request. Whether this is such a fork, which is ready to run the command."""
    while True:
        head, files, _, _ = socket.recv_fds(line, LENGTH.size, STREAMS)
        if not head:
            return False
        (size,) = LENGTH.unpack(head + _read(line, LENGTH.size - len(head)))
        data = _read(line, size)
        gate, key = os.pipe()
        between = os.fork()
        if not between:
            if os.fork():
                os._exit(0)  # which leaves the command to the nearest subreaper: who asked for it
            os.close(key)
            become(line, Request.unpacked(data), files, gate)
            return True
        _, status = os.waitpid(between, 0)
        for file in (*files, gate, key):
            os.close(file)
        if status:
            raise ChildProcessError("a fork could not fork")


def become(line: socket.socket, request: Request, files: Sequence[int], gate: int) -> None:
    """Have all that a new interpreter would have, and answer."""
    try:
        os.read(gate, 1)  # until its other end is closed: this process has its parent now
        die_with_parent()
        if os.getppid() != request.parent:
            os._exit(1)  # the parent was gone before the kernel knew that it matters
        if request.leads:
            os.setsid()
        if request.namespace:
            enter(request.namespace)
        os.chdir(request.directory)
        os.environ.clear()
        os.environ.update(request.environment)
        time.tzset()
        for number, file in enumerate(files):
            os.dup2(file, number)
        sys.stdin = sys.__stdin__ = open_stream(0, sys.__stdin__)
        sys.stdout = sys.__stdout__ = open_stream(1, sys.__stdout__)
        sys.stderr = sys.__stderr__ = open_stream(2, sys.__stderr__)
        sys.argv = ["-m", *request.arguments]
        sys.orig_argv = [sys.executable, "-m", "distkv", *request.arguments]
        sys.path[0] = os.getcwd()
    except BaseException:
        line.sendall(Answer(os.getpid(), traceback.format_exc(limit=-5)).packed())
        os._exit(1)
    line.sendall(Answer(os.getpid()).packed())
    line.close()
    os.closerange(STREAMS, os.sysconf("SC_OPEN_MAX"))


def enter(namespace: str) -> None:
    """Be in this namespace from now on, as `nsenter` makes it."""
    with open(namespace, "rb") as file:
        if _LIBC.setns(file.fileno(), 0):  # whatever kind it is of
            raise OSError(f"{namespace}: {os.strerror(ctypes.get_errno())}")


def open_stream(number: int, like: Any) -> io.TextIOWrapper:
    """A standard file, as an interpreter opens it when it begins (`create_stdio` in its sources)."""
    is_written = number > 0
    is_bare = like.write_through  # by -u, or PYTHONUNBUFFERED
    mode, buffering = ("wb", 0 if is_bare else -1) if is_written else ("rb", -1)
    file: Any = open(number, mode, buffering, closefd=False)  # noqa: SIM115  # it stays open
    raw = getattr(file, "raw", file)
    raw.name = like.name
    by_lines = not is_bare and (number == 2 or raw.isatty())
    found: Any = io.TextIOWrapper(file, like.encoding, like.errors, "\n", by_lines, is_bare)
    found.mode = like.mode
    return found


# -- inside -------------------------------------------------------------------------------------------------------


def _read(line: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = line.recv(size - len(data))
        if not part:
            raise EOFError("nobody is there any more who would end the request")
        data += part
    return data


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
