"""A Spark session for one run of the command line.

Knows: what must be there for one, and how Spark is kept from writing between the lines of others.  Does not know jobs.

Spark's machine writes to stderr from its first moment, before anybody can tell it not to. So its stderr goes to a file,
of which the last lines are told when it does not start.

Invariant: when `session` is left, Spark has ended.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import glob
from typing import TYPE_CHECKING, Final, TextIO

from distkv.errors import SparkFailedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"
_CONF: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
_LOCAL_CONF: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""Nobody outside talks to a driver that has its workers beside it."""


@contextmanager
def session(
    master: str = LOCAL, conf: Mapping[str, str] | None = None, *, shows_logs: bool = False
) -> Iterator[SparkSession]:
    """Start Spark, and end it; its machine does not outlive an interrupt.

    Raises:
        SparkFailedError: PySpark or Java is missing, or Spark does not start with this.
    """
    before = _below(os.getpid())
    try:
        with _started(master, conf, shows_logs=shows_logs) as found:
            yield found
    except (KeyboardInterrupt, SystemExit):
        # Java ignores Ctrl-C, and one that is interrupted while it starts never sees that we are gone.
        for pid in _below(os.getpid()) - before:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        raise


@contextmanager
def _started(master: str, conf: Mapping[str, str] | None, *, shows_logs: bool) -> Iterator[SparkSession]:
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkFailedError(f"Spark is not installed: pip install 'distkv[spark]' ({error})") from None
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        raise SparkFailedError("Java is not installed, which Spark needs: apt-get install openjdk-17-jre-headless")
    # Else workers run whatever python3 is first on their PATH, which may lack this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("distkv pipeline")
    for key, value in {**_CONF, **(_LOCAL_CONF if master.startswith("local") else {}), **(conf or {})}.items():
        builder = builder.config(key, value)
    with tempfile.TemporaryFile("w+") as said:
        try:
            with _stderr_to(None if shows_logs else said):
                found = builder.getOrCreate()
        except (PySparkException, Py4JError, TypeError, OSError) as error:  # no machine, or a setting it refuses
            raise SparkFailedError(f"Spark does not start: {_reason(error, said)}") from error
        if not shows_logs:
            found.sparkContext.setLogLevel("OFF")
        try:
            yield found
        finally:
            found.stop()


def _below(pid: int) -> set[int]:
    """The processes that are there and that this one started, or one of them (Linux; elsewhere nobody knows)."""
    found: set[int] = set()
    for file in glob(f"/proc/{pid}/task/*/children"):
        with suppress(OSError), open(file, encoding="ascii") as opened:
            found.update(map(int, opened.read().split()))
    return found.union(*map(_below, found))


@contextmanager
def _stderr_to(file: TextIO | None) -> Iterator[None]:
    """What is started meanwhile has this file as its stderr, for ever."""
    if file is None:
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _reason(error: Exception, said: TextIO) -> str:
    """The line that says most: of Java the first of what it raised, else its last words."""
    java = getattr(error, "java_exception", None)
    if java is not None:
        return " ".join(str(java.toString()).split())
    said.seek(0)
    lines = [line.strip() for line in said.read().splitlines() if "rror" in line or "xception" in line]
    return lines[0] if lines else " ".join(str(error).split())
