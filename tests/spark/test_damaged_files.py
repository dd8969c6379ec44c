"""Files of an event table that a disk has damaged, their size the same: no job takes them for what was written.

Knows: Spark, a node, and bytes that flip.  Does not know Parquet, but that any byte of a file may rot.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from distkv.spark.asof import Cut, asof
from tests.process.servers import Server
from tests.spark.exact import written
from tests.spark.jobs import run_job
from tests.spark.moments import archived

FLIPS = 12


@pytest.fixture
def table(spark: SparkSession, solo: Server, tmp_path: Path) -> Path:
    written(solo, 600, "k", filler=lambda: "v" * 20)
    return Path(archived(spark, solo, tmp_path / "table"))


def flip(file: Path, data: bytes, at: int) -> None:
    damaged = bytearray(data)
    damaged[at] ^= 0x55
    file.write_bytes(damaged)


def test_byte_that_flipped_is_found_or_changes_nothing(spark: SparkSession, table: Path) -> None:
    """Some bytes are of columns that are not read, or only describe others."""
    (file,) = table.glob("events/*.parquet")
    data, whole, refused = file.read_bytes(), asof(spark, str(table), Cut()), 0
    for at in range(len(data) // FLIPS // 2, len(data), len(data) // FLIPS):
        flip(file, data, at)
        try:
            assert asof(spark, str(table), Cut()) == whole, at
        except (Py4JError, PySparkException):
            refused += 1
    assert refused >= 3
    file.write_bytes(data)
    assert asof(spark, str(table), Cut()) == whole


def test_damaged_file_ends_asof_in_a_line_that_names_it(table: Path) -> None:
    (file,) = table.glob("events/*.parquet")
    file.write_bytes(file.read_bytes()[:4] + bytes(file.stat().st_size - 4))
    told = run_job([], "asof", str(table), "--latest").complaint
    assert str(file) in told
