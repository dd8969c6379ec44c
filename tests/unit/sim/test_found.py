"""What seeds of the simulator found in the core, each as small as it could be made."""

from __future__ import annotations

from distkv.sim.fleet import Fleet
from distkv.sim.rules.progress import NoBusyLoop


def test_restarted_node_that_loses_its_transport_before_it_heard_all_does_not_spin() -> None:
    # Seed 329: who asks others what they heard of its life was woken again and again once nobody could be asked.
    fleet = Fleet(observers=[NoBusyLoop()])
    fleet.start("n0", init="root")
    fleet.start("n1")
    fleet.run(20_000)
    fleet.end(fleet.hosts["n0"])
    fleet.end(fleet.hosts["n1"])
    fleet.start("n1")
    fleet.run(100)
    fleet.transport("n1", up=False)
    fleet.run(8000)
    assert fleet.hosts["n1"].process is not None
