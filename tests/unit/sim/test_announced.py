"""The rule that dropped updates are announced notices a node that is silent about them.

Knows: how to fill an outbox, and how to take the announcement away.
"""

from __future__ import annotations

import pytest

from distkv.core.client_writes import LocalSet
from distkv.core.ready import Ask
from distkv.model.path import Path
from distkv.sim.fleet import Fleet
from distkv.sim.host import OUTBOX_MAX
from distkv.sim.rule import BrokenRuleError
from distkv.sim.rules.announced import DroppedIsAnnounced
from distkv.wire.message import Info, Message
from distkv.wire.value_requests import SetValue

DROPPED = 5


class Deaf(DroppedIsAnnounced):
    """Does not see announcements."""

    def left(self, process: object, message: Message | Ask) -> None:
        if not isinstance(message, Info):
            super().left(process, message)  # type: ignore[arg-type]


def burst(rule: DroppedIsAnnounced) -> Fleet:
    """A node that writes more at once than its outbox holds, while a commit takes a tenth of a second."""
    fleet = Fleet(observers=[rule])
    fleet.start("n0", init="root")
    assert fleet.run_until(lambda: fleet.hosts["n0"].live.is_serving, 60_000)
    fleet.commit_ms = (100, 100)
    for number in range(OUTBOX_MAX + DROPPED):
        fleet.step("n0", LocalSet(SetValue(1, Path(["x", number]), b"\x01")))
    return fleet


def test_dropped_updates_are_announced() -> None:
    rule = DroppedIsAnnounced()
    burst(rule).run(5000)
    assert rule.count == DROPPED


def test_silence_about_dropped_updates_is_noticed() -> None:
    with pytest.raises(BrokenRuleError, match=f"n0 is silent about {DROPPED} own changes"):
        burst(Deaf()).run(5000)


def test_nothing_is_missed_of_a_node_whose_agent_is_away() -> None:
    rule = Deaf()
    fleet = burst(rule)
    fleet.transport("n0", up=False)
    fleet.run(5000)
    fleet.transport("n0", up=True)
    fleet.run(5000)
    assert fleet.notes["outbox_full"] == DROPPED, "what nobody missed was dropped"
