"""What people are shown of values and messages.

Knows: values.  Does not know the commands.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from distkv.text import yaml
from distkv.text.display import document, json_line, one_line, text_of, word
from distkv.wire.json_form import to_json


@pytest.mark.parametrize(
    ("value", "shown"),
    [("x y", "x y"), ("a\nb", '"a\\nb"'), (21, "21"), (True, "true"), (None, "null"), ({"a": [1]}, '{"a": [1]}')],
    ids=repr,
)
def test_word_is_one_line(value: object, shown: str) -> None:
    assert word(value) == shown


def test_text_of_a_collection_is_yaml_without_its_last_newline() -> None:
    assert text_of({"a": [1]}) == "a:\n- 1"


def test_message_is_one_line_that_steers_no_terminal() -> None:
    assert one_line("a\n  b\x1b[2J\u202ec é") == "a b\\x1b[2J\\u202ec é"


UNSEEN = ("\x1b[31m", "\x07", "\x9b", "\x7f", "\u202e", "\u2028", "\xad", "\ufeff", "\U000e0001", "a\u2066b\n")


@pytest.mark.parametrize("text", UNSEEN, ids=ascii)
@pytest.mark.parametrize(
    "shape",
    [lambda text: text, lambda text: [text], lambda text: {text: {"x": [text, 1]}}],
    ids=["text", "list", "map"],
)
def test_json_and_yaml_show_nothing_that_cannot_be_seen_and_mean_the_same(
    text: str, shape: Callable[[str], object]
) -> None:
    value = shape(text)
    as_json, as_yaml = json_line(value), document(value)
    assert (as_json.isprintable(), as_yaml.replace("\n", "").isprintable()) == (True, True)
    assert json.loads(as_json) == value
    assert yaml.plain(yaml.read(as_yaml)) == value
    assert word(value).isprintable()


@pytest.mark.parametrize("value", ["plain", "ümlaut", "日本", "two\nlines", {"a": "b"}, ["🙂"], {"a": "wait..."}])
def test_what_can_be_seen_is_shown_as_it_is(value: object) -> None:
    assert json_line(value) == to_json(value)
    assert "\\U" not in document(value)
