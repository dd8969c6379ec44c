"""Who is there when, as far as faults tell.

Knows: `distkv.sim.presence`.
"""

from __future__ import annotations

import pytest

from distkv.sim.presence import Presence
from distkv.sim.scenario import Action, Verb


def _presence(*actions: tuple[int, Verb, int], late: int = 0) -> Presence:
    return Presence(3, late, [Action(at_ms, verb, host, 0) for at_ms, verb, host in actions])


def test_all_hear_each_other_when_nothing_happens() -> None:
    assert [_presence().hearers(0, host) for host in range(3)] == [2, 2, 2]


@pytest.mark.parametrize("verb", [Verb.KILL, Verb.POWER, Verb.WIPE, Verb.BURN, Verb.RETIRE, Verb.ROLL_BACK])
def test_host_that_ends_neither_writes_nor_hears_until_it_starts(verb: Verb) -> None:
    presence = _presence((20, Verb.START, 1), (10, verb, 1))
    assert [[presence.hearers(at_ms, host) for host in (0, 1)] for at_ms in (9, 10, 19, 20)] == [
        [2, 2], [1, 0], [1, 0], [2, 2]
    ]  # fmt: skip


def test_paused_host_does_not_write_and_hears_when_it_goes_on() -> None:
    presence = _presence((10, Verb.PAUSE, 1), (20, Verb.RESUME, 1))
    assert [[presence.hearers(at_ms, host) for host in (0, 1)] for at_ms in (10, 20)] == [[2, 0], [2, 2]]


def test_late_host_is_there_when_it_starts() -> None:
    presence = _presence((10, Verb.START, 2), late=1)
    assert [[presence.hearers(at_ms, host) for host in (0, 2)] for at_ms in (9, 10)] == [[1, 0], [2, 2]]


def test_what_is_no_end_and_no_start_changes_nothing() -> None:
    presence = _presence((10, Verb.PARTITION, 0), (10, Verb.SET, 0), (10, Verb.FILL, 1))
    assert presence.hearers(10, 0) == 2
