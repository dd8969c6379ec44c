"""Pages are true: their commands are run as they are printed there, and print what the page says they print.

Knows: how to read console blocks, and how to be the reader: one bash for each shell that a page speaks of, in which the
lines are typed in their order.  Does not know what the commands mean, nor which pages there are (`readers`).

How it differs from a reader:

* A reader is slower than a program.  A command that only asks (`ASKS`) is therefore repeated until it prints what is
  shown, or a deadline passes.  Every other command runs once, and must print exactly what is shown.  A reader who
  pastes whole blocks (`pastes`) is as fast as a program: nothing is repeated, so the page has to show every wait.
* `...` stands for text that differs from run to run.
* What the shell says of its jobs is left out; it speaks differently to a terminal.
* A line that begins with `> ` belongs to the command above it, as a shell shows it.
* A command whose last line is shown as `distkv: ...` must fail, unless that says that a node is ready or a seed
  passed; every other one must succeed.
* What a `Reader` swaps: ports for free ones, and whatever else its page needs.

Invariant: whatever the shells started is dead when a test ends, however it ends: it is found by the session which each
shell leads.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import attrs

from tests.process.ports import free_port

ROOT: Final = Path(__file__).parents[2]

ASKS: Final = re.compile(
    r"distkv client (-\S+ \S+ )*(conflicts|dump|get|history|list|ping|state)\b|distkv doctor|serf (join|members) "
    r"|(cat|df|du|grep|ls|systemctl is-active|tail) "
)
"""Commands that may be repeated: they change nothing, or nothing the second time."""

PATIENCE_S: Final = 400.0
"""How long a command that asks is repeated. A first node waits for one clock of 5 s, on a machine that may be busy."""

PORT: Final = re.compile(r"(?<!\d)27[5678]\d\d(?!\d)")
"""The ports that pages use."""

ENDED_MEANWHILE = suppress(FileNotFoundError, ProcessLookupError)

JOBS: Final = re.compile(r"^.*: line \d+: +\d+ [A-Z].*\n", re.MULTILINE)
"""`bash: line 7: 1234 Killed  serf agent ...`"""

APART: Final = ("DISTKV_", "XDG_", "SERF_", "PYTEST_")
"""How variables begin that are the test's own, and not the reader's."""

PAUSE_S = 0.2
"""Between two times."""

LOOP = """
trap 'kill -9 $(jobs -p)' EXIT
while IFS= read -r file; do
    (exit "${status-0}")
    . "$file" </dev/null >"$file.out" 2>&1
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

    @property
    def fails(self) -> bool:
        last = self.prints.rpartition("\n")[0].rpartition("\n")[2]
        return last.startswith("distkv: ") and re.search(" ready on | passed ", last) is None

    def is_shown_by(self, output: str) -> bool:
        pattern = ".*".join(re.escape(part) for part in self.prints.split("..."))
        return re.fullmatch(pattern, output) is not None

    def with_words(self, swap: Callable[[str], str]) -> Command:
        return Command(swap(self.text), swap(self.prints))


@attrs.frozen
class Reader:
    """Whoever types the commands of a page, or of one block of it, and what is different where they do it."""

    swap: Mapping[str, str] = attrs.field(factory=dict)
    """What stands for words of the page. `TMP` in the new words is the directory of the test."""
    environment: Mapping[str, str] = attrs.field(factory=dict)
    wrap: tuple[str, ...] = ()
    """The command within which the shell runs."""
    pastes: bool = False
    """Whether they type as fast as a program would."""
    sources: bool = False
    """Whether they begin in a copy of the sources; else in an empty directory."""


def pages() -> Iterator[Path]:
    """Every document that tells somebody what to type."""
    yield from (ROOT / name for name in ("README.rst", "CONTRIBUTING.rst", "tests/README.rst"))
    yield from sorted((ROOT / "docs").rglob("*.rst"))


