"""A busy machine: processes that compute and nothing else, so that tests show what they owe to a quiet one.

Knows: how to keep processors busy.  Does not know what is tested meanwhile.

Invariant: when `busy` is left, every process that it started is dead; should that never happen, each ends by itself
when its parent is gone, or after `BOUND_S`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

BOUND_S: Final = 4 * 3600
COMPUTE: Final = f"""
import os, time
parent, end = os.getppid(), time.monotonic() + {BOUND_S}
while os.getppid() == parent and time.monotonic() < end:
    sum(range(10_000_000))
"""


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many more processes want a processor while this is entered."""
    processes = [subprocess.Popen([sys.executable, "-c", COMPUTE], stdin=subprocess.DEVNULL) for _ in range(count)]
    try:
        yield
    finally:
        for one in processes:
            one.kill()
        for one in processes:
            one.wait()
