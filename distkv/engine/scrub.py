"""Looks now and then at everything in the archive, and mends what rotted there.

Knows: when it is time, how fast it may go, and who mends what.  Does not know what is looked at (`archive_scrub`), nor
rows.

What is in memory was read when it was intact, or came since. So a running node writes its state anew when something of
it is damaged on the disk; of the history nothing is in memory, and what is damaged there is lost.

Invariant: at most one look is under way; whatever it finds is told once, kept in mind, and counted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Final

import attrs
import trio

from distkv.config import ScrubConfig
from distkv.engine.scarce import on_a_thread
from distkv.engine.settler import RunBlocking, Settler, path_of
from distkv.errors import BusyError, NoSpaceError
from distkv.storage.archive import Archive, Scrubbed
from distkv.storage.archive_rows import DamagedRow
from distkv.storage.archive_scrub import ScrubStep, parts

log = logging.getLogger("distkv.engine")

AFTER_START_S: Final = 60.0
"""A start has other things to do."""
PAUSE_S: Final = 60.0
"""So often it is seen whether a look is due, or a reader met damage."""
RETRY_S: Final = 600.0
"""After one that could not mend what it found, for want of space say."""


@attrs.define
class ScrubRound:
    """A look that is under way."""

    begun: float
    """In seconds since 1970."""
    of: int
    """How many rows there are, about."""
    is_fast: bool
    row_count: int = 0
    """How many of them were looked at."""
    damaged: list[DamagedRow] = attrs.field(factory=list)
    failure: NoSpaceError | BusyError | None = None
    """Why what it found could not be mended."""
    done: trio.Event = attrs.field(factory=trio.Event)


class Scrub:
    """`run` works until cancelled; `now` asks it to begin."""

    def __init__(
        self,
        settler: Settler,
        archive: Archive,
        config: ScrubConfig,
        *,
        run_blocking: RunBlocking = on_a_thread,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._settler = settler
        self._archive = archive
        self._config = config
        self._run_blocking = run_blocking
        self._wall = wall
        self._asked = trio.Event()
        self._noted_count = 0
        """How many places had been noted when the last one ended."""
        self.last = archive.last_scrub
        """What the last one found; None: there was none."""
        self.progress: ScrubRound | None = None
        """Of the one that is under way."""

    def now(self, *, is_fast: bool = False) -> ScrubRound:
        """Begin to look, or join whoever does so already. `is_fast`: without pauses."""
        if self.progress is None:
            sizes = self._archive.sizes()
            count = sizes.history_rows + max(self._archive.state_rows, 0) + len(self._settler.state.data)
            self.progress = ScrubRound(self._wall(), count, is_fast)
            self._asked.set()
        self.progress.is_fast |= is_fast
        return self.progress

    @property
    def lost(self) -> dict[DamagedRow, float]:
        """What was damaged and has not come back, and when it was found, in seconds since 1970."""
        return {damage: found for damage, found in self._archive.damage.all().items() if not self._is_healed(damage)}

    async def drop_nameless(self) -> int:
        """Do without the values that are lost at paths which nobody can name; how many. Durable when it returns.

        Raises:
            NoSpaceError, BusyError, StorageError: it was not written down, and counts as lost still.
        """
        gone = [damage for damage in self.lost if damage.is_value and path_of(damage) is None]
        if not gone:
            return 0
        all_damage = self._archive.damage
        all_damage.forget(set(gone))
        try:
            await self._run_blocking(self._archive.write_damage)
        except BaseException:  # also when we are cancelled
            for damage in gone:
                all_damage.note(damage)
            raise
        self._settler.state.losses.drop_nameless()
        for damage in gone:
            log.warning("lost_dropped place=%s: a person does without it, at whatever path it was", damage.place)
        return len(gone)

    async def run(self) -> None:
        """Look at everything when it is due, or was asked for, until cancelled.

        Raises:
            StorageError: the archive failed, or is damaged so that nothing can mend it; the node must end.
        """
        wait_s = AFTER_START_S
        while True:
            with trio.move_on_after(wait_s):
                await self._asked.wait()
            wait_s = PAUSE_S
            if not self._asked.is_set() and not self._is_due():
                continue
            progress = self.now()
            try:
                await self._look(progress)
                await self._mend(progress)
            except (NoSpaceError, BusyError) as error:
                log.error("not_mended reason=%s", error)
                progress.failure = error
                wait_s = RETRY_S
            finally:
                self._asked, self.progress = trio.Event(), None
                progress.done.set()

    # -- inside

    def _is_due(self) -> bool:
        """Also when somebody met damage since the last one."""
        if self.last is None or self._archive.damage.noted_count != self._noted_count:
            return True
        return not 0 <= self._wall() - self.last.begun < self._config.every_s

    async def _look(self, progress: ScrubRound) -> None:
        left = parts(self._archive.path)
        while (part := await self._run_blocking(_next, left)) is not None:
            progress.row_count += part.row_count
            for damage in part.damaged:
                progress.damaged.append(damage)
                self._archive.damage.note(damage)
            await trio.sleep(0 if progress.is_fast else part.size / self._config.bytes_per_s)

    async def _mend(self, progress: ScrubRound) -> None:
        all_damage = self._archive.damage
        known = [*progress.damaged, *all_damage.all()]
        due = [*progress.damaged, *(damage for damage in known if damage.is_page)]
        if any(damage.is_past for damage in due):  # first: what is written anew brings rows of the history, too
            await self._run_blocking(self._archive.mend_history)
        if not all(damage.is_past for damage in due):
            await self._settler.write_anew()
        written_anew = {damage for damage in due if not damage.is_past and (damage.is_page or not damage.is_data)}
        written_anew |= {damage for damage in known if damage.is_slot}  # also what a start began without, and told
        all_damage.forget({damage for damage in known if damage in written_anew or self._is_healed(damage)})
        self._noted_count = all_damage.noted_count
        self.last = Scrubbed(progress.begun, self._wall(), progress.row_count, len(progress.damaged))
        await self._run_blocking(self._archive.write_scrub, self.last)
        log.info("scrubbed rows=%d damaged=%d", progress.row_count, len(progress.damaged))

    def _is_healed(self, damage: DamagedRow) -> bool:
        """Whether what it was about is here again. An index holds nothing of its own."""
        if damage.is_slot:
            return False  # no other node has it
        if damage.is_past:
            return damage.lsn is None
        return self._settler.is_healed(damage)


def _next(left: Iterator[ScrubStep]) -> ScrubStep | None:
    return next(left, None)
