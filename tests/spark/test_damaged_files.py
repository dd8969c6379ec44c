"""Files of an event table that a disk has damaged, their size the same: no job takes them for what was written.

Knows: Spark, a node, and bytes that flip.  Does not know Parquet, but that any byte of a file may rot.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from distkv.errors import LogDamagedError
from distkv.spark.asof import Cut, asof
from tests.process.servers import Server
from tests.spark.exact import written
from tests.spark.jobs import run_here
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


def test_byte_that_flipped_is_found_wherever_it_is(spark: SparkSession, table: Path) -> None:
    """Also in columns that are not read, and in what only describes them."""
    (file,) = table.glob("events/*.parquet")
    data, whole = file.read_bytes(), asof(spark, str(table), Cut())
    for at in [*range(len(data) // FLIPS // 2, len(data), len(data) // FLIPS), len(data) - 1]:
        flip(file, data, at)
        with pytest.raises(LogDamagedError, match=f"{file} is damaged: its checksum is"):
            asof(spark, str(table), Cut())
    file.write_bytes(data)
    assert asof(spark, str(table), Cut()) == whole


def test_damaged_file_ends_asof_in_a_line_that_names_it(spark: SparkSession, table: Path) -> None:
    (file,) = table.glob("events/*.parquet")
    file.write_bytes(file.read_bytes()[:4] + bytes(file.stat().st_size - 4))
    told = run_here(spark, [], "asof", str(table), "--latest").complaint
    assert str(file) in told
