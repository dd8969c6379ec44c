"""Readers of `get_changes` that stop in the middle: what they cost a node, and whom they hold up.

Knows: one server, its memory, and raw connections.  What an answer holds is tested in tests/node.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from distkv.client.changes import ChangePage
from distkv.client.questions import Set
from distkv.model.ranges import Ranges
from distkv.wire.asking import encode_request
from distkv.wire.request import GetChanges
from tests.process.load import Wire
from tests.process.servers import Server, Servers, wait_until

MEMORY_MAX = 32 << 20
STALLED = 4
"""As many as `limits.change_reads` has by default."""
EVENTS, VALUE_BYTES = 5000, 4000
"""Twenty pages of a megabyte: more than the kernel keeps for somebody who does not read."""


def test_four_readers_that_stop_cost_little_and_hold_up_nobody(servers: Servers) -> None:
    server = servers.start("a", "--transport", "solo", "--init", "hello")
    server.wait_ready()
    first = _write(server)
    wanted = {"a": Ranges([(first, first + EVENTS)])}
    server.wait_settled()
    assert _read(server, wanted) == EVENTS  # what a first reader costs once is no one's who stops
    before = _memory(server)
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(server)) for _ in range(STALLED)]
        for wire in wires:
            wire.send(encode_request(GetChanges(wire.next_seq(), wanted)))
        for wire in wires:
            wait_until(lambda wire=wire: wire.socket.recv(1), "an answer begins")
        for _ in range(3):
            assert _read(server, wanted) == EVENTS
        assert _memory(server) - before <= MEMORY_MAX


def _write(server: Server) -> int:
    """Values over one another; the first tick."""
    with server.client() as client:
        ticks = [
            done.link[1]
            for at in range(0, EVENTS, 100)
            for done in client.batch([Set(f"x.k{key}", f"{at} {'v' * VALUE_BYTES}") for key in range(100)])
            if done.link is not None
        ]
    assert len(ticks) == EVENTS
    return ticks[0]


def _read(server: Server, wanted: dict[str, Ranges]) -> int:
    """How many changes a reader gets that takes all."""
    with server.client() as client:
        return sum(len(page.won) for page in client.get_changes(wanted) if isinstance(page, ChangePage))


def _memory(server: Server) -> int:
    assert server.process is not None
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS:"))
