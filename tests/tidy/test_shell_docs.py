"""docs/shell.rst agrees with the command.

Knows: its tables.  Does not judge what it says.
"""

from __future__ import annotations

from docutils import nodes

from distkv.cli import exits
from distkv.cli.completion import Shell
from distkv.cli.logs import LEVEL_NAMES, SOURCES
from distkv.cli.output import Form
from distkv.cli.values import read_value
from distkv.errors import BadValueError, DistkvError, RequestError
from distkv.wire.json_form import to_json
from tests.offenders import assert_none
from tests.process.terminals import START
from tests.refusals import ERRORS
from tests.tidy.documents import DOCS, rows, section

PAGE = DOCS / "shell.rst"


def _rows(title: str) -> list[list[str]]:
    return rows(section(PAGE, title))


def test_every_shell_has_its_line_and_starts_with_it_in_tests() -> None:
    lines = _rows("Completion")
    assert [row[0] for row in lines] == list(Shell)
    assert_none([row[1] for row in lines if f"{row[1]}\n" not in START[row[0]][1]])


def test_every_form_of_output_is_told() -> None:
    assert [row[0] for row in _rows("Output")] == list(Form)


def _values() -> list[list[str]]:
    return [row for row in _rows("Values") if len(row) == 3]


def test_table_of_values_has_the_words_that_look_like_numbers() -> None:
    assert len(_values()) >= 25


def _read(word: str) -> tuple[str, str]:
    """What the command makes of a word: its kind, and how it is shown; of one that is refused, how it would be text."""
    try:
        value = read_value(word)
    except BadValueError as error:
        return "refused", "-s" if "-s" in str(error) else str(error)
    kinds = {str: "text", int: "a number", float: "a number", list: "a list", dict: "a map"}
    return "true" if value is True else kinds[type(value)], to_json(value)


def test_values_are_read_as_the_table_says() -> None:
    told = {(word, kind, "-s" if kind == "refused" else shown) for word, kind, shown in _values()}
    assert_none(told - {(word, *_read(word)) for word, _, _ in told})


def test_exit_codes_are_those_of_the_command() -> None:
    given = {int(row[0]) for row in _rows("Exit codes")}
    known = {number for number in vars(exits).values() if isinstance(number, int)}
    assert given == known


def test_every_code_of_a_node_stands_with_its_exit_code() -> None:
    numbers = {code: exits.exit_code(_refusal(code)) for code in {kind.code for kind in ERRORS}}
    given = {code: int(row[0]) for row in _rows("Exit codes") for code in row[2].replace(",", " ").split()}
    assert given == numbers


def _refusal(code: str) -> DistkvError:
    return type("Refusal", (RequestError,), {"code": code})("x")


def test_sources_and_levels_of_logs_are_named() -> None:
    named = {literal.astext() for literal in section(PAGE, "What a server logs").findall(nodes.literal)}
    assert {*SOURCES, *LEVEL_NAMES} <= named
