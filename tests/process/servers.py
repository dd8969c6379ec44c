"""Real servers for tests: free loopback ports, a directory each, and none left behind.

Knows: how to await, ask, stop and kill `distkv server`, and how to run the command.  Does not know what a test wants
of them, nor how a process begins (`forks` does).  Everything here blocks; under trio it holds up the loop, which harms
nothing that runs in a process.

Invariant: when `open_servers` is left, every server it started is dead, by its pid, however the test ended; should the
tests themselves be killed, the kernel kills the servers.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self, TypeVar

import attrs

from distkv.client.addresses import Address, UnixAddress
from distkv.client.blocking import Client
from distkv.errors import DistkvError
from tests.process.fork_server import die_with_parent
from tests.process.forks import CHECKOUT, PYTHONPATH, Command
from tests.process.ports import free_port

ROOT: Final = Path(__file__).parents[2]
READY_S: Final = 60.0
STOP_S: Final = 300.0
COMMAND_S: Final = 600.0
PAUSE_S: Final = 0.02
PATIENCE: Final = 10
"""A condition gets so many times what it may need on a machine that is not busy: a slow one fails no test."""

Found = TypeVar("Found")


def wait_until(
    condition: Callable[[], Found],
    what: str,
    deadline_s: float = 30.0,
    dump: Callable[[], str] | None = None,
    *,
    pause_s: float = PAUSE_S,
) -> Found:
    """What `condition`, asked every `pause_s`, answers as soon as that is true; an error of ours counts as not yet.

    Nobody waits so eagerly that it holds up what is waited for: between two times it pauses as long as one took.

    Raises:
        TimeoutError: it was not in `PATIENCE` times `deadline_s` seconds; the message has what `dump` says.
    """
    deadline = time.monotonic() + PATIENCE * deadline_s
    pause = threading.Event()  # nobody sets it
    last = ""
    while True:
        began = time.monotonic()
        try:
            found = condition()
            if found:
                return found
            last = repr(found)
        except DistkvError as error:
            last = f"{type(error).__name__}: {error}"
        now = time.monotonic()
        if now > deadline:
            told = "" if dump is None else f"\n{dump()}"
            raise TimeoutError(f"not within {PATIENCE * deadline_s:g} s: {what}; last answer: {last}{told}")
        pause.wait(max(pause_s, now - began))


@attrs.frozen
class Ran:
    """A command that ended."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()


