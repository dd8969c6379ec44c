"""The command line of `distkv pipeline`, up to where Spark would be started.

Knows: what is refused before any job begins.  Does not know what the jobs do (tests/spark).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from distkv.cli.jobs.running import reason_in
from distkv.cli.main import run

UNREAD = """\
: org.apache.spark.SparkException: Exception thrown in awaitResult:
Caused by: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file \
file:///srv/a%20b.c/1-000.parquet.  SQLSTATE: KD001
	at org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(QueryExecutionErrors.scala:920)
Caused by: org.apache.parquet.io.ParquetDecodingException: could not verify page integrity
"""


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["asof", "DIR"], "say which moment: one of --ticks FILE, --at TIME and --latest"),
        (["asof", "DIR", "--latest", "--at", "5"], "say which moment"),
        (["asof", "DIR", "--at", "yesterday"], "'yesterday' is no time"),
        (["restore", "DIR", "--at", "20261126"], "write a date as"),
        (["export", "--to", "OUT", "--format", "csv", "--table", "DIR", "--at", "1790000000500"], "milliseconds"),
        (["compact", "DIR", "--forget", "2026"], "write a date as"),
        (["restore", "DIR"], "say which moment"),
        (["export", "--to", "x", "--format", "csv", "--table", "DIR"], "say which moment"),
        (["export", "--to", "x", "--format", "csv", "--latest"], "name it with --table DIR"),
        (["export", "--to", "x", "--format", "xml"], "'xml' is not one of"),
        (["archive"], "missing option '--to'"),
        (["archive", "--to", "DIR", "--every", "0"], "--every is '0': write seconds, from 0.1 to 86400"),
        (["archive", "--to", "DIR", "--max-rows", "-1"], "--max-rows is '-1': write a whole number, 1 or above"),
        (["compact", "DIR", "--keep", "-1"], "--keep is '-1': write seconds"),
        (["archive", "--once", "--to", "s3://b/t"], "'s3://b/t' is no folder"),
        (["asof", "--latest", "hdfs://n:9000/t"], "'hdfs://n:9000/t' is no folder"),
        (["restore", "--latest", "file:/t"], "'file:/t' is no folder"),
        (["export", "--to", "x", "--format", "csv", "--latest", "--table", "s3a://b/t"], "is no folder"),
        (["files", "s3://b/t"], "is no folder"),
        (["settle", "s3://b/t", "--why", "gone"], "is no folder"),
        (["audit", "s3://b/t"], "is no folder"),
        (["report", "s3://b/t", "--to", "x.html"], "is no folder"),
        (["compact", "s3://b/t"], "is no folder"),
        (["compact"], "missing argument 'DIR'"),
        (["compact", "DIR", "--rows", "0"], "--rows is '0': write a whole number, from 1 to 1000000"),
        (["compact", "DIR", "--rows", "1000001"], "--rows is '1000001': write a whole number, from 1 to 1000000"),
        (["archive", "--to", "DIR", "--path", "a..b"], "has an empty element"),
        (["--conf", "spark.x", "archive", "--to", "DIR"], "write KEY=VALUE"),
        (["-p", "x", "archive", "--to", "DIR"], "must be a number from 1 to 65535"),
        (["report", "--to", "x.html"], "missing argument 'DIR'"),
        (["report", "DIR"], "missing option '--to'"),
        (["audit-all"], "no such command 'audit-all'"),
        (["import", "F", "--format", "csv", "--to", "x.{a}"], "either --value COLUMN or --columns A,B"),
        (["import", "F", "--format", "csv", "--to", "x.{a}", "--value", "v", "--columns", "v"], "either --value"),
        (["import", "F", "--format", "csv", "--to", "x", "--value", "v"], "name a column, as in site.{room}"),
        (["import", "F", "--format", "json", "--to", "{a}", "--value", "v", "--string"], "--string is for CSV"),
        (["import", "F", "--format", "csv", "--to", "{a}", "--value", "v", "--ttl", "0"], "--ttl is '0'"),
        (["import", "F", "--format", "csv", "--to", "{a}", "--columns", "v,v"], "--columns is 'v,v': name each once"),
        (["import", "--format", "csv", "--to", "{a}", "--value", "v"], "missing argument 'file...'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_command_line_is_refused_before_anything_begins(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], complaint: str
) -> None:
    place = str(tmp_path / "table")
    assert run(["pipeline", *(word.replace("DIR", place) for word in words)]) == 2
    told = capsys.readouterr()
    assert complaint in told.err.lower() or complaint in told.err
    assert (told.out, list(tmp_path.iterdir())) == ("", [])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "PythonException: thrown\nTraceback ...\ndistkv.errors.PeerError: b is of another network\n",
            "distkv.errors.PeerError: b is of another network",
        ),
        (
            UNREAD,
            "/srv/a b.c/1-000.parquet is damaged, or cannot be read: take the table from a copy",
        ),
        (
            UNREAD.replace("NO_HINT", "FILE_NOT_EXIST"),
            "/srv/a b.c/1-000.parquet is gone, as after a compaction that did not wait for this job: start it again",
        ),
        (
            ": X: Exception: in awaitResult\nCaused by: Y: first\nCaused by: Z: last\n",
            "Z: last",
        ),
        ("nothing\nIOError: no room\n", "IOError: no room"),
        ("", "no reason given"),
    ],
    ids=["ours", "file", "gone", "cause", "error", "nothing"],
)
def test_what_spark_says_is_told_in_the_line_that_says_most(text: str, reason: str) -> None:
    assert reason_in(text) == reason


def test_files_of_what_is_no_table_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("hello")
    assert run(["pipeline", "files", str(tmp_path)]) == 1
    assert "is no event table, and not empty" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["letter.txt"]
