"""Paths: their text form example by example, and what is refused with which words."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Any

import pytest

from distkv.errors import BadPathError
from distkv.model.path import NAMES_MAX, ROOT, Name, Path


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ((), ":"),
        (("sensors", "kitchen", "temp"), "sensors.kitchen.temp"),
        (("a.b", "c:d", "e f"), "a:.b.c::d.e:_f"),
        (("a.b",), "a:.b"),
        (("e f",), "e:_f"),
        (("",), ":e"),
        ((True, False, None), ":t.:f.:n"),
        ((12, -5), ":12.:-5"),
        ((1.5, -0.25), ":1:.5.:-0:.25"),
        ((1e300, math.inf, -math.inf), ":1e+300.:inf.:-inf"),
        ((b"\x00\xff",), ":y00ff"),
    ],
)
def test_path_and_text_form_belong_together(names: tuple[Name, ...], text: str) -> None:
    assert str(Path(names)) == text
    assert Path.parse(text) == Path(names)


def test_integers_are_read_in_hex_too() -> None:
    assert Path.parse(":xff.:x10") == Path((255, 16))
    assert Path.parse(":xFF.:x0a.:y0aFF") == Path((255, 10, b"\x0a\xff"))


def test_empty_text_and_empty_bytes_are_one_name() -> None:
    """There is one empty name (docs/protocol, PATH-2)."""
    assert Path((b"",)) == Path(("",))
    assert Path((b"",)).names == ("",)


def test_both_zeroes_are_one_name() -> None:
    assert str(Path((-0.0,))) == ":0:.0"


def test_one_true_and_one_point_zero_are_three_names() -> None:
    """Names are equal only within one type (docs/protocol, PATH-2)."""
    assert len({Path((1,)), Path((True,)), Path((1.0,)), Path(("1",)), Path((b"1",))}) == 5


def test_a_path_equals_neither_a_list_nor_a_tuple_of_numbers() -> None:
    assert Path((1,)) != (1,)
    assert Path(("a",)) != ["a"]


def test_a_path_shows_itself_as_what_makes_it() -> None:
    assert repr(Path(("a", 1))) == "Path.parse('a.:1')"


def test_length_counts_names() -> None:
    assert (len(ROOT), len(Path(("a", 1)))) == (0, 2)


@pytest.mark.parametrize(
    ("names", "is_reserved"), [((), False), ((None,), True), ((None, "a"), True), (("a", None), False)]
)
def test_paths_below_null_are_reserved(names: tuple[Name, ...], is_reserved: bool) -> None:
    """They belong to the system (docs/protocol, PATH-3)."""
    assert Path(names).is_reserved is is_reserved


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ((math.nan,), "NaN"),
        ((2**64,), "64 bits"),
        ((-(2**63) - 1,), "64 bits"),
        (("a", [1]), "not list"),
        (("\udc80",), "lone surrogate"),
        ((1, "\udc80"), "lone surrogate"),
        (("a",) * (NAMES_MAX + 1), "at most 64 names, this one has 65"),
    ],
)
def test_names_that_cannot_be_are_refused(names: tuple[Name, ...], says: str) -> None:
    """A path has so many names, of these types (docs/protocol, PATH-1)."""
    with pytest.raises(BadPathError, match=says):
        Path(names)


def test_the_largest_path_and_the_largest_integers_are_taken() -> None:
    assert len(Path(("a",) * (NAMES_MAX - 2) + (-(2**63), 2**64 - 1))) == NAMES_MAX


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty element"),
        ("a..b", "empty element"),
        (".a", "empty element"),
        ("a:b", "':b' inside an element"),
        ("a:", "':' inside an element"),
        (":q", "after ':' comes"),
        (":yzz", "after ':' comes"),
        (":xzz", "after ':' comes"),
        (":+-5", "after ':' comes"),
        (":x-1f", "after ':' comes"),
        (":x1_f", "after ':' comes"),
        (":x", "after ':' comes"),
        (":y6_1", "after ':' comes"),
        (":y61 62", "after ':' comes"),
        (":1_0", "write this number as ':10'"),
        (": 5", "write this number as ':5'"),
        (":5\n", "write this number as ':5'"),
        (":+5", "write this number as ':5'"),
        (":05", "write this number as ':5'"),
        (":-0", "write this number as ':0'"),
        (":\uff15", "write this number as ':5'"),
        (":\u0665", "write this number as ':5'"),
        (":1:.50", "write this number as ':1:.5'"),
        (":1e3", "write this number as ':1000:.0'"),
        (":-0:.0", "write this number as ':0:.0'"),
        (":1e400", "too large"),
        (":-1e400", "too large"),
        (":" + "1" * 5000, "too large"),
        (":nan", "NaN"),
        (":18446744073709551616", "64 bits"),
    ],
)
def test_text_that_is_no_path_is_refused_with_the_element(text: str, says: str) -> None:
    with pytest.raises(BadPathError, match=says):
        Path.parse(text)


# -- what is no row of names --------------------------------------------------------------------------------------


class Place(StrEnum):
    KITCHEN = "sensors.kitchen"


@pytest.mark.parametrize("text", ["sensors.kitchen", "", Place.KITCHEN], ids=["text", "empty", "enum"])
def test_text_is_not_taken_apart_but_refused_with_what_reads_it(text: str) -> None:
    with pytest.raises(BadPathError, match=r"Path\.parse\("):
        Path(text)


@pytest.mark.parametrize("given", [b"ab", bytearray(b"ab"), {"a": 1}, {"a"}, frozenset("a"), 5, None, len])
def test_what_is_no_row_of_names_is_refused(given: Any) -> None:
    with pytest.raises(BadPathError, match="is made of names"):
        Path(given)


@pytest.mark.parametrize("given", [5, None, b"a.b", ["a"], Path(["a"])])
def test_what_is_no_text_is_not_parsed(given: Any) -> None:
    with pytest.raises(BadPathError, match="written as text"):
        Path.parse(given)


def test_error_of_who_gives_the_names_is_his() -> None:
    def names() -> Iterator[str]:
        raise TypeError("mine")
        yield "a"

    with pytest.raises(TypeError, match="mine"):
        Path(names())


@pytest.mark.parametrize("kind", [list, tuple, iter], ids=["list", "tuple", "iterator"])
def test_names_may_come_in_any_row(kind: Callable[[list[Name]], Iterable[Name]]) -> None:
    names: list[Name] = ["a", 1, None]
    assert Path(kind(names)).names == ("a", 1, None)


def test_member_of_an_enum_is_the_name_that_it_says() -> None:
    path = Path([Place.KITCHEN])
    assert (str(path), path) == ("sensors:.kitchen", Path(["sensors.kitchen"]))


# -- copies -------------------------------------------------------------------------------------------------------

ANY_PATHS = [Path(), Path(["sensors", "kitchen"]), Path(["a", b"b", 1, 1.0, True, None, "ä", ""]), Path([None])]


def _copies(path: Path) -> Iterator[Path]:
    yield from (copy.copy(path), copy.deepcopy(path), Path(path))
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        yield pickle.loads(pickle.dumps(path, protocol))


@pytest.mark.parametrize("path", ANY_PATHS, ids=str)
def test_copy_of_a_path_is_the_same_path(path: Path) -> None:
    for one in _copies(path):
        assert type(one) is type(path)
        assert (one, hash(one), one.names) == (path, hash(path), path.names)


NAMES = ("a", b"b", 1, 1.0, True, None, "e")


def test_path_is_a_tuple_of_its_names_for_whoever_takes_it_apart() -> None:
    path = Path(NAMES)
    first, *rest, last = path
    found = [tuple(path), path[:], (first, *rest, last), (*path,), tuple(path[at] for at in range(len(path)))]
    assert list(map(repr, found)) == [repr(NAMES)] * 5
    assert repr(path[2:4]) == "(1, 1.0)"
    assert repr(path[-2]) == "None"
    assert repr([*reversed(path)]) == repr([*reversed(NAMES)])
    assert (type(path[2]), type(path[4])) == (int, bool)


def test_names_of_a_path_are_found_and_joined() -> None:
    path = Path(["a", 7])
    assert 7 in path
    assert "b" not in path
    assert (path.index(7), path.count(7), path.count("b")) == (1, 1, 0)
    assert (path + ("b",), ("b",) + path, path * 2) == (("a", 7, "b"), ("b", "a", 7), ("a", 7, "a", 7))  # noqa: RUF005
    assert Path(path[:1]) == Path(["a"])
    assert Path([*path, "b"]) == Path(["a", 7, "b"])


def test_sequence_pattern_sees_names() -> None:
    match Path(["rooms", 7, None]):
        case ["rooms", int(number), None]:
            assert number == 7
        case _:
            pytest.fail("it is none")
