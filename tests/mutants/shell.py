#!/usr/bin/env python3
"""Break one rule of engine, storage, services or of what a restart knows, and see that a test named here notices it.

Run `python -m tests.mutants.shell [NAME...]`; it prints what killed each mutant.

Knows: how one is judged.  Which there are, and by which tests each is noticed, stands in `commits.py`, `keeping.py`
and `token_rules.py`. Most rules of the core stand in lists of their own (`run.py`, `simulated.py`).

Invariant: as that of `run.py`: killed is what makes a test fail in a changed copy; all else that goes wrong is an
error.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants.broken import Broken
from tests.mutants.commits import COMMITS
from tests.mutants.keeping import KEEPING
from tests.mutants.run import MutantError, change, clean_environment, copy_of_package
from tests.mutants.token_rules import TOKEN_RULES

TIMEOUT_S = 1800

BROKEN = COMMITS + KEEPING + TOKEN_RULES


def killer(broken: Broken) -> str | None:
    """The test that notices, None when none does.

    Raises:
        MutantError: its words are not there once, or the tests could not be run.
    """
    with tempfile.TemporaryDirectory(prefix="distkv-mutant-") as name:
        root = Path(name).resolve()
        copy_of_package(root, tests=["tests"])
        change(broken.mutant, root)
        options = ["-x", "-q", "-rf", "-p", "no:cacheprovider"]
        command = [sys.executable, "-m", "pytest", *options, *broken.tests]
        env = clean_environment(root)
        try:
            done = subprocess.run(
                command, cwd=root, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise MutantError(f"the tests took longer than {TIMEOUT_S} s") from None
        if done.returncode == 0:
            return None
        found = re.search(r"^FAILED (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
        if done.returncode != 1 or found is None:
            raise MutantError(f"the tests could not be run:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
        return found[1]


def main(names: Iterable[str]) -> int:
    """Print the table; 1 when a mutant lives or could not be judged."""
    wanted = set(names)
    known = {one.mutant.name for one in BROKEN}
    if wanted - known:
        sys.stderr.write(f"no mutant is called {', '.join(sorted(wanted - known))}\n")
        return 2
    chosen = [one for one in BROKEN if not wanted or one.mutant.name in wanted]
    width, ended = max(map(len, known)), 0
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for one, words in zip(chosen, pool.map(_judged, chosen), strict=True):
            ended |= words.startswith(("SURVIVES", "ERROR"))
            sys.stdout.write(f"{one.mutant.name:{width}} | {words}\n")
            sys.stdout.flush()
    return ended


def _judged(one: Broken) -> str:
    try:
        test = killer(one)
    except MutantError as error:
        return f"ERROR {error}"
    return test or f"SURVIVES: no test notices that {one.mutant.rule!r} does not hold"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
