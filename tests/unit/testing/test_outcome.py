"""What failed in a slice is found in what it printed, each with one command that repeats it."""

from __future__ import annotations

import json
from pathlib import Path

from testing.bounded import Ran, Stopped
from testing.outcome import Told, failures, read_told, seconds
from testing.record import Failure
from testing.steps import step

SIM = step("python", "-m", "distkv", "sim", "--seeds", "3")
TESTS = step("pytest", "-q", "--numprocesses", "auto", "--soak", "53000000", "a.py")
SAID = """
seeds 10 to 12: 1 failed, 2 passed; 60 deliveries in 0.1 virtual hours
seed 11 failed: ticks rise: n0 uses n0:199 (2886 deliveries, 141 s)
  again: distkv sim --seed 11
this scenario file is enough to make it fail:
again: distkv sim --seed 11 --only 3-7
"""


def ran(code: int = 0, text: str = "", stopped: Stopped | None = None) -> Ran:
    return Ran(code, 90.0, 80.0, tuple(text.splitlines()), stopped)


def test_slice_that_passes_has_no_failure() -> None:
    assert failures(SIM, ran(), None) == ()
    assert failures(TESTS, ran(), Told(3, ())) == ()


def test_seed_that_fails_is_named_with_its_own_command() -> None:
    what = "seed 11 failed: ticks rise: n0 uses n0:199 (2886 deliveries, 141 s)"
    assert failures(SIM, ran(1, SAID), None) == (Failure(what, "distkv sim --seed 11"),)


def test_test_that_fails_is_repeated_alone_with_the_same_number() -> None:
    told = Told(3, (("a.py::test_x[53000012]", "assert 1 == 2"),))
    again = "pytest 'a.py::test_x[53000012]' --soak 53000000"
    assert failures(TESTS, ran(1), told) == (Failure("a.py::test_x[53000012]: assert 1 == 2", again),)


def test_test_that_fails_beside_a_load_is_repeated_beside_one() -> None:
    loaded = step("packaging/test.sh", "loaded", *TESTS.words)
    (found,) = failures(loaded, ran(1), Told(1, (("a.py::test_x", ""),)))
    assert found.again == "packaging/test.sh loaded pytest a.py::test_x --soak 53000000"


def test_command_that_fails_without_saying_what_is_repeated_as_it_was() -> None:
    found = failures(SIM, ran(1, "Traceback\nKeyError: 7\n\n"), None)
    assert found == (Failure("ended with 1: KeyError: 7", SIM.text),)


def test_tests_of_which_none_ran_have_failed() -> None:
    assert len(failures(TESTS, ran(0, "3 skipped"), Told(0, ()))) == 1


def test_slice_that_was_too_late_has_failed_beside_what_failed_in_it() -> None:
    found = failures(SIM, ran(130, SAID, Stopped.LATE), None)
    assert [one.again for one in found] == ["distkv sim --seed 11", SIM.text]
    assert found[1].what.startswith("did not end within 90 s: ")


def test_slice_that_somebody_ended_has_failed_only_by_what_failed_in_it() -> None:
    assert failures(SIM, ran(130, "", Stopped.ASKED), None) == ()
    assert len(failures(SIM, ran(130, SAID, Stopped.ASKED), None)) == 1


def test_what_conftest_tells_is_read(tmp_path: Path) -> None:
    rows = [
        {"failed": "a.py::test_x", "last": [">   assert f() == 2", "E   assert 1 == 2", "E    +1"]},
        {"file": "a.py", "tests": 3, "wall_s": 1.0, "cpu_s": 1.0},
        {"file": "b.py", "tests": 4, "wall_s": 2.0, "cpu_s": 1.0},
    ]
    (tmp_path / "told").write_text("".join(f"{json.dumps(one)}\n" for one in rows), "utf-8")
    assert read_told(tmp_path / "told") == Told(7, (("a.py::test_x", "assert 1 == 2"),), {"a.py": 1.0, "b.py": 2.0})
    assert read_told(tmp_path / "nothing") is None


def test_item_took_its_share_of_the_time() -> None:
    assert seconds(["a.py", "b.py"], ran(), Told(7, (), {"a.py": 20.0, "b.py": 40.0})) == {"a.py": 30.0, "b.py": 60.0}
    said = "run-lives      |   2.0 s | a.py::test_x\nlogged-sealed  |   7.0 s | b.py::test_y"
    assert seconds(["run-lives", "logged-sealed"], ran(0, said), None) == {"run-lives": 20.0, "logged-sealed": 70.0}


def test_items_of_which_nothing_is_known_have_the_same_share() -> None:
    assert seconds(["a.py", "b.py"], ran(), None) == {"a.py": 45.0, "b.py": 45.0}
    assert seconds([], ran(), None) == {}
