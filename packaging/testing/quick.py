"""`make quick`: style, types, import rules, and the tests that are nearest to a change, within a minute or two.

Knows: how long there is, and what tests cost when they ran last.  Does not know what reaches what (`changed`).

Invariant: what is left out is said: files that are not begun here, single tests by tests/conftest.py.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from testing import times
from testing.changed import changed_files, module_of, nearest, sources
from testing.steps import Step, step

WHOLE_S: Final = 60.0
"""All of it."""
TESTS_MIN_S: Final = 20.0
"""So long there are tests, however long all before took."""
COLLECTION_S: Final = 0.06
"""To read one file of tests, with what it imports."""
UNKNOWN_S: Final = 0.5
"""What a file takes whose time is not known."""
PROCESSES: Final = 2


def scope(only: str, texts: Mapping[str, str]) -> tuple[list[str], str]:
    """The modules whose tests are wanted, and in words why these.

    `only`: packages of distkv, with commas between; empty for what git says was changed.

    Raises:
        ValueError: there is no such package.
    """
    product = [module for module in texts if module.startswith("distkv.")]
    if only:
        wanted = [name.strip() for name in only.split(",")]
        there = sorted({module.split(".")[1] for module in product} - {"__main__"})
        unknown = [name for name in wanted if name not in there]
        if unknown:
            raise ValueError(f"ONLY: distkv has no package {', '.join(unknown)}: name some of {', '.join(there)}")
        return [module for module in product if module.split(".")[1] in wanted], only
    changed = [module for file in changed_files() or () if (module := module_of(file)) is not None and module in texts]
    if changed:
        return changed, f"what was changed ({len(changed)} modules)"
    return product, "all modules, since none was changed"


def steps(only: str) -> Iterator[Step]:
    """What is run; the tests get the time that is left when they are asked for.

    Raises:
        ValueError: as `scope`.
    """
    began = time.monotonic()
    texts = sources()
    modules, words = scope(only, texts)
    yield step("ruff", "check", ".")
    yield step("mypy")
    yield step("lint-imports", "--no-logo")
    seconds = max(TESTS_MIN_S, WHOLE_S - (time.monotonic() - began))
    files = [f"{name.replace('.', '/')}.py" for name in nearest(modules, texts)]
    taken = files[: count_in(files, seconds * share(os.getloadavg()[0], os.cpu_count() or 1))]
    print(f"\ntests of {words}: the nearest {len(taken)} of {len(files)} files, in {seconds:.0f} s")
    counts = Counter("/".join(file.split("/")[:2]) for file in files[len(taken) :])
    if counts:
        print("not begun: " + ", ".join(f"{count} files of {folder}" for folder, count in counts.items()))
    spread = ("--numprocesses", str(PROCESSES), "--dist", "load", "--maxschedchunk", "4")
    yield step("pytest", *spread, "--quick", "--budget", f"{seconds:.0f}", *taken)


def share(load: float, cores: int) -> float:
    """How much of a core each of our processes gets, beside the others that want one (`load`)."""
    return cores / max(cores, load + PROCESSES)


def count_in(files: Sequence[str], seconds: float) -> int:
    """How many of the first files there is time for, at least one."""
    cost = {file.file: file.cpu_s for one in times.load() for file in one.files}
    for count, file in enumerate(files):
        seconds -= COLLECTION_S + cost.get(file, UNKNOWN_S) / PROCESSES
        if seconds < 0:
            return max(1, count)
    return len(files)
