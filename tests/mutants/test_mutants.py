"""The tests of the core notice when one of its rules is missing: each mutant in `run.py` is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.run import MUTANTS, Mutant, MutantError, change, copy_of_package, killer


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_missing_rule_is_noticed(mutant: Mutant) -> None:
    assert killer(mutant) is not None, f"no test notices that {mutant.rule!r} does not hold"


def test_words_that_are_gone_are_an_error(tmp_path: Path) -> None:
    copy_of_package(tmp_path)
    with pytest.raises(MutantError, match="stand 0 times"):
        change(Mutant("gone", "a rule", "model/event.py", "words that stand nowhere", ""), tmp_path)


def test_mutant_that_cannot_be_imported_is_an_error_and_not_killed() -> None:
    broken = Mutant("broken", "a rule", "model/event.py", "class Kind(IntEnum):", "class Kind(NoSuchName):")
    with pytest.raises(MutantError, match=r"could not be run|not what Python imports"):
        killer(broken)


def test_rule_that_no_test_notices_survives() -> None:
    harmless = Mutant("harmless", "a comment", "model/event.py", '"""The Lamport clock of the network."""', "")
    assert killer(harmless, properties=False) is None
