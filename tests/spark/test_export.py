"""A tree as files: every path and value comes back from them as it was.

Knows: real nodes, Spark, and what other programs read the files with.  Does not know how a cut is made (test_asof).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path as FilePath

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from distkv.client.addresses import Address, read_address
from distkv.client.blocking import Client
from distkv.client.questions import Set
from distkv.errors import SettingsError
from distkv.model.path import ROOT, Path
from distkv.spark.asof import Cut
from distkv.spark.export import Exported, ExportForm, export
from distkv.wire.json_form import to_json
from tests.process.servers import Server
from tests.spark.moments import archived, moment, write_some

AWKWARD = ("a,b", 'say "x"', "back\\slash", "line\nbreak", "line\r\nbreak", "\ttabs\t", "#", "\u2028", "'", "end\\")
Rows = list[tuple[str, str]]


def read_csv(folder: FilePath) -> Rows:
    found: Rows = []
    for file in folder.glob("*.csv"):
        with file.open(newline="", encoding="utf-8") as opened:
            header, *rows = csv.reader(opened)
            assert header == ["path", "value"]
            found += [(path, value) for path, value in rows]
    return found


def read_json(folder: FilePath) -> Rows:
    lines = [line for file in folder.glob("*.json") for line in file.read_text(encoding="utf-8").split("\n") if line]
    return [(row["path"], row["value"]) for row in map(json.loads, lines)]


def read_parquet(folder: FilePath) -> Rows:
    table = ds.dataset([str(file) for file in folder.glob("*.parquet")], format="parquet").to_table()
    assert table.schema.names == ["path", "value"]
    return [(row["path"], row["value"]) for row in table.to_pylist()]


READERS: dict[ExportForm, Callable[[FilePath], Rows]] = {
    ExportForm.CSV: read_csv,
    ExportForm.JSON: read_json,
    ExportForm.PARQUET: read_parquet,
}


def addresses(server: Server) -> list[Address]:
    return [read_address(server.address)]


def tree_of(client: Client, path: Path = ROOT) -> Rows:
    return sorted((str(place), to_json(entry.value)) for place, entry in client.get_tree(path))


def write_awkward(client: Client) -> None:
    write_some(client, 1, 100)
    client.batch([Set(Path(["awkward", text]), {text: [text]}) for text in AWKWARD])


@pytest.mark.parametrize("form", ExportForm)
def test_live_tree_comes_back_from_the_files(
    spark: SparkSession, node: Server, tmp_path: FilePath, form: ExportForm
) -> None:
    with node.client() as client:
        write_awkward(client)
        tree = tree_of(client)
    found = export(spark, str(tmp_path / "to"), form, addresses=addresses(node))
    assert (sorted(READERS[form](tmp_path / "to")), found) == (tree, Exported(len(tree)))


@pytest.mark.parametrize("form", ExportForm)
def test_tree_of_a_cut_comes_back_from_the_files(
    spark: SparkSession, node: Server, tmp_path: FilePath, form: ExportForm
) -> None:
    with node.client() as client:
        write_awkward(client)
        tree, then = tree_of(client), moment(client)
        client.delete_tree("awkward")
        client.set("later", 1)
    table = archived(spark, node, tmp_path / "table")
    found = export(spark, str(tmp_path / "to"), form, table=table, cut=Cut(then.held))
    assert (sorted(READERS[form](tmp_path / "to")), found) == (tree, Exported(len(tree)))


def test_only_what_is_at_and_below_a_path_is_written(spark: SparkSession, node: Server, tmp_path: FilePath) -> None:
    path = Path(["awkward"])
    with node.client() as client:
        write_awkward(client)
        tree = tree_of(client, path)
    table = archived(spark, node, tmp_path / "table")
    for name, source in (("live", {"addresses": addresses(node)}), ("then", {"table": table})):
        export(spark, str(tmp_path / name), ExportForm.JSON, path=path, **source)  # type: ignore[arg-type]
    assert [sorted(read_json(tmp_path / name)) for name in ("live", "then")] == [tree, tree]


def test_nothing_at_a_path_is_no_rows(spark: SparkSession, node: Server, tmp_path: FilePath) -> None:
    table, nothing = archived(spark, node, tmp_path / "table"), Path(["nothing"])
    then = export(spark, str(tmp_path / "then"), ExportForm.PARQUET, table=table, path=nothing)
    live = export(spark, str(tmp_path / "live"), ExportForm.PARQUET, addresses=addresses(node), path=nothing)
    assert (then, live) == (Exported(0), Exported(0))


def test_empty_folder_is_taken(spark: SparkSession, solo: Server, tmp_path: FilePath) -> None:
    (tmp_path / "to").mkdir()
    export(spark, str(tmp_path / "to"), ExportForm.JSON, addresses=addresses(solo))
    assert read_json(tmp_path / "to") == [(":", '"hello"')]


def test_folder_with_something_in_it_is_left_as_it_is(spark: SparkSession, tmp_path: FilePath) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(SettingsError, match="not empty: nothing was written"):
        export(spark, str(tmp_path), ExportForm.JSON, addresses=[])
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]


def test_folder_that_only_spark_knows_is_left_as_it_is(spark: SparkSession, node: Server, tmp_path: FilePath) -> None:
    (tmp_path / "to").mkdir()
    with pytest.raises(SettingsError, match="not empty: nothing was written"):
        export(spark, f"file://{tmp_path}/to", ExportForm.JSON, addresses=addresses(node))


def test_file_in_the_place_of_the_folder_is_refused(spark: SparkSession, tmp_path: FilePath) -> None:
    (tmp_path / "to").touch()
    with pytest.raises(SettingsError, match="Not a directory: name a folder that is empty or missing"):
        export(spark, str(tmp_path / "to"), ExportForm.JSON, addresses=[])


@pytest.mark.parametrize(
    "source",
    [{}, {"addresses": [], "table": "x"}, {"addresses": [], "cut": Cut()}, {"cut": Cut()}],
    ids=["neither", "both", "live-cut", "cut-of-nothing"],
)
def test_source_that_is_not_one_is_refused(spark: SparkSession, tmp_path: FilePath, source: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match="name hosts, or a table and a cut of it"):
        export(spark, str(tmp_path / "to"), ExportForm.JSON, **source)  # type: ignore[arg-type]
