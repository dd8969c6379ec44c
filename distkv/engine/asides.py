"""Carries out what `core.aside` decides: before a step, after one that failed, and when a person says so.

Knows: where it is kept, and how it is told.  Does not know what failed, nor how often is too often.

Invariant: what ended the node is on the disk before the node ends, unless the disk takes nothing: then it is said.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, Protocol

from distkv import __version__
from distkv.core.aside import Asides, Failed
from distkv.core.client_writes import ReplaceChange
from distkv.core.ready import FollowBegan, FollowTold, Input, LineLent, PeerAnswered, Reply, SetAside
from distkv.core.replica import Replica
from distkv.errors import DistkvError, InternalError, leaves, place_of
from distkv.model.event import Tock, read_tick_text, tick_text
from distkv.model.path import Path
from distkv.wire.hidden import is_hidden
from distkv.wire.message import EventRecord, Record

log = logging.getLogger("distkv.engine")

FILE_NAME: Final = "aside.json"
FORMAT: Final = 1
BLAMELESS: Final = (DistkvError, MemoryError)
"""What says nothing of the input: the node ends on purpose, or because of the disk, or memory ran out."""


class Keeping(Protocol):
    """Where it is kept: `storage.KeptFile`."""

    def read(self) -> bytes:
        """What was kept last; nothing at first."""

    def write(self, data: bytes) -> None:
        """Keep this instead, durably."""


class TakesSifted(Protocol):
    """`Driver.step`."""

    def __call__(self, what: Input, *, is_sifted: bool = False) -> Reply | None:
        """Take one input; `is_sifted`: nothing in it is set aside."""


class AsideKeeper:
    """What one node has set aside, and suspects."""

    def __init__(self, replica: Replica, counters: Counter[str], keeping: Keeping | None = None) -> None:
        """`keeping` None: it is forgotten with the process."""
        self.machine: Final = Asides(_read(keeping), __version__)
        self.is_watchful = bool(self.machine.entries)
        """Whether inputs must be looked at before they are taken."""
        self._has_failed = False
        self._replica = replica
        self.counters = counters
        self._keeping = keeping

    # -- the start

    def replay(self, record: Record) -> list[Path]:
        """Repeat a record of the log; returns the paths whose entries it may have changed. A change that failed here
        twice is left out."""
        replica, event = self._replica, record.event if isinstance(record, EventRecord) else None
        if event is not None and self.is_watchful and self.machine.is_left_out(event):
            replica.store.skip(event)
            return [event.path]
        try:
            paths = replica.store.replay(record)
        except BLAMELESS:
            raise
        except Exception as error:
            text, place = _text(error), place_of(error)
            found = None if event is None else self.machine.not_replayed(event, text, place, time.time())
            self._tell_failed(found, f"a {type(record).__name__} of the log", text, place)
            raise
        if event is not None and self.is_watchful and self.machine.replayed(event):
            self._keep()
        return paths

    @property
    def has_rows(self) -> bool:
        """Whether a row of the archive is left out."""
        return self.is_watchful and any(one.is_row for one in self.machine.aside)

    def is_row_left_out(self, path: bytes) -> bool:
        """Whether the value of this path is; `path` is the key of its row."""
        return self.machine.is_row_left_out(path)

    def row_failed(self, path: bytes, error: Exception) -> None:
        """The value of this path could not be loaded, and the start ends."""
        text, place = _text(error), place_of(error)
        found = self.machine.not_loaded(path, text, place, time.time())
        self._tell_failed(found, f"the archive's row {path!r:.80}", text, place)

    def rows_loaded(self) -> None:
        """What was left out is damage from now on, of which the archive knows."""
        for one in self.machine.rows_loaded():
            log.error("aside id=%s error=%s at=%s: the archive's row is left out", one.id, one.error, one.place)
        self._keep()

    # -- steps

    def begin(self, step: TakesSifted) -> None:
        """The node begins: say what it serves without."""
        for one in self.machine.aside:
            log.error("aside id=%s error=%s at=%s: this node serves without it", one.id, one.error, one.place)
        self._replica.leave(self.machine.resting)
        self._leave_out(step)

    def step(self, what: Input, step: TakesSifted) -> Reply | None:
        """Take what may be taken of an input.

        Raises:
            InternalError: all of it is set aside; or a step failed, and what the node holds may be half of something.
        """
        if self._has_failed:
            raise InternalError(f"a step of {self._replica.name} failed, and it ends: ask another node, or later")
        sifted = self.machine.sift(what, self._name_of)
        if sifted.refused is not None:
            self.counters["aside_refused"] += 1
            one = sifted.refused
            raise InternalError(
                f"{one.id} is set aside on {self._replica.name}, because it ended the node twice ({one.error}, at"
                f" {one.place}): 'distkv client aside retry {one.id}' has it tried once more"
            )
        reply, is_news = None, False
        for part in sifted.parts:
            reply = step(part, is_sifted=True)
            is_news |= self.machine.taken(part)
        if is_news:
            self._keep()
        if sifted.gone:
            self.counters["aside_left_out"] += len(sifted.gone)
            step(SetAside(sifted.gone), is_sifted=True)
        return reply

    def failed(self, what: Input, error: Exception) -> None:
        """A step failed, and the node ends: remember which input it took."""
        leaf = next(leaves(error))
        self._has_failed = self.is_watchful = True
        if isinstance(leaf, BLAMELESS):
            return
        text, place = _text(leaf), place_of(error)
        found = self.machine.failed(what, self._name_of, text, place, time.time(), self._replica.ending)
        self._tell_failed(found, type(what).__name__, text, place)

    def look(self) -> None:
        """See which changes are here by now, as those that were replaced."""
        if not self.is_watchful:
            return
        gone = self.machine.forget_held(self._replica.tree.ledger.has)
        for one in gone:
            log.warning("aside_closed id=%s", one.id)
        if gone:
            self._keep()

    # -- what people decide

    def retry(self, id: str) -> None:
        """Have it taken when it comes again.

        Raises:
            RequestError: nothing of that name is set aside.
            NoSpaceError: the disk does not take the decision.
        """
        one = self.machine.retry(id)
        log.warning("aside_retried id=%s", one.id)
        self._replica.leave(self.machine.resting)
        self._keep()

    def drop(self, id: str, step: TakesSifted) -> Reply | None:
        """Have a change replaced by what is here, on all nodes; the reply is that of `ReplaceChange`.

        Raises:
            RequestError: nothing of that name is set aside, or it is no change.
        """
        one = self.machine.droppable(id)
        if one.path is None:
            raise InternalError(f"{id} has no path")
        return step(ReplaceChange(one.path, one.links[0], Tock(one.tock)))

    def state(self) -> list[dict[str, object]]:
        """What `get_state` tells of it, the oldest first."""
        return [
            {
                "id": one.id, "path": _shown(one.path), "error": one.error, "at": one.place,
                "release": one.release, "first": one.first, "last": one.last, "missing": one.is_hole,
            }
            for one in self.machine.aside
        ]  # fmt: skip

    # -- inside

    def _tell_failed(self, found: Failed | None, what: str, text: str, place: str) -> None:
        if found is None:
            log.error("step_failed input=%s error=%s at=%s", what, text, place)
            return
        self._keep()
        does = "it is set aside" if found.is_aside else "should it end the node once more, it is set aside"
        log.error("step_failed id=%s error=%s at=%s times=%d: %s", found.id, text, place, found.count, does)

    def _leave_out(self, step: TakesSifted) -> None:
        links = tuple(link for one in self.machine.holes for link in one.links)
        if links:
            step(SetAside(links), is_sifted=True)

    def _name_of(self, what: Input) -> str:
        name = None
        if isinstance(what, PeerAnswered):
            name = self._replica.asked_name(what.ask)
        elif isinstance(what, FollowBegan | FollowTold):
            name = self._replica.followed(what.follow)
        elif isinstance(what, LineLent):
            name = what.name
        return "unknown" if name is None else name

    def _keep(self) -> None:
        self.is_watchful = self._has_failed or bool(self.machine.entries)
        if self._keeping is None:
            return
        kept = {"format": FORMAT, "inputs": [_row(one) for one in self.machine.entries.values()]}
        try:
            self._keeping.write(json.dumps(kept, indent=1).encode())
        except OSError as error:
            log.error("aside_not_kept reason=%s: what ended the node is not known at its next start", error)


def _text(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _shown(path: Path | None) -> str:
    return "" if path is None or is_hidden(path) else str(path)


def _row(one: Failed) -> dict[str, object]:
    return {
        "id": one.id, "error": one.error, "at": one.place, "release": one.release, "first": one.first,
        "last": one.last, "count": one.count, "aside": one.is_aside,
        "changes": [tick_text(*link) for link in one.links],
        "path": None if one.path is None else str(one.path), "tock": one.tock, "content": one.content,
    }  # fmt: skip


def _read(keeping: Keeping | None) -> list[Failed]:
    """What was kept. A file that cannot be read stops no start: what it told is learned anew."""
    if keeping is None:
        return []
    try:
        data = keeping.read()
        kept: Any = json.loads(data) if data else {"format": FORMAT, "inputs": []}
        if kept["format"] != FORMAT:
            raise ValueError(f"it has format {kept['format']}")
        return [_failed(row) for row in kept["inputs"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, DistkvError) as error:
        log.error("aside_unreadable reason=%s: what was set aside is tried again", error)
        return []


def _failed(row: Mapping[str, Any]) -> Failed:
    links = [read_tick_text(text) for text in row["changes"]]
    return Failed(
        str(row["id"]), str(row["error"]), str(row["at"]), str(row["release"]), float(row["first"]),
        float(row["last"]), int(row["count"]), bool(row["aside"]), tuple(link for link in links if link is not None),
        None if row["path"] is None else Path.parse(row["path"]), int(row["tock"]),
        str(row["content"]),
    )  # fmt: skip
