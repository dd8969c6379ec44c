"""Which of two pings is the basis of the next round, and when a chain tells of a split.

Knows: the sentences of 'Ping sequence' about collisions and splits.  Does not know time.
"""

from __future__ import annotations

import itertools

import pytest

from distkv.core.election import MEMORY_LINKS, Election, PingVerdict, has_data, rank
from distkv.model.event import NodeName, Tick, Tock
from distkv.wire.message import PingChain, PingLink


class _Half:
    def random(self) -> float:
        return 0.5


def link(node: str, tock: int, tick: int | None = 1) -> PingLink:
    return PingLink(NodeName(node), None if tick is None else Tick(tick), Tock(tock))


def listening(*heard: PingChain) -> Election:
    machine = Election(NodeName("me"), 5000, 4, _Half())
    machine.wake(0)
    for chain in heard:
        machine.heard(chain, 0)
    return machine


PREV = (link("p", 9), link("q", 8), link("r", 7))


# -- collisions


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        pytest.param(link("b", 11, 1), link("a", 10, 5), id="higher tock"),
        pytest.param(link("b", 10, 6), link("a", 10, 5), id="equal tocks, higher tick"),
        pytest.param(link("a", 10, 5), link("b", 10, 5), id="equal ticks too, lower name"),
        pytest.param(link("a", 10, 5), link("aa", 10, 5), id="a name before its longer forms"),
        pytest.param(link("z", 10, 5), link("ä", 10, 5), id="by UTF-8"),
        pytest.param(link("b", 10, 1), link("a", 10, None), id="any tick before none"),
    ],
)
class TestCollision:
    def test_better_ping_replaces_the_worse(self, better: PingLink, worse: PingLink) -> None:
        machine = listening((worse, *PREV))
        assert machine.heard((better, *PREV), 1) is PingVerdict.FOLLOWS
        assert machine.basis[0] == better

    def test_worse_ping_changes_nothing(self, better: PingLink, worse: PingLink) -> None:
        machine = listening((better, *PREV))
        assert machine.heard((worse, *PREV), 1) is PingVerdict.LOSES
        assert machine.basis[0] == better


def test_rank_of_pings_is_total() -> None:
    links = [link(node, tock, tick) for node in ("a", "b") for tock in (1, 2) for tick in (None, 1, 2)]
    assert all(rank(one) != rank(other) for one, other in itertools.combinations(links, 2) if one.tick or other.tick)


def test_first_pings_that_collide_are_no_split() -> None:
    assert listening((link("a", 5),)).heard((link("b", 6),), 1) is PingVerdict.FOLLOWS


def test_ping_heard_again_changes_nothing() -> None:
    machine = listening((link("a", 10), *PREV))
    assert machine.heard((link("a", 10), *PREV), 1) is PingVerdict.REPEATED


def test_losing_ping_heard_again_is_known_as_repeated() -> None:
    machine = listening((link("a", 12), *PREV), (link("b", 10), *PREV))
    assert machine.heard((link("b", 10), *PREV), 1) is PingVerdict.REPEATED


def test_first_ping_heard_is_taken_as_it_is() -> None:
    machine = listening()
    assert machine.heard((link("a", 10), *PREV), 0) is PingVerdict.FIRST
    assert machine.basis == (link("a", 10), *PREV)


# -- splits

FOREIGN = (link("x", 20), link("y", 19), link("x", 18), link("y", 17))


def test_higher_chain_without_a_common_link_is_a_split_that_it_wins() -> None:
    machine = listening((link("a", 10), *PREV))
    assert machine.heard(FOREIGN, 1) is PingVerdict.SPLIT_WON
    assert machine.basis == FOREIGN


def test_lower_chain_without_a_common_link_is_a_split_that_ours_wins() -> None:
    ours = (link("a", 30), link("b", 18), link("c", 9), link("d", 8))
    machine = listening(ours)
    assert machine.heard(FOREIGN, 1) is PingVerdict.SPLIT_LOST
    assert machine.basis == ours


def test_same_nodes_with_other_tocks_are_no_common_link() -> None:
    machine = listening((link("x", 10), link("y", 9), link("x", 8)))
    assert machine.heard((link("x", 20), link("y", 19), link("x", 18)), 1) is PingVerdict.SPLIT_WON


@pytest.mark.parametrize("place", range(1, 4))
def test_one_common_link_anywhere_is_enough(place: int) -> None:
    ours = (link("a", 10), *PREV)
    theirs = [*FOREIGN]
    theirs[place] = ours[1]
    assert listening(ours).heard(tuple(theirs), 1) is PingVerdict.FOLLOWS


def test_ping_that_overtook_another_is_no_split() -> None:
    first, second = (link("a", 10), *PREV), (link("b", 11), link("a", 10), *PREV[:2])
    assert listening(second).heard(first, 1) is PingVerdict.REPEATED


def test_chain_merely_older_than_ours_is_no_split() -> None:
    ours = (link("a", 40), link("b", 39), link("a", 38), link("b", 37))
    assert listening(ours).heard(FOREIGN, 1) is PingVerdict.LOSES


def test_chain_of_earlier_rounds_is_remembered_as_ours() -> None:
    machine = listening((link("a", 10),))
    tocks = range(11, 30)
    for tock in tocks:
        machine.heard((link("b", tock), link("b", tock - 1)), 0)
    assert machine.heard((link("c", 31), link("a", 10)), 1) is PingVerdict.FOLLOWS


def test_memory_of_earlier_rounds_is_bounded() -> None:
    machine = listening((link("a", 10),))
    for tock in range(11, 12 + MEMORY_LINKS):
        machine.heard((link("b", tock), link("b", tock - 1)), 0)
    assert machine.heard((link("c", 200), link("a", 10)), 1) is PingVerdict.SPLIT_WON


# -- zero ticks


@pytest.mark.parametrize("tick", [None, 0])
def test_chain_of_zero_ticks_only_is_not_authoritative(tick: int | None) -> None:
    assert not has_data((link("a", 2, tick), link("b", 1, tick)))


def test_chain_with_one_tick_is_authoritative() -> None:
    assert has_data((link("a", 2, None), link("b", 1, 1)))
