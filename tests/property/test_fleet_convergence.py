"""Random workloads under random faults: when the faults end, all nodes hold the same within a deadline.

Knows: one seed picks fleet, faults and workload (docs/protocol, 'Proof').  The fleet itself checks after every step
that no tick has two contents, that ready is never left, that a crash changes nothing, and that nobody spins.
Does not know disks that burn with the only copy of something, but in the last test.
"""

from __future__ import annotations

import random

import pytest

from distkv.model.ranges import Ranges
from tests.fleet import Faults, Fleet, Member

DEADLINE_MS = 60_000
"""Twelve clocks: a ping that shows the difference takes up to three, lost ticks are given up after three more."""


class Trouble:
    """One seed's fleet, workload and faults."""

    def __init__(self, seed: int, *, burning: bool) -> None:
        self.rng = rng = random.Random(seed)
        self.burning = burning
        self.names = [f"n{number}" for number in range(rng.randint(2, 5))]
        self.paths = [f"p.{number}" for number in range(rng.choice([1, 3, 10, 40]))]
        self.crashes, self.wipes = rng.choice([0, 1, 3]), rng.choice([0, 1, 2])
        self.fleet = Fleet(seed)
        self.more = {
            "chain_length_max": rng.choice([2, 3, 5]),
            "pull_events_max": rng.choice([20, 100, 20_000]),
        }

    def run(self) -> Fleet:
        rng, fleet = self.rng, self.fleet
        fleet.start(self.names[0], init="root", **self.more)
        fleet.run(7000)
        fleet.faults = Faults(
            loss=rng.choice([0.0, 0.05, 0.1, 0.3]),
            duplication=rng.choice([0.0, 0.1, 0.3]),
            delay_ms=(1, rng.choice([5, 50, 800])),
            answer_ms=(1, rng.choice([3, 30, 300])),
            breaks=rng.choice([0.0, 0.0, 0.05, 0.2]),
            update_loss=rng.choice([0.0, 0.2, 0.6, 0.9]),
        )
        for name in self.names[1:]:
            fleet.start(name, **self.more)
            fleet.run(rng.randint(0, 3000))
        for _ in range(rng.randint(20, 120)):
            self._something_happens(rng.random())
            fleet.run(rng.choice([0, 10, 200, 1500, 6000]))
        self._all_is_well()
        return fleet

    def _something_happens(self, draw: float) -> None:
        rng, fleet = self.rng, self.fleet
        member = rng.choice(list(fleet.running()))
        if draw < 0.75:
            fleet.set(member.name, rng.choice(self.paths), rng.choice([None, 1, 2, "x" * 20]))
        elif draw < 0.80:
            shuffled, middle = rng.sample(self.names, len(self.names)), rng.randint(0, len(self.names))
            fleet.partition(shuffled[:middle], shuffled[middle:])
        elif draw < 0.83:
            fleet.cut.add(tuple(rng.sample(self.names, 2)))
        elif draw < 0.86:
            fleet.heal()
        elif draw < 0.90:
            if self.crashes and self._others(member):
                self.crashes -= 1
                fleet.crash(member.name)
        elif draw < 0.93:
            self._start_all(up=rng.random() < 0.9)
        elif draw < 0.95:
            if self.wipes and self._may_lose(member):
                self.wipes -= 1
                fleet.wipe(member.name)
        elif draw < 0.97:
            fleet.transport(member.name, up=not member.agent.is_up)

    def _others(self, member: Member) -> list[Member]:
        return [other for other in self.fleet.running() if other is not member]

    def _may_lose(self, member: Member) -> bool:
        """Whether another node that has data holds all that this disk does."""
        mine = member.live.tree.ledger.held()
        for other in self._others(member):
            held = other.live.tree.ledger.held()
            if other.live.is_serving and (
                self.burning or not any(ranges - held.get(name, Ranges()) for name, ranges in mine.items())
            ):
                return True
        return False

    def _start_all(self, *, up: bool) -> None:
        for name in self.names:
            member = self.fleet.members.get(name)
            if member is not None and member.process is None:
                self.fleet.start(name, up=up, **self.more)

    def _all_is_well(self) -> None:
        fleet = self.fleet
        fleet.heal()
        fleet.faults = Faults()
        self._start_all(up=True)
        for member in list(fleet.running()):
            if not member.agent.is_up:
                fleet.transport(member.name, up=True)


def _differences(fleet: Fleet) -> str:
    return "\n".join(
        f"{m.name}: {m.live.state} {m.live.waits_for!r} {m.live.tree.digest:016x} {m.live.tree.ledger.missing()}"
        for m in fleet.running()
    )


@pytest.mark.parametrize("seed", range(120))
def test_after_the_faults_all_nodes_hold_the_same_and_everything(seed: int) -> None:
    fleet = Trouble(seed, burning=False).run()
    assert fleet.run_until(fleet.is_converged, DEADLINE_MS), _differences(fleet)
    for member in fleet.running():
        ledger = member.live.tree.ledger
        assert ledger.is_whole, _differences(fleet)
        assert [link for link in fleet.events if not ledger.has(link)] == []


@pytest.mark.parametrize("seed", range(60))
def test_after_disks_burned_all_nodes_hold_the_same_or_raise_the_alarm(seed: int) -> None:
    # What an overwriter burned with may have closed what others still show: only the digest can tell.
    fleet = Trouble(seed, burning=True).run()
    assert fleet.run_until(fleet.is_converged, DEADLINE_MS) or fleet.notes["digest_differs"], _differences(fleet)
