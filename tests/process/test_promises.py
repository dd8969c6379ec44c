"""The judge of acknowledged writes: it finds what is lost, and excuses only what no surviving disk had.

Knows: disks made by hand.  Does not know processes.
"""

from __future__ import annotations

from collections.abc import Sequence

from distkv.model.entry import LOSERS_MAX
from distkv.model.event import Event, Kind, Link, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.wire.values import pack_value
from tests.process.disks import Disk, Row
from tests.process.promises import (
    Fate,
    Fire,
    Past,
    fates,
    life_story,
    not_as_written,
    not_durable,
    not_replicated,
)
from tests.process.writers import Acknowledged

P = Path(["p"])


def _event(node: str, tick: int, tock: int, *older: tuple[str, int], value: str = "v") -> Event:
    chain: list[Link] = [(NodeName(n), Tick(t)) for n, t in ((node, tick), *older)]
    return Event(P, Kind.SET, pack_value(value), tuple(chain), Tock(tock), 0.0)


def _write(event: Event, *, at: float = 1.0, replicas: int = 1) -> Acknowledged:
    return Acknowledged(event, False, "a0", at, replicas)


def _disk(name: str, *events: Event, life: int = 0) -> Disk:
    return Disk(name, life, [Row(lsn, event, 0.0, True) for lsn, event in enumerate(events)], 0)


def _fate(
    write: Acknowledged, here: Sequence[Event], *, fires: Sequence[Fire] = (), disks: Sequence[Disk] = ()
) -> Fate:
    ((_, fate),) = fates(Past(fires, disks, [write]), [write], here)
    return fate


OLD = _event("a", 1, 10)
KNOWS = _event("b", 1, 20, ("a", 1))
BLIND = _event("b", 1, 20)


def test_open_loser_is_here() -> None:
    assert _fate(_write(OLD), [BLIND, OLD], disks=[_disk("a", OLD, BLIND)]) is Fate.HERE


def test_write_that_its_replacement_names_is_known() -> None:
    assert _fate(_write(OLD), [KNOWS], disks=[_disk("a", OLD, KNOWS)]) is Fate.KNOWN


def test_write_that_is_known_to_one_that_is_known_itself_is_known() -> None:
    last = _event("c", 1, 30, ("b", 1))
    assert _fate(_write(OLD), [last], disks=[_disk("a", OLD, KNOWS, last)]) is Fate.KNOWN


def test_write_that_nothing_names_is_lost() -> None:
    assert _fate(_write(OLD), [BLIND], disks=[_disk("a", OLD, BLIND)]) is Fate.LOST


def test_write_that_a_lower_change_names_is_lost() -> None:
    lower = _event("b", 1, 5, ("a", 1))
    assert _fate(_write(OLD), [lower], disks=[_disk("a", OLD, lower)]) is Fate.LOST


def test_write_on_the_burned_disk_only_is_excused() -> None:
    fire = Fire(2.0, _disk("a", OLD), [_disk("b", BLIND)])
    assert _fate(_write(OLD), [BLIND], fires=[fire], disks=[_disk("b", BLIND)]) is Fate.BURNED


def test_write_that_another_disk_held_at_the_fire_is_lost() -> None:
    fire = Fire(2.0, _disk("a", OLD), [_disk("b", OLD, BLIND)])
    assert _fate(_write(OLD), [BLIND], fires=[fire], disks=[_disk("b", OLD, BLIND)]) is Fate.LOST


def test_other_disk_that_was_being_filled_does_not_count_as_one_that_held_a_write() -> None:
    fire = Fire(2.0, _disk("a", OLD), [_disk("b", OLD, BLIND, life=-1)])
    assert _fate(_write(OLD), [BLIND], fires=[fire], disks=[_disk("b", BLIND)]) is Fate.BURNED


def test_write_whose_replacement_burned_is_told_apart() -> None:
    fire = Fire(2.0, _disk("b", OLD, KNOWS), [_disk("a", OLD)])
    assert _fate(_write(OLD), [], fires=[fire], disks=[_disk("a", OLD)]) is Fate.HEARSAY


def _blind(count: int) -> list[Event]:
    """Changes that know nobody, each of a life of its own, all above `OLD`."""
    return [_event("b", (life << 32) + 1, 100 + life) for life in range(1, count + 1)]


def test_write_that_a_disk_had_no_room_for_among_its_losers_is_told_apart() -> None:
    others = _blind(LOSERS_MAX + 1)
    assert _fate(_write(OLD), others, disks=[_disk("a", OLD, *others)]) is Fate.CROWDED


def test_write_among_as_many_losers_as_a_path_keeps_is_lost_all_the_same() -> None:
    others = _blind(LOSERS_MAX)
    assert _fate(_write(OLD), others, disks=[_disk("a", OLD, *others)]) is Fate.LOST


def test_acknowledged_write_on_no_disk_of_its_node_is_not_durable() -> None:
    write = _write(OLD)
    assert not_durable(Past([], [_disk("a", OLD)], [write]), [write]) == []
    assert not_durable(Past([], [_disk("a"), _disk("b", OLD)], [write]), [write]) == [write]


def test_tick_with_two_contents_is_not_as_written() -> None:
    write, other = _write(OLD), _event("a", 1, 10, value="other")
    assert not_as_written(Past([], [_disk("a", OLD)], [write]), [write]) == []
    assert not_as_written(Past([], [_disk("a", other)], [write]), [write]) == [write]
    assert not_as_written(Past([], [], [write, write]), [write, write]) == [write, write]


def test_write_on_two_nodes_that_the_first_fire_takes_is_not_replicated() -> None:
    fire = Fire(2.0, _disk("a", OLD), [_disk("b", BLIND)])
    early, late, alone = _write(OLD, replicas=2), _write(OLD, at=3.0, replicas=2), _write(OLD)
    past = Past([fire], [], [early])
    assert not_replicated(past, [early, late, alone]) == [early]


def test_write_on_two_nodes_whose_replacement_is_left_is_replicated() -> None:
    fire = Fire(2.0, _disk("a", OLD), [_disk("b", KNOWS)])
    early = _write(OLD, replicas=2)
    assert not_replicated(Past([fire], [], [early]), [early]) == []


def test_story_of_a_write_names_every_disk_and_who_knew_it() -> None:
    write = _write(OLD)
    fire = Fire(2.0, _disk("b", OLD, KNOWS), [_disk("a", OLD)])
    story = life_story(Past([fire], [_disk("c", BLIND)], [write]), write, {BLIND.link: BLIND})
    for part in ("known to <SET p b:1", "burned in fire 0", "disk of c, at the end", "held by the others ['a']"):
        assert part in story
