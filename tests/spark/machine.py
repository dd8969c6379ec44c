"""A Java machine that stays while commands come and go.

Knows: how PySpark is told of a machine that runs already (its own way, meant for `spark-submit`).  Does not know the
commands: each starts and ends Spark in it as in one of its own, one after the other.

Invariant: it has ended when `open_machine` is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.java_gateway import launch_gateway


@contextmanager
def open_machine(folder: Path) -> Iterator[dict[str, str]]:
    """What commands have in their environment. `folder`: where it writes what it says, and where its workers stand."""
    with (folder / "stderr").open("wb") as said:
        gateway = launch_gateway(popen_kwargs={"cwd": folder, "stderr": said})
    found = gateway.gateway_parameters
    try:
        yield {"PYSPARK_GATEWAY_PORT": str(found.port), "PYSPARK_GATEWAY_SECRET": found.auth_token}
    finally:
        gateway.shutdown()
        gateway.proc.communicate()  # it ends with its input
