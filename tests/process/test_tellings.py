"""The judge of watchers: it finds what was not told, told twice, or shown wrongly, and nothing where all was told.

Knows: disks and stories made by hand.  Does not know processes.
"""

from __future__ import annotations

from distkv.client.watch import Change, Resync, UpToDate
from distkv.model.event import Event, Kind, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.wire.values import pack_value
from distkv.wire.watch import Token, encode_token
from tests.process.disks import Disk, Row
from tests.process.followers import Fresh, Told
from tests.process.tellings import missed

LIFE = 7
EVENTS = [
    Event(Path([f"p{tick % 2}"]), Kind.SET, pack_value(tick), ((NodeName("a"), Tick(tick)),), Tock(tick), 0.0)
    for tick in range(1, 7)
]
DISK = Disk("a", LIFE, [Row(lsn, event, 0.0, True) for lsn, event in enumerate(EVENTS)], 0)


def _token(lsn: int, life: int = LIFE) -> bytes:
    return encode_token(Token("a", life, lsn))


def _change(lsn: int, *, is_told: bool = True) -> Change:
    event = EVENTS[lsn]
    return Change(event.path, lsn, False, event.link, event.tock, 0.0, _token(lsn + 1) if is_told else None)


BEGIN: list[Told] = [Fresh(), _change(0, is_told=False), UpToDate(_token(1))]


def test_all_told_in_order_is_no_fault() -> None:
    assert missed([*BEGIN, *map(_change, range(1, 6))], [DISK]) == []


def test_change_that_is_left_out_is_a_fault() -> None:
    (fault, *_) = missed([*BEGIN, *map(_change, (1, 2, 4, 5))], [DISK])
    assert "lacking 1: ['a:4']" in fault


def test_change_that_never_won_need_not_be_told() -> None:
    lost = Disk("a", LIFE, [Row(row.lsn, row.event, 0.0, row.lsn != 3) for row in DISK.rows], 0)
    assert missed([*BEGIN, *map(_change, (1, 2, 4, 5))], [lost]) == []


def test_change_that_is_told_twice_is_a_fault() -> None:
    (fault, *_) = missed([*BEGIN, *map(_change, (1, 2, 2, 3))], [DISK])
    assert "too many 1: ['a:3']" in fault


def test_changes_in_another_order_are_a_fault() -> None:
    assert missed([*BEGIN, *map(_change, (2, 1, 3))], [DISK])


def test_change_left_out_before_a_resync_that_shows_what_is_there_is_none() -> None:
    shown = [_change(4, is_told=False), _change(3, is_told=False), UpToDate(_token(5))]
    assert missed([*BEGIN, _change(1), Resync(), *shown, _change(5)], [DISK]) == []


def test_resync_that_shows_an_older_value_is_a_fault() -> None:
    shown = [_change(4, is_told=False), _change(1, is_told=False), UpToDate(_token(5))]
    (fault,) = missed([*BEGIN, Resync(), *shown], [DISK])
    assert "after Resync, at lsn 5 of a: 1 paths wrong" in fault


def test_resync_that_does_not_show_a_path_is_a_fault() -> None:
    assert missed([*BEGIN, Resync(), _change(4, is_told=False), UpToDate(_token(5))], [DISK])


def test_what_never_became_up_to_date_is_void() -> None:
    assert missed([Fresh(), _change(0, is_told=False), Resync()], [DISK]) == []


def test_story_is_held_against_the_disk_of_its_life() -> None:
    older = Disk("a", LIFE - 1, [], 0)
    assert missed([*BEGIN, _change(1)], [older, DISK]) == []
    (fault,) = missed([Fresh(), UpToDate(_token(0, LIFE + 1))], [older, DISK])
    assert "in which no disk was written" in fault
