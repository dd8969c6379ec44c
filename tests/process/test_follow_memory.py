"""Followers that read nothing cost a real server no more memory than its settings allow.

Knows: what the kernel says of a process.  Does not know queues: `tests/node/test_follow_slow` looks into them.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Final

from distkv.client.blocking import Client
from distkv.wire.packing import pack
from tests.process.load import Wire
from tests.process.servers import Server, Servers

FOLLOWERS: Final = 20
FOLLOW_BYTES: Final = 4 << 20
VALUE: Final = "x" * (100 << 10)
BEFORE: Final = 20 << 20
WRITTEN: Final = 120 << 20
GROWTH_MAX: Final = 90 << 20
"""Far more than storage may need, and less than what is written: were that kept for a follower, it would show."""


def memory(server: Server) -> int:
    """What the process uses of the machine's memory, in bytes."""
    assert server.process is not None
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS:"))


def write(client: Client, size: int) -> None:
    """The same paths again and again: what is written anew, the tree holds once."""
    for number in range(size // len(VALUE)):
        client.set(f"x.{number % 20}", VALUE)


def test_followers_that_read_nothing_cost_bounded_memory(servers: Servers) -> None:
    server = servers.add("solo").start(
        "--transport", "solo", "--init", "hello", options=("-C", f"limits.follow_bytes={FOLLOW_BYTES}")
    )
    server.wait_ready()
    with ExitStack() as stack, server.client() as client:
        write(client, BEFORE)
        server.wait_settled()  # what storage keeps in memory it has now
        before = memory(server)
        for _ in range(FOLLOWERS):
            wire = stack.enter_context(Wire(server))
            wire.send(pack({"seq": 1, "action": "follow", "nodes": {"solo": 0}}))
            assert (wire.receive() or {})["state"] == "start"
        write(client, WRITTEN)
        assert memory(server) - before < GROWTH_MAX
        counters = client.state()["counters"]
        assert isinstance(counters, dict)
        assert counters["followers"] == FOLLOWERS
