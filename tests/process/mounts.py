"""Small file systems, to run full.

Knows: how one is mounted for one process and those that enter it (root may).  Does not know what is written there.

Invariant: a file system goes with the process that mounted it for itself, however that ends.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

from tests.process.fork_server import die_with_parent


@attrs.frozen
class SmallFileSystem:
    """One that only those see who enter the process that mounted it."""

    pid: int
    place: Path
    """Its name for them."""

    @property
    def entering(self) -> tuple[str, ...]:
        """What a command begins with that shall see it."""
        return ("nsenter", f"--mount=/proc/{self.pid}/ns/mnt")

    @property
    def seen_from_here(self) -> Path:
        """The same folder for everybody else."""
        return Path(f"/proc/{self.pid}/root{self.place}")


@contextmanager
def small_file_system(place: Path, size_mib: int) -> Iterator[SmallFileSystem]:
    """One of so many MiB in the folder `place`. The test is skipped where none can be mounted."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    mount = f"mount -t tmpfs -o size={size_mib}m distkv-test '{place}' && echo mounted && exec sleep infinity"
    with subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", mount],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=die_with_parent,
    ) as holder:
        try:
            assert holder.stdout is not None
            said = holder.stdout.readline().strip()
            if said != "mounted":
                pytest.skip(f"no file system can be mounted here: {said}")
            yield SmallFileSystem(holder.pid, place)
        finally:
            holder.kill()
