"""What clients of a simulated run do, and leave alone."""

from __future__ import annotations

import pytest

from distkv.core.ready import LocalSet
from distkv.model.path import Path
from distkv.sim.draft import draw
from distkv.sim.fleet import Fleet
from distkv.sim.scenario import Action, Verb
from distkv.sim.workload import RING, Workload
from distkv.wire.request import SetValue
from distkv.wire.values import pack_value


@pytest.mark.parametrize(("path", "left"), [(Path(["p", "0"]), 0), (RING[0], 1)], ids=["any", "ring"])
def test_nobody_decides_about_the_ring_but_its_owner(path: Path, left: int) -> None:
    fleet = Fleet()
    fleet.start("n0", init="root")
    fleet.start("n1")
    fleet.run(20_000)
    fleet.partition(["n0"], ["n1"])
    for number, name in enumerate(fleet.hosts):
        fleet.step(name, LocalSet(SetValue(1, path, pack_value(number))))
    fleet.heal()
    fleet.run(20_000)
    process = fleet.hosts["n1"].process
    assert process is not None
    Workload(fleet, draw(0)).do(process, Action(0, Verb.DISMISS, 1, 0))
    assert len(process.replica.tree.contested()) == left