@attrs.define
class Server:
    """One server. It keeps its name, port and directory when it is started again."""

    name: str
    port: int
    directory: Path
    """What it writes: data/, stderr."""
    environment: Mapping[str, str]
    program: Sequence[str] = CHECKOUT
    """What is typed for `distkv`."""
    host: str = "127.0.0.1"
    """Where it listens."""
    socket_path: Path | None = None
    """A Unix socket at which it listens as well, and is asked: for a server in a network of its own."""
    process: subprocess.Popen[bytes] | None = None
    _lines: list[str] = attrs.field(factory=list)
    """What the running process printed."""
    _changed: threading.Condition = attrs.field(factory=threading.Condition)
    _reader: threading.Thread | None = None

    # -- life

    def start(self, *arguments: str, options: Sequence[str] = ("-v",)) -> Self:
        """Start the process; `wait_ready` waits until it serves. With a `--bind` of yours `address` is not bound."""
        assert self.process is None, f"{self.name} runs already"
        command = [*self.program, *options, "server", self.name, "--data-dir", str(self.data_dir)]
        if "--bind" not in arguments:
            command += ["--bind", self.address]
        if self.socket_path is not None:
            command += ["--bind", f"unix:{self.socket_path}"]
        with (self.directory / "stderr").open("ab") as errors:
            self.process = Command(
                [*command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=dict(self.environment),
                cwd=self.directory,
                preexec_fn=die_with_parent,
            )
        self._lines = []
        self._reader = threading.Thread(target=self._read, args=(self.process,), daemon=True)
        self._reader.start()
        return self

    def wait_ready(self, deadline_s: float = READY_S) -> str:
        """The line that it prints when it serves.

        Raises:
            ChildProcessError: it ended instead.
            TimeoutError: it did neither.
        """
        begin = f"distkv: {self.name} ready on "
        deadline = time.monotonic() + deadline_s
        with self._changed:
            while True:
                line = next((line for line in self._lines if line.startswith(begin)), None)
                if line is not None:
                    return line
                if self._reader is None or not self._reader.is_alive():
                    code = self.wait_end()
                    raise ChildProcessError(f"{self.name} ended with {code} before it was ready:\n{self.errors}")
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{self.name} is not ready within {deadline_s:g} s:\n{self.dump()}")
                self._changed.wait(0.1)

    def wait_end(self, deadline_s: float = STOP_S) -> int:
        """Until it ends by itself; its exit code, negative for a signal."""
        assert self.process is not None, f"{self.name} does not run"
        try:
            code = self.process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self.name} does not end within {deadline_s:g} s:\n{self.dump()}") from None
        self._forget()
        return code

    def terminate(self, number: signal.Signals = signal.SIGTERM, deadline_s: float = STOP_S) -> int:
        """Ask it to end, wait for it; its exit code."""
        self.send_signal(number)
        return self.wait_end(deadline_s)

    def kill(self) -> None:
        """End it at once, frozen or not, as a power cut would. Does nothing when it does not run."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self._forget()

    def send_signal(self, number: signal.Signals) -> None:
        """For SIGCONT, say, or SIGSTOP: then it stands still when this returns."""
        assert self.process is not None, f"{self.name} does not run"
        self.process.send_signal(number)
        if number is signal.SIGSTOP:
            wait_stopped(self.process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    # -- what it is

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def data_dir(self) -> Path:
        return self.directory / "data"

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def printed(self) -> list[str]:
        """The lines that the process printed so far."""
        with self._changed:
            return list(self._lines)

    @property
    def errors(self) -> str:
        """All that it, and earlier processes of this server, wrote to stderr."""
        return (self.directory / "stderr").read_text(errors="replace")

    def dump(self) -> str:
        """All that helps to see why something did not happen."""
        how = "runs" if self.is_running else "does not run"
        try:
            state: object = dict(self.state()) if self.is_running else None
        except DistkvError as error:
            state = error
        return f"-- {self.name} at {self.address} {how}\nstate: {state}\nstderr:\n{self.errors}"

    # -- asking it

    def client(self, *, reply_s: float = 10.0) -> Client:
        """A new connection; close it."""
        place: Address = (self.host, self.port) if self.socket_path is None else UnixAddress(str(self.socket_path))
        return Client([place], connect_s=5.0, reply_s=reply_s)

    def dial(self, timeout_s: float) -> socket.socket:
        """A bare connection; close it. A silence of `timeout_s` raises `TimeoutError`."""
        if self.socket_path is None:
            found = socket.create_connection((self.host, self.port), timeout_s)
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return found
        found = socket.socket(socket.AF_UNIX)
        found.settimeout(timeout_s)
        try:
            found.connect(str(self.socket_path))
        except OSError:
            found.close()
            raise
        return found

    def state(self) -> Mapping[str, object]:
        """What it answers to get_state."""
        with self.client() as client:
            return client.state()

    def storage(self) -> Mapping[str, int]:
        """What it says of its log and archive."""
        found = self.state()["storage"]
        assert isinstance(found, dict)
        return found

    def wait_settled(self) -> None:
        """Until the log holds nothing that the archive has not."""
        wait_until(lambda: self.storage()["unsettled"] == 0, f"{self.name} has settled all", 60, self.dump)

    def run(self, *arguments: str, stdin: bytes = b"") -> Ran:
        """`distkv client -p PORT ...`"""
        words = ("client", "-p", str(self.port), *arguments)
        return run_command(*words, stdin=stdin, environment=self.environment, program=self.program)

    # -- inside

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout as stream:
            for line in stream:
                with self._changed:
                    self._lines.append(line.decode(errors="replace").rstrip("\n"))
                    self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _forget(self) -> None:
        if self._reader is not None:
            self._reader.join()
        self.process = self._reader = None


@attrs.define
class Servers:
    """The servers of one test."""

    directory: Path
    installed: Path | None = None
    """An installed command, which is used in an environment with nothing of ours; None: that of this checkout."""
    all: dict[str, Server] = attrs.field(factory=dict)

    def start(self, name: str, *arguments: str) -> Server:
        """Start a server, for the first time or again; see `Server.start`."""
        return self.add(name).start(*arguments)

    def add(self, name: str) -> Server:
        """A server that is not started yet, with a port and a directory of its own."""
        if name not in self.all:
            directory = self.directory / name
            directory.mkdir(parents=True)
            self.all[name] = Server(name, free_port(), directory, self.environment, self.program)
        return self.all[name]

    def __getitem__(self, name: str) -> Server:
        return self.all[name]

    def __iter__(self) -> Iterator[Server]:
        return iter(self.all.values())

    @property
    def program(self) -> Sequence[str]:
        return CHECKOUT if self.installed is None else (str(self.installed),)

    @property
    def environment(self) -> dict[str, str]:
        """That of the tests, without what a user may have set up for distkv."""
        if self.installed is not None:
            return {"HOME": str(self.directory), "PATH": os.defpath}
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DISTKV_", "XDG_"))}
        return kept | {"HOME": str(self.directory), "PYTHONPATH": PYTHONPATH}

    def run(self, *arguments: str, stdin: bytes = b"", **variables: str) -> Ran:
        """`distkv ...`, with `variables` added to the environment."""
        return run_command(*arguments, stdin=stdin, environment=self.environment | variables, program=self.program)

    def wait_equal(self, names: Sequence[str], deadline_s: float) -> None:
        """Until these servers hold the same data and miss nothing.

        Raises:
            TimeoutError: with the state and the log of each.
        """

        def are_equal() -> bool:
            states = [self.all[name].state() for name in names]
            return len({str(state["digest"]) for state in states}) == 1 and not any(s["missing"] for s in states)

        wait_until(are_equal, f"{', '.join(names)} hold the same", deadline_s, self.dump)

    def dump(self) -> str:
        return "\n".join(server.dump() for server in self)


def run_command(
    *arguments: str, stdin: bytes = b"", environment: Mapping[str, str], program: Sequence[str] = CHECKOUT
) -> Ran:
    """Run `distkv` to its end, in a directory in which there is nothing of ours."""
    with Command(
        [*program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environment),
        cwd="/",
    ) as process:
        try:
            out, err = process.communicate(stdin, COMMAND_S)
        finally:
            process.kill()  # if it did not end
    return Ran(process.returncode, out, err.decode(errors="replace"))


def wait_stopped(process: subprocess.Popen[bytes]) -> None:
    """After SIGSTOP: one thread of a process takes it, and the others run on until that one was scheduled."""
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


@contextmanager
def open_servers(directory: Path) -> Iterator[Servers]:
    """Servers below `directory`; all are killed at the end, and what they wrote is shown when the test fails."""
    servers = Servers(directory)
    try:
        yield servers
    finally:
        for server in servers:
            server.kill()
            # Captured, hence shown with a failure only.
            sys.stderr.write(f"-- stderr of {server.name}\n{server.errors if _has_run(server) else ''}")


def _has_run(server: Server) -> bool:
    return (server.directory / "stderr").exists()
