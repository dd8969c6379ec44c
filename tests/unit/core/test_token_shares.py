"""How many sessions one node, and one connection, gets (docs/protocol, SESSION-14 and SESSION-15)."""

from __future__ import annotations

import pytest

from distkv.core.tokens.serving.session_shares import SessionShares
from distkv.core.tokens.session_tags import tag_of
from distkv.model.event import NodeName
from distkv.services.origin import HERE, ORIGINS, asker_of, origin_of

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


def test_clients_of_the_only_node_get_all_and_a_connection_half() -> None:
    shares = SessionShares(1000)
    shares.is_one_node = True
    assert opened(shares, A, 1) == 500
    assert sum(opened(shares, A, asker) for asker in range(2, 500)) + 500 == 1000


@pytest.mark.parametrize("connections", [1, 3, 100])
def test_host_gets_no_more_by_opening_many_connections(connections: int) -> None:
    shares = SessionShares(9000)
    found = sum(opened(shares, A, asker_of(7, number)) for number in range(connections))
    assert found <= 3000
    assert opened(shares, A, asker_of(8, 1)) >= 700
    assert opened(shares, A, asker_of(HERE, 1)) >= 500
    assert opened(shares, B, asker_of(7, 1)) >= 1000


def test_host_beside_the_only_node_leaves_half_to_others() -> None:
    shares = SessionShares(1000)
    shares.is_one_node = True
    assert sum(opened(shares, A, asker_of(7, number)) for number in range(200)) == 500
    assert opened(shares, A, asker_of(HERE, 1)) == 250


@pytest.mark.parametrize(
    ("peer", "own"),
    [
        (("127.0.0.1", 5), ("127.0.0.1", 6)), (("127.9.9.9", 5), ("10.0.0.1", 6)), (("::1", 5, 0, 0), ("::1", 6, 0, 0)),
        (("10.0.0.1", 5), ("10.0.0.1", 6)), (("fe80::1%eth0", 5, 0, 2), ("fe80::1%eth0", 6, 0, 2)), ("", ""),
        ("/run/x", "/run/x"), (None, None), (("::ffff:127.0.0.1", 5, 0, 0), ("::", 6, 0, 0)), (("x", 5), ("y", 6)),
    ],
)  # fmt: skip
def test_connection_of_the_own_host_has_no_origin(peer: object, own: object) -> None:
    assert origin_of(peer, own) == HERE


@pytest.mark.parametrize(
    ("one", "other", "are_same"),
    [
        ("10.0.0.1", "10.0.0.1", True), ("10.0.0.1", "10.0.0.2", False), ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("2001:db8::1", "2001:db8::ffff:2", True), ("2001:db8::1", "2001:db8:0:1::1", False),
    ],
)  # fmt: skip
def test_origin_is_the_host(one: str, other: str, are_same: bool) -> None:
    found = [origin_of((address, port), ("192.0.2.1", 1)) for port, address in enumerate((one, other))]
    assert (found[0] == found[1]) == are_same
    assert all(HERE < one < ORIGINS for one in found)


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
