"""What was ever run in spare time: rows that are only appended, kept in the repository.

Knows: what a row holds, how rows are read and written, and that one soak at a time writes.  Does not know what is run
(`kinds`).

Invariant: a row is on the disk when `append` returns; a line that cannot be read is named, and nothing is guessed.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs
from attrs.validators import deep_mapping, instance_of

from testing.steps import ROOT

RECORD: Final = ROOT / "tests" / "soak" / "record.jsonl"
FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"

_TEXT: Final = instance_of(str)
_NUMBER: Final = instance_of(int)
_SECONDS: Final = instance_of((int, float))


class RecordError(Exception):
    """The record cannot be used; the message says where, and what to do."""


@attrs.frozen
class Failure:
    """What failed, and the command that repeats it."""

    what: str = attrs.field(validator=_TEXT)
    again: str = attrs.field(validator=_TEXT)


def _failures(found: Sequence[object]) -> tuple[Failure, ...]:
    return tuple(one if isinstance(one, Failure) else Failure(**one) for one in found)  # type: ignore[arg-type]


@attrs.frozen(kw_only=True)
class Row:
    """One slice of one kind."""

    began: str = attrs.field(validator=_TEXT)
    """Date and time, in UTC."""
    commit: str = attrs.field(validator=_TEXT)
    """With a `+` when files differed from it."""
    machine: str = attrs.field(validator=_TEXT)
    """Its processors."""
    kind: str = attrs.field(validator=_TEXT)
    first: int = attrs.field(validator=_NUMBER)
    """The first seed, or the number that was drawn from."""
    after: int = attrs.field(validator=_NUMBER)
    """Where the next slice of this kind goes on."""
    size: int = attrs.field(validator=_NUMBER)
    """How much was to be done, in the measure by which the kind cuts its slices."""
    items: Mapping[str, float] = attrs.field(validator=deep_mapping(_TEXT, _SECONDS, instance_of(dict)))
    """Of a kind that goes round a list: those that had their turn, and how many seconds each took."""
    count: int = attrs.field(validator=_NUMBER)
    """How much was done, as the kind counts it; 0 when that is not known."""
    wall_s: float = attrs.field(validator=_SECONDS)
    cpu_s: float = attrs.field(validator=_SECONDS)
    is_finished: bool = attrs.field(validator=instance_of(bool))
    """It came to its end by itself. What did not has not passed."""
    failed: tuple[Failure, ...] = attrs.field(converter=_failures)


def load(path: Path = RECORD) -> list[Row]:
    """All rows; none where no file is.

    Raises:
        RecordError: a line cannot be read.
    """
    rows = []
    lines = path.read_bytes().splitlines() if path.exists() else []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(Row(**json.loads(line)))
        except (TypeError, ValueError) as error:
            why = str(error.args[0]) if error.args else type(error).__name__
            raise RecordError(f"{path}: line {number} cannot be read ({why}): correct it, or take it out") from None
    return rows


def append(row: Row, path: Path = RECORD) -> None:
    """Write one row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as record:
        record.write(f"{json.dumps(attrs.asdict(row))}\n")
        record.flush()
        os.fsync(record.fileno())


@contextmanager
def alone(path: Path = RECORD) -> Iterator[None]:
    """While this is entered nobody else writes. The lock ends with the process, however that ends.

    Raises:
        RecordError: another soak is under way.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RecordError(f"another soak writes into {path}: wait for its end, or end it with Ctrl-C") from None
        yield


def now() -> str:
    """As rows have it."""
    return time.strftime(FORMAT, time.gmtime())


def commit() -> str:
    """What is run, but for the record itself; a tree without history has none."""
    head = _git("rev-parse", "--short=10", "HEAD")
    if not head:
        return "unknown"
    return f"{head}+" if _git("status", "--porcelain", "--", ".", ":!tests/soak") else head


def _git(*words: str) -> str:
    try:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        return ""
