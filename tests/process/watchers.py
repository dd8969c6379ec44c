"""`distkv client watch` and `token watch` as a process whose lines are read while it runs.

Knows: how to start it, wait for lines, interrupt it.  Does not know what it watches.

Invariant: when it is left, the process has ended, by its pid.
"""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from tests.process.forks import Command
from tests.process.servers import Server, wait_until

END_S = 300.0


class CommandWatch:
    """One run of the command, with `-o json`."""

    COMMAND: ClassVar = ("watch",)

    def __init__(self, server: Server, *arguments: str, hosts: Sequence[Server] = ()) -> None:
        """By this server, or by the first of `hosts` that answers."""
        where = [word for host in hosts or [server] for word in ("-h", host.address)]
        self._process = Command(
            [*server.program, "-o", "json", "client", *where, *self.COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(server.environment),
        )
        self._server = server
        self._lines: list[dict[str, Any]] = []
        self._said: list[str] = []
        self._readers = [threading.Thread(target=read) for read in (self._read, self._read_errors)]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._end()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def lines(self) -> list[dict[str, Any]]:
        """What was printed so far."""
        return list(self._lines)

    def wait_lines(self, count: int, deadline_s: float = END_S) -> list[dict[str, Any]]:
        """At least so many."""
        wait_until(lambda: len(self._lines) >= count, f"{count} lines", deadline_s, self._dump)
        return self.lines

    def wait_watching(self) -> None:
        """Until its watch has begun: a change from now on is shown."""
        wait_until(self._is_watching, "the command watches", END_S, self._dump)

    def wait_said(self, words: str) -> None:
        """Until a line on stderr ends with these words."""
        wait_until(
            lambda: any(line.endswith(f"{words}\n") for line in self._said), f"it says: {words}", END_S, self._dump
        )

    def interrupt(self) -> tuple[int, str]:
        """Ctrl-C; the exit code, and what it said on stderr."""
        self._process.send_signal(signal.SIGINT)
        return self.wait_end()

    def wait_end(self) -> tuple[int, str]:
        code = self._process.wait(END_S)
        return code, self._end()

    # -- inside

    def _is_watching(self) -> bool:
        with self._server.client() as client:
            counters = client.state()["counters"]
        return isinstance(counters, dict) and counters["watchers"] > 0

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(json.loads(line))

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said.append(line.decode())

    def _end(self) -> str:
        self._process.wait(END_S)
        for reader in self._readers:
            reader.join()
        with self._process:
            return "".join(self._said)

    def _dump(self) -> str:
        return f"{len(self._lines)} lines, the last ones {self._lines[-5:]}\n{''.join(self._said)}{self._server.dump()}"


class TokenWatchCommand(CommandWatch):
    """The same of `distkv client token watch`."""

    COMMAND: ClassVar = ("token", "watch")
