"""The disk of one host: the product's own log on a disk in memory, with group commit in virtual time.

Knows: what waits to be written, what is being written, and what a crash leaves of that.  Does not know when a write is
done: whoever drives it says `land`.

Invariant: records become durable in the order in which they were appended; `open` replays exactly what is durable, and
perhaps, whole, the one batch that was being written when the power went.
"""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Final

from distkv.errors import NoSpaceError
from distkv.model.event import NodeName
from distkv.sim.rot import Choose, ChooseRows, Rotten, rotten
from distkv.storage.base import BATCH_OVERHEAD_BYTES, RECORD_OVERHEAD_BYTES
from distkv.storage.log import SegmentedLog, open_log
from distkv.storage.memory import DiskCrashed, MemoryDisk, keep_all, tear_by_sectors
from distkv.wire.message import Record
from distkv.wire.records import decode_record, encode_record

SEGMENT_BYTES: Final = 32 << 10
CONTROL_BYTES: Final = 8 << 10
"""What writes leave free, so that the records of replication control always fit."""
OPERATIONS_OF_A_COMMIT: Final = 2
"""A write and a sync, after which a batch is durable; more when it needs a new segment."""


class VirtualDisk:
    """One directory. It outlives the process that uses it, and is used by one at a time."""

    def __init__(self) -> None:
        self.appended = 0
        """How many records were ever appended since it was opened."""
        self.durable = 0
        """How many of them are on the platter."""
        self.flying: list[Record] = []
        """What is being written."""
        self._waiting: list[Record] = []
        self._landed: list[list[bytes]] = []
        """Batches that are durable, and put into the log when somebody looks: most disks never meet a fault."""
        self._memory = MemoryDisk()
        self._log: SegmentedLog | None = None
        self.rotten: Rotten | None = None
        """What rotted of that which was settled; what came since is in the log. None: nothing did."""

    # -- used by a process

    def open(self) -> list[Record]:
        """Begin to use it; all that it holds."""
        log = self._log = open_log(self._memory, segment_bytes=SEGMENT_BYTES)
        self.appended = self.durable = 0
        self.flying, self._waiting = [], []
        return [decode_record(data) for batch in log.replay() for data in batch]

    @property
    def is_empty(self) -> bool:
        """Whether it was never used."""
        return not self._memory.names() and self.rotten is None

    @property
    def is_idle(self) -> bool:
        """Whether everything appended is durable."""
        return self.durable == self.appended

    def append(self, records: list[Record]) -> None:
        self.appended += len(records)
        self._waiting += records

    def take_off(self) -> bool:
        """Begin to write what waits; False when there is nothing, or a write is under way."""
        if self.flying or not self._waiting:
            return False
        self.flying, self._waiting = self._waiting, []
        return True

    def land(self) -> list[Record]:
        """The write is done: what is durable now."""
        landed, self.flying = self.flying, []
        self._landed.append([encode_record(record) for record in landed])
        self.durable += len(landed)
        if self._log is None or self.is_short or self._memory.faults.crash_at is not None:
            self._write_down()
        return landed

    @property
    def is_short(self) -> bool:
        """Whether there is only so much space."""
        return self._memory.faults.capacity_bytes is not None

    def has_room(self, size: int) -> bool:
        """Whether `size` bytes of records would fit behind what is not written yet."""
        if not self.is_short:
            return True
        waiting = [*self.flying, *self._waiting]
        size += sum(len(encode_record(record)) for record in waiting) + len(waiting) * RECORD_OVERHEAD_BYTES
        try:
            self._opened.reserve_nowait(size + BATCH_OVERHEAD_BYTES + CONTROL_BYTES)
        except NoSpaceError:
            return False
        return True

    def check_room(self, size: int) -> None:
        """
        Raises:
            NoSpaceError: they would not.
        """
        if not self.has_room(size):
            raise NoSpaceError("the disk is full, nothing was changed")

    def read(self) -> list[Record]:
        """What is durable, whether it is in use or not."""
        log = open_log(self.copy(), segment_bytes=SEGMENT_BYTES)
        return [decode_record(data) for batch in log.replay() for data in batch]

    # -- what befalls it

    def kill(self, rng: Random) -> None:
        """The process ends: the batch that was being written is there, or was not begun."""
        if self.flying and rng.random() < 0.5:
            self.land()
        self._write_down()
        self._close(self._memory.after_kill())

    def lose_power(self, rng: Random) -> None:
        """The machine stops: of the batch that was being written any sectors may be there."""
        self._write_down()
        if self.flying:
            faults = self._memory.faults
            faults.crash_at = faults.operations + int(rng.random() * OPERATIONS_OF_A_COMMIT)
            with suppress(DiskCrashed):
                self.land()
        tear = tear_by_sectors(lambda _sector: rng.random() < 0.5)
        self._close(self._memory.after_power_loss(tear, keep_names=lambda _name: rng.random() < 0.5))

    def wipe(self) -> None:
        """All is gone; the disk is not in use."""
        self._memory = MemoryDisk()
        self.rotten = None

    def rot(self, node: NodeName, choose: Choose, choose_rows: ChooseRows) -> bool:
        """All is settled, and some rows rot; not twice. The disk is not in use. Returns whether it happened."""
        found = None if self.rotten is not None else rotten(node, self.read(), choose, choose_rows)
        if found is not None:
            self._memory, self.rotten = MemoryDisk(), found
        return found is not None

    def copy(self) -> MemoryDisk:
        """What is durable, as a backup of the whole machine has it."""
        self._write_down()
        return self._memory.after_power_loss(keep_all, keep_names=True)

    def roll_back(self, copy: MemoryDisk) -> None:
        """The disk is as it was; it is not in use."""
        self._memory = copy.after_power_loss(keep_all, keep_names=True)
        self.rotten = None

    def fill(self) -> None:
        """Others took all the space there was."""
        self._write_down()
        self._memory.faults.capacity_bytes = self._memory.faults.used_bytes

    def make_space(self) -> None:
        self._memory.faults.capacity_bytes = None
        if self._log is not None:
            self._log.refill()

    # -- inside

    def _write_down(self) -> None:
        """Put into the log what landed, each batch by itself as it was."""
        landed, self._landed = self._landed, []
        for batch in landed:
            self._opened.append(batch)
            if self._opened.wants_refill:
                self._opened.refill()

    @property
    def _opened(self) -> SegmentedLog:
        if self._log is None:
            raise ValueError("the disk is not in use")
        return self._log

    def _close(self, left: MemoryDisk) -> None:
        left.faults.capacity_bytes = self._memory.faults.capacity_bytes
        self._memory, self._log = left, None