def console_blocks(page: Path) -> list[tuple[Command, ...]]:
    """The commands of each console block of a page."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^\.\. code-block:: console\n\n((?:   [^\n]*\n|\n)+)", text, re.MULTILINE)
    assert len(blocks) == text.count(":: console"), f"{page} has console blocks that are not at its left edge"
    return [tuple(_commands(block)) for block in blocks]


def check_page(page: Path, readers: Sequence[Reader], directory: Path, *, until: int | None = None) -> None:
    """Type all commands of a page: with one reader in one shell, with several each block in the shell of its own.

    `until`: how many blocks are typed, of a page that is read no further.
    """
    blocks = console_blocks(page)[:until]
    ports: dict[str, str] = {}
    with ExitStack() as stack:
        swaps, shells, patience = [], [], []
        for number, reader in enumerate(readers):
            place = directory / str(number)
            if reader.sources:
                copy_sources(place / "work")
            words = {old: new.replace("TMP", str(place)) for old, new in reader.swap.items()}
            swaps.append(_swapper(words, ports))
            variables = {name: value.replace("TMP", str(place)) for name, value in reader.environment.items()}
            default = {"DISTKV_PORT": swaps[-1]("27586")}
            shells.append(stack.enter_context(open_shell(place, reader.wrap, default | variables)))
            patience.append(0.0 if reader.pastes else PATIENCE_S)
        for number, block in enumerate(blocks):
            which = number if len(readers) > 1 else 0
            for command in block:
                shells[which].check(command.with_words(swaps[which]), patience[which])


def copy_sources(place: Path) -> None:
    """What a clone of the repository has, without its history."""
    lines = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    made = [line.strip("/") for line in lines if not line.startswith("#")]
    shutil.copytree(ROOT, place, ignore=shutil.ignore_patterns(".git", *made), symlinks=True)


def _commands(block: str) -> Iterator[Command]:
    lines = [line.removeprefix("   ") for line in block.rstrip().splitlines()]
    assert lines[0].startswith("$ "), f"a block of commands begins with {lines[0]!r}"
    for at, line in enumerate(lines):
        if line.startswith("$ "):
            end = next((i for i in range(at + 1, len(lines)) if lines[i].startswith("$ ")), len(lines))
            more = list(itertools.takewhile(lambda shown: shown.startswith("> "), lines[at + 1 : end]))
            text = "\n".join([line.removeprefix("$ "), *(shown.removeprefix("> ") for shown in more)])
            yield Command(text, "".join(f"{shown}\n" for shown in lines[at + 1 + len(more) : end]))


def _swapper(words: Mapping[str, str], ports: dict[str, str]) -> Callable[[str], str]:
    """Swaps words, the longest first, then ports for free ones, the same for all readers of a page."""
    longest_first = sorted(words, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def swap(text: str) -> str:
        text = pattern.sub(lambda found: words[found[0]], text)
        return PORT.sub(lambda found: ports.setdefault(found[0], str(free_port())), text)

    return swap


class Shell:
    """A reader's bash in an empty directory."""

    def __init__(self, directory: Path, wrap: Sequence[str], environment: Mapping[str, str]) -> None:
        self._typed = directory / "typed"
        self._typed.mkdir()
        work, home = directory / "work", directory / "home"
        work.mkdir(exist_ok=True)
        home.mkdir()
        here = Path(sys.executable).parent
        keep = {name: value for name, value in os.environ.items() if not name.startswith(APART)}
        self._bash = subprocess.Popen(
            [*wrap, "bash", "--norc", "-m", "-c", LOOP],
            cwd=work,
            env={**keep, "HOME": str(home), "PATH": f"{here}:{os.environ['PATH']}", **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,
        )
        self._count = 0

    def check(self, command: Command, patience_s: float = PATIENCE_S) -> None:
        """Type a command; it must print what is shown and, unless it says so itself, succeed."""
        deadline = time.monotonic() + (patience_s if ASKS.match(command.text) else 0)
        while True:
            status, output = self._type(command.text)
            if (status != 0) == command.fails and command.is_shown_by(JOBS.sub("", output)):
                return
            assert time.monotonic() < deadline, (
                f"$ {command.text}\nshould print:\n{command.prints}\nprinted:\n{output}(exit status {status})"
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

    def _type(self, text: str) -> tuple[int, str]:
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._count += 1
        file = self._typed / str(self._count)
        file.write_text(f"{text}\n", encoding="utf-8")
        self._bash.stdin.write(f"{file}\n")
        status = int(self._bash.stdout.readline())
        return status, Path(f"{file}.out").read_text(encoding="utf-8")

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
def open_shell(directory: Path, wrap: Sequence[str], environment: Mapping[str, str]) -> Iterator[Shell]:
    directory.mkdir(parents=True, exist_ok=True)
    shell = Shell(directory, wrap, environment)
    try:
        yield shell
    finally:
        shell.end()
