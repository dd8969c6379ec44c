"""The rule that what was purged stays so notices what comes back.

Knows: how to bring a purged value back, behind the back of the core.
"""

from __future__ import annotations

import pytest

from distkv.core.client_writes import LocalSet
from distkv.core.ready import HeardMessage
from distkv.model.event import Event, Tock
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.sim.fleet import Fleet
from distkv.sim.rule import BrokenRuleError
from distkv.sim.rules.alike import is_at_rest
from distkv.sim.rules.purged import PurgedStays
from distkv.wire.message import Header, Update
from distkv.wire.value_requests import SetValue

X = Path(["x"])


def _purged(rule: PurgedStays) -> tuple[Fleet, Event]:
    """Two nodes that forgot a deletion, and the value that it deleted."""
    fleet = Fleet(observers=[rule])
    fleet.start("n0", init="root", delete_retention_ms=500)
    fleet.start("n1", delete_retention_ms=500)
    assert fleet.run_until(lambda: all(h.live.is_serving for h in fleet.running()) and is_at_rest(fleet), 60_000)
    fleet.step("n0", LocalSet(SetValue(1, X, b"\x01")))
    value = fleet.hosts["n0"].live.tree.head(X)
    assert value is not None
    fleet.run(1000)
    fleet.step("n0", LocalSet(SetValue(2, X, None)))
    assert fleet.run_until(lambda: all(h.live.tree.get(X) is None for h in fleet.running()), 120_000)
    return fleet, value


def _bring_back(fleet: Fleet, name: str, value: Event) -> None:
    """The ledger forgets that the value was there, and it comes once more."""
    n0, tree = fleet.hosts["n0"].live, fleet.hosts[name].live.tree
    tree.release({value.node: Ranges([(value.tick, value.tick + 1)])})
    header = Header(n0.name, n0.tick, Tock(n0.tock + 1), n0.life or 0, n0.network_id, None)
    fleet.step(name, HeardMessage(Update(header, (value,))))


def test_value_that_comes_back_where_it_was_purged_is_noticed() -> None:
    fleet, value = _purged(PurgedStays())
    with pytest.raises(BrokenRuleError, match=r"n1 shows n0:.* at x, which was purged"):
        _bring_back(fleet, "n1", value)


def test_value_that_comes_back_elsewhere_is_noticed_in_the_end() -> None:
    rule = PurgedStays()
    fleet, value = _purged(rule)
    fleet.start("n2", delete_retention_ms=500)  # it never had it, so it forgot nothing
    assert fleet.run_until(lambda: all(h.live.is_serving for h in fleet.running()) and is_at_rest(fleet), 60_000)
    _bring_back(fleet, "n2", value)
    with pytest.raises(BrokenRuleError, match=r"n2 shows n0:.* at x, which was purged"):
        rule.settled(fleet)


def test_value_that_is_written_anew_breaks_nothing() -> None:
    rule = PurgedStays()
    fleet, _ = _purged(rule)
    fleet.step("n1", LocalSet(SetValue(3, X, b"\x02")))
    fleet.run(10_000)
    rule.settled(fleet)
    assert rule.count == 2
