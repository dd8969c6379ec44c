"""How many sessions one node, and one connection, gets (docs/protocol, SESSION-14)."""

from __future__ import annotations

import pytest

from distkv.core.tokens.serving.session_shares import SessionShares
from distkv.core.tokens.session_tags import tag_of
from distkv.model.event import NodeName

A, B, C = (NodeName(name) for name in "abc")


def opened(shares: SessionShares, node: NodeName, asker: int, wanted: int = 10_000) -> int:
    """How many it gets."""
    for count in range(wanted):
        tag = tag_of(node, asker, asker << 20 | count)
        if shares.refusal(tag) is not None:
            return count
        shares.put(tag)
    return wanted


def test_one_connection_gets_a_third_and_one_node_half() -> None:
    shares = SessionShares(9000)
    assert opened(shares, A, 1) == 3000
    assert sum(opened(shares, A, asker) for asker in range(2, 50)) + 3000 <= 4500
    assert opened(shares, B, 1) >= 1000
    assert opened(shares, C, 1) >= 300


@pytest.mark.parametrize("sessions_max", [1, 2, 3, 10])
def test_first_session_of_a_node_is_opened_while_there_is_room(sessions_max: int) -> None:
    shares = SessionShares(sessions_max)
    for count in range(sessions_max):
        assert opened(shares, NodeName(f"n{count}"), 1, 1) == 1
    assert "limits.token_sessions" in str(shares.refusal(tag_of(A, 1, 5)))


def test_session_that_ends_makes_room_for_its_connection() -> None:
    shares = SessionShares(30)
    assert opened(shares, A, 1) == 10
    shares.drop(tag_of(A, 1, 1 << 20 | 3))
    shares.drop(tag_of(A, 1, 1 << 20 | 3))
    assert shares.refusal(tag_of(A, 1, 99)) is None


def test_new_leader_counts_what_there_is() -> None:
    shares, fresh = SessionShares(30), SessionShares(30)
    opened(shares, A, 1)
    fresh.put(tag_of(B, 1, 1))
    fresh.reset([f"{version}-{tag_of(A, 1, version)}" for version in range(10)])
    assert fresh.refusal(tag_of(A, 1, 99)) is not None
    assert fresh.refusal(tag_of(B, 1, 2)) is None
