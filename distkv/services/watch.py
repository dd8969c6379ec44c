"""Watches: being told of every change at and below a path, or that one has to begin anew.

Knows: in which order the parts of a watch are sent, and how what is there is handed over to what changes.  Does not
know sessions, nor how changes find their watchers (`engine.hub`).

Invariant: at every `uptodate` the watcher has been told of the state of its part of the tree at one moment, and from
there on of each change, once and in order; when it cannot be, it gets `resync` and the state anew (product.md,
promise 4). Nothing is sent that is not durable.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

import attrs

from distkv.engine.driver import Driver
from distkv.engine.hub import Batch, Seen
from distkv.errors import BusyError, RequestError
from distkv.model.index import Place, place_of
from distkv.model.path import Path
from distkv.services.kv import check_serving
from distkv.storage.archive import HistoryRow
from distkv.wire.message import EventRecord
from distkv.wire.records import decode_record
from distkv.wire.replies import encode_error
from distkv.wire.request import Watch
from distkv.wire.states import read_path_key
from distkv.wire.watch import Mark, Token, addressed, decode_token, encode_conflict, encode_item, encode_mark

PART_ENTRIES: Final = 500
PART_BYTES: Final = 256 << 10
"""A part of what is there ends when it has so much."""

Send: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Sends whole frames, between others of the connection; returns when they have left."""
SendNowait: TypeAlias = Callable[[bytes], bool]
"""The same without waiting: they are on their way, or (False: something else is) nothing was done."""


class Watches:
    """Those of one connection."""

    def __init__(self, driver: Driver, send: Send, send_nowait: SendNowait) -> None:
        self._driver = driver
        self._send = send
        self._send_nowait = send_nowait
        self._open: dict[int, Watching] = {}

    def begin(self, request: Watch) -> Watching:
        """Watch from this moment on; what is returned is to be `run`.

        Raises:
            NotReadyError: the node does not serve clients yet.
            BusyError: this connection has too many already.
        """
        check_serving(self._driver)
        if len(self._open) >= self._driver.limits.watches:
            raise BusyError(f"this connection has {len(self._open)} watches already: stop one, or open another one")
        found = self._open[request.seq] = Watching(self._driver, request, self._send, self._send_nowait, self._forget)
        return found

    def stop(self, seq: int) -> bool:
        """End the watch that this request began; whether there was one."""
        found = self._open.get(seq)
        if found is not None:
            found.stop()
        return found is not None

    def _forget(self, seq: int) -> None:
        del self._open[seq]


