"""Who judges mutants: killed is what a test notices, and only that.

Knows: changes that break no rule, and mutants that cannot be judged.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.mutants import logged, run, shell, simulated
from tests.mutants.broken import Broken
from tests.mutants.every import EVERY, named
from tests.mutants.run import Mutant, MutantError, change, copy_of_package, failing_test
from tests.mutants.simulated_mutant import Simulated

HARMLESS = Mutant("harmless", "a comment", "model/event.py", '"""The Lamport clock of the network."""', "")
IN_TAIL = Mutant("harmless", "a comment", "storage/tail.py", "The fields of a batch have", "The fields have")
IN_COMMIT = Mutant("harmless", "a comment", "engine/commit.py", '"""How many of them are on the disk."""', "")
UNNOTICED: dict[str, Callable[[], str | None]] = {
    "run": partial(run.killer, HARMLESS, properties=False),
    "logged": partial(logged.killer, IN_TAIL, properties=False),
    "simulated": partial(simulated.killer, Simulated(HARMLESS), scenarios="gap*.txt"),
    "shell": partial(shell.killer, Broken(IN_COMMIT, ("tests/node/test_commit_group.py",))),
}
"""The judge of each list, with a change that breaks no rule."""


@pytest.mark.slow
@pytest.mark.parametrize("killer", UNNOTICED.values(), ids=UNNOTICED)
def test_change_that_breaks_no_rule_survives(killer: Callable[[], str | None]) -> None:
    assert killer() is None


def test_words_that_are_gone_are_an_error(tmp_path: Path) -> None:
    copy_of_package(tmp_path)
    with pytest.raises(MutantError, match="stand 0 times"):
        change(Mutant("gone", "a rule", "model/event.py", "words that stand nowhere", ""), tmp_path)


def test_mutant_that_cannot_be_imported_is_an_error_and_not_killed() -> None:
    broken = Mutant("broken", "a rule", "model/event.py", "class Kind(IntEnum):", "class Kind(NoSuchName):")
    with pytest.raises(MutantError, match=r"could not be run|not what Python imports"):
        run.killer(broken)


SOME = "/".join(("tests", "test_some.py"))  # in the copy only
FAILS_IN_A_SOAK = """
import pytest
from tests.profiles import seeds

@pytest.mark.parametrize("seed", seeds(3))
def test_seed(seed):
    assert seed != 5
"""


def test_what_few_seeds_do_not_notice_is_looked_for_with_more(tmp_path: Path) -> None:
    copy_of_package(tmp_path)
    (tmp_path / SOME).write_text(FAILS_IN_A_SOAK, "utf-8")
    some = [[SOME]]
    assert failing_test(tmp_path, some, is_soaking=False) is None
    assert failing_test(tmp_path, some, is_soaking=True) == f"{SOME}::test_seed[5]"


def test_mutant_is_found_with_and_without_its_list() -> None:
    assert [*named(["run-tie-break"])] == ["run-tie-break"]
    assert [*named(["tie-break"])] == ["run-tie-break", "simulated-tie-break"]
    assert {name.partition("-")[0] for name in named(["run", "logged"])} == {"run", "logged"}
    assert named([]) == EVERY
    with pytest.raises(LookupError, match=r"^such$"):
        named(["tie-break", "such"])
