"""docs/shell.rst agrees with the command.

Knows: its tables.  Does not judge what it says.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from docutils import nodes
from docutils.core import publish_doctree

from distkv import errors
from distkv.cli import exits
from distkv.cli.completion import Shell
from distkv.cli.logs import LEVEL_NAMES, SOURCES
from distkv.cli.output import Form
from distkv.cli.values import read_argument
from distkv.errors import BadValueError, DistkvError, RequestError
from distkv.wire.json_form import to_json
from tests.process.terminals import START

PAGE = Path(__file__).parents[2] / "docs" / "shell.rst"


def _section(title: str) -> nodes.section:
    document = publish_doctree(PAGE.read_text(encoding="utf-8"), settings_overrides={"_disable_config": True})
    (found,) = [part for part in document.findall(nodes.section) if part[0].astext() == title]
    return found


def _rows(title: str) -> list[list[str]]:
    bodies = _section(title).findall(nodes.tbody)
    return [[cell.astext() for cell in row] for body in bodies for row in body.findall(nodes.row)]


def test_every_shell_has_its_line_and_starts_with_it_in_tests() -> None:
    rows = _rows("Completion")
    assert [row[0] for row in rows] == list(Shell)
    assert [row[1] for row in rows if f"{row[1]}\n" not in START[row[0]][1]] == []


def test_every_form_of_output_is_told() -> None:
    assert [row[0] for row in _rows("Output")] == list(Form)


def _values() -> list[list[str]]:
    return [row for row in _rows("Values") if len(row) == 3]


def test_table_of_values_has_the_words_that_look_like_numbers() -> None:
    assert len(_values()) >= 25


@pytest.mark.parametrize("row", _values(), ids=lambda row: row[0])
def test_value_is_read_as_the_table_says(row: list[str]) -> None:
    word, kind, shown = row
    if kind == "refused":
        with pytest.raises(BadValueError, match="-s"):
            read_argument(word)
        return
    value = read_argument(word)
    assert to_json(value) == shown
    kinds = {str: "text", int: "a number", float: "a number", list: "a list", dict: "a map"}
    assert ("true" if value is True else kinds[type(value)]) == kind


def test_exit_codes_are_those_of_the_command() -> None:
    given = {int(row[0]) for row in _rows("Exit codes")}
    # 6 is for what a client is not allowed to do; without authentication nothing ends with it.
    known = {number for number in vars(exits).values() if isinstance(number, int)}
    assert given == known - {exits.NOT_ALLOWED}


def test_every_code_of_a_node_stands_with_its_exit_code() -> None:
    kinds = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, DistkvError)]
    numbers = {code: exits.exit_code(_refusal(code)) for code in {kind.code for kind in kinds}}
    given = {code: int(row[0]) for row in _rows("Exit codes") for code in row[2].replace(",", " ").split()}
    assert given == numbers


def _refusal(code: str) -> DistkvError:
    return type("Refusal", (RequestError,), {"code": code})("x")


def test_sources_and_levels_of_logs_are_named() -> None:
    named = {literal.astext() for literal in _section("What a server logs").findall(nodes.literal)}
    assert {*SOURCES, *LEVEL_NAMES} <= named
