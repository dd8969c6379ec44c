"""What clients of a simulated run do, and leave alone."""

from __future__ import annotations

import pytest

from distkv.core.client_writes import LocalSet
from distkv.model.path import Path
from distkv.sim.actions import DecideAny, Fill, Write
from distkv.sim.fleet import Fleet
from distkv.sim.workload import RING, WRITE_BYTES, Workload
from distkv.wire.value_requests import SetValue
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
    dismiss = DecideAny("n1", 0, is_restored=False, is_checked=False)
    assert not Workload(fleet).do(process, dismiss, spares_disk=True)
    assert len(process.replica.tree.conflicted()) == left


def test_planned_values_end_where_the_disk_is_full() -> None:
    fleet = Fleet()
    host = fleet.start("n0", init="root", alone=True)
    host.disk.fill()
    assert host.process is not None
    workload = Workload(fleet)
    while host.disk.has_room(2 * WRITE_BYTES):  # a segment is open still
        workload.do(host.process, Write("n0", Path(["p"]), 1), spares_disk=True)
    workload.do(host.process, Fill("n0", Path(["p"]), 300), spares_disk=True)
    assert not host.disk.has_room(WRITE_BYTES)
