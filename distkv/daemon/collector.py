"""The garbage collector of Python beside a store of many entries.

Knows: when what is there need not be walked through again.  Does not know what the entries are, but how many.

Invariant: while nothing grows no walk is long.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import trio

from distkv.core.replica import Replica

WALK_S: Final = 0.005
"""The garbage collector may take so much of the processor for one walk, about 50,000 objects."""


async def spare_entries(replica: Replica) -> None:
    """Keep the garbage collector from walking through all entries, which hold no cycles.

    With 100,000 entries such a walk stopped the loop for 300 ms. What is frozen is never looked at again, a cycle that
    happens to be alive then included; but as the store must grow by a quarter each time, or by so much that a walk
    through what is new takes `WALK_S`, that is seldom.
    """
    frozen = -1000
    with short_walks():
        while True:
            count = replica.tree.live_count
            if count > 1.25 * frozen + 1000:
                gc.freeze()
                frozen = count
            await trio.sleep(1)


@contextmanager
def short_walks() -> Iterator[None]:
    """Until the end of the block, freeze what is there whenever a walk through all of it took long.

    Else the next one takes as long again; beside readers of all changes, which make many objects, there are several in
    a second.
    """
    began_s = 0.0

    def heed(phase: str, info: dict[str, int]) -> None:
        nonlocal began_s
        if info["generation"] == 2 and phase == "start":
            began_s = time.thread_time()
        elif info["generation"] == 2 and time.thread_time() - began_s > WALK_S:
            gc.freeze()

    gc.callbacks.append(heed)
    try:
        yield
    finally:
        gc.callbacks.remove(heed)
