"""Where a row goes: what TEMPLATE may say, and which cells are names."""

from __future__ import annotations

import pytest

from distkv.errors import BadPathError, SettingsError
from distkv.model.path import Path
from distkv.spark.importing.templates import read_template
from distkv.wire.packing import Timestamp


@pytest.mark.parametrize(
    ("template", "cells", "path"),
    [
        ("site.{room}.{sensor}", {"room": "hall", "sensor": "temp"}, Path(["site", "hall", "temp"])),
        ("{a}", {"a": "x.y: z"}, Path(["x.y: z"])),
        ("{a}", {"a": ":7"}, Path([":7"])),
        (":7.{a}.:t", {"a": "x"}, Path([7, "x", True])),
        ("k{a}-{b}:_x", {"a": 1, "b": "y"}, Path(["k1-y x"])),
        ("{a}.{a}", {"a": "x"}, Path(["x", "x"])),
        ("{two words.and a dot}", {"two words.and a dot": "x"}, Path(["x"])),
        ("{a}.{b}.{c}", {"a": 7, "b": True, "c": -1.5}, Path(["7", "true", "-1.5"])),
    ],
)
def test_what_a_column_says_is_one_name_of_text(template: str, cells: dict[str, object], path: Path) -> None:
    assert read_template(template).path(cells) == path


def test_columns_are_named_once_in_their_order() -> None:
    assert read_template("x.{b}{a}.{b}").columns == ("b", "a")


@pytest.mark.parametrize(
    ("cells", "complaint"),
    [
        ({}, "the column a is missing"),
        ({"a": None}, "the column a is null"),
        ({"a": ""}, "the column a is empty"),
        ({"a": b"x"}, "holds no text and no number"),
        ({"a": ["x"]}, "holds no text and no number"),
        ({"a": Timestamp(1, 0)}, "holds no text and no number"),
        ({"a": float("nan")}, "holds no text and no number"),
        ({"a": BadPathError("x")}, "holds no text and no number"),
    ],
)
def test_row_without_a_name_has_no_path(cells: dict[str, object], complaint: str) -> None:
    with pytest.raises(BadPathError, match=complaint):
        read_template("x.{a}").path(cells)


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("site.room", "name a column"),
        ("{a", "no other brace"),
        ("{{a}}", "no other brace"),
        ("{}", "no other brace"),
        ("x..{a}", "is 'x..{a}'"),
        (":n.{a}", "belongs to the system"),
        (":7{a}", "is ':7{a}'"),
        (":{a}", "is ':{a}'"),
        (".".join(["{a}"] * 65), "at most 64 names"),
    ],
)
def test_template_that_is_none_is_refused(template: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        read_template(template)
