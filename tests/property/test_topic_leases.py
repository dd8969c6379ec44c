"""However nodes sleep, are killed and start anew, and clocks drift: no two answer gets for one topic by leases.

Knows: the play.  Does not know the rules.
"""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from distkv.model.event import NodeName
from tests.profiles import examples
from tests.property.topic_lease_play import LeaseNode, LeasePlay, Version
from tests.topic_copies import SETTINGS, A, B, C, Named

DRIFT = 0.0099
LEASE_MS = SETTINGS.lease_ms


def play(chance: random.Random, count: int, *, rounds: int = 12) -> LeasePlay:
    fleet = LeasePlay(chance, loss=chance.choice((0.0, 0.2)), delay_ms=chance.choice((5, 60)), disk_ms=20)
    names = [A, B, C][:count]
    first = Version(0, Named(A, frozenset(names[1:])), frozenset())
    fleet.all_versions[0] = first
    for me in names:
        rate = 1 + chance.choice((-DRIFT, 0.0, DRIFT))
        node = LeaseNode(fleet, me, SETTINGS, rate=rate, offset_ms=chance.randrange(10_000))
        node.kept[0] = first
        fleet.nodes[me] = node
    for node in fleet.nodes.values():
        node.start()
    for _ in range(rounds):
        node = fleet.nodes[chance.choice(names)]
        if node.is_paused or not node.is_up:
            _wake(node)
        elif chance.random() < 0.7:
            node.is_paused = True
        else:
            node.crash()
        fleet.check()
        fleet.pass_time(chance.choice((100, LEASE_MS // 2, LEASE_MS, 2 * LEASE_MS, 4 * LEASE_MS)), fleet.check)
    return fleet


def _wake(node: LeaseNode | object) -> None:
    assert isinstance(node, LeaseNode)
    if node.is_up:
        node.is_paused = False
    else:
        node.start()


@examples(60)
@given(st.randoms(use_true_random=False), st.sampled_from([2, 3]))
def test_no_two_nodes_answer_for_one_topic_by_leases(chance: random.Random, count: int) -> None:
    """COPY-4."""
    play(chance, count)


def test_somebody_answers_again_when_all_are_awake() -> None:
    for seed in range(10):
        fleet = play(random.Random(seed), 3)
        for node in fleet.nodes.values():
            if node.is_paused or not node.is_up:
                _wake(node)
        fleet.pass_time(10 * LEASE_MS, fleet.check)
        answers = fleet.answers
        fleet.pass_time(LEASE_MS, fleet.check)
        assert fleet.answers > answers, seed


def test_follower_takes_the_place_of_an_owner_that_was_killed() -> None:
    """COPY-5."""
    fleet = play(random.Random(1), 3, rounds=0)
    fleet.pass_time(2 * LEASE_MS, fleet.check)
    fleet.nodes[A].crash()
    fleet.pass_time(5 * LEASE_MS, fleet.check)
    assert fleet.nodes[B].owner_of("news") in {B, C}
    assert any(fleet.lease_node(NodeName(node)).may_answer() for node in "bc")
