"""Fixtures of the tests with Spark: one session for all, and nodes to read from.

Knows: how Spark is started beside the tests' own Python.  Does not know what is read.

Invariant: the session ends with the tests, and nothing of it is left behind.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from distkv.spark.session import session
from tests.process.servers import ROOT, Server, Servers, open_servers
from tests.spark import home
from tests.spark.jobs import LOCAL
from tests.spark.machine import open_machine

os.environ.update(home.environment())  # what a test starts has it from here


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with two workers, begun as a job begins its own."""
    os.environ["PYTHONPATH"] = str(ROOT)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    folder = tmp_path_factory.mktemp("spark")
    conf = {
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
    }
    with session(LOCAL, conf) as found:
        yield found


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """For commands that need none of their own: what they have in their environment."""
    with open_machine(tmp_path_factory.mktemp("machine")) as found:
        yield found


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    """Servers of this test; all are killed at its end."""
    with open_servers(tmp_path / "servers") as found:
        yield found


@pytest.fixture
def solo(servers: Servers) -> Server:
    """A ready node without others, as it is after its first start."""
    return _started(servers)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The same for all tests of a file that let it run and do not mind what others wrote."""
    with open_servers(tmp_path_factory.mktemp("node")) as found:
        yield _started(found)


def _started(servers: Servers) -> Server:
    server = servers.add("a").start("--transport", "solo", "--init", "hello")
    server.wait_ready()
    return server
