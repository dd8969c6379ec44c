"""docs/event-table.rst agrees with the code, and what it tells readers to type gives what it shows."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from docutils import nodes
from docutils.core import publish_doctree

from distkv.model.event import NodeName
from distkv.model.fence import Fence
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import joined
from distkv.spark.table.columns import FORM_KEY, TABLE_FORM
from distkv.spark.table.manifest import Manifest, decode_manifest
from distkv.spark.table.store import Table, open_table
from tests.unit.spark.event_files import NETWORK, event_row, form_needed, write_rows

PAGE = Path(__file__).parents[3] / "docs" / "event-table.rst"
SETTINGS = {"_disable_config": True, "syntax_highlight": "none"}
DOCUMENT = publish_doctree(PAGE.read_text(encoding="utf-8"), settings_overrides=SETTINGS)

FIRST: list[dict[str, object]] = [
    event_row("hut1", 1, "hall.light", 20, tock=4),
    event_row("hut1", 2, "hall.heat", 19),
    event_row("hut2", 1, "hall.heat", 21),
]
SECOND: list[dict[str, object]] = [event_row("hut2", 3, "hall.light", 80, fence=Fence(0, 7, 1, "lamps"))]

GAPS = {NodeName("hut2"): Ranges([(2, 3)])}


def append(table: Table, rows: list[dict[str, object]]) -> None:
    file = write_rows(table, 0, rows)
    table.commit([file], ticks=joined(table.manifest.ticks, file.ticks), gaps=GAPS, form=form_needed(rows))


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Manifest:
    """The table of the page, in DIR below the present folder, while a job has begun to write more.

    That folder has a name which readers may take for a column that each row has."""
    (tmp_path / "node=old").mkdir()
    monkeypatch.chdir(tmp_path / "node=old")
    with open_table("DIR", network=NETWORK, create=True) as table:
        append(table, FIRST)
        append(table, SECOND)
        write_rows(table, 0, [event_row("hut9", 1)])
        return table.manifest


def blocks() -> Iterator[tuple[str, str]]:
    """The language and the text of each block."""
    for block in DOCUMENT.findall(nodes.literal_block):
        yield block["classes"][-1], block.astext()


def examples() -> list[tuple[str, str, str]]:
    """The language and text of each program, and what is shown below it."""
    found, told = list(blocks()), []
    for at, (language, text) in enumerate(found):
        if language != "text":
            following, output = found[at + 1]
            assert following == "text"
            told.append((language, text, output))
    return told


def printed(language: str, text: str) -> str:
    text = text.replace("DIR", f"{Path.cwd()}/DIR")
    if language == "sql":
        with duckdb.connect() as connection:
            return str(connection.sql(text))
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(text, str(PAGE), "exec"), {})
    return output.getvalue()


def rows_below(title: str) -> list[list[str]]:
    (section,) = [part for part in DOCUMENT.findall(nodes.section) if part[0].astext() == title]
    return [[cell.astext() for cell in row] for body in section.findall(nodes.tbody) for row in body.findall(nodes.row)]


def test_page_has_examples_of_each_reader() -> None:
    assert [language for language, _, _ in examples()] == ["sql", "sql", "python", "python"]


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(("language", "text", "output"), examples(), ids=["duckdb-1", "duckdb-2", "pyarrow", "pandas"])
def test_example_prints_what_is_shown_below_it(language: str, text: str, output: str) -> None:
    assert printed(language, text).strip() == output.strip()


def test_page_has_each_column_with_its_type() -> None:
    told = [(name, kind) for name, kind, _ in rows_below("Columns")]
    assert told == [(field.name, arrow_type(field.type)) for field in TABLE_FORM.columns]


def arrow_type(kind: pa.DataType) -> str:
    """As Arrow writes it, without the name that each list gives to what is in it."""
    return str(kind).replace("<item: ", "<").replace("<element: ", "<")


def shown_manifest() -> str:
    (text,) = [text for _, text in blocks() if text.startswith("{")]
    return text + "\n"


def test_manifest_on_the_page_is_one() -> None:
    assert decode_manifest(shown_manifest().encode(), str(PAGE)).commit == 2


def test_manifest_on_the_page_is_of_the_table_in_the_examples(table: Manifest) -> None:
    def without_sizes(manifest: Manifest) -> list[object]:
        files = [(file.name, file.rows, file.ticks) for file in manifest.files]
        return [manifest.network, manifest.commit, manifest.ticks, manifest.gaps, manifest.events, files]

    assert without_sizes(decode_manifest(shown_manifest().encode(), str(PAGE))) == without_sizes(table)


def test_page_has_each_field_of_the_manifest() -> None:
    fields = [line.split('"')[1] for line in shown_manifest().splitlines() if line.startswith('"')]
    assert [row[0] for row in rows_below("The manifest")] == fields


def test_page_has_the_key_of_the_form() -> None:
    assert f"``{FORM_KEY.decode()}``" in PAGE.read_text(encoding="utf-8")
