"""The disk in memory keeps and loses what a real one would."""

from __future__ import annotations

import errno

import pytest

from distkv.storage.base import SECTOR_BYTES
from distkv.storage.memory import (
    DiskCrashed,
    MemoryDisk,
    MemoryFile,
    Tear,
    keep_all,
    keep_none,
    tear_at,
    tear_by_sectors,
)


def _disk_with(durable: bytes) -> tuple[MemoryDisk, MemoryFile]:
    disk = MemoryDisk()
    file = disk.open_file("f")
    file.write(0, durable)
    file.sync()
    disk.sync_directory()
    return disk, file


def test_synced_write_survives() -> None:
    disk, _ = _disk_with(b"durable")
    assert disk.after_power_loss().content("f") == b"durable"


@pytest.mark.parametrize(
    ("tear", "left"),
    [(keep_none, b"durable"), (keep_all, b"NEWable"), (tear_at(1), b"Nurable"), (tear_at(-1), b"NErable")],
)
def test_unsynced_write_survives_as_chosen(tear: Tear, left: bytes) -> None:
    disk, file = _disk_with(b"durable")
    file.write(0, b"NEW")
    assert file.read(0, 7) == b"NEWable"
    assert disk.after_power_loss(tear).content("f") == left


def test_write_torn_by_sectors_keeps_each_sector_whole_or_not() -> None:
    disk, file = _disk_with(bytes(4 * SECTOR_BYTES))
    file.write(100, b"x" * (3 * SECTOR_BYTES))
    left = disk.after_power_loss(tear_by_sectors(lambda sector: sector in (0, 2))).content("f")
    assert left == (
        bytes(100) + b"x" * (SECTOR_BYTES - 100) + bytes(SECTOR_BYTES) + b"x" * SECTOR_BYTES + bytes(SECTOR_BYTES)
    )


def test_two_outcomes_of_one_crash_do_not_touch_each_other() -> None:
    disk, file = _disk_with(b"durable")
    file.write(0, b"NEW")
    disk.after_power_loss(keep_all).open_file("f").write(0, b"???????")
    assert disk.after_power_loss(keep_none).content("f") == b"durable"


def test_unsynced_name_is_lost_unless_kept() -> None:
    disk = MemoryDisk()
    file = disk.open_file("f")
    file.write(0, b"a")
    file.sync()
    assert disk.after_power_loss().names() == []
    assert disk.after_power_loss(keep_names=True).content("f") == b"a"


def test_failed_sync_leaves_data_readable_and_never_durable() -> None:
    disk, file = _disk_with(b"durable")
    file.write(0, b"NEW")
    disk.faults.fail_sync_at = disk.faults.operations
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    file.sync()
    assert file.read(0, 7) == b"NEWable"
    assert disk.after_power_loss(keep_all).content("f") == b"durable"


def test_killed_process_leaves_its_writes_to_a_later_sync() -> None:
    disk, file = _disk_with(b"durable")
    file.write(0, b"NEW")
    restarted = disk.after_kill()
    assert restarted.after_power_loss().content("f") == b"durable"
    restarted.open_file("f").sync()
    assert restarted.after_power_loss().content("f") == b"NEWable"


def test_crashed_disk_changes_nothing_any_more() -> None:
    disk, file = _disk_with(b"durable")
    disk.faults.crash_at = disk.faults.operations
    with pytest.raises(DiskCrashed):
        file.write(0, b"N")
    for call in (lambda: file.write(0, b"???"), file.sync, disk.sync_directory, lambda: disk.open_file("g")):
        with pytest.raises(DiskCrashed):
            call()
    assert disk.after_power_loss(keep_all).content("f") == b"Nurable"
    assert disk.names() == ["f"]


def test_full_disk_refuses_what_makes_a_file_longer() -> None:
    disk, file = _disk_with(b"durable")
    disk.faults.capacity_bytes = 10
    with pytest.raises(OSError, match="No space left") as caught:
        file.preallocate(11)
    assert caught.value.errno == errno.ENOSPC
    assert file.size() == 7
    file.write(0, b"NEWable")
    file.preallocate(10)
    assert file.read(0, 20) == b"NEWable\0\0\0"


def test_same_seed_gives_the_same_random_bytes() -> None:
    assert MemoryDisk(seed=5).random_bytes(16) == MemoryDisk(seed=5).random_bytes(16)
    assert MemoryDisk(seed=5).random_bytes(16) != MemoryDisk(seed=6).random_bytes(16)
