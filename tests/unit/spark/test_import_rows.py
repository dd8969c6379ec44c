"""Records become rows, and rows are written: which value each has, and which of one path counts.

Knows: the two steps of a worker, and servers that say what the test wants.  Does not know Spark (tests/spark).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from distkv.errors import BadValueError, FencedError, UnreachableError
from distkv.spark.importing.import_rows import Done, ImportRow, Wanted, lane, row_of, write
from distkv.spark.importing.records import ImportForm, Record
from distkv.spark.importing.templates import read_template
from distkv.wire.value_requests import Batch
from distkv.wire.values import pack_value, unpack_value
from tests.unit.client.scripted_server import ScriptedServer, Step, close, open_server, refusal, reply

TEMPLATE = read_template("{k}")


def wanted(form: ImportForm = ImportForm.CSV, **fields: Any) -> Wanted:
    return Wanted(form, TEMPLATE, **{"value": "v", **fields})


def value_of(cells: dict[str, object], how: Wanted) -> object:
    row = row_of(0, Record(2, {"k": "x", **cells}), how)
    assert row.reason is None
    assert row.value is not None
    return unpack_value(row.value)


@pytest.mark.parametrize(
    ("cell", "value"),
    [("21", 21), ("01234", "01234"), ("", ""), ("true", True), ("[1, x]", [1, "x"]), ('"21"', "21"), ("-1.50", -1.5)],
)
def test_cell_of_csv_is_read_as_the_command_reads_a_value(cell: str, value: object) -> None:
    found = value_of({"v": cell}, wanted())
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("cell", ["12345678901234567890.123456789", " 3.14159265358979323846"])
def test_cell_of_csv_whose_number_would_lose_digits_is_no_row(cell: str) -> None:
    row = row_of(0, Record(2, {"k": "x", "v": cell}), wanted())
    assert row.reason is not None
    assert row.reason.endswith("has more digits than a float keeps: write it as text")
    assert value_of({"v": cell}, wanted(as_text=True)) == cell


@pytest.mark.parametrize("cell", ["21", "null", "[1", "&x"])
def test_cell_of_csv_is_text_when_that_is_asked_for(cell: str) -> None:
    assert value_of({"v": cell}, wanted(as_text=True)) == cell


def test_values_of_json_are_what_they_are() -> None:
    assert value_of({"v": "21"}, wanted(ImportForm.JSON)) == "21"


def test_value_may_be_a_map_of_columns() -> None:
    how = wanted(value=None, columns=("a", "b"))
    assert value_of({"a": "1", "b": "null"}, how) == {"a": 1, "b": None}
    assert value_of({"a": 1}, wanted(ImportForm.JSON, value=None, columns=("a", "b"))) == {"a": 1}


@pytest.mark.parametrize(
    ("cells", "how", "reason"),
    [
        ({"v": "null"}, wanted(), "the column v is null, and no value"),
        ({"v": None}, wanted(ImportForm.PARQUET), "the column v is null, and no value"),
        ({}, wanted(ImportForm.JSON), "the column v is missing, and no value"),
        ({"v": "[1"}, wanted(), "the column v: '[1' cannot be read"),
        ({"v": "&x"}, wanted(), "the column v: '&x' begins like an anchor, an alias or a tag: for the text, add"),
        ({"v": "1", "k": ""}, wanted(), "the column k is empty, and a name is made of it"),
        ({"v": 2**64}, wanted(ImportForm.JSON), "the value cannot be stored: an integer needs more than 64 bits"),
        ({"v": BadValueError("a map in it")}, wanted(ImportForm.PARQUET), "the column v: a map in it"),
        ({"v": "x" * (1 << 20)}, wanted(as_text=True), "the value has 1048581 bytes when packed; the limit is 1048576"),
        ({}, wanted(ImportForm.JSON, value=None, columns=("a", "b")), "the columns a, b are all missing"),
    ],
)  # fmt: skip
def test_record_that_is_no_row_has_a_reason(cells: dict[str, object], how: Wanted, reason: str) -> None:
    row = row_of(3, Record(7, {"k": "x", **cells}), how)
    assert (row.file, row.line, row.path, row.value) == (3, 7, None, None)
    assert row.reason is not None
    assert row.reason.startswith(reason)


def test_reason_and_text_of_a_record_stay() -> None:
    row = row_of(0, Record(7, {}, "bad\r\n", "it is no CSV"), wanted())
    assert row == ImportRow(0, 7, None, None, "it is no CSV", "bad")


# -- the second step ----------------------------------------------------------------------------------------------


def row(path: str, line: int, value: object = 1, file: int = 0) -> ImportRow:
    return ImportRow(file, line, path, pack_value(value))


def done(*changed: bool) -> Step:
    return reply({"results": [{"changed": one, "chain": {"node": "a", "tick": 9}} for one in changed]})


def carry_out(
    rows: Sequence[ImportRow],
    *script: Step,
    dry: bool = False,
    how: Wanted = wanted(),  # noqa: B008
) -> tuple[list[ImportRow], Done, ScriptedServer]:
    """The rejects, what was done, and the server."""
    with open_server(*script) as server:
        keyed = sorted(one.keyed for one in rows)
        *rejects, done = write(keyed, [server.address], how, ["one", "two"], dry=dry, wait_s=0.0)
    assert isinstance(done, Done)
    return [one for one in rejects if isinstance(one, ImportRow)], done, server


def counts(last: Done) -> tuple[int, int, int]:
    return last.written, last.same, last.rejected


def test_rows_are_written_or_the_same() -> None:
    rejects, last, server = carry_out([row("x", 2), row("y", 3), row("z", 4)], done(True, False, True))
    assert (rejects, counts(last), last.error, len(server.requests)) == ([], (2, 1, 0), None, 1)


def test_of_rows_with_one_path_the_last_one_counts() -> None:
    """Those before it are the same as the next one, or rejects; also over the ends of batches."""
    rows = [row("x", 2, 1), row("x", 3, 2), row("x", 4, 2), row("x", 9, 3, file=1), row("y", 2)]
    rejects, last, server = carry_out(rows, done(True, True))
    (request,) = server.requests
    assert isinstance(request, Batch)
    assert [(str(op.path), op.value) for op in request.ops] == [("x", pack_value(3)), ("y", pack_value(1))]  # type: ignore[union-attr]
    assert [(one.line, one.reason) for one in rejects] == [
        (2, "the path x stands again in line 3, which counts"),
        (4, "the path x stands again in two, line 9, which counts"),
    ]
    assert counts(last) == (2, 1, 2)


def test_first_reject_is_the_first_in_the_files_not_among_the_paths() -> None:
    rows = [
        row("x", 8, 1),
        row("x", 9, 2),
        row("y", 2, 1),
        row("y", 3, 2),
        row("z", 1, 1, file=1),
        row("z", 2, 2, file=1),
    ]
    rejects, last, _ = carry_out(rows, done(True, True, True))
    assert [one.line for one in rejects] == [8, 2, 1]
    assert last.first == rejects[1]


def test_rejects_of_the_first_step_pass_through() -> None:
    rejects, last, _ = carry_out([ImportRow(0, 5, reason="it is no CSV", text="x"), row("x", 2)], done(True))
    assert [(one.line, one.reason, one.text) for one in rejects] == [(5, "it is no CSV", "x")]
    assert counts(last) == (1, 0, 1)


def test_row_of_a_path_that_a_token_holds_is_a_reject() -> None:
    rows = [row("x", 2), row("y", 3)]
    looked = reply({"results": [{"value": 7, "tock": 1, "time": 0.0, "chain": {"node": "a", "tick": 9}}]})
    rejects, last, _ = carry_out(rows, refusal(FencedError("held by t:1.2").at_op(0)), looked, done(True))
    assert [(one.line, one.reason) for one in rejects] == [(2, "the node refuses it (fenced): op 0: held by t:1.2")]
    assert counts(last) == (1, 0, 1)


def test_row_that_the_node_refuses_is_a_reject() -> None:
    rows = [row("x", 2), row("y", 3)]
    rejects, last, _ = carry_out(rows, refusal(BadValueError("no").at_op(0)), done(True))
    assert [(one.line, one.reason) for one in rejects] == [(2, "the node refuses it (bad_value): op 0: no")]
    assert counts(last) == (1, 0, 1)


def test_error_that_ends_a_task_is_told_with_what_was_done() -> None:
    _, last, _ = carry_out([row("x", 2)], close)
    assert isinstance(last.error, UnreachableError)


def test_rows_of_one_path_go_to_one_task_and_rejects_to_all() -> None:
    assert lane(row("x", 2).keyed[0]) == lane(row("x", 9, file=1).keyed[0]) != lane(row("y", 2).keyed[0])
    assert {lane(ImportRow(0, line, reason="").keyed[0]) % 3 for line in range(3)} == {0, 1, 2}


def test_ttl_is_given_to_all() -> None:
    _, _, server = carry_out([row("x", 2)], done(True), how=wanted(ttl=5.0))
    (request,) = server.requests
    assert isinstance(request, Batch)
    assert [(op.ttl, op.idem) for op in request.ops] == [(5.0, False)]  # type: ignore[union-attr]


def test_dry_run_only_looks() -> None:
    there = {"value": 1, "tock": 1, "time": 0.0, "chain": {"node": "a", "tick": 9}}
    looked = reply({"results": [there, {**there, "value": 2}, {}]})
    _, last, server = carry_out([row("x", 2), row("y", 3), row("z", 4)], looked, dry=True)
    assert counts(last) == (2, 1, 0)
    assert "SetValue" not in repr(server.requests)


@pytest.mark.parametrize(
    ("value", "ttl", "expected"),
    [(1, None, (0, 1, 0)), (2, None, (0, 0, 1)), (1, 5.0, (0, 0, 1))],
    ids=["same", "other", "renewed"],
)
@pytest.mark.parametrize("dry", [True, False])
def test_path_that_a_token_holds_takes_only_the_value_that_it_has(
    dry: bool, value: int, ttl: float | None, expected: tuple[int, int, int]
) -> None:
    """A dry run says what the other one does."""
    there = {"value": 1, "tock": 1, "time": 0.0, "chain": {"node": "a", "tick": 9}, "fence": ["t", 1, 2]}
    script = [reply({"results": [there]})]
    if not dry:
        script.insert(0, refusal(FencedError("held").at_op(0)))
    _, last, _ = carry_out([row("x", 2, value)], *script, dry=dry, how=wanted(ttl=ttl))
    assert counts(last) == expected


def test_dry_run_with_a_ttl_would_renew_what_is_there() -> None:
    there = {"value": 1, "tock": 1, "time": 0.0, "chain": {"node": "a", "tick": 9}}
    _, done, _ = carry_out([row("x", 2)], reply({"results": [there]}), dry=True, how=wanted(ttl=5.0))
    assert counts(done) == (1, 0, 0)
