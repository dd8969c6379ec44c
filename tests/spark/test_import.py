"""Files become values: what is written, what is the same, and what is rejected, on a real node.

Knows: Spark, a server and the command.  Does not know what each cell becomes (tests/unit/spark/test_import_rows.py),
nor which records are none (test_records.py).
"""

from __future__ import annotations

import json
import random
from pathlib import Path as FilePath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from distkv.client.addresses import read_address
from distkv.client.questions import Set
from distkv.errors import SettingsError, UnreachableError
from distkv.spark.importing import records
from distkv.spark.importing.records import ImportForm
from distkv.spark.imports import Imported, import_files
from distkv.wire.json_form import to_json
from tests.process.servers import Server
from tests.spark.jobs import run_here


def load(spark: SparkSession, server: Server, *files: FilePath, **given: Any) -> Imported:
    form = ImportForm({"jsonl": "json"}.get(files[0].suffix[1:], files[0].suffix[1:]))
    given = {"to": "x.{k}", "value": "v", **given}
    return import_files(spark, [str(file) for file in files], form, addresses=[read_address(server.address)], **given)


def counts(found: Imported) -> tuple[int, int, int, int]:
    return found.rows, found.written, found.same, found.rejected


def tree(server: Server, path: str = "x") -> dict[str, str]:
    with server.client() as client:
        return {str(place): to_json(entry.value) for place, entry in client.get_tree(path)}


def rejects(folder: FilePath) -> list[dict[str, Any]]:
    (file,) = folder.glob("*.json")
    return [json.loads(line) for line in file.read_text().splitlines()]


def text(folder: FilePath, name: str, content: str | bytes) -> FilePath:
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def test_rows_are_written_once_and_each_is_counted(spark: SparkSession, solo: Server, tmp_path: FilePath) -> None:
    """Of a row that is twice the last one counts, in the order in which files are named."""
    first = text(tmp_path, "1.csv", 'k,v\na.b,21\nc,01234\nc,"[1, x]"\nd,null\n"e,f\n\xff,1\n'.encode("latin-1"))
    second = text(tmp_path, "0.csv", "v,k\n1,same\n2,a.b\n,empty\n")
    with solo.client() as client:
        client.set("x.same", 1)
    found = load(spark, solo, first, second, rejects=str(tmp_path / "rejects"))
    assert tree(solo) == {"x.a:.b": "2", "x.c": '[1, "x"]', "x.empty": '""', "x.same": "1"}
    assert counts(found) == (9, 3, 1, 5)
    shown = rejects(tmp_path / "rejects")
    assert [(row["file"], row["line"], row["reason"], row.get("text")) for row in shown] == [
        (str(first), 2, f"the path x.a:.b stands again in {second}, line 3, which counts", None),
        (str(first), 3, "the path x.c stands again in line 4, which counts", None),
        (str(first), 5, "the column v is null, and no value", None),
        (str(first), 6, "it is no CSV: unexpected end of data", '"e,f'),
        (str(first), 7, "it is not UTF-8 text", "\ufffd,1"),
    ]
    assert found.first_reject == f"{first}, line 2: {shown[0]['reason']}"
    again = load(spark, solo, first, second)
    assert counts(again) == (9, 0, 4, 5)
    with solo.client() as client:
        assert len(list(client.history("x.c"))) == 1


def test_dry_run_counts_what_would_be_done_and_writes_nothing(
    spark: SparkSession, solo: Server, tmp_path: FilePath
) -> None:
    with solo.client() as client:
        client.batch([Set("x.a", 1), Set("x.b", 1)])
    before = tree(solo)
    file = text(tmp_path, "x.jsonl", '{"k": "a", "v": 1}\n{"k": "b", "v": 2}\n{"k": "c", "v": 3}\n{\n')
    dry = load(spark, solo, file, dry_run=True)
    assert tree(solo) == before
    assert counts(dry) == counts(load(spark, solo, file)) == (4, 2, 1, 1)


