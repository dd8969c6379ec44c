"""What the node does when memory or threads run out: what is scarce refuses a request, and the node goes on.

Knows: how to see whether there is memory for something large, and how to do without a thread.  Does not know who asks.

Invariant: a step of the core does not begin unless there is memory for what it may want: in its midst nothing could be
refused any more. What a thread would do is done without one, more slowly for all.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from typing import Any, Final

import trio

LARGE_BYTES: Final = 64 << 10
"""What is smaller fits into memory that the process has already, nearly always."""
TIMES: Final = 6
"""So much a request may want of its size: what was read, what is kept, what is written, and what is answered."""
SPARE_BYTES: Final = 4 << 20

log = logging.getLogger("distkv.engine")


def has_memory_for(size: int, waiting: int) -> bool:
    """Whether there is memory for a request of `size` bytes, and to write it with `waiting` others. To be asked when it
    is large, or when memory ran out a moment ago."""
    try:
        bytearray(TIMES * size + 2 * waiting + SPARE_BYTES)  # never touched: it costs a request to the system
    except MemoryError:
        return False
    return True


def give_back_memory() -> None:
    """Have what was freed in the midst of the heap go back to the system, where the C library can do that. Else it
    stays: after 120 requests of 600 KB that were sent in part, it was 145 MiB."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def is_lack_of_threads(error: RuntimeError) -> bool:
    """Whether it says that no thread can be begun; it has no type of its own."""
    return "start new thread" in str(error)


async def on_a_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Do something that waits for the disk on a thread; here, if no thread can be begun. Not to be abandoned when it is
    cancelled.

    Raises:
        Exception: what the function raises.
    """
    try:
        return await trio.to_thread.run_sync(function, *arguments)
    except RuntimeError as error:
        if not is_lack_of_threads(error):
            raise
    _few_threads.warn()
    return function(*arguments)


class _FewThreads:
    """Says it the first time, and then seldom."""

    def __init__(self) -> None:
        self._count = 0

    def warn(self) -> None:
        self._count += 1
        if self._count % 1000 == 1:
            log.warning("few_threads times=%d: no thread can be begun, so the disk is waited for: raise the limit"
                        " (ulimit -u, TasksMax=)", self._count)  # fmt: skip


_few_threads: Final = _FewThreads()
