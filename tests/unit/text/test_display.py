"""What people are shown of values and messages.

Knows: values.  Does not know the commands.
"""

from __future__ import annotations

import pytest

from distkv.text.display import one_line, text_of, word


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
