"""Damage many copies of a node's directory, one at a time, and see what the next start makes of each.

    python -m tests.property.damage --count 10000 --seed 1

prints how each kind of damage ended, and every ending that must not be, with the command that repeats it: `--only N` is
trial N alone, and says all.

Knows: what is right after damage: all reads as it was; or the start, or a later question, is refused in one line; or
the damage is said, and the others bring everything back.  Does not know how that is done.

Invariant: a trial is told by seed and number alone, up to the random numbers of a start (marks, ids, the wall clock).
"""

from __future__ import annotations

import argparse
import enum
import logging
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import attrs

from distkv.engine.missed import MISSED_KEY
from distkv.errors import DistkvError
from distkv.storage.archive import ARCHIVE_NAME
from distkv.storage.archive_rows import HistoryRow
from distkv.storage.archive_scrub import parts
from distkv.wire.states import read_path_key
from tests.property.damage_healing import Unhealed, heal
from tests.property.damage_kinds import IN_STEP, KINDS
from tests.property.damage_reference import Moment, Opened, answer, build, history, opened, state_of

RUNNING = 0.1
"""So many are damaged while the node runs, which looks at its disk then."""
LOOKED_AT = 0.05
"""Of those whose damage nothing tells of, so many are started beside the others all the same."""


class Ending(enum.Enum):
    """How a trial ends."""

    RIGHT = "reads right"
    LATER = "refused later"
    REFUSED = "refused at start"
    HEALED = "healed"
    MENDED = "mended in flight"
    LEFT_OUT = "history left out"
    """Nothing is wrong that is told, but a listing of the history lacks rows, as only a scrub finds."""
    OLDER = "older value"
    """Asked what a path held at a time, the node names a value from before: a row is gone from the table and from its
    indexes, which no damage to one place does. A scrub finds it."""
    WRONG = "WRONG"


@attrs.frozen
class Outcome:
    """What came of one trial."""

    number: int
    kind: str
    moment: str
    place: str
    ending: Ending
    words: str

    def __str__(self) -> str:
        return f"{self.number} {self.kind} ({self.moment}) {self.place}: {self.ending.value}: {self.words}"


class Wrong(Exception):
    """What must not be."""


# -- one trial ----------------------------------------------------------------------------------------------------


def trial(moments: Sequence[Moment], path: Path, seed: int, number: int, kind: str | None = None) -> Outcome:
    """Damage one copy and judge it; `path` is a directory to work in."""
    rng = Random(f"{seed}.{number}")
    moment = rng.choice(moments)
    drawn = rng.choices(list(KINDS), [weight for _, weight in KINDS.values()])[0]
    kind = kind or drawn
    runs, looks = rng.random() < RUNNING, rng.random() < LOOKED_AT
    state = rng.getstate()
    place = ""

    def damage() -> None:
        nonlocal place
        rng.setstate(state)
        place = KINDS[kind][0](rng, path / "a", moment.older)

    try:
        if runs:
            moment.copy_to(path, "abc")
            refusal = heal(moment, path, damage)
            ending, words = (Ending.LATER, refusal) if refusal else (Ending.MENDED, "")
        else:
            moment.copy_to(path, "a")
            damage()
            ending, words = _judge(moment, path / "a", in_step=IN_STEP in place)
            if ending is Ending.HEALED or looks:
                moment.copy_to(path, "abc")
                damage()
                refusal = heal(moment, path)
                ending, words = (Ending.LATER, refusal) if refusal else (ending, words)
    except DistkvError as error:
        ending, words = Ending.REFUSED, _one_line(error)
    except (Wrong, Unhealed) as error:
        ending, words = Ending.WRONG, str(error)
    except Exception as error:
        ending, words = Ending.WRONG, "".join(traceback.format_exception(error))
    return Outcome(number, kind, f"{moment.name}, running" if runs else moment.name, place, ending, words)


def _one_line(error: DistkvError) -> str:
    text = str(error)
    if "\n" in text or not 20 < len(text) < 1000:
        raise Wrong(f"no one line that helps: {text!r}")
    return f"{type(error).__name__}: {text}"


def _judge(moment: Moment, path: Path, *, in_step: bool) -> tuple[Ending, str]:
    """What the next start makes of a directory, without the others. Raises DistkvError when it is refused."""
    with opened(path) as found:
        archive, recovered = found.directory.archive, found.directory.log.recovered
        said = [str(damage.place) for damage in archive.damage.all()]
        said += [text for text in (recovered.torn_at, recovered.damage, recovered.cut) if text]
        if archive.unread_rows or recovered.torn_bytes or recovered.cut:
            return Ending.HEALED, "; ".join(said)
        if state_of(found.replica) != moment.state:
            raise Wrong(f"another state, and nobody says so: {_difference(state_of(found.replica), moment.state)}")
        ending, words = _judge_history(moment, found, in_step=in_step)
    if ending in (Ending.LEFT_OUT, Ending.OLDER) and not _is_found_by_scrub(path):
        raise Wrong(f"{ending.value}, and no scrub finds it: {words}")
    return ending, words


def _is_found_by_scrub(path: Path) -> bool:
    try:
        return any(part.damaged for part in parts(str(path / ARCHIVE_NAME)))
    except DistkvError:
        return True


def _difference(found: Sequence[object], due: Sequence[object]) -> str:
    parts = []
    for one, other in zip(found, due, strict=True):
        if isinstance(one, dict) and isinstance(other, dict):
            keys = [key for key in {**one, **other} if one.get(key) != other.get(key)]
            parts += [f"{key!r:.60}: {one.get(key)!r:.300} for {other.get(key)!r:.300}" for key in keys[:3]]
        elif one != other:
            parts.append(f"{one!r:.300} for {other!r:.300}")
    return "; ".join(parts)


