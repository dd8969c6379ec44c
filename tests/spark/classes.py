"""What Java loads when a job starts, kept in a file: `python -m tests.spark.classes` makes it, and jobs of tests that
find it start in half the time.

Knows: the options that make Java write and read such a file.  Does not know the tests.

A test starts Java, and most of what that does for it is to load ten thousand classes of Spark. They are the same
classes in the same order, whichever way they are loaded.

Invariant: without the file, or with another Java than it was made by, jobs run as they do at a user's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from distkv.model.event import NodeName
from distkv.model.ranges import Ranges
from distkv.spark.table.store import open_table
from tests.process.servers import CHECKOUT, ROOT
from tests.unit.spark.event_files import NETWORK, write_events

ARCHIVE: Final = ROOT / "build" / "spark.jsa"
_QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"
"""Java compiles less well, and sooner: a job of a test is over before the better code would pay. Without a word of its
own, such as that the file is of another Java."""


def java_environment() -> dict[str, str]:
    """What jobs have in their environment; nothing when there is no file."""
    if not ARCHIVE.exists():
        return {}
    return {
        "SPARK_SUBMIT_OPTS": f"{_QUICK} -XX:SharedArchiveFile={ARCHIVE}",
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 ",
    }


def make() -> None:
    """Run a job that does what most do, and keep what Java loaded for it.

    Raises:
        CalledProcessError: the job failed.
    """
    ARCHIVE.parent.mkdir(exist_ok=True)
    ARCHIVE.unlink(missing_ok=True)
    if shutil.which("java") is None:
        return  # the tests that need it are skipped, and say so
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "table"
        with open_table(place, network=NETWORK, create=True) as table:
            file = write_events(table, 0, [("a", tick) for tick in range(1, 10)])
            table.commit([file], ticks={NodeName("a"): Ranges([(1, 10)])}, gaps={})
        subprocess.run(
            [*CHECKOUT, "pipeline", "--master", "local[2]", "asof", str(place), "--latest", "--path", "hall"],
            env={**os.environ, "SPARK_SUBMIT_OPTS": f"{_QUICK} -XX:ArchiveClassesAtExit={ARCHIVE}"},
            cwd=ROOT,
            check=True,
            capture_output=True,  # read until Java has ended, too: it writes the file last of all
        )


if __name__ == "__main__":
    sys.exit(make())
