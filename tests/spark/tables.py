"""What tests look at in an event table, as readers do that know nothing of us.

Knows: DuckDB, pyarrow, and the manifest as JSON.  Does not know `distkv.spark.table.store`, but to take the list of
files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq


def ticks_in(table: Path, *, system: bool = False) -> list[tuple[str, int]]:
    """(node, tick) of every row that DuckDB finds, sorted; of the system's own paths only if `system`."""
    if not list(table.glob("events/*.parquet")):
        return []
    where = "" if system else "WHERE NOT system"
    query = f"SELECT node, tick FROM '{table}/events/*.parquet' {where} ORDER BY node, tick"
    return [(node, tick) for node, tick in duckdb.sql(query).fetchall()]


def rows_in(table: Path) -> list[tuple[object, ...]]:
    """All columns of every row that DuckDB finds, in order of node and tick."""
    return duckdb.sql(f"SELECT * FROM '{table}/events/*.parquet' ORDER BY node, tick").fetchall()


def check_whole(table: Path) -> None:
    """At any moment: every file can be read, and no event is there twice."""
    for file in table.glob("events/*.parquet"):
        assert pq.read_table(file).num_rows == pq.read_metadata(file).num_rows
    found = ticks_in(table, system=True)
    assert len(found) == len(set(found))


def manifest(table: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((table / "manifest.json").read_text())
    return found
