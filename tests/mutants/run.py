"""Break one rule of the core at a time and see that a test fails: `python -m tests.mutants run`.

Knows: for each rule the few words of source that carry it, and what they become without it.  A copy of the package and
its tests, one for all mutants of a thread, is changed and tested in a temporary directory; the working tree is never
touched.

Invariant: a mutant counts as killed only when a test *failed* in the changed copy; words that are no longer there, or
there twice, and a copy that cannot be imported or tested are errors.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

TESTS = ("tests/unit/model", "tests/unit/core", "tests/property")
"""Of these, files named after the model and the update machine are run."""

TIMEOUT_S = 1800

PYTEST = """
import sys, distkv.core, pytest
if not distkv.core.__file__.startswith(sys.argv[1]):
    sys.exit(f"the copy is not what Python imports: {distkv.core.__file__}")
sys.exit(pytest.main(sys.argv[2:]))
"""


_own = threading.local()
"""The copy of this thread."""


class MutantError(Exception):
    """A mutant could not be judged; the message says why."""


@dataclass(frozen=True)
class Mutant:
    """A rule, and the source without it."""

    name: str
    rule: str
    file: str
    old: str
    new: str


MUTANTS = (
    Mutant(
        "tie-break",
        "equal tocks are decided by tick, name and value",
        "model/event.py",
        "return (event.fence, event.tock, event.kind is not Kind.EXPIRE, event.tick, name, value_hash(event))",
        "return (event.fence, event.tock, event.kind is not Kind.EXPIRE, event.tick, name[:0], b'')",
    ),
    Mutant(
        "duplicate",
        "an event whose tick the ledger has is not applied",
        "model/tree.py",
        "        if not ledger.hold(event.link):\n",
        "        if not ledger.hold(event.link) and self.event(event.link) is not None:\n",
    ),
    Mutant(
        "containment-order",
        "only an event that orders above contains another",
        "model/event.py",
        "    if not is_above(a, b):\n        return False\n    node, tick = b.node, b.tick",
        "    node, tick = b.node, b.tick",
    ),
    Mutant(
        "superseded",
        "applying an event marks every other link of its chain",
        "model/tree.py",
        "        unseen = [other for other in older if ledger.hold(other)] if older else []\n",
        "        unseen: list[Link] = []\n",
    ),
    Mutant(
        "loser-present",
        "an open loser counts as present",
        "model/tree.py",
        "        for event in gone:\n            here = self._present",
        "        for event in (*gone, *entry.losers):\n            here = self._present",
    ),
    Mutant(
        "loser-digest",
        "the digest covers open losers",
        "model/tree.py",
        "    for loser in losers:\n",
        "    for loser in ():\n",
    ),
    Mutant(
        "memory",
        "a path remembers what the chains of gone events said",
        "model/entry.py",
        "            for event in gone_now:\n                self.remember(event, said)\n",
        "",
    ),
    Mutant(
        "memory-order",
        "memory speaks only for what is below the event that named it",
        "model/entry.py",
        "tick >= event.tick and not is_within(at, event) for",
        "tick >= event.tick for",
    ),
    Mutant(
        "duplicate-chain",
        "the chain of a duplicate that is held by hearsay is read",
        "model/tree.py",
        "return self._apply_duplicate(event, entry)",
        "return Applied(event, False, False)",
    ),
    Mutant(
        "lives",
        "the lives of one name are different writers",
        "model/event.py",
        "and known >= tick and known >> COUNT_BITS == life:",
        "and known >= tick and life >= 0:",
    ),
    Mutant(
        "expiry-open",
        "an expiry never becomes an open loser",
        "model/entry.py",
        "                or event.kind is Kind.EXPIRE\n",
        "",
    ),
    Mutant(
        "hidden-delete",
        "a delete that lost to a delete is no conflict",
        "model/entry.py",
        "if not says_same(loser, self.head)]",
        "if loser is not self.head]",
    ),
    Mutant(
        "own-writer",
        "the writer of a chain appears in it once",
        "model/event.py",
        "if writer != own and links.get",
        "if own and links.get",
    ),
    Mutant(
        "chain-cut",
        "what a write closes is never cut from its chain",
        "model/event.py",
        "room = max(length_max - 1, len(sources))",
        "room = length_max - 1",
    ),
    Mutant(
        "lost-held",
        "a tick that arrives is lost no more",
        "model/ledger.py",
        "        if book.lost:\n            book.lost.discard_range(begin, end)\n",
        "",
    ),
    Mutant(
        "tock-heard",
        "a write is above every tock seen",
        "core/update.py",
        "self.tock = max(self.tock, event.tock)\n        own = self.own\n",
        "own = self.own\n",
    ),
    Mutant(
        "empty-delete",
        "deleting nothing burns no tick",
        "core/update.py",
        "            if before is None and not is_lost and (fence == here or not (here.holds or fence.holds)):\n",
        "            if False:\n",
    ),
    Mutant(
        "replay-known",
        "a restart remembers what was known",
        "core/update.py",
        "                _, closed = self.learn_known(ranges)\n"
        "                return [event.path for event in closed]\n",
        "                return []\n",
    ),
    Mutant(
        "replay-tick",
        "a restart uses no tick twice",
        "core/update.py",
        "own.tick = max(own.tick, event.tick)",
        "own.tick = own.tick",
    ),
    Mutant(
        "ceiling",
        "a restart goes on above the durable ceiling of the tock",
        "core/update.py",
        "self.tock = max(self.tock, self._ceiling)",
        "self.tock = self.tock",
    ),
)


def copy_of_package(to: Path) -> None:
    """The package and its tests, in a directory of its own, with what Python has compiled of them: files keep their
    times, by which it knows that."""
    for name in ("distkv", "tests"):
        shutil.copytree(ROOT / name, to / name)
    shutil.copy(ROOT / "pyproject.toml", to)


@contextmanager
def without(mutant: Mutant) -> Iterator[Path]:
    """The copy without this rule; at the end it is whole again.

    Raises:
        MutantError: as `change`.
    """
    root = _copy()
    path = root / "distkv" / mutant.file
    whole = path.read_bytes()
    try:
        change(mutant, root)
        yield root
    finally:
        path.write_bytes(whole)


def _copy() -> Path:
    if not hasattr(_own, "root"):
        folder = tempfile.TemporaryDirectory(prefix="distkv-mutant-")
        atexit.register(folder.cleanup)
        _own.root = Path(folder.name).resolve()
        copy_of_package(_own.root)
    found: Path = _own.root
    return found


def clean_environment(root: Path) -> dict[str, str]:
    """That of a child which sees the copy and nothing of the run that it is started from."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COV", "PYTEST", "CI", "TOLD"))}
    return {**kept, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}


