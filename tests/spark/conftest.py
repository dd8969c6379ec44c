"""Fixtures of the tests with Spark: one session for all, and nodes to read from; and which tests share a process.

Knows: how Spark is started beside the tests' own Python, and which files need no session.  Does not know what is read.

A process of tests has one session, from the first test on that wants it, and all of its files are quicker for what Java
has compiled for those before. So a run of many processes has two that have a session, and the others do not begin one
as long as there are files that start machines of their own.

Invariant: the session ends with the tests, and nothing of it is left behind.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession
from xdist.scheduler import LoadScopeScheduling

from distkv.spark.session import session
from tests.process.servers import ROOT, Server, Servers, open_servers
from tests.spark import home
from tests.spark.jobs import INTERPRETED, LOCAL
from tests.spark.machine import open_machine

os.environ.update(home.environment())  # what a test starts has it from here

SESSIONS: Final = 2
STARTERS: Final = ("test_kills", "test_pages", "test_standalone", "test_stream_kills")
"""Files whose tests start machines of their own, or use one that commands share; they want no session."""
WANTS_SESSION: Final = "test_python_examples_run"
"""The test among theirs that wants the session all the same."""
FILES: Final = sorted(file.stem for file in Path(__file__).parent.glob("test_*.py"))


class Sharing(LoadScopeScheduling):  # type: ignore[misc]
    """`--dist loadscope`: the tests of a scope run in one process, and the largest scopes are begun first."""

    def _split_scope(self, nodeid: str) -> str:
        """Every second file that wants the session shares one with the same others."""
        file = Path(nodeid.partition("::")[0]).stem
        if file in STARTERS and not nodeid.endswith(WANTS_SESSION):
            return file
        return f"session {FILES.index(file) % SESSIONS}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    here = Path(__file__).parent
    named = [Path(config.invocation_params.dir, name.partition("::")[0]).resolve() for name in config.args]
    is_ours = config.getoption("dist") == "loadscope" and all(name.is_relative_to(here) for name in named)
    return Sharing(config, log) if is_ours else None


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with two workers, begun as a job begins its own."""
    os.environ["PYTHONPATH"] = str(ROOT)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    folder = tmp_path_factory.mktemp("spark")
    conf = {
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **INTERPRETED,
    }
    with session(LOCAL, conf) as found:
        yield found


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """For commands that need none of their own: what they have in their environment."""
    os.environ["PYTHONPATH"] = str(ROOT)
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
