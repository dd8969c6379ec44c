"""A lean value behaves as the attrs class that it stands for."""

from __future__ import annotations

import copy
import pickle

import attrs
import pytest

from distkv.model.lean import lean_value


@lean_value
class Lean:
    seq: int
    name: str = "a"
    _more: int = attrs.field(default=0, kw_only=True)


@lean_value
class Other:
    seq: int
    name: str = "a"


def test_values_of_one_kind_are_equal_by_content() -> None:
    assert Lean(1) == Lean(1, "a", more=0)
    assert len({Lean(1), Lean(1), Lean(2), Lean(1, more=1)}) == 3
    assert Lean(1) != Lean(2)
    assert Lean(1) != Lean(1, more=1)


def test_values_of_two_kinds_are_not_equal() -> None:
    assert Lean(1) != Other(1)
    assert Other(1) != (1, "a")


def test_value_is_shown_with_its_attributes() -> None:
    assert repr(Lean(7, "x", more=2)) == "Lean(seq=7, name='x', _more=2)"


def test_nothing_is_assigned_nor_added() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Lean(1).seq = 2  # type: ignore[misc]
    assert not hasattr(Lean(1), "__dict__")


def test_value_can_be_matched_evolved_copied_and_pickled() -> None:
    match Lean(1, "x"):
        case Lean(seq, name):
            assert (seq, name) == (1, "x")
    assert attrs.evolve(Lean(1), name="y") == Lean(1, "y")
    assert copy.deepcopy(Lean(1, "z")) == pickle.loads(pickle.dumps(Lean(1, "z"))) == Lean(1, "z")