def change(mutant: Mutant, root: Path) -> None:
    """Take the rule out of the copy.

    Raises:
        MutantError: its words are not there exactly once.
    """
    path = root / "distkv" / mutant.file
    text = path.read_text(encoding="utf-8")
    count = text.count(mutant.old)
    if count != 1:
        raise MutantError(f"{mutant.name}: its words stand {count} times in {mutant.file}, not once: correct it")
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
        compiled.unlink()


def failing_test(root: Path, stages: Sequence[Sequence[str]], *, is_soaking: bool) -> str | None:
    """The first test that fails in the copy; None when all pass. Each stage, the names of some tests, is run as `make
    test` does; then, if none failed and `is_soaking`, with more examples and seeds, always the same ones.

    Raises:
        MutantError: the tests could not be run, or ran against something else than the copy.
    """
    environment = clean_environment(root)
    if not all(stages):
        raise MutantError("there are no tests to run")
    profiles = ((), ("--soak", "0")) if is_soaking else ((),)
    for profile in profiles:
        for names in stages:
            found = _failing_of([*profile, *names], root, environment)
            if found is not None:
                return found
    return None


def _failing_of(words: Sequence[str], root: Path, environment: dict[str, str]) -> str | None:
    # The profile leaves nothing to chance: a mutant that is killed once is killed every time.
    options = ["-x", "-q", "-rf", "-p", "no:cacheprovider"]
    done = _run([sys.executable, "-c", PYTEST, str(root), *options, *words], root, environment)
    if done.returncode == 0:
        return None
    found = re.search(r"^FAILED (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
    if done.returncode != 1 or found is None:
        raise MutantError(f"the tests could not be run:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    return found[1]


def _run(command: list[str], root: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise MutantError(f"the tests took longer than {TIMEOUT_S} s") from None


def stages() -> tuple[list[str], list[str]]:
    """The tests of the core that may notice: those without, then those with properties."""
    ours = sorted(path for folder in TESTS for path in (ROOT / folder).glob("test_*.py") if _is_ours(path))
    slow = [path for path in ours if "property" in path.parts]
    quick = [path for path in ours if path not in slow]
    return [str(path.relative_to(ROOT)) for path in quick], [str(path.relative_to(ROOT)) for path in slow]


def _is_ours(path: Path) -> bool:
    return path.parent.name == "model" or path.name.startswith(("test_model_", "test_update_"))


def killer(mutant: Mutant, *, properties: bool = True, is_soaking: bool = False) -> str | None:
    """The test that notices the mutant, None when none does.

    Raises:
        MutantError: as `change` and `failing_test`.
    """
    with without(mutant) as root:
        return failing_test(root, stages() if properties else stages()[:1], is_soaking=is_soaking)
