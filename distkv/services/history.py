"""The past of one path: its changes, and what it held at a time.

Knows: what the answers hold and how a long one is cut into pages.  Does not know where the past is kept.

Invariant: time is this node's: what it knew then, by its own clock, not what was true elsewhere.  A page is what there
is when it leaves, and the next one goes on before its last position.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from math import inf
from typing import Final

from distkv.engine.driver import Driver
from distkv.engine.settler import Settler
from distkv.errors import DamagedError, DecodeError, LogDamagedError, RequestError
from distkv.model.event import Event, Kind
from distkv.services.kv import shown
from distkv.storage.archive_rows import HistoryRow
from distkv.wire.fields import LINKS_MAX
from distkv.wire.message import EventRecord
from distkv.wire.records import decode_record
from distkv.wire.replies import encode_end, encode_error, encode_reply, encode_result, encode_start
from distkv.wire.value_requests import GetHistory, GetValueAt

PAGE_ROWS: Final = 200


async def get_value_at(driver: Driver, request: GetValueAt) -> bytes:
    """What a path held on this node at a time; the reply may leave when `driver.position` is durable.

    Raises:
        DamagedError: what it held then is not known here.
        RequestError: the node does not serve clients yet, or keeps no history.
    """
    settler = settler_of(driver)
    row = await settler.latest_at(request.path, request.at)
    if row is None:
        await _check_known(driver, settler, request)
        return encode_reply(request.seq, {})
    event = read_event(row)
    if event.kind is not Kind.SET:
        return encode_reply(request.seq, {})
    return encode_reply(request.seq, shown(event, request.nchain), event.value)


async def send_history(
    driver: Driver, request: GetHistory, send: Callable[[int, bytes], Awaitable[None]]
) -> None:
    """The changes of a path that reached this node, newest first. When the disk damaged some that would stand among
    them, an error follows behind all that is here.

    Raises:
        RequestError: the node does not serve clients yet, or keeps no history.
    """
    settler = settler_of(driver)
    before, left, low = request.before, request.limit, 0
    frames = [encode_start(request.seq)]
    while left != 0:
        size = PAGE_ROWS if left is None else min(left, PAGE_ROWS)
        rows = await settler.history(request.path, size, before)
        frames += [_item(request.seq, row) for row in rows]
        if len(rows) < size:
            low = 0
            break
        before = low = rows[-1].lsn
        left = None if left is None else left - size
        await send(request.seq, b"".join(frames))
        frames = []
    lost = settler.lost_past(request.path, low, inf if request.before is None else request.before)
    end = encode_end(request.seq) if lost is None else encode_error(request.seq, lost)
    await send(request.seq, b"".join([*frames, end]))


def settler_of(driver: Driver) -> Settler:
    """
    Raises:
        RequestError: the node keeps no history.
    """
    if driver.settler is None:
        raise RequestError(f"{driver.replica.name} keeps no history")
    return driver.settler


async def _check_known(driver: Driver, settler: Settler, request: GetValueAt) -> None:
    """History has nothing of a path that had come at a time.

    Raises:
        DamagedError: that does not say that the path had no value then.
    """
    since = await settler.known_since()
    if since is None or request.at < since:
        before = "of the past" if since is None else f"before {datetime.fromtimestamp(since, UTC).isoformat()}"
        raise DamagedError(f"{driver.replica.name} knows nothing {before}: ask another node")
    if settler.has_forgotten:
        raise DamagedError(
            f"what {request.path} held then is not known any more, history.retention or history.keep let it go:"
            " ask another node"
        )


def _item(seq: int, row: HistoryRow) -> bytes:
    event = read_event(row)
    fields = {
        "seq": seq,
        "path": event.path.names,
        "node": event.node,
        "tick": event.tick,
        **shown(event, LINKS_MAX),
        "arrived": row.arrived,
        "position": row.lsn,
        "won": row.won,
    }
    if event.kind is Kind.EXPIRE:
        fields["expired"] = True
    return encode_result(fields, {"value": event.value} if event.kind is Kind.SET else {})


def read_event(row: HistoryRow) -> Event:
    """The change in a row of the history."""
    try:
        record = decode_record(row.record)
    except DecodeError as error:
        raise LogDamagedError(f"row {row.lsn} of the history cannot be read: {error}") from error
    if not isinstance(record, EventRecord):
        raise LogDamagedError(f"row {row.lsn} of the history is no event")
    return record.event
