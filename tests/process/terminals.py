"""Real interactive shells on terminals of their own, into which a test types.

Knows: how to start bash, zsh and fish, each with our completion script; how to type, and how to read what then stands
on the command line and what was shown.  Does not know what should be offered.

Control-T, which each shell is told about, writes the command line into a file: a key is handled when those before it
are, so that what a test reads is what completion made of the line.

Invariant: when `open_terminal` is left, the shell was killed and its terminal closed, which hangs up what it started.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import attrs

from tests.process.servers import wait_until

SHELLS: Final = ("bash", "zsh", "fish")
READY: Final = "ready-to-type"

_TAB: Final = "\t"
_WRITE_LINE: Final = "\x14"
_CLEAR_LINE: Final = "\x15"
_END: Final = "§"
"""No test types it."""
_ESCAPES: Final = re.compile(r"\x1b(\[[0-9;?>=]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[()].|.)")

START: Final[dict[str, tuple[list[str], str]]] = {
    "bash": (
        ["bash", "--noprofile", "--rcfile", "{file}", "-i"],
        r"""
        PS1='$ '
        bind 'set bell-style none'
        bind 'set enable-bracketed-paste off'
        bind 'set show-all-if-ambiguous on'
        bind -x '"\C-t": printf %s "$READLINE_LINE" >"$LINE_FILE.part"; mv "$LINE_FILE.part" "$LINE_FILE"'
        eval "$(distkv completion bash)"
        echo ready-to-"type"
        """,
    ),
    "zsh": (
        ["zsh", "-d", "-i"],  # reads $ZDOTDIR/.zshrc
        r"""
        PS1='$ '
        unsetopt beep
        autoload -Uz compinit && compinit -u -D
        write-line() { printf %s "$BUFFER" >"$LINE_FILE.part"; mv "$LINE_FILE.part" "$LINE_FILE" }
        zle -N write-line
        bindkey -e
        bindkey '^T' write-line
        eval "$(distkv completion zsh)"
        echo ready-to-"type"
        """,
    ),
    "zsh that loads it when it is needed": (
        ["zsh", "-d", "-i"],
        r"""
        PS1='$ '
        mkdir functions && distkv completion zsh >functions/_distkv
        fpath=($PWD/functions $fpath)
        autoload -Uz compinit && compinit -u -D
        write-line() { printf %s "$BUFFER" >"$LINE_FILE.part"; mv "$LINE_FILE.part" "$LINE_FILE" }
        zle -N write-line
        bindkey -e
        bindkey '^T' write-line
        echo ready-to-"type"
        """,
    ),
    "fish": (
        ["fish", "-i", "--private", "--no-config", "-C", "source {file}"],
        r"""
        function fish_prompt; echo -n '$ '; end
        function fish_greeting; end
        bind \ct 'commandline >"$LINE_FILE.part"; mv "$LINE_FILE.part" "$LINE_FILE"'
        set fish_autosuggestion_enabled 0
        distkv completion fish | source
        echo ready-to-"type"
        """,
    ),
}


@attrs.define
class Terminal:
    """A shell, and the terminal that it believes in."""

    shell: str
    line_file: Path
    master: int
    _written: list[bytes] = attrs.field(factory=list)
    """What it wrote; a thread fills it."""

    def complete(self, typed: str) -> str:
        """The command line after this was typed, and Tab."""
        self.line_file.unlink(missing_ok=True)
        os.write(self.master, (_CLEAR_LINE + typed + _TAB + _WRITE_LINE).encode())
        wait_until(self.line_file.exists, f"{self.shell} completed {typed!r}", 30, self.text)
        return self.line_file.read_text().removesuffix("\n")

    def shown(self, typed: str) -> set[str]:
        """The words that are shown when this was typed, and Tab, those on the command line included."""
        begin = len(self._written)
        self.complete(typed)
        # What was shown may be under way from the terminal to us; what the shell echoes now comes behind it.
        os.write(self.master, (_CLEAR_LINE + _END).encode())
        wait_until(lambda: _END in self.text(begin), f"{self.shell} echoes", 30, self.text)
        return set(self.text(begin).partition(_END)[0].split())

    def enter(self, typed: str) -> None:
        """Type this, where a Tab may be in it, and Enter."""
        os.write(self.master, f"{_CLEAR_LINE}{typed}\n".encode())

    def text(self, begin: int = 0) -> str:
        """What is on the screen, more or less: without escapes."""
        return _ESCAPES.sub(" ", b"".join(self._written[begin:]).decode(errors="replace"))

    def read(self) -> None:
        with suppress(OSError):  # the shell ended
            while data := os.read(self.master, 4096):
                self._written.append(data)


@contextmanager
def open_terminal(shell: str, directory: Path, environment: Mapping[str, str]) -> Iterator[Terminal]:
    """A shell that is ready to be typed into, with `distkv` on its PATH; `shell` is a key of START."""
    command, script = START[shell]
    directory.mkdir()
    file = directory / ".zshrc"
    file.write_text(script)
    write_command(directory / "distkv")
    variables = {
        **environment,
        "HOME": str(directory),
        "ZDOTDIR": str(directory),
        "LINE_FILE": str(directory / "line"),
        "PATH": f"{directory}:{os.environ['PATH']}",
        "TERM": "xterm",
        "COLUMNS": "200",
        "LC_ALL": "C.UTF-8",
    }
    master, end = pty.openpty()
    process = subprocess.Popen(
        [word.format(file=file) for word in command],
        stdin=end, stdout=end, stderr=end, cwd=directory, env=variables, start_new_session=True,
        preexec_fn=_own_terminal,
    )  # fmt: skip
    os.close(end)
    terminal = Terminal(shell, directory / "line", master)
    reader = threading.Thread(target=terminal.read, daemon=True)
    reader.start()
    try:
        # The prompt comes when the terminal is set up for keys.
        wait_until(lambda: "$" in terminal.text().partition(READY)[2], f"{shell} is ready", 30, terminal.text)
        yield terminal
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(master)
        reader.join(5)
        sys.stderr.write(f"-- screen of {shell}\n{terminal.text()}\n")


def write_command(file: Path) -> None:
    """`distkv`, as installed."""
    file.write_text(f'#!/bin/sh\nexec {sys.executable} -m distkv "$@"\n')
    file.chmod(0o755)


def _own_terminal() -> None:
    """Make standard input the terminal of this session, so that the shell has job control and keys."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
