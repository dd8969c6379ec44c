"""Others on the agents: what becomes of them, and that the fleet is what it was.

Knows: `distkv.sim.strangers` on a small fleet at rest.
"""

from __future__ import annotations

import pytest

from distkv.core.client_writes import LocalSet
from distkv.errors import DuplicateNameError
from distkv.model.path import Path
from distkv.sim.actions import Untruth
from distkv.sim.fleet import Fleet
from distkv.sim.host import Host
from distkv.sim.rule import BrokenRuleError
from distkv.sim.rules.alike import is_at_rest
from distkv.sim.rules.apart import StaysApart
from distkv.sim.strangers import FOREIGNER, Strangers, namesake_of
from distkv.wire.message import EventRecord
from distkv.wire.value_requests import SetValue


def _fleet() -> tuple[Fleet, Strangers]:
    fleet = Fleet(observers=[StaysApart()])
    fleet.start("n0", init="root")
    for name in ("n1", "n2"):
        fleet.start(name)
    assert fleet.run_until(lambda: sum(1 for _ in fleet.ours()) == 3 and is_at_rest(fleet), 60_000)
    fleet.notes.clear()
    return fleet, Strangers(fleet, {})


def _digest(fleet: Fleet) -> int:
    return fleet.hosts["n0"].live.tree.digest


def test_namesake_of_a_live_node_is_refused_and_ends() -> None:
    fleet, strangers = _fleet()
    assert strangers.may_have_namesake(fleet.hosts["n1"])
    strangers.start_namesake(fleet.hosts["n1"])
    assert not strangers.may_have_namesake(fleet.hosts["n1"])
    fleet.run(30_000)
    namesake = fleet.hosts[namesake_of("n1")]
    assert (namesake.process, type(namesake.fatal)) == (None, DuplicateNameError)
    assert fleet.hosts["n1"].process is not None


def test_other_network_is_heard_and_changes_nothing() -> None:
    fleet, strangers = _fleet()
    before = _digest(fleet)
    assert strangers.come()
    fleet.run(60_000)
    foreigner = fleet.hosts[FOREIGNER].live
    assert fleet.notes["foreign_network"] > 0
    assert (foreigner.is_serving, len(foreigner.registry.nodes), _digest(fleet)) == (True, 1, before)


def test_other_network_leaves_for_good_when_a_node_without_data_comes() -> None:
    fleet, strangers = _fleet()
    assert strangers.come()
    strangers.empty_node_comes()
    assert fleet.hosts[FOREIGNER].process is None
    assert not strangers.come()


@pytest.mark.parametrize("what", Untruth)
def test_lie_is_not_believed(what: Untruth) -> None:
    fleet, strangers = _fleet()
    before = _digest(fleet), {name: host.live.tree.ledger.ticks() for name, host in fleet.hosts.items()}
    strangers.lie(fleet.hosts["n1"], what)
    fleet.run(10_000)
    assert before == (_digest(fleet), {name: host.live.tree.ledger.ticks() for name, host in fleet.hosts.items()})


def test_address_of_another_node_is_noticed_and_put_right() -> None:
    fleet, strangers = _fleet()
    strangers.move(fleet.hosts["n1"], "n0:1")
    fleet.run(20_000)
    assert fleet.notes["same_address"] > 0
    strangers.all_is_well()
    assert fleet.run_until(lambda: is_at_rest(fleet), 60_000)
    assert {host.addr for host in fleet.ours()} == {"n0:1", "n1:1", "n2:1"}
    assert fleet.hosts["n0"].live.registry.nodes[fleet.hosts["n1"].node].addr == "n1:1"


def test_event_of_another_network_on_a_disk_is_noticed() -> None:
    fleet, strangers = _fleet()
    assert strangers.come()
    theirs = [record for record in fleet.hosts[FOREIGNER].disk.read() if isinstance(record, EventRecord)]
    ours: Host = fleet.hosts["n0"]
    fleet.step("n0", LocalSet(SetValue(1, Path(["x"]), b"\x01")))
    assert ours.process is not None
    with pytest.raises(BrokenRuleError, match="n0 keeps x0:1 of another network"):
        StaysApart().landed(ours.process, theirs)
