"""The benchmark's Python callers on a real node: every answer is compared, and what was written is read back.

Knows: distkv's clients.  redis-py needs a Redis, which only the benchmark itself starts.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bench.callers import fill, run

import distkv
from tests.process.servers import Server, open_servers

RUN_S = 0.5
"""Of which the first 15 % do not count."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with open_servers(tmp_path_factory.mktemp("bench")) as servers:
        server = servers.start("a", "--transport", "solo", "--init", "bench")
        server.wait_ready()
        fill("distkv", server.port)
        yield server


@pytest.mark.parametrize("verb", ["get", "set"])
@pytest.mark.parametrize(("loop", "tasks"), [("blocking", 1), ("asyncio", 4), ("trio", 4)])
def test_answers_of_a_node_are_right(node: Server, loop: str, tasks: int, verb: str) -> None:
    found = run("distkv", loop, node.port, verb, tasks, RUN_S, 1)
    assert not found.failure
    assert (found.checked > 0) == (verb == "set")


def test_value_that_somebody_else_changed_is_no_answer(node: Server) -> None:
    with distkv.connect("127.0.0.1", node.port) as client:
        client.delete("g.0")
    assert "wrong" in run("distkv", "blocking", node.port, "get", 1, RUN_S, 1).failure
