"""What `make quick` takes, and how much of it."""

from __future__ import annotations

import pytest
from testing.quick import COLLECTION_S, PROCESSES, UNKNOWN_S, count_in, scope, share

MODULES = {"distkv.errors": "", "distkv.wire.codec": "", "distkv.wire.frames": "", "distkv.core.replica": ""}


def test_packages_that_are_named_are_taken_whole() -> None:
    assert scope("wire, errors", MODULES)[0] == ["distkv.errors", "distkv.wire.codec", "distkv.wire.frames"]


def test_package_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(ValueError, match="no package wires: name some of core, errors, wire"):
        scope("core,wires", MODULES)


def test_files_are_taken_while_there_is_time() -> None:
    each_s = COLLECTION_S + UNKNOWN_S / PROCESSES
    files = [f"no/test_{number}.py" for number in range(9)]
    assert count_in(files, 4.5 * each_s) == 4
    assert count_in(files, 99 * each_s) == 9


def test_one_file_is_taken_however_little_time_there_is() -> None:
    assert count_in(["no/test_a.py", "no/test_b.py"], 0) == 1


def test_busy_machine_gives_each_process_less() -> None:
    assert share(0, 2) == 1
    assert share(6, 2) == 0.25
    assert share(6, 8) == 1
