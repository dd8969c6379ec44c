"""Which of two maps of the token servers is the newer one."""

from __future__ import annotations

import pytest

from distkv.core.tokens.known_servers import KnownServers
from distkv.model.event import NodeName
from distkv.model.standing import ServerStanding
from distkv.wire.token_messages import TokenMap
from distkv.wire.token_states import TokenServer

A, B = NodeName("a"), NodeName("b")


@pytest.mark.parametrize(
    ("term", "version", "is_newer"),
    [
        (5, 101, True),
        (6, 100, True),
        (5, 100, False),
        (6, 99, False),
        (1, 1_000_100, True),  # after a reset among servers that had lost their disks
    ],
)
def test_map_of_a_higher_version_or_term_is_the_newer_one(term: int, version: int, *, is_newer: bool) -> None:
    known = KnownServers((A, B))
    servers = {A: TokenServer(ServerStanding.READY, 1, 7), B: TokenServer(ServerStanding.READY, 2, 7)}
    known.heard(TokenMap(5, 100, 100, A, servers, 0, is_sure=True), 0)
    assert known.heard(TokenMap(term, version, version, B, servers, 0, is_sure=True), 10) is is_newer
    assert known.leader == (B if is_newer else A)
