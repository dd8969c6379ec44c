"""One watch, without an event loop: in which order its parts are sent, and how what is there is handed over to what
changes.

Knows: what a watcher has been told, and what it has to be told next.  Does not know how frames leave, nor how one
waits: it says what it needs (`Effect`), and whoever drives it goes on when that is done.

Invariant: at every `uptodate` the watcher has been told of the state of its part of the tree at one moment, and from
there on of each change, once and in order, and of how many the node itself missed; when it cannot be, it gets `resync`
and the state anew (docs/client-protocol, 'watch'). Nothing is sent that is not durable.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from typing import Final, Protocol, TypeAlias, TypeVar

import attrs

from distkv.core.replica import Replica
from distkv.engine.feeds import ChangeBatch, Feeds, Push, SharedItem, SharedMissed
from distkv.engine.missed import MISSED_KEY
from distkv.model.index import Place, place_of
from distkv.model.path import Path
from distkv.model.tick_ranges import count_by_node
from distkv.storage.archive_rows import HistoryRow
from distkv.wire.hidden import is_hidden
from distkv.wire.message import EventRecord, KnownRecord
from distkv.wire.records import decode_record
from distkv.wire.replies import addressed
from distkv.wire.states import read_path_key
from distkv.wire.subtrees import Watch
from distkv.wire.watch import (
    Mark,
    Token,
    decode_token,
    encode_conflict,
    encode_item,
    encode_lost,
    encode_mark,
    encode_missed,
)

PART_ENTRIES: Final = 500
PART_BYTES: Final = 256 << 10
"""A part of what is there ends when it has so much."""


class WatchedNode(Protocol):
    """What a watch has to know of its node."""

    @property
    def replica(self) -> Replica:
        """As it is now, durable or not."""

    @property
    def position(self) -> int:
        """How many records there are."""

    @property
    def durable(self) -> int:
        """How many of them are durable."""

    @property
    def counters(self) -> Counter[str]:
        """What people are told happened how often."""

    def lsn_behind(self, position: int) -> int:
        """Where in the log the first record behind the first `position` stands."""


@attrs.frozen(slots=True)
class Durable:
    """Go on when the first `position` records are durable."""

    position: int


@attrs.frozen(slots=True)
class Send:
    """Go on when these frames have left."""

    data: bytes


@attrs.frozen(slots=True)
class Rows:
    """Go on with what changed since a place in the log, or None when that is not known any more."""

    lsn: int
    limit: int


@attrs.frozen(slots=True)
class Wait:
    """Go on when the watcher has news that could not be pushed to it."""


Effect: TypeAlias = Durable | Send | Rows | Wait
Answer: TypeAlias = list[HistoryRow] | None
"""To `Rows`; None to the others."""
_T = TypeVar("_T")
Steps: TypeAlias = Generator[Effect, Answer, _T]
SendNowait: TypeAlias = Callable[[bytes], bool]
"""Sends whole frames without waiting: they are on their way, or (False: something else is) nothing was done."""


class Telling:
    """One watch."""

    def __init__(self, node: WatchedNode, feeds: Feeds, request: Watch, send_nowait: SendNowait) -> None:
        self._node: Final = node
        self._request: Final = request
        self._send_nowait: Final = send_nowait
        self._begin: Final = node.position
        self._steps: Final = self._all_steps()
        push: Push = self._push
        self.watcher: Final = feeds.add(request.path, request.min_depth, request.max_depth, self._begin, push)

    def go_on(self, answer: Answer = None) -> Effect | None:
        """What to do next, now that the last effect is done; None: it is over."""
        try:
            return self._steps.send(answer)
        except StopIteration:
            return None

    # -- in which order

    def _all_steps(self) -> Steps[None]:
        """Tell everything, until stopped."""
        watcher = self.watcher
        yield from self._start()
        while not watcher.is_stopped:
            if watcher.is_lost:
                yield from self._resync()
            elif not (yield from self._tell(None)):
                yield Wait()
        yield Send(encode_mark(self._request.seq, Mark.END))

    def _start(self) -> Steps[None]:
        request, seq = self._request, self._request.seq
        yield Durable(self._begin)  # until then, its token could name records that a crash takes back
        if request.since is not None:
            yield Send(encode_mark(seq, Mark.START))
            if not (yield from self._go_on(decode_token(request.since))):
                self.watcher.lose()
        elif request.fetch:
            yield Send(encode_mark(seq, Mark.START))
            yield from self._show_state(tombstones=False)
        else:
            yield Send(encode_mark(seq, Mark.START, self._token(self._begin)))

    def _go_on(self, token: Token | None) -> Steps[bool]:
        """Tell what changed since a token was given; False when that is not known any more."""
        now = self._token(self._begin)
        if token is None or (token.node, token.life) != (now.node, now.life) or token.lsn > now.lsn:
            return False
        lsn, is_all = token.lsn, False
        while not is_all and not self._is_over():
            found = yield Rows(lsn, PART_ENTRIES)
            if found is None:
                return False
            rows = [row for row in found if row.lsn < now.lsn]  # the others wait in the queue
            for at in range(0, len(rows), PART_ENTRIES):
                yield from self._send_rows(rows[at : at + PART_ENTRIES])
            is_all = len(rows) < len(found) or len(found) < PART_ENTRIES
            lsn = rows[-1].lsn + 1 if rows else now.lsn
        yield from self._finish(None)
        return True

    def _send_rows(self, rows: Sequence[HistoryRow]) -> Steps[None]:
        frames = []
        for row in rows:
            is_wanted = self._request.missed if row.path == MISSED_KEY else self._takes(read_path_key(row.path))
            if not is_wanted:
                continue
            record, token = decode_record(row.record), attrs.evolve(self._token(0), lsn=row.lsn + 1)
            if isinstance(record, EventRecord):
                frames.append(encode_item(record.event, token))
            elif isinstance(record, KnownRecord):
                frames.append(encode_missed(count_by_node(record.ranges), token))
        if frames and not self._is_over():
            yield Send(b"".join([addressed(frame, self._request.seq) for frame in frames]))

    def _resync(self) -> Steps[None]:
        self._node.counters["watch_resync"] += 1
        position = self._node.position
        yield Durable(position)
        yield Send(encode_mark(self._request.seq, Mark.RESYNC, self._token(position)))
        self.watcher.begin_again()
        yield from self._show_state(tombstones=True)

    def _show_state(self, *, tombstones: bool) -> Steps[None]:
        """What is there, part by part, and between the parts what changed in those that were shown already."""
        shown, after = _ShownUpTo(), None
        while not self._is_over():
            position = self._node.position
            part, after = self._part(after, tombstones=tombstones)
            shown.add(after, position)
            yield Durable(position)
            if part:
                yield Send(part)
            if after is None:
                break
            yield from self._catch_up(shown)
        yield from self._finish(shown)

    def _finish(self, shown: _ShownUpTo | None) -> Steps[None]:
        yield from self._show_conflicts()
        yield from self._show_lost()
        told = yield from self._catch_up(shown)
        if not self._is_over():
            yield Send(encode_mark(self._request.seq, Mark.UP_TO_DATE, self._token(told)))

    def _show_conflicts(self) -> Steps[None]:
        """The conflicts that are open: all of them at once, and none that was told before holds any more."""
        position, seq = self._node.position, self._request.seq
        found = b"".join(
            addressed(encode_conflict(entry.head.path, entry.conflicts()), seq)
            for entry in self._node.replica.tree.conflicted_below(self._request.path)
            if entry.conflicts() and self._takes(entry.head.path)
        )
        yield Durable(position)
        if found:
            yield Send(found)

    def _show_lost(self) -> Steps[None]:
        """What is lost: what was shown is not all. None for a client that may not know what it is told."""
        losses, request = self._node.replica.store.losses, self._request
        if losses.are_any and request.missed:
            lost: list[Path | None] = [*losses.below(request.path, request.min_depth, request.max_depth)]
            frames = [encode_lost(path) for path in lost + [None] * losses.is_one_anywhere]
            if frames:
                yield Send(b"".join([addressed(frame, request.seq) for frame in frames]))

    # -- what is sent

    def _part(self, after: Path | None, *, tombstones: bool) -> tuple[bytes, Path | None]:
        """The next entries, and where to go on; None at the end."""
        request, frames, size = self._request, list[bytes](), 0
        tree, may_hide = self._node.replica.tree, request.path.is_reserved
        found = tree.walk(request.path, after, request.min_depth, request.max_depth, tombstones=tombstones)
        for step, entry in enumerate(found, 1):
            if (entry.is_live or tombstones) and not (may_hide and is_hidden(entry.head.path)):
                frames.append(addressed(encode_item(entry.head, None), request.seq))
                size += len(frames[-1])
            if step >= PART_ENTRIES or size >= PART_BYTES:
                return b"".join(frames), entry.head.path
        return b"".join(frames), None

    def _catch_up(self, shown: _ShownUpTo | None) -> Steps[int]:
        """Tell what is durable now and was not told yet; returns the position behind which nothing was told."""
        told = goal = self._node.durable
        while taken := (yield from self._tell(shown)):
            told = max(told, taken[-1].at)
            if taken[-1].position > goal:
                break
        return told

    def _tell(self, shown: _ShownUpTo | None) -> Steps[list[SharedItem]]:
        """Some of what waits, but for changes that were shown or will be; returns what was taken."""
        if self._is_over():
            return []
        taken = self.watcher.take().items
        found = self._encode([seen for seen in taken if shown is None or not shown.covers(seen)])
        if found:
            yield Send(found)
        return taken

    def _push(self, batch: ChangeBatch) -> bool:
        """For the hub, while nothing else is to be told. All watches of the same seq are sent the same bytes."""
        form = self._request.seq, self._request.missed
        found = batch.sent_as.get(form)
        if found is None:
            found = batch.sent_as[form] = self._encode(batch.items)
        return not found or self._send_nowait(found)

    def _encode(self, items: list[SharedItem]) -> bytes:
        seq = self._request.seq
        return b"".join([addressed(frame, seq) for seen in items for frame in self._frames(seen)])

    def _frames(self, seen: SharedItem) -> tuple[bytes, ...]:
        """Made once for all watchers."""
        if isinstance(seen, SharedMissed):
            return self._missed_frames(seen)
        if seen.frames:
            return seen.frames
        if seen.event.path.may_be_reserved and is_hidden(seen.event.path):
            return ()
        event = seen.event
        frames = [encode_item(event, self._token(seen.at))] if seen.won else []
        if seen.conflicts is not None:
            frames.append(encode_conflict(event.path, seen.conflicts))
        seen.frames = tuple(frames)
        return seen.frames

    def _missed_frames(self, seen: SharedMissed) -> tuple[bytes, ...]:
        """None for a client that did not ask for it: it may not know what it is told."""
        if not self._request.missed:
            return ()
        if not seen.frame:
            seen.frame = encode_missed(seen.counts, self._token(seen.at))
        return (seen.frame,)

    def _token(self, position: int) -> Token:
        replica = self._node.replica
        return Token(replica.name, replica.life or 0, self._node.lsn_behind(position))

    def _takes(self, path: Path) -> bool:
        top = self._request.path
        is_below = path.key[: len(top)] == top.key
        is_below = is_below and (not path.is_reserved or (top.is_reserved and not is_hidden(path)))
        return is_below and self.watcher.takes(path)

    def _is_over(self) -> bool:
        return self.watcher.is_lost or self.watcher.is_stopped


@attrs.define
class _ShownUpTo:
    """How far the state was shown, and of which moment each part is."""

    _lasts: list[Place] = attrs.field(factory=list)
    """The last path of each part but the final one."""
    _positions: list[int] = attrs.field(factory=list)

    def add(self, last: Path | None, position: int) -> None:
        """A part that ends with this path, or (None) with all there is."""
        if last is not None:
            self._lasts.append(place_of(last.key))
        self._positions.append(position)

    def covers(self, seen: SharedItem) -> bool:
        """Whether the state shows the change, or will when it comes to its path. What was missed it stands for."""
        if isinstance(seen, SharedMissed):
            return True
        part = bisect_left(self._lasts, place_of(seen.event.path.key))
        return part == len(self._positions) or seen.position <= self._positions[part]
