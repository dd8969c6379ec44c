"""What held tokens cost a node: memory, and the processor time of keep-alives.

Knows: how the sessions are begun and counted.  Does not know what a session says (`keepers`).

Invariant: the figures are of a node on which all tokens were held, and all sessions kept, from the begin of the time to
its end; else there are none.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

import attrs

from bench.figures import table
from bench.load import LoadError
from bench.network import client_of, wait_token_servers
from bench.rounds import wait_rest
from bench.servers import ROOT, Server

CONNECTIONS: Final = 20
TOKENS: Final = 10
"""Of each session."""
AIM_SESSIONS: Final = 1_000
RESIDENT_AIM_MB: Final = 60
BUSY_AIM: Final = 0.1
KEEP_S: Final = 2.5
"""A client of a session whose ttl is 15 s is answered after this time, and asks anew."""
FEWEST: Final = 0.7
"""This part of the keep-alives that are due is seen, or sessions are not kept as they should be."""


@attrs.frozen
class Counted:
    """What the sessions have, and were told since they began."""

    held: int
    """Tokens."""
    keeps: int
    """Keep-alives that were confirmed."""


@attrs.frozen
class Keeping:
    """A node without tokens, and with them; sizes in bytes."""

    sessions: int
    idle_bytes: int
    idle_busy: float
    """The part of a processor that the node used before."""
    held_bytes: int
    busy: float
    """And while the sessions were kept."""
    keeps_per_s: float
    begin_s: float
    """How long it took to open all sessions and to grant all tokens."""

    @property
    def tokens(self) -> int:
        """Of all sessions."""
        return TOKENS * self.sessions

    @property
    def more_bytes(self) -> int:
        """What the tokens and sessions need."""
        return self.held_bytes - self.idle_bytes

    @property
    def more_busy(self) -> float:
        """The part of a processor that the keep-alives need."""
        return self.busy - self.idle_busy


@attrs.frozen
class Keepers:
    """The sessions, which a process of its own keeps."""

    process: subprocess.Popen[str]

    def count(self) -> Counted:
        """What they have at this moment.

        Raises:
            LoadError: something was lost.
        """
        with suppress(BrokenPipeError):  # then it says why
            _pipe(self.process.stdin).write("\n")
            _pipe(self.process.stdin).flush()
        return self.read()

    def read(self) -> Counted:
        """What they say next.

        Raises:
            LoadError: something was lost.
        """
        line = _pipe(self.process.stdout).readline()
        if not line:
            raise LoadError(f"keepers: {_pipe(self.process.stderr).read()[-2000:].strip()}")
        return Counted(**json.loads(line))


@contextmanager
def open_keepers(port: int, connections: int, sessions: int, tokens: int) -> Iterator[Keepers]:
    """While the block runs, so many sessions hold so many tokens together.

    Raises:
        LoadError: they do not get them.
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, Path(__file__).parents[1])))}
    command = [sys.executable, "-m", "bench.keepers", *map(str, (port, connections, sessions, tokens))]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
        try:
            found = Keepers(process)
            found.read()  # it says so when all are held
            yield found
        finally:
            process.kill()


def measure(server: Server, sessions: int, seconds: float) -> Keeping:
    """Start it, and see what it needs without tokens and with them; at the end it is dead.

    Raises:
        LoadError: something was refused or lost.
        ServerError: it went away.
    """
    try:
        server.start()
        wait_token_servers(server)
        wait_rest([server])
        idle_busy = _busy(server, seconds)
        idle = server.resident_bytes()
        began = time.monotonic()
        with open_keepers(server.port, CONNECTIONS, sessions, TOKENS * sessions) as keepers:
            begin_s = time.monotonic() - began
            wait_rest([server])  # from the work that it put off
            before = keepers.count()
            since = time.monotonic()
            busy = _busy(server, seconds)
            resident, after = server.resident_bytes(), keepers.count()
            keeps_per_s = (after.keeps - before.keeps) / (time.monotonic() - since)
            found = Keeping(sessions, idle, idle_busy, resident, busy, keeps_per_s, begin_s)
            _check(found, server, before, after)
        return found
    finally:
        server.end(signal.SIGKILL)


def keeping_table(found: Keeping) -> str:
    """Without and with tokens, and whether they cost as little as they are to."""
    head = ["", "MB", "of a processor", "keep-alives/s"]
    rows = [
        ["idle", _mb(found.idle_bytes), _percent(found.idle_busy), ""],
        ["with tokens", _mb(found.held_bytes), _percent(found.busy), f"{found.keeps_per_s:,.0f}"],
        ["more", _mb(found.more_bytes), _percent(found.more_busy), ""],
    ]
    lines = [table(head, rows), f"all were granted in {found.begin_s:.1f} s"]
    if found.sessions == AIM_SESSIONS:
        memory = f"resident <= {RESIDENT_AIM_MB} MB more: {_verdict(found.more_bytes <= RESIDENT_AIM_MB * 1e6)}"
        time = f"keep-alives <= {_percent(BUSY_AIM)} of a processor: {_verdict(found.more_busy <= BUSY_AIM)}"
        lines.append(f"{memory}; {time}")
    return "\n".join(lines)


# -- inside -------------------------------------------------------------------------------------------------------


def _check(found: Keeping, server: Server, before: Counted, after: Counted) -> None:
    if (before.held, after.held) != (found.tokens, found.tokens):
        raise LoadError(f"{before.held} tokens are held, then {after.held}, and not {found.tokens}")
    if found.keeps_per_s < FEWEST * found.sessions / KEEP_S:
        raise LoadError(f"only {found.keeps_per_s:.0f} keep-alives per second are confirmed")
    with client_of(server) as client:
        shown: Any = client.state()["tokens"]
    if shown["sessions"] != found.sessions:
        raise LoadError(f"{server.name} has {shown['sessions']} sessions, and not {found.sessions}")


def _busy(server: Server, seconds: float) -> float:
    """The part of a processor that it uses in the next seconds."""
    cpu_s, began = server.cpu_s(), time.monotonic()
    time.sleep(seconds)
    return (server.cpu_s() - cpu_s) / (time.monotonic() - began)


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "missed"


def _mb(size: float) -> str:
    return f"{size / 1e6:.1f}"


def _percent(part: float) -> str:
    return f"{100 * part:.1f} %"
