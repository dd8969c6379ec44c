"""Fixtures of the tests with Spark: one session for all, and nodes to read from.

Knows: how Spark is started beside the tests' own Python.  Does not know what is read.

Invariant: the session ends with the tests, and nothing of it is left behind.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.process.servers import ROOT, Server, Servers, open_servers
from tests.spark.classes import java_environment

os.environ.update(java_environment())  # what a test starts has it from here


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with two workers."""
    os.environ["PYSPARK_PYTHON"] = sys.executable  # else workers run whatever python3 is first on PATH
    os.environ["PYTHONPATH"] = str(ROOT)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    folder = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.local.dir", str(folder))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    """Servers of this test; all are killed at its end."""
    with open_servers(tmp_path / "servers") as found:
        yield found


@pytest.fixture
def solo(servers: Servers) -> Server:
    """A ready node without others."""
    server = servers.add("a").start("--transport", "solo", "--init", "hello")
    server.wait_ready()
    return server
