"""Whole trees: showing one, listing the names below a path, deleting one.

Knows: how a tree is cut into parts, so that neither a long answer nor a long deletion takes much memory or holds up the
others.  Does not know sessions, nor what a deletion is.

Invariant: a part is what the tree holds at one moment, and the next part goes on behind its last path; so a value that
stays as it is is shown, or deleted, exactly once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from distkv.core.client_writes import BatchDone, LocalBatch, LocalSet, WriteDone
from distkv.core.conditions import refuse_reserved
from distkv.engine.driver import Driver
from distkv.model.entry import Entry
from distkv.model.path import Name, Path
from distkv.services.core_replies import expected
from distkv.services.kv import shown
from distkv.wire.hidden import is_hidden
from distkv.wire.replies import encode_end, encode_error, encode_names, encode_reply, encode_result, encode_start
from distkv.wire.room import EVENT_BYTES, LINK_BYTES
from distkv.wire.subtrees import DeleteTree, GetTree, ListNames
from distkv.wire.value_requests import SetValue

PART_ENTRIES: Final = 500
PART_BYTES: Final = 256 << 10
"""A part ends when it has so much; its last value may take it beyond."""
PAGE_NAMES: Final = 5000
PAGE_STEPS: Final = 20_000
"""A page of names also ends when so many were looked at: a name may lead to no value any more."""


def list_names(driver: Driver, request: ListNames) -> bytes:
    """A page of the names below a path that lead to a value; it may leave when `driver.position` is durable."""
    names: list[tuple[Name, bool, int]] = []
    lost = driver.replica.store.losses.lack_below(request.path, 1)
    hides = request.path.is_reserved
    size, last, count_max = 0, None, min(PAGE_NAMES, request.limit or PAGE_NAMES)
    for step, found in enumerate(driver.replica.tree.names(request.path, request.after)):
        if len(names) >= count_max or size >= PART_BYTES or step >= PAGE_STEPS:
            return encode_names(request.seq, names, last and Path([last[0]]), lost)
        last = found
        if (found[1] or found[2]) and not (hides and is_hidden(Path([*request.path, found[0]]))):
            names.append(found)
            size += len(found[0]) if isinstance(found[0], str | bytes) else 0
    return encode_names(request.seq, names, None, lost)


async def send_tree(
    driver: Driver, request: GetTree, send: Callable[[int, Callable[[], bytes]], Awaitable[None]]
) -> None:
    """The values at and below a path, in the order of `Index.walk`. When values
    are lost that stood there, an error follows behind all that is here."""
    parts = _Parts(driver, request)
    while not parts.is_done:
        await send(request.seq, parts.take)


async def delete_tree(driver: Driver, request: DeleteTree) -> bytes:
    """Delete all values at and below a path; the reply may leave when `driver.position` is durable.

    Up to `limits.batch_ops` values go in one step, all or none also in a crash. More go in several such steps, because
    one of a million would hold up everybody for half a minute; between two of them others are served, and the log is
    waited for. It goes on when its client has gone. What is under the fence of a token stays, and is counted.

    Raises:
        RequestError: the path is reserved, the node does not serve clients yet, or the disk is full; what was deleted
            before that stays so.
    """
    refuse_reserved(request.path)
    for path in driver.replica.store.losses.below(request.path):
        _delete_lost(driver, path)
    count, fenced, after = 0, 0, None
    while True:
        found, after = _next_live(driver, request.path, after)
        entries = [entry for entry in found if not entry.head.fence.holds]
        if entries:
            _delete(driver, entries)
        count += len(entries)
        fenced += len(found) - len(entries)
        if after is None:
            return encode_reply(request.seq, {"count": count, **({"fenced": fenced} if fenced else {})})
        await driver.committer.wait_durable(driver.position)


# -- inside -------------------------------------------------------------------------------------------------------


class _Parts:
    """What is still to be sent of a tree."""

    def __init__(self, driver: Driver, request: GetTree) -> None:
        self.is_done = False
        self._driver = driver
        self._request = request
        self._left = request.limit
        self._after: Path | None = None
        self._has_begun = False

    def take(self) -> bytes:
        """The next part; the first has the start of the answer, the last one the end."""
        request = self._request
        frames = [] if self._has_begun else [encode_start(request.seq)]
        self._has_begun = True
        if self._left != 0 and self._add_items(frames):
            return b"".join(frames)
        self.is_done = True
        lost = self._driver.replica.store.losses.lack_below(request.path, request.min_depth, request.max_depth)
        frames.append(encode_end(request.seq) if lost is None else encode_error(request.seq, lost))
        return b"".join(frames)

    def _add_items(self, frames: list[bytes]) -> bool:
        """Whether there may be more."""
        request, size = self._request, 0
        found = self._driver.replica.tree.walk(request.path, self._after, request.min_depth, request.max_depth)
        hides = request.path.is_reserved
        for step, entry in enumerate(found, 1):
            self._after = entry.head.path
            if entry.is_live and not (hides and is_hidden(entry.head.path)):
                frames.append(_item(request, entry))
                size += len(frames[-1])
                if self._left is not None:
                    self._left -= 1
            if self._left == 0:
                return False
            if step >= PART_ENTRIES or size >= PART_BYTES:
                return True
        return False


def _item(request: GetTree, entry: Entry) -> bytes:
    head = entry.head
    fields = {"seq": request.seq, "path": head.path.names, **shown(head, request.nchain)}
    return encode_result(fields, {"value": head.value})


def _next_live(driver: Driver, path: Path, after: Path | None) -> tuple[list[Entry], Path | None]:
    """The next entries with a value, and where to go on; None at the end."""
    entries: list[Entry] = []
    for step, entry in enumerate(driver.replica.tree.walk(path, after), 1):
        if entry.is_live:
            entries.append(entry)
        if len(entries) >= driver.limits.batch_ops or step >= 10 * driver.limits.batch_ops:
            return entries, entry.head.path
    return entries, None


def _delete_lost(driver: Driver, path: Path) -> None:
    """Nobody is to miss what stood there any more."""
    driver.check_room(EVENT_BYTES + len(str(path).encode()))
    expected(driver.step(LocalSet(SetValue(0, path, None))), WriteDone)


def _delete(driver: Driver, entries: list[Entry]) -> None:
    heads = [entry.head for entry in entries]
    driver.check_room(
        sum(EVENT_BYTES + LINK_BYTES * (len(head.chain) + 1) + len(str(head.path).encode()) for head in heads)
    )
    expected(driver.step(LocalBatch(tuple([SetValue(0, head.path, None) for head in heads]))), BatchDone)
