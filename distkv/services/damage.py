"""What rotted on this node's disk: a look for it, and what is known of it.

Knows: how progress and findings are told.  Does not know how they come about.

Invariant: a client that goes away does not end a look.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from distkv.engine.driver import Driver
from distkv.engine.settler import path_of
from distkv.errors import RequestError
from distkv.storage.archive import Scrubbed
from distkv.storage.archive_rows import DamagedRow
from distkv.wire.hidden import is_hidden
from distkv.wire.node_requests import LookForDamage
from distkv.wire.replies import encode_end, encode_reply, encode_start

TELL_S: Final = 1.0
"""Between two words about the progress."""
LOST_MAX: Final = 100
"""So many of what is lost are told."""


async def send_scrub(driver: Driver, request: LookForDamage, send: Callable[[int, bytes], Awaitable[None]]) -> None:
    """Look at all that is on the disk, and tell how far that is, and last what it found. What a client drops is dropped
    before, also if the client goes away then.

    Raises:
        RequestError: the node keeps no archive, or what was found cannot be mended now.
    """
    if driver.scrub is None:
        raise RequestError(f"{driver.replica.name} has no archive to look at")
    scrub, seq = driver.scrub, request.seq
    dropped = await scrub.drop_nameless() if request.drop else 0
    progress = scrub.now(is_fast=request.fast)
    await send(seq, encode_start(seq))
    while not progress.done.is_set():
        with trio.move_on_after(TELL_S):
            await progress.done.wait()
        await send(seq, encode_reply(seq, {"rows": progress.row_count, "of": progress.of}))
    if progress.failure is not None:
        raise progress.failure
    found = {"places": [damage.place for damage in progress.damaged[:LOST_MAX]], **scrub_state(driver)}
    found |= {"dropped": dropped}
    await send(seq, encode_reply(seq, {"rows": progress.row_count, "of": progress.of, "found": found}))
    await send(seq, encode_end(seq))


def scrub_state(driver: Driver) -> dict[str, object]:
    """What `get_state` tells of it; empty where there is no archive."""
    scrub = driver.scrub
    if scrub is None:
        return {}
    lost, progress = scrub.lost, scrub.progress
    found: dict[str, object] = {
        "last": _last(scrub.last),
        "lost": [_shown(damage, found) for damage, found in list(lost.items())[:LOST_MAX]],
        "lost_count": len(lost),
    }
    if progress is not None:
        found["running"] = {"begun": progress.begun, "rows": progress.row_count, "of": progress.of}
    return found


def _last(found: Scrubbed | None) -> dict[str, object] | None:
    if found is None:
        return None
    return {"begun": found.begun, "ended": found.ended, "rows": found.row_count, "damaged": found.damaged}


def _shown(damage: DamagedRow, found: float) -> dict[str, object]:
    path = path_of(damage)
    is_shown = path is not None and not is_hidden(path)
    return {"place": damage.place, "path": str(path) if is_shown else None, "found": found}
