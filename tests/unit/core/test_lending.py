"""To whom a connection is lent, and when it is offered again (docs/protocol, LINK-9).

Knows: the machine alone.  Does not know connections.
"""

from __future__ import annotations

import random

from distkv.core.links import PATIENCE_MS, RETRY_MAX_MS, UNKNOWN_MS, Lending
from distkv.model.event import NodeName

NAMES = [NodeName(name) for name in ("a", "b", "c", "d", "e")]
ME = NodeName("c")
OTHERS = [name for name in NAMES if name != ME]


def lending(fanout: int = 16) -> Lending:
    return Lending(ME, fanout, random.Random(1))


def offered(machine: Lending, now_ms: int, followers: str = "", away: str = "", alive: str = "abde") -> str:
    """Who is offered a connection now."""
    names = [NodeName(name) for name in alive]
    return "".join(machine.plan(now_ms, names, {*map(NodeName, followers)}, {*map(NodeName, away)}))


def next_offer_ms(machine: Lending, now_ms: int) -> int:
    """When the only other node is offered one again."""
    while not offered(machine, now_ms, alive="a"):
        now_ms += 100
    return now_ms


def test_node_that_does_not_follow_for_a_while_is_offered_a_connection_once() -> None:
    machine = lending()
    assert offered(machine, 0, "abe") == ""
    assert offered(machine, PATIENCE_MS - 1, "abe") == ""
    assert offered(machine, PATIENCE_MS, "abe") == "d"
    assert offered(machine, 100 * PATIENCE_MS, "abe") == ""


def test_node_that_follows_meanwhile_is_offered_none_for_as_long_again() -> None:
    machine = lending()
    assert offered(machine, 0, "abe") == ""
    assert offered(machine, PATIENCE_MS - 1, "abde") == ""
    assert offered(machine, PATIENCE_MS, "abe") == ""
    assert offered(machine, 2 * PATIENCE_MS, "abe") == "d"


def test_node_that_cannot_be_reached_is_offered_none() -> None:
    machine = lending()
    assert offered(machine, 0, "abe", away="d") == ""
    assert offered(machine, PATIENCE_MS, "abe", away="d") == ""
    assert offered(machine, PATIENCE_MS + 1, "abe") == ""


def test_no_more_are_lent_than_follow_a_node_itself_and_these_are_just_behind_it() -> None:
    machine = lending(fanout=3)
    offered(machine, 0)
    assert offered(machine, PATIENCE_MS) == "dea"
    machine.ended(NodeName("e"), PATIENCE_MS, was_used=True)
    assert offered(machine, PATIENCE_MS, alive="bde") == ""  # a, d are lent one still, b must wait its turn
    assert offered(machine, 3 * PATIENCE_MS, alive="bde") in ("e", "b")
    assert offered(machine, 9 * PATIENCE_MS, alive="bde") == ""


def test_node_that_takes_none_is_offered_one_ever_later_up_to_a_limit() -> None:
    """(docs/protocol, LINK-22)"""
    machine, waits, now_ms = lending(), [], next_offer_ms(lending(), 0)
    now_ms = next_offer_ms(machine, 0)
    for _ in range(12):
        machine.ended(NodeName("a"), now_ms, was_used=False)
        again_ms = next_offer_ms(machine, now_ms)
        waits.append(again_ms - now_ms)
        now_ms = again_ms
    assert waits[0] <= 3100
    assert all(RETRY_MAX_MS / 2 <= wait <= 1.5 * RETRY_MAX_MS + 100 for wait in waits[-3:])


def test_connection_that_was_used_is_lent_again_soon() -> None:
    machine = lending()
    now_ms = next_offer_ms(machine, 0)
    for was_used in (False, False, False, False, True):
        machine.ended(NodeName("a"), now_ms, was_used=was_used)
        before_ms, now_ms = now_ms, next_offer_ms(machine, now_ms)
    assert now_ms - before_ms <= 3100


def test_node_of_a_release_that_takes_none_is_left_alone_for_long() -> None:
    """(docs/protocol, LINK-22)"""
    machine = lending()
    now_ms = next_offer_ms(machine, 0)
    machine.ended(NodeName("a"), now_ms, was_used=False, is_unknown=True)
    assert next_offer_ms(machine, now_ms) - now_ms >= UNKNOWN_MS / 2


def test_end_of_what_was_not_lent_changes_nothing() -> None:
    machine = lending()
    machine.ended(NodeName("a"), 0, was_used=False)
    offered(machine, 0)
    assert offered(machine, PATIENCE_MS) == "deab"
