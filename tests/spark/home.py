"""A home of Spark in which it starts sooner: `python -m tests.spark.home` makes it, and tests that find it use it.

Knows: what Spark takes from its home, and how Java keeps what it loads.  Does not know the tests.

A test starts Java, and most of what that does for it is to load ten thousand classes of Spark. They are the same
classes in the same order, whichever way they are loaded; here they come from a file that Java itself has written. And
Python workers take PySpark from a zip in Spark's home, which is compiled anew by each. Here there is none, so they take
what pip installed, which is the same.

Invariant: without it, or with another Java than it was made by, jobs run as they do at a user's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import pyspark

from tests.process.servers import ROOT

HOME: Final = ROOT / "build" / "spark"
CLASSES: Final = HOME / "classes.jsa"
_QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"
"""Java compiles less well, and sooner: a job of a test is over before the better code would pay. Without a word of its
own, such as that the file is of another Java."""


def environment() -> dict[str, str]:
    """What jobs have in their environment; nothing when there is no such home."""
    return _environment(f"-XX:SharedArchiveFile={CLASSES}") if CLASSES.exists() else {}


def make() -> None:
    """Make it, and run in it what most jobs do, to keep what Java loads for that.

    Raises:
        CalledProcessError: a job failed.
    """
    shutil.rmtree(HOME, ignore_errors=True)
    if shutil.which("java") is None:
        return  # the tests that need it are skipped, and say so
    HOME.mkdir(parents=True)
    for name in ("bin", "jars"):
        (HOME / name).symlink_to(Path(pyspark.__file__).parent / name)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "tests.spark.rehearsal", folder],
            env=os.environ | _environment(f"-XX:ArchiveClassesAtExit={CLASSES}"),
            cwd=ROOT,
            check=True,
            capture_output=True,  # read until Java has ended, too: it writes the file last of all
        )


# -- inside -------------------------------------------------------------------------------------------------------


def _environment(more: str) -> dict[str, str]:
    return {
        "SPARK_HOME": str(HOME),
        "SPARK_SUBMIT_OPTS": f"{_QUICK} {more}",
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 ",
    }


if __name__ == "__main__":
    sys.exit(make())