class Watching:
    """One watch."""

    def __init__(
        self, driver: Driver, request: Watch, send: Send, send_nowait: SendNowait, ended: Callable[[int], None]
    ) -> None:
        self._driver: Final = driver
        self._request: Final = request
        self._send: Final = send
        self._send_nowait: Final = send_nowait
        self._ended: Final = ended
        self._begin: Final = driver.position
        self._watcher: Final = driver.hub.add(
            request.path, request.min_depth, request.max_depth, self._begin, self._push
        )

    def stop(self) -> None:
        """Let it come to its end, as soon as what is being sent has left."""
        self._watcher.stop()

    async def run(self) -> None:
        """Tell everything, until stopped or cancelled."""
        watcher, seq = self._watcher, self._request.seq
        try:
            await self._start()
            while not watcher.is_stopped:
                if watcher.is_lost:
                    await self._resync()
                elif not await self._tell(None):
                    await watcher.wait()
            await self._send(encode_mark(seq, Mark.END))
        except RequestError as error:  # the archive is busy, say: the watcher may ask again
            self._driver.counters[f"refused_{error.code}"] += 1
            await self._send(encode_error(seq, error))
        finally:
            self._driver.hub.remove(self._request.path, watcher)
            self._ended(seq)

    # -- in which order

    async def _start(self) -> None:
        request, seq = self._request, self._request.seq
        await self._durable(self._begin)  # until then, its token could name records that a crash takes back
        if request.since is not None:
            await self._send(encode_mark(seq, Mark.START))
            if not await self._go_on(decode_token(request.since)):
                self._watcher.lose()
        elif request.fetch:
            await self._send(encode_mark(seq, Mark.START))
            await self._show_state(tombstones=False)
        else:
            await self._send(encode_mark(seq, Mark.START, self._token(self._begin)))

    async def _go_on(self, token: Token | None) -> bool:
        """Tell what changed since a token was given; False when that is not known any more."""
        settler, begin = self._driver.settler, self._driver.lsn_behind(self._begin)
        if token is None or settler is None or not self._is_own(token) or token.lsn > begin:
            return False
        lsn = token.lsn
        while lsn < begin and not self._is_over():
            found = await settler.won_since(lsn, PART_ENTRIES)
            if found is None:
                return False
            rows = [row for row in found if row.lsn < begin]  # the others wait in the queue
            for at in range(0, len(rows), PART_ENTRIES):
                await self._send_rows(rows[at : at + PART_ENTRIES])
            lsn = rows[-1].lsn + 1 if len(rows) == len(found) >= PART_ENTRIES else begin
        await self._finish(None)
        return True

    def _is_own(self, token: Token) -> bool:
        return (token.node, token.life) == (self._driver.replica.name, self._driver.replica.life or 0)

    async def _send_rows(self, rows: Sequence[HistoryRow]) -> None:
        frames = []
        for row in rows:
            path = read_path_key(row.path)
            record = decode_record(row.record) if self._takes(path) else None
            if isinstance(record, EventRecord):
                token = attrs.evolve(self._token(0), lsn=row.lsn + 1)
                frames.append(addressed(encode_item(record.event, token), self._request.seq))
        if frames and not self._is_over():
            await self._send(b"".join(frames))

    async def _resync(self) -> None:
        self._driver.counters["watch_resync"] += 1
        position = self._driver.position
        await self._durable(position)
        await self._send(encode_mark(self._request.seq, Mark.RESYNC, self._token(position)))
        self._watcher.begin_again()
        await self._show_state(tombstones=True)

    async def _show_state(self, *, tombstones: bool) -> None:
        """What is there, part by part, and between the parts what changed in those that were shown already."""
        shown, after = _Shown(), None
        while not self._is_over():
            position = self._driver.position
            part, after = self._part(after, tombstones=tombstones)
            shown.add(after, position)
            await self._durable(position)
            if part:
                await self._send(part)
            if after is None:
                break
            await self._catch_up(shown)
        await self._finish(shown)

    async def _finish(self, shown: _Shown | None) -> None:
        await self._show_conflicts()
        told = await self._catch_up(shown)
        if not self._is_over():
            await self._send(encode_mark(self._request.seq, Mark.UP_TO_DATE, self._token(told)))

    async def _show_conflicts(self) -> None:
        """The conflicts that are open: all of them at once, and none that was told before holds any more."""
        position, seq = self._driver.position, self._request.seq
        found = b"".join(
            addressed(encode_conflict(entry.head.path, entry.conflicts()), seq)
            for entry in self._driver.replica.tree.contested_below(self._request.path)
            if entry.conflicts() and self._takes(entry.head.path)
        )
        await self._durable(position)
        if found:
            await self._send(found)

    # -- what is sent

    def _part(self, after: Path | None, *, tombstones: bool) -> tuple[bytes, Path | None]:
        """The next entries, and where to go on; None at the end."""
        request, frames, size = self._request, list[bytes](), 0
        tree = self._driver.replica.tree
        found = tree.walk(request.path, after, request.min_depth, request.max_depth, tombstones=tombstones)
        for step, entry in enumerate(found, 1):
            if entry.is_live or tombstones:
                frames.append(addressed(encode_item(entry.head, None), request.seq))
                size += len(frames[-1])
            if step >= PART_ENTRIES or size >= PART_BYTES:
                return b"".join(frames), entry.head.path
        return b"".join(frames), None

    async def _catch_up(self, shown: _Shown | None) -> int:
        """Tell what is durable now and was not told yet; returns the position behind which nothing was told."""
        told = goal = self._driver.committer.durable
        while taken := await self._tell(shown):
            told = max(told, taken[-1].at)
            if taken[-1].position > goal:
                break
        return told

    async def _tell(self, shown: _Shown | None) -> list[Seen]:
        """Some of the changes that wait, but for those that were shown or will be; returns what was taken."""
        if self._is_over():
            return []
        taken = self._watcher.take().changes
        found = self._encode([seen for seen in taken if shown is None or not shown.covers(seen)])
        if found:
            await self._send(found)
        return taken

    def _push(self, batch: Batch) -> bool:
        """For the hub, while nothing else is to be told. All watches of the same seq are sent the same bytes."""
        seq = self._request.seq
        found = batch.sent_as.get(seq)
        if found is None:
            found = batch.sent_as[seq] = self._encode(batch.changes)
        return self._send_nowait(found)

    def _encode(self, changes: list[Seen]) -> bytes:
        seq = self._request.seq
        return b"".join([addressed(frame, seq) for seen in changes for frame in seen.frames or self._frames(seen)])

    def _frames(self, seen: Seen) -> tuple[bytes, ...]:
        """Made once for all watchers."""
        event = seen.event
        frames = [encode_item(event, self._token(seen.at))] if seen.won else []
        if seen.conflicts is not None:
            frames.append(encode_conflict(event.path, seen.conflicts))
        seen.frames = tuple(frames)
        return seen.frames

    def _token(self, position: int) -> Token:
        """From behind the first `position` records on."""
        replica = self._driver.replica
        return Token(replica.name, replica.life or 0, self._driver.lsn_behind(position))

    async def _durable(self, position: int) -> None:
        await self._driver.committer.wait_durable(position)

    def _takes(self, path: Path) -> bool:
        top = self._request.path
        is_below = path.key[: len(top)] == top.key and (not path.is_reserved or top.is_reserved)
        return is_below and self._watcher.takes(path)

    def _is_over(self) -> bool:
        return self._watcher.is_lost or self._watcher.is_stopped


@attrs.define
class _Shown:
    """How far the state was shown, and of which moment each part is."""

    _lasts: list[Place] = attrs.field(factory=list)
    """The last path of each part but the final one."""
    _positions: list[int] = attrs.field(factory=list)

    def add(self, last: Path | None, position: int) -> None:
        """A part that ends with this path, or (None) with all there is."""
        if last is not None:
            self._lasts.append(place_of(last.key))
        self._positions.append(position)

    def covers(self, seen: Seen) -> bool:
        """Whether the state shows the change, or will when it comes to its path."""
        part = bisect_left(self._lasts, place_of(seen.event.path.key))
        return part == len(self._positions) or seen.position <= self._positions[part]
