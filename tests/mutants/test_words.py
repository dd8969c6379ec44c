"""The words of every mutant stand once in the source, so that a rename that forgets one is seen in seconds.

Knows: all lists.  Whether a test notices the mutant is the business of the other modules here.
"""

from __future__ import annotations

import pytest

from tests.mutants.logged import LOGGED
from tests.mutants.run import MUTANTS, ROOT, Mutant
from tests.mutants.shell import BROKEN
from tests.mutants.simulated import SIMULATED

LISTS = {"run": MUTANTS, "logged": LOGGED, "simulated": [one.mutant for one in SIMULATED]}
LISTS["shell"] = [one.mutant for one in BROKEN]
EVERY = {f"{name}-{mutant.name}": mutant for name, mutants in LISTS.items() for mutant in mutants}


@pytest.mark.parametrize("mutant", EVERY.values(), ids=EVERY)
def test_words_of_a_mutant_stand_once(mutant: Mutant) -> None:
    source = (ROOT / "distkv" / mutant.file).read_text(encoding="utf-8")
    assert source.count(mutant.old) == 1
    assert mutant.old != mutant.new
