"""README.rst is true: its commands are run as they are printed there, and print what it says they print.

Knows: how to read console blocks, and how to be the reader: one bash for each shell that the README speaks of, in which
the lines are typed in their order.  Does not know what the commands mean.

How it differs from a reader:

* A reader is slower than a program.  A command that only asks (`ASKS`) is therefore repeated until it prints what is
  shown, or a deadline passes.  Every other command runs once, and must print exactly what is shown.
* `...` stands for text that differs from run to run.
* 'Several hosts' runs on one host, each host's shell with its own addresses of 127.0.0.0/8 in the place of those that
  are printed (`HOSTS`); nothing else is changed.

Invariant: whatever the shells started is dead when a test ends, however it ends: it is found by the session which each
shell leads.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import attrs
import pytest

README = Path(__file__).parents[2] / "README.rst"

ASKS = re.compile(r"distkv client .*\b(get|ping|state)\b|serf join ")
"""Commands that may be repeated: they change nothing, or nothing the second time."""

PATIENCE_S = 40.0
"""How long a command that asks is repeated. A first node waits for one clock of 5 s, on a machine that may be busy."""

HOSTS = (
    {
        "192.168.1.11:7946": "127.0.0.11:27711",
        "192.168.1.11:27586": "127.0.0.11:27586",
        "127.0.0.1:7373": "127.0.1.11:27811",
        "127.0.0.1:27586": "127.0.1.11:27586",
    },
    {
        "192.168.1.11:7946": "127.0.0.11:27711",
        "192.168.1.12:7946": "127.0.0.12:27712",
        "192.168.1.12:27586": "127.0.0.12:27586",
        "192.168.1.11": "127.0.0.11",
        "127.0.0.1:7373": "127.0.1.12:27812",
        "127.0.0.1:27586": "127.0.1.12:27586",
    },
)
"""For each of the two blocks what stands for the addresses in it; 127.0.1.x is the host's own 127.0.0.1."""

ENDED_MEANWHILE = suppress(FileNotFoundError, ProcessLookupError)

PAUSE_S = 0.2
"""Between two times."""

LOOP = """
trap 'kill -9 $(jobs -p)' EXIT
while IFS= read -r file; do
    (exit "${status-0}")
    . "$file" </dev/null >"$file.out" 2>"$file.err"
    status=$?
    echo "$status"
done
"""
"""The reader's shell: the name of a file with a command comes in, its exit status goes out.

It ends with its input; so it cleans up also when the tests themselves are killed.
"""


@attrs.frozen
class Command:
    """One `$` line, and the lines that stand below it."""

    text: str
    prints: str

    def is_shown_by(self, output: str) -> bool:
        pattern = ".*".join(re.escape(part) for part in self.prints.split("..."))
        return re.fullmatch(pattern, output) is not None


def console_blocks(section: str) -> list[list[Command]]:
    """The commands of each console block below a heading."""
    parts = re.split(r"\n([^\n]+)\n-{3,}\n", README.read_text(encoding="utf-8"))
    body = parts[parts.index(section) + 1]
    blocks = re.findall(r"^\.\. code-block:: console\n\n((?:   [^\n]*\n|\n)+)", body, re.MULTILINE)
    return [list(_commands(block)) for block in blocks]


def _commands(block: str) -> Iterator[Command]:
    lines = [line.removeprefix("   ") for line in block.rstrip().splitlines()]
    for at, line in enumerate(lines):
        if line.startswith("$ "):
            end = next((i for i in range(at + 1, len(lines)) if lines[i].startswith("$ ")), len(lines))
            yield Command(line.removeprefix("$ "), "".join(f"{shown}\n" for shown in lines[at + 1 : end]))


class Shell:
    """A reader's bash in an empty directory."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._typed = directory / "typed"
        self._typed.mkdir()
        work, home = directory / "work", directory / "home"
        work.mkdir()
        home.mkdir()
        here = Path(sys.executable).parent
        keep = {name: value for name, value in os.environ.items() if not name.startswith(("DISTKV_", "XDG_", "SERF_"))}
        self._bash = subprocess.Popen(
            ["bash", "--norc", "-m", "-c", LOOP],
            cwd=work,
            env={**keep, "HOME": str(home), "PATH": f"{here}:{os.environ['PATH']}", **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,
        )
        self._count = 0

    def check(self, command: Command) -> None:
        """Type a command; it must print what is shown and, unless it says so itself, succeed."""
        deadline = time.monotonic() + (PATIENCE_S if ASKS.match(command.text) else 0)
        while True:
            status, output, errors = self._type(command.text)
            if status == 0 and command.is_shown_by(output):
                return
            assert time.monotonic() < deadline, (
                f"$ {command.text}\nshould print:\n{command.prints}\nprinted:\n{output}{errors}(exit status {status})"
                f"\n{self._logs()}"
            )
            threading.Event().wait(PAUSE_S)  # nobody sets it: another process has no events for us

    def end(self) -> None:
        """Kill the shell and everything that it started."""
        members = _session(self._bash.pid)
        while members - {self._bash.pid}:
            for pid in members - {self._bash.pid}:
                with ENDED_MEANWHILE:
                    os.kill(pid, signal.SIGKILL)
            members = _session(self._bash.pid)
        self._bash.kill()
        self._bash.communicate()

    def _type(self, text: str) -> tuple[int, str, str]:
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._count += 1
        file = self._typed / str(self._count)
        file.write_text(f"{text}\n", encoding="utf-8")
        self._bash.stdin.write(f"{file}\n")
        status = int(self._bash.stdout.readline())
        return status, Path(f"{file}.out").read_text(encoding="utf-8"), Path(f"{file}.err").read_text(encoding="utf-8")

    def _logs(self) -> str:
        logs = sorted(self._typed.parent.glob("work/*.log"))
        return "".join(f"--- {log.name}\n{log.read_text(errors='replace')[-1500:]}\n" for log in logs)


def _session(leader: int) -> set[int]:
    """The living processes of a session."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with ENDED_MEANWHILE:
                state, _, _, session, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(session) == leader and state != "Z":
                    found.add(int(entry.name))
    return found


@contextmanager
def open_shell(directory: Path, **environment: str) -> Iterator[Shell]:
    directory.mkdir(exist_ok=True)
    shell = Shell(directory, environment)
    try:
        yield shell
    finally:
        shell.end()


def _with_addresses(command: Command, addresses: Mapping[str, str]) -> Command:
    longest_first = sorted(addresses, key=len, reverse=True)
    pattern = re.compile("|".join(re.escape(address) for address in longest_first))

    def swap(text: str) -> str:
        return pattern.sub(lambda found: addresses[found[0]], text)

    return Command(swap(command.text), swap(command.prints))


@pytest.mark.slow
def test_three_nodes_on_one_machine_do_what_the_readme_says(tmp_path: Path) -> None:
    blocks = console_blocks("Three nodes on one machine")
    with open_shell(tmp_path) as shell:
        for command in [command for block in blocks for command in block]:
            shell.check(command)


@pytest.mark.slow
def test_several_hosts_do_what_the_readme_says(tmp_path: Path) -> None:
    first, second = console_blocks("Several hosts")
    # `distkv client` without -h asks the host's own 127.0.0.1.
    with (
        open_shell(tmp_path / "host1", DISTKV_HOST="127.0.1.11") as host1,
        open_shell(tmp_path / "host2", DISTKV_HOST="127.0.1.12") as host2,
    ):
        for shell, block, addresses in zip((host1, host2), (first, second), HOSTS, strict=True):
            for command in block:
                shell.check(_with_addresses(command, addresses))
