"""A home of Spark in which it starts sooner: `python -m tests.spark.home` makes it, and tests that find it use it.

Knows: what Spark takes from its home, and how Java keeps what it loads.  Does not know the tests.

A test starts Java, and most of what that does for it is to load ten thousand classes of Spark. They are the same
classes in the same order, whichever way they are loaded; here they come from a file that Java itself has written. And
Python workers take PySpark from a zip in Spark's home, which is compiled anew by each. Here there is none, so they take
what pip installed, which is the same.

To make it takes one or two minutes of a small machine, most of which Java needs to write the file. It is set-up, as
`.venv` is: made once, and again when Java, PySpark, or the rehearsal are others.

Invariant: without it, or with another Java than it was made by, jobs run as they do at a user's.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import pyspark

from tests.process.servers import ROOT

SPARK: Final = Path(pyspark.__file__).parent
"""What pip installed."""
HOME: Final = ROOT / "build" / "spark"
CLASSES: Final = HOME / "classes.jsa"
KEY: Final = HOME / "made-of"
"""What it was made of; written last, so that there is none when it was not finished."""
REHEARSAL: Final = Path(__file__).with_name("rehearsal.py")
_QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"
"""Java compiles less well, and sooner: a job of a test is over before the better code would pay. Without a word of its
own, such as that the file is of another Java."""
_KEPT: Final = f"-XX:SharedArchiveFile={CLASSES}"


def environment() -> dict[str, str]:
    """What jobs have in their environment; nothing when there is no such home."""
    return _environment(_KEPT) if CLASSES.exists() else {}


def cluster_environment() -> dict[str, str]:
    """What a cluster has besides: every Java takes it, also those that workers start. Each says so first of all, where
    it says things."""
    return {"SPARK_HOME": str(HOME), "JDK_JAVA_OPTIONS": f"{_QUICK} {_KEPT}"} if CLASSES.exists() else {}


def make() -> None:
    """Make it, unless it is there: run in it what most jobs do, to keep what Java loads for that.

    Raises:
        CalledProcessError: a job failed.
    """
    if shutil.which("java") is None:
        shutil.rmtree(HOME, ignore_errors=True)
        return  # the tests that need it are skipped, and say so
    key = _key()
    if KEY.exists() and KEY.read_text() == key:
        return
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir(parents=True)
    for name in ("bin", "jars"):
        (HOME / name).symlink_to(SPARK / name)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "tests.spark.rehearsal", folder],
            env=os.environ | _environment(f"-XX:ArchiveClassesAtExit={CLASSES}"),
            cwd=ROOT,
            check=True,
            capture_output=True,  # read until Java has ended, too: it writes the file last of all
        )
    KEY.write_text(key)


# -- inside -------------------------------------------------------------------------------------------------------


def _key() -> str:
    """Java takes the file only when it is the same Java, and when all jars have the same places, sizes and times."""
    java = subprocess.run(["java", "-version"], check=True, capture_output=True, text=True).stderr
    jars = [(jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in sorted((SPARK / "jars").iterdir())]
    told = [java, HOME, SPARK, jars, _QUICK, REHEARSAL.read_text()]
    return hashlib.sha256(repr(told).encode()).hexdigest()


def _environment(more: str) -> dict[str, str]:
    return {
        "SPARK_HOME": str(HOME),
        "SPARK_SUBMIT_OPTS": f"{_QUICK} {more}",
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 ",
    }


if __name__ == "__main__":
    sys.exit(make())
