"""The virtual disk: what is durable when, and what crashes leave.

Knows: `distkv.sim.disk` on the product's own log.
"""

from __future__ import annotations

from random import Random

import pytest

from distkv.model.event import Tock
from distkv.sim.disk import VirtualDisk
from distkv.wire.message import CeilingRecord, Record


def _records(*numbers: int) -> list[Record]:
    return [CeilingRecord(Tock(number)) for number in numbers]


def _written(*numbers: int) -> VirtualDisk:
    disk = VirtualDisk()
    disk.open()
    disk.append(_records(*numbers))
    disk.take_off()
    disk.land()
    return disk


def test_record_is_durable_when_its_commit_lands_and_not_before() -> None:
    disk = VirtualDisk()
    disk.open()
    disk.append(_records(1))
    disk.take_off()
    before = disk.durable, disk.is_idle, disk.read()
    disk.land()
    assert (before, (disk.durable, disk.is_idle, disk.read())) == ((0, False, []), (1, True, _records(1)))


def test_one_commit_at_a_time_takes_all_that_waits() -> None:
    disk = VirtualDisk()
    disk.open()
    disk.append(_records(1))
    assert disk.take_off()
    disk.append(_records(2, 3))
    assert not disk.take_off()
    disk.land()
    assert disk.take_off()
    assert disk.flying == _records(2, 3)


def test_kill_keeps_what_was_durable_and_loses_what_had_not_begun() -> None:
    disk = _written(1, 2)
    disk.append(_records(3))
    disk.kill(Random(0))
    assert disk.open() == _records(1, 2)


def test_power_loss_leaves_a_batch_whole_or_not_at_all() -> None:
    left = set()
    for seed in range(40):
        disk = _written(1)
        disk.append(_records(*range(100, 300)))
        disk.take_off()
        disk.lose_power(Random(seed))
        left.add(tuple(str(record) for record in disk.open()))
    whole = tuple(map(str, _records(1, *range(100, 300))))
    assert left == {whole, whole[:1]}


def test_disk_that_is_set_back_has_what_it_had() -> None:
    disk = _written(1)
    copy = disk.copy()
    disk.append(_records(2))
    disk.take_off()
    disk.land()
    disk.kill(Random(0))
    disk.roll_back(copy)
    assert disk.open() == _records(1)


def test_wiped_disk_is_empty() -> None:
    disk = _written(1)
    disk.kill(Random(0))
    disk.wipe()
    assert disk.open() == []


def test_full_disk_has_no_room_until_there_is_space_again() -> None:
    disk = _written(1)
    disk.fill()
    rooms = [disk.has_room(20_000)]
    for _ in range(2):  # the segment in use, and the one preallocated ahead
        disk.append(_records(*range(2_500)))
        disk.take_off()
        disk.land()
    rooms.append(disk.has_room(20_000))
    disk.make_space()
    rooms.append(disk.has_room(20_000))
    assert rooms == [True, False, True]


def test_disk_stays_full_over_a_crash() -> None:
    disk = _written(1)
    disk.fill()
    disk.kill(Random(0))
    disk.open()
    assert not disk.has_room(1 << 20)


def test_disk_that_is_not_in_use_takes_nothing() -> None:
    disk = VirtualDisk()
    disk.append(_records(1))
    disk.take_off()
    with pytest.raises(ValueError, match="not in use"):
        disk.land()