# -- the history --------------------------------------------------------------------------------------------------


def _judge_history(moment: Moment, found: Opened, *, in_step: bool) -> tuple[Ending, str]:
    """Ask all that can be asked of the archive's history."""
    archive = found.directory.archive
    rows = moment.rows
    worst, words = Ending.RIGHT, ""
    for question, ask, due in _questions(moment, found):
        try:
            got = ask()
        except DistkvError as error:
            if worst in (Ending.RIGHT, Ending.LATER):
                worst, words = Ending.LATER, f"{question}: {_one_line(error)}"
            continue
        if got == due:
            continue
        strange = [row for row in got if row not in rows]
        if strange:
            raise Wrong(f"{question}: a row that was never there: {strange[0]!r:.300}")
        if question.startswith("latest"):
            if not in_step:
                raise Wrong(f"{question}: {_lsns(got)} instead of {_lsns(due)}")
            if worst is not Ending.OLDER:
                worst, words = Ending.OLDER, f"{question}: {_lsns(got)} instead of {_lsns(due)}"
        elif [row for row in due if row in got] != got:
            raise Wrong(f"{question}: {_lsns(got)} are not among {_lsns(due)}, in their order")
        elif worst in (Ending.RIGHT, Ending.LATER):
            if not archive.damage.all():
                worst, words = Ending.LEFT_OUT, f"{question}: lacks {_lsns([row for row in due if row not in got])}"
            elif worst is Ending.RIGHT:
                worst, words = Ending.LATER, f"{question}: said to be damaged"
    return worst, words


def _lsns(rows: Sequence[HistoryRow]) -> str:
    lsns = [str(row.lsn) for row in rows]
    return ", ".join(lsns if len(lsns) < 20 else [*lsns[:10], "...", lsns[-1]]) or "none"


def _questions(moment: Moment, found: Opened) -> Iterator[tuple[str, Callable[[], list[HistoryRow]], list[HistoryRow]]]:
    """Each with how it is asked, and the answer that is due."""
    settler, rows = found.settler, moment.rows
    yield "all", lambda: history(found), rows
    yield "won", lambda: answer(settler.won_since(0, 1 << 20)) or [], [row for row in rows if row.won]
    by_path: dict[bytes, list[HistoryRow]] = {}
    for row in rows:
        by_path.setdefault(row.path, []).append(row)
        due = next(first for first in rows if (first.node, first.tick) == (row.node, row.tick))
        yield f"tick {row.node}:{row.tick}", lambda row=row: _one(settler.change((row.node, row.tick))), [due]
    by_path.pop(MISSED_KEY, None)  # told to watchers, and shown nowhere else
    for key, here in by_path.items():
        path = read_path_key(key)
        yield f"history {path}", lambda path=path: answer(settler.history(path, 1 << 20)), here[::-1]
        latest = None
        for row in here:
            latest = row if row.won else latest
            due = [] if latest is None else [latest]
            yield f"latest {path} {row.lsn}", lambda row=row, path=path: _one(settler.latest_at(path, row.arrived)), due


def _one(question: Coroutine[Any, Any, HistoryRow | None]) -> list[HistoryRow]:
    found = answer(question)
    return [] if found is None else [found]


# -- many ---------------------------------------------------------------------------------------------------------


def outcomes(
    moments: Sequence[Moment], path: Path, seed: int, numbers: Iterable[int], kind: str | None = None
) -> Iterator[Outcome]:
    """Run these trials; `path` is a directory to work in."""
    logging.disable(logging.CRITICAL)
    try:
        for number in numbers:
            yield trial(moments, path, seed, number, kind)
    finally:
        logging.disable(logging.NOTSET)


def table(counts: Counter[tuple[str, Ending]]) -> str:
    """How often each kind of damage ended how."""
    head = " ".join(["kind".ljust(13), *(f"{ending.value:>18}" for ending in Ending)])
    lines = (" ".join([kind.ljust(13), *(f"{counts[kind, ending]:>18}" for ending in Ending)]) for kind in KINDS)
    return "\n".join([head, *lines, ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run trials as the command line says; 1 when one of them ended as none may."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first trial")
    parser.add_argument("--only", type=int, help="this trial alone")
    parser.add_argument("--kind", choices=list(KINDS), help="this kind of damage alone")
    told = parser.parse_args(arguments)
    numbers = range(told.first, told.first + told.count) if told.only is None else [told.only]
    counts: Counter[tuple[str, Ending]] = Counter()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        for outcome in outcomes(build(path / "kept"), path / "trial", told.seed, numbers, told.kind):
            counts[outcome.kind, outcome.ending] += 1
            if told.only is not None or outcome.ending in (Ending.WRONG, Ending.OLDER, Ending.LEFT_OUT):
                sys.stdout.write(f"{outcome}\n")
                if outcome.ending is Ending.WRONG:
                    sys.stdout.write(f"  again: {_again(told, outcome.number)}\n")
                sys.stdout.flush()
    sys.stdout.write(table(counts))
    return int(any(ending is Ending.WRONG for _, ending in counts))


def _again(told: argparse.Namespace, number: int) -> str:
    """What to type to see it again."""
    kind = f" --kind {told.kind}" if told.kind else ""
    return f"python -m tests.property.damage --seed {told.seed} --only {number}{kind}"


if __name__ == "__main__":
    sys.exit(main())
