"""Who is there when, as far as faults tell.

Knows: `distkv.sim.presence`.
"""

from __future__ import annotations

import pytest

from distkv.model.path import Path
from distkv.sim.actions import Deed, Happening, RotSome, Split, StartNode, ToNode, Write
from distkv.sim.presence import Presence
from distkv.sim.scenario import Planned

NAMES = ("n0", "n1", "n2")


def _presence(*planned: tuple[int, Happening], late: int = 0) -> Presence:
    return Presence(NAMES, late, [Planned(at_ms, action) for at_ms, action in planned])


def test_all_hear_each_other_when_nothing_happens() -> None:
    assert [_presence().hearers(0, name) for name in NAMES] == [2, 2, 2]


ENDS = (Deed.STOP, Deed.CRASH, Deed.WIPE, Deed.BURN, Deed.ROLL_BACK)


@pytest.mark.parametrize("end", [*(ToNode("n1", deed) for deed in ENDS), RotSome(("n1",), 1)], ids=str)
def test_host_that_ends_neither_writes_nor_hears_until_it_starts(end: Happening) -> None:
    presence = _presence((20, StartNode("n1")), (10, end))
    assert [[presence.hearers(at_ms, name) for name in ("n0", "n1")] for at_ms in (9, 10, 19, 20)] == [
        [2, 2], [1, 0], [1, 0], [2, 2]
    ]  # fmt: skip


def test_paused_host_does_not_write_and_hears_when_it_goes_on() -> None:
    presence = _presence((10, ToNode("n1", Deed.PAUSE)), (20, ToNode("n1", Deed.RESUME)))
    assert [[presence.hearers(at_ms, name) for name in ("n0", "n1")] for at_ms in (10, 20)] == [[2, 0], [2, 2]]


def test_late_host_is_there_when_it_starts() -> None:
    presence = _presence((10, StartNode("n2")), late=1)
    assert [[presence.hearers(at_ms, name) for name in ("n0", "n2")] for at_ms in (9, 10)] == [[1, 0], [2, 2]]


def test_what_is_no_end_and_no_start_changes_nothing() -> None:
    split, write = Split((("n0",), ("n1", "n2"))), Write("n0", Path(["x"]), 1)
    assert _presence((10, split), (10, write), (10, ToNode("n1", Deed.DISK_SHORT))).hearers(10, "n0") == 2
