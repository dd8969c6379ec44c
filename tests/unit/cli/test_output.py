"""What results look like in each form.

Knows: values.  Does not know the commands.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.cli.output import Form, rendered
from distkv.errors import RequestError
from distkv.text import yaml
from distkv.wire.packing import ExtType, Timestamp
from distkv.wire.values import pack_value

ODD_WORDS = """yes 1_000 0x1F ~ null 2024-01-01 12:30 a:\tb #c -\ta << = ... 1e3 .5 0o7 ' !x &x *x"""
words = st.sampled_from(ODD_WORDS.split(" "))
plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text() | words
trees = st.recursive(plain, lambda inner: st.lists(inner) | st.dictionaries(st.text() | words, inner), max_leaves=8)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (21, "21\n"),
        (1.5, "1.5\n"),
        (True, "true\n"),
        ("21", "21\n"),
        ("a\nb", "a\nb\n"),
        ("", "\n"),
        ([], "[]\n"),
        ({"b": 1, "a": [2, {"c": "x"}]}, "b: 1\na:\n- 2\n- c: x\n"),
        (b"hi", "!!binary |\naGk=\n"),
        (ExtType(5, b"x"), "$ext:\n- 5\n- eA==\n"),
        (Timestamp(1, 2), "$time:\n- 1\n- 2\n"),
    ],
    ids=repr,
)
def test_text_shows_scalars_bare_and_the_rest_as_yaml(value: object, text: str) -> None:
    assert rendered(value, Form.TEXT).decode() == text


@pytest.mark.parametrize(
    ("value", "text"), [(21, "21\n"), ("21", "'21'\n"), ("yes", '"yes"\n'), ("a\nb", '"a\\nb"\n')], ids=repr
)
def test_yaml_shows_scalars_so_that_they_are_read_as_they_were(value: object, text: str) -> None:
    assert rendered(value, Form.YAML).decode() == text


@given(trees)
def test_yaml_is_read_back_as_it_was(value: object) -> None:
    found = yaml.plain(yaml.read(rendered(value, Form.YAML).decode()))
    assert repr(found) == repr(value)


def test_yaml_writes_twice_what_stands_twice() -> None:
    inner = ["x"]
    assert rendered([inner, inner], Form.YAML) == b"- - x\n- - x\n"


def test_json_is_one_line() -> None:
    assert rendered({"a": b"x"}, Form.JSON) == b'{"a": {"$bytes": "eA=="}}\n'


def test_msgpack_is_the_value_as_it_is_stored() -> None:
    assert rendered({"a": [1]}, Form.MSGPACK) == pack_value({"a": [1]})


@pytest.mark.parametrize(("value", "data"), [(b"\x00\n", b"\x00\n"), ("é", "é".encode())])
def test_raw_is_text_or_bytes_without_a_newline(value: object, data: bytes) -> None:
    assert rendered(value, Form.RAW) == data


def test_raw_refuses_what_is_neither_text_nor_bytes() -> None:
    with pytest.raises(RequestError, match="-o json"):
        rendered(21, Form.RAW)
