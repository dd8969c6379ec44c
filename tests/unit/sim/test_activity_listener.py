"""Connections of clients of the activity network in the simulator: what the service is asked, and told when they end.

Knows: scenario files and `distkv.sim.activity`.
"""

from __future__ import annotations

from distkv.sim.grammar import parse_script
from distkv.sim.player import play

HEAD = """
settings activity=yes trees=yes seed=3
cluster a b
show nothing
run 12s
"""


def _chats(commands: str) -> list[str]:
    """What `chats` shows after these commands."""
    script = parse_script(f"{HEAD}{commands}\nchats\n----\n", "test")
    return [line for line in play(script).outputs[-1] if line]


def test_node_that_ends_does_not_wait_for_a_client_that_it_sent_on_as_it_logged_in() -> None:
    """The node answers the login, and says where to go, before it returns from being asked."""
    moved = "chat a u\nrun 3s\nchat a v\nrun 3s"
    assert _chats(moved)[-2:] == ["u: at a, heard 0, lacks 0", "v: at b, heard 0, lacks 0"]
    assert _chats(f"{moved}\nend-in-order a\nrun 1s")[0].startswith("b: 2 clients")
