"""Forgets the past that nobody wants to be asked about any more.

Knows: how much is kept, and how often that is looked after.  Does not know SQLite.

Invariant: only history goes, never the state; one step removes a bounded number of rows, so that settling never waits
long.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Final

import trio

from distkv.config import HistoryConfig
from distkv.engine.scarce import on_a_thread
from distkv.engine.settler import RunBlocking
from distkv.errors import BusyError, NoSpaceError
from distkv.storage.archive import PRUNE_ROWS, Archive

log = logging.getLogger("distkv.engine")

PAUSE_S: Final = 60.0
STEP_PAUSE_S: Final = 0.02
"""Between two steps, so that a settlement which waits for the first gets its turn."""


async def forget_history(
    archive: Archive,
    kept: HistoryConfig,
    *,
    run_blocking: RunBlocking = on_a_thread,
    wall: Callable[[], float] = time.time,
) -> None:
    """Remove what need not be kept, now and every minute, until cancelled. Returns at once when all is kept.

    Raises:
        StorageError: the archive failed or is damaged; the node must end.
    """
    if kept.retention_s is None and kept.keep is None:
        return
    while True:
        before = None if kept.retention_s is None else wall() - kept.retention_s
        prune, removed = partial(archive.prune_history, before=before, keep=kept.keep), PRUNE_ROWS
        try:
            while removed == PRUNE_ROWS:
                removed = await run_blocking(prune)
                await trio.sleep(STEP_PAUSE_S)
        except (NoSpaceError, BusyError) as error:
            log.error("history_not_forgotten reason=%s", error)
        await trio.sleep(PAUSE_S)
