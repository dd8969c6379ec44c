"""Paths: the text form comes back the same for every path, and names of different types never meet."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from distkv.errors import BadPathError
from distkv.model.path import Name, Path
from tests.profiles import examples

few = examples(50)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.text(". :_etfnxy0123456789", max_size=6)
names: st.SearchStrategy[Name] = st.one_of(
    texts,
    st.binary(max_size=4),
    st.integers(-(2**63), 2**64 - 1),
    st.integers(-2, 2),
    st.floats(allow_nan=False),
    st.sampled_from([0.0, -0.0, 1.0, True, False, None, "", b"", "1", b"1", 1]),
)
paths = st.lists(names, max_size=6)


def _identity(name: Name) -> tuple[str, object]:
    """What makes a name the same: its type and value, but for the two empty ones and the two zeroes."""
    if name in ("", b"") and isinstance(name, str | bytes):
        return "str", ""
    return type(name).__name__, name


@few
@given(paths)
def test_text_form_comes_back_as_the_same_path(given: list[Name]) -> None:
    path = Path(given)
    back = Path.parse(str(path))
    assert back == path
    assert [type(name) for name in back.names] == [type(name) for name in path.names]
    assert str(back) == str(path)


@few
@given(paths, paths)
def test_paths_are_equal_exactly_when_all_names_are_the_same(one: list[Name], two: list[Name]) -> None:
    a, b = Path(one), Path(two)
    expected = [_identity(name) for name in one] == [_identity(name) for name in two]
    assert (a == b) == (str(a) == str(b)) == (a.key == b.key) == (len({a, b}) == 1) == expected


@few
@given(names, names)
def test_names_of_different_types_are_different_paths(one: Name, two: Name) -> None:
    assert (Path([one]) == Path([two])) == (_identity(one) == _identity(two))


@few
@given(st.text(". :_etfnxyab01-+", max_size=12) | st.text(max_size=12))
def test_any_text_is_a_path_or_a_clear_error(text: str) -> None:
    with contextlib.suppress(BadPathError):
        path = Path.parse(text)
        assert Path.parse(str(path)) == path
