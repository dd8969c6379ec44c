"""Sessions of the benchmark hold their tokens on a real node, and a loss is told, not counted.

Knows: how a node takes a token away.  Measures nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.keeping import Counted, Keepers, open_keepers
from bench.load import LoadError
from bench.network import client_of, wait_token_servers
from bench.servers import Server, distkv, open_servers

SESSIONS, TOKENS = 3, 6
SETTINGS = "tokens: {servers: [distkv], lease: 1, ttl: 3}\n"
"""A session is kept every half second."""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Server]:
    made = distkv(tmp_path, config=SETTINGS)
    with open_servers({made.name: made}):
        wait_token_servers(made)
        yield made


def _counted(keepers: Keepers, keeps: int) -> Counted:
    """Once there were so many keep-alives."""
    while (found := keepers.count()).keeps < keeps:
        continue
    return found


def test_sessions_hold_all_tokens_and_each_is_kept(node: Server) -> None:
    with open_keepers(node.port, 2, SESSIONS, TOKENS) as keepers, client_of(node) as client:
        found = _counted(keepers, 3 * SESSIONS)
        items = client.request("token_list", is_read=True)["items"]
    assert found.held == TOKENS
    assert isinstance(items, list)
    holders = [holder["session"] for item in items for holder in item["holders"]]
    assert len(holders) == TOKENS
    assert len(set(holders)) == SESSIONS


def test_token_that_is_taken_ends_the_keepers(node: Server) -> None:
    with open_keepers(node.port, 2, SESSIONS, TOKENS) as keepers, client_of(node) as client:
        client.request("token_break", {"token": "kept.000004"})
        with pytest.raises(LoadError, match=r"kept\.000004"):
            _counted(keepers, 100 * SESSIONS)


def test_token_of_somebody_else_is_not_counted(node: Server) -> None:
    with client_of(node) as client:
        session = client.request("token_open", {"ttl": 60})["session"]
        client.request("token_acquire", {"session": session, "token": "kept.000004"})
        with pytest.raises(LoadError, match=r"kept\.000004"), open_keepers(node.port, 2, SESSIONS, TOKENS):
            pass
