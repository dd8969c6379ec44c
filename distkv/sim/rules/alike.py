"""At the end all nodes hold the same, nothing is missing, and everybody serves.

Knows: what must be equal (docs/protocol, 'Recovery').  Does not know whether it is right: other rules do.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from distkv.core.replica import Replica
from distkv.model.event import Link
from distkv.model.tick_ranges import TickRanges
from distkv.sim.rule import BrokenRuleError, Observed, Observer


@attrs.frozen
class Held:
    """What two nodes at rest have in common."""

    digest: int
    held: TickRanges
    missing: TickRanges
    """But what is given up as lost."""
    losers: frozenset[Link]
    heads: frozenset[Link]
    """But tombstones, which nodes forget at different moments."""
    registry: object


def state_of(replica: Replica) -> Held:
    tree = replica.tree
    losers = frozenset(loser.link for entry in tree.conflicted() for loser in entry.conflicts())
    heads = frozenset(entry.head.link for entry in tree.entries() if entry.is_live)
    missing = tree.ledger.missing(but_lost=True)
    return Held(tree.digest, tree.ledger.held(), missing, losers, heads, replica.registry.nodes)


def show_the_same(replicas: Sequence[Replica]) -> bool:
    """Whether all serve and hold the same, by the digests that they show to each other; one of them at least."""
    first = replicas[0].tree
    return all(replica.is_serving and replica.tree.digest == first.digest for replica in replicas) and all(
        replica.tree.ledger.hash() == first.ledger.hash() for replica in replicas
    )


def are_alike(replicas: Sequence[Replica]) -> bool:
    """Whether all serve, hold the same, and miss nothing but what is given up; the cheap signs first. One at least."""
    if not show_the_same(replicas):
        return False
    states = [state_of(replica) for replica in replicas]
    return all(state == states[0] and not state.missing for state in states)


def is_at_rest(fleet: Observed) -> bool:
    """Whether all nodes are alike, and durably so."""
    hosts = list(fleet.ours())
    return all(host.disk.is_idle for host in hosts) and are_alike([host.live for host in hosts])


def not_at_rest(fleet: Observed, for_ms: int) -> BrokenRuleError:
    """What to raise when a fleet did not come to rest in that time: what differs, if that can be said."""
    try:
        AllAlike().settled(fleet)
    except BrokenRuleError as error:
        return error
    return BrokenRuleError(AllAlike.rule, f"after {for_ms} ms they did not")


class AllAlike(Observer):
    """Equal trees, open losers, digests, tick maps and registries."""

    rule = "all nodes end alike"

    def settled(self, fleet: Observed) -> None:
        for host in fleet.ours():
            if not host.live.is_serving:
                raise self.broken(f"{host.name} is {host.live.state}, it waits for {host.live.waits_for}")
        states = {host.name: state_of(host.live) for host in fleet.ours()}
        (first, one), *others = states.items()
        for name, other in others:
            for field in attrs.fields(Held):
                if getattr(one, field.name) != getattr(other, field.name):
                    raise self.broken(f"{first} and {name} differ in {field.name}")
        if one.missing:
            raise self.broken(f"all lack {one.missing}")
