"""The bench's sets that watchers are told of: each of them, at each watcher.

Knows: a real node alone.  Measures nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.heard import measure_idle, measure_rate
from bench.servers import Server, distkv, open_servers


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Server]:
    made = distkv(tmp_path)
    with open_servers({made.name: made}):
        yield made


def test_sets_at_a_rate_have_a_delay_for_each_watcher(node: Server) -> None:
    found = measure_rate(node, [node, node], seconds=0.2, per_second=100)
    assert (found.count, found.watchers, len(found.delays_s)) == (20, 2, 40)


def test_idle_sets_are_awaited_one_after_another(node: Server) -> None:
    found = measure_idle(node, node, seconds=0.3, pause_s=0.01)
    assert len(found.delays_s) == found.count > 0
