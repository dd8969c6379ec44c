"""The process between `token run` and its command: it ends the command in time, whatever becomes of `run`.

Knows: processes, signals, the words that `run` sends.  Does not know tokens and sessions, nor any network: only until
when the command may run.

Invariant: nothing of the command is left when this process ends, and this process ends when `run` does. It needs
nobody's help for it: it has its own clock, and is in a session of its own, where no terminal stops it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from distkv.cli.command_end import CommandEnd
from distkv.cli.descendants import become_subreaper, below, die_with_parent, signal_below
from distkv.cli.output import complain
from distkv.client.boot_clock import STEP_S, boot_ms

NOT_FOUND: Final = 127
NOT_RUNNABLE: Final = 126
"""What shells say of a command that they cannot start."""
KILL_S: Final = 5.0
"""What is not gone so long after SIGKILL hangs in the kernel, or is another user's."""
WORDS_MAX: Final = 1 << 22
STATUS_BYTES: Final = 1 << 10


class SupervisorLine:
    """What `run` has of its supervisor. Any thread may speak."""

    def __init__(self, command: Sequence[str], grace_ms: int) -> None:
        """Start it. To be called while there is only one thread."""
        ours, theirs = socket.socketpair()
        self.pid: Final = os.fork()
        if not self.pid:
            code: int | None = None
            try:
                ours.close()
                code = _Supervisor(theirs, command, grace_ms).run()
            finally:
                if code is None:  # a mistake of ours: nothing above here is to go on in this process
                    sys.excepthook(*sys.exc_info())
                os._exit(code or 0)
        theirs.close()
        self._line: Final = ours

    def begin(self, environment: Mapping[str, str], until_ms: int) -> None:
        """Start the command. It may run until then."""
        self._say({"environment": dict(environment), "until_ms": until_ms})

    def kept(self, until_ms: int) -> None:
        """It may run longer."""
        self._say({"until_ms": until_ms})

    def taken(self, kill_ms: int) -> None:
        """It has to end now, and is killed then."""
        self._say({"kill_ms": kill_ms})

    def forward(self, number: int) -> None:
        """Pass a signal on."""
        self._say({"signal": number})

    def wait(self) -> tuple[int, bool]:
        """Until the command and all that it left have ended: its exit status, as shells count, and whether it had to
        end because of the token. When the supervisor itself was killed, what is left of the command is ended here."""
        told = b""
        while not told.endswith(b"\n"):
            data = self._line.recv(STATUS_BYTES)
            if not data:
                break
            told += data
        os.waitpid(self.pid, 0)
        if not told.endswith(b"\n"):
            kill_all()
            complain("the supervisor of the command was killed, and so is the command")
            return 128 + signal.SIGKILL, False
        status = json.loads(told)
        return int(status["status"]), bool(status["is_lost"])

    def end(self) -> None:
        """Nothing is to run, or go on."""
        self._line.close()
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def _say(self, words: Mapping[str, object]) -> None:
        with suppress(OSError):  # it has ended: `wait` tells
            self._line.sendall(json.dumps(words).encode() + b"\n")


def kill_all() -> None:
    """Kill everything below this process, and what it starts meanwhile."""
    end = time.monotonic() + KILL_S
    while signal_below(os.getpid(), signal.SIGKILL) or below(os.getpid()):
        _reap()
        if time.monotonic() > end:
            complain(f"{len(below(os.getpid()))} processes of the command do not end, or are another user's")
            return
        time.sleep(0.001)


def _reap() -> dict[int, int]:
    """Take leave of all children that have ended: of each its exit status, as shells count."""
    found = dict[int, int]()
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            code = os.waitstatus_to_exitcode(status)
            found[pid] = code if code >= 0 else 128 - code
    return found


class _Supervisor:
    def __init__(self, line: socket.socket, command: Sequence[str], grace_ms: int) -> None:
        self._line: Final = line
        self._command: Final = command
        self._grace_ms: Final = grace_ms
        self._words = b""
        self._end: CommandEnd | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._status: int | None = None

    def run(self) -> int:
        """Until `run` or all of the command has ended."""
        os.setsid()
        become_subreaper()
        wakeup, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            if signal.getsignal(number) is not signal.SIG_IGN:  # which the command inherits
                signal.signal(number, lambda *_: None)
        poll = select.poll()
        poll.register(self._line, select.POLLIN)
        poll.register(wakeup, select.POLLIN)
        while not self._is_done():
            ready = {file for file, _ in poll.poll(self._wait_ms())}
            if wakeup in ready:
                with suppress(BlockingIOError):
                    os.read(wakeup, 1 << 12)
            if self._line.fileno() in ready and not self._hear():
                kill_all()
                return 1
            self._look()
        lost = self._end is not None and self._end.is_lost
        with suppress(OSError):
            self._line.sendall(json.dumps({"status": self._status, "is_lost": lost}).encode() + b"\n")
        return 0

    def _is_done(self) -> bool:
        return self._status is not None and not below(os.getpid())

    def _wait_ms(self) -> int:
        if self._end is None:
            return -1
        left_ms = self._end.wake_ms() - boot_ms()
        longest_ms = 10 if self._status is not None else int(STEP_S * 1000)
        return max(1, min(longest_ms, left_ms))

    def _hear(self) -> bool:
        """What `run` says; whether it is there still."""
        try:
            data = self._line.recv(1 << 16)
        except ConnectionError:
            return False
        *lines, self._words = (self._words + data).split(b"\n")
        for line in lines:
            self._take(json.loads(line))
        return bool(data) and len(self._words) <= WORDS_MAX

    def _take(self, words: Mapping[str, object]) -> None:
        match words:
            case {"environment": dict() as environment, "until_ms": int() as until_ms}:
                self._end = CommandEnd(self._grace_ms, until_ms)
                self._start(environment)
            case {"until_ms": int() as until_ms} if self._end is not None:
                self._end.kept(until_ms)
            case {"kill_ms": int() as kill_ms} if self._end is not None:
                self._end.taken(kill_ms)
            case {"signal": int() as number} if self._process is not None and self._status is None:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)

    def _start(self, environment: Mapping[str, str]) -> None:
        try:
            self._process = subprocess.Popen(
                self._command, env=environment, close_fds=False, start_new_session=True, preexec_fn=die_with_parent
            )
        except OSError as error:
            complain(f"{self._command[0]}: {error.strerror or error}")
            self._status = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_RUNNABLE

    def _look(self) -> None:
        """Who has ended, and which signal is due."""
        ended = _reap()
        end, process = self._end, self._process
        if end is None or process is None:
            return
        if process.pid in ended:
            self._status = process.returncode = ended[process.pid]
            if below(os.getpid()):
                end.ended(boot_ms())
                signal_below(os.getpid(), signal.SIGTERM)
        number = end.due(boot_ms())
        if number == signal.SIGKILL:
            kill_all()
            self._reap_command(process)
        elif number is not None:
            signal_below(os.getpid(), number)

    def _reap_command(self, process: subprocess.Popen[bytes]) -> None:
        """After everything was killed its status is told too, though nobody saw it."""
        _reap()
        if self._status is None:
            self._status = process.returncode = 128 + signal.SIGKILL
