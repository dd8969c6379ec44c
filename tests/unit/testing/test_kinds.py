"""What repeats is there: its commands, its lists, and its row in CONTRIBUTING.rst."""

from __future__ import annotations

import re

import pytest
from testing.kinds import FLEETS, HOSTILE, KINDS, Kind, Slice, properties
from testing.steps import ROOT

from tests.mutants.every import EVERY


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_slice_is_a_command_of_its_seed(kind: Kind) -> None:
    one, other = (kind.command(Slice(kind.name, first, kind.least)) for first in (1000, 2000))
    assert kind.name == "mutants" or one != other
    assert 1 <= kind.least <= kind.most


@pytest.mark.parametrize("kind", [kind for kind in KINDS.values() if kind.list_items], ids=lambda kind: kind.name)
def test_list_has_many_items_and_none_twice(kind: Kind) -> None:
    assert kind.list_items is not None
    items = kind.list_items()
    assert len(items) > 5
    assert len(items) == len({*items})


def test_all_mutants_have_their_turn() -> None:
    assert KINDS["mutants"].list_items is not None
    assert [*KINDS["mutants"].list_items()] == [*EVERY]


def test_files_that_are_named_are_there() -> None:
    named = [*HOSTILE, *(word for kind in KINDS.values() for word in kind.command(Slice("", 1, 1)).words)]
    files = [word for word in named if word.startswith("tests/") and word.endswith(".py")]
    assert len(files) > len(HOSTILE)
    assert [file for file in files if not (ROOT / file).exists()] == []


def test_tests_of_strangers_have_turns_of_their_own() -> None:
    assert "tests/property/test_model_apply.py" in properties()
    assert not {*properties()} & {*HOSTILE}


def test_fleets_have_all_sizes() -> None:
    low, high = FLEETS
    words = KINDS["fleets"].command(Slice("fleets", 7, high - low + 1)).words
    assert sorted(int(word) for word in words if word.isdecimal()) == [*range(low, high + 1)]


def test_page_names_all_kinds_in_their_order() -> None:
    page = (ROOT / "CONTRIBUTING.rst").read_text("utf-8")
    section = page.partition("\nSoak\n----\n")[2].partition("\nStyle\n-----\n")[0]
    assert re.findall(r"^``(\w+)`` ", section, re.MULTILINE) == [*KINDS]