def test_many_rows_of_many_pieces_come_all(
    spark: SparkSession, solo: Server, tmp_path: FilePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each path the last row in the order of the files, whichever task reads it and whichever writes it."""
    monkeypatch.setattr(records, "PIECE_BYTES", 20_000)
    chance, expected, files, number = random.Random(5), dict[str, str](), [], 0
    for name in ("2.jsonl", "1.jsonl", "3.jsonl"):
        lines = []
        for _ in range(2500):
            number += 1
            key = f"k{chance.randrange(3000)}"
            expected[f"x.{key}"] = str(number)
            lines.append(json.dumps({"k": key, "v": number}))
        files.append(text(tmp_path, name, "\n".join(lines)))
    found = load(spark, solo, *files)
    assert tree(solo) == dict(sorted(expected.items()))
    assert counts(found) == (7500, len(expected), 0, 7500 - len(expected))


def test_parquet_keeps_types_and_a_map_has_the_columns(spark: SparkSession, solo: Server, tmp_path: FilePath) -> None:
    table = pa.table({"k": [1, 2, None], "a": [b"\0", None, b""], "b": pa.array([0, 1, 2], pa.timestamp("s"))})
    pq.write_table(table, tmp_path / "x.parquet")
    found = load(spark, solo, tmp_path / "x.parquet", value=None, columns=("a", "b"), ttl=1000.0)
    assert tree(solo) == {
        "x.1": '{"a": {"$bytes": "AA=="}, "b": {"$time": [0, 0]}}',
        "x.2": '{"a": null, "b": {"$time": [1, 0]}}',
    }
    assert counts(found) == (3, 2, 0, 1)
    assert found.first_reject == f"{tmp_path}/x.parquet, line 3: the column k is null, and a name is made of it"
    with solo.client() as client:
        assert client.get("x.1").ttl == 1000.0  # type: ignore[union-attr]


def test_no_rows_are_no_rows(spark: SparkSession, node: Server, tmp_path: FilePath) -> None:
    for name, content in (("x.jsonl", ""), ("x.csv", "k,v\n")):
        assert counts(load(spark, node, text(tmp_path, name, content))) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"to": "x"}, "name a column"),
        ({"to": "{nothing}"}, r"has no column 'nothing'; it has k, v$"),
        ({"value": None}, "either one column, or the columns of a map"),
        ({"columns": ["v"]}, "either one column, or the columns of a map"),
        ({"value": None, "columns": ["v", "v"]}, "name each once"),
        ({"ttl": 0.0}, "ttl is 0.0"),
        ({"rejects": "."}, "not empty"),
    ],
    ids=["template", "column", "no-value", "both", "twice", "ttl", "rejects"],
)
def test_import_that_cannot_be_meant_is_refused(
    spark: SparkSession, node: Server, tmp_path: FilePath, given: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(SettingsError, match=complaint):
        load(spark, node, text(tmp_path, "x.csv", "k,v\na,1\n"), **given)
    assert tree(node) == {}


def test_host_that_is_away_is_told_before_anything_begins(spark: SparkSession, tmp_path: FilePath) -> None:
    file = text(tmp_path, "x.csv", "k,v\na,1\n")
    with pytest.raises(UnreachableError, match="no host answers"):
        import_files(spark, [str(file)], ImportForm.CSV, "{k}", [("127.0.0.1", 1)], value="v")


def test_command_fails_only_when_a_reject_is_kept_nowhere(
    spark: SparkSession, solo: Server, tmp_path: FilePath
) -> None:
    file = text(tmp_path, "x.csv", "k,v\na,1\nb\n")
    host, _, port = solo.address.rpartition(":")
    words = ("-p", port, "import", str(file), "--format", "csv", "--to", "x.{k}", "--value", "v", "-o", "json")
    kept = run_here(spark, [host], *words, "--rejects", str(tmp_path / "rejects"))
    lost = run_here(spark, [host], *words)
    assert (kept.code, kept.err) == (0, "")
    assert list(json.loads(kept.out)) == ["rows", "written", "same", "rejected", "seconds"]
    assert [row["line"] for row in rejects(tmp_path / "rejects")] == [3]
    assert (lost.code, lost.err) == (
        1,
        f"distkv: {file}, line 3: it has 1 fields, and the header 2 (1 rejected rows; --rejects DIR keeps them all)\n",
    )
    assert [json.loads(lost.out)[name] for name in ("rows", "written", "same", "rejected")] == [2, 0, 1, 1]


def test_times_and_decimals_that_spark_writes_come_in_exactly(
    spark: SparkSession, solo: Server, tmp_path: FilePath
) -> None:
    """Spark writes INT96, and decimals as numbers of JSON."""
    rows = spark.sql(
        "SELECT * FROM VALUES ('a', TIMESTAMP '9999-12-31 23:59:59.999999', 12345678901234567890.123456789BD), "
        "('b', TIMESTAMP '0001-01-01 00:00:00', 0.000000001BD) AS t(k, t, d)"
    ).selectExpr("k", "t", "CAST(d AS DECIMAL(38, 9)) AS d")
    rows.coalesce(1).write.parquet(str(tmp_path / "parquet"))
    rows.coalesce(1).write.json(str(tmp_path / "json"))
    (file,), (lines,) = (tmp_path / "parquet").glob("*.parquet"), (tmp_path / "json").glob("*.json")
    assert pq.ParquetFile(file).schema.column(1).physical_type == "INT96"
    load(spark, solo, file, value=None, columns=("t", "d"))
    assert tree(solo) == {
        "x.a": '{"t": {"$time": [253402300799, 999999000]}, "d": "12345678901234567890.123456789"}',
        "x.b": '{"t": {"$time": [-62135596800, 0]}, "d": "0.000000001"}',
    }
    found = import_files(
        spark, [str(lines)], ImportForm.JSON, "y.{k}", [read_address(solo.address)], value="d"
    )
    assert (found.written, found.rejected, tree(solo, "y")) == (1, 1, {"y.b": "1e-09"})
    assert "has more digits than a float keeps" in str(found.first_reject)
