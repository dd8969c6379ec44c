"""Nodes that an audit asks, which say what the test wants: a node that fails in the middle, and conflicts.

Knows: the order in which one that has no patience is asked.  Does not know real nodes (tests/spark/test_audit.py).
"""

from __future__ import annotations

from contextlib import ExitStack

from distkv.client.addresses import address_text
from distkv.spark.fleet import NamedNodes
from distkv.wire.replies import encode_end, encode_reply, encode_start
from tests.unit.client.scripted_server import ScriptedServer, Step, close, open_server, reply

LOST = {"path": ["x", 1], "node": "a", "tick": 5, "tock": 7, "time": 1.5, "winner": {"node": "b", "tick": 9}}
NO_CONFLICTS = reply({"items": []})


def state(node: str, digest: str) -> Step:
    return reply(
        {"node": node, "network": "00" * 8, "held": {}, "missing": {}, "lost": {}, "members": [], "digest": digest}
    )


def change(tick: int) -> dict[str, object]:
    return {"tock": 3, "time": 1.5, "chain": {"node": "a", "tick": tick}}


def tree(*values: bytes) -> Step:
    """The packed values of x.0, x.1, ..."""

    def sent(seq: int) -> bytes:
        items = [
            encode_reply(seq, {"path": ["x", at], **change(at + 1)}, value)
            for at, value in enumerate(values)
        ]
        return encode_start(seq) + b"".join(items) + encode_end(seq)

    return sent


def asked(*scripts: tuple[Step, ...]) -> tuple[NamedNodes, tuple[int, list[str]]]:
    """Nodes of these scripts, asked with no patience."""
    with ExitStack() as stack:
        servers: list[ScriptedServer] = [stack.enter_context(open_server(*script)) for script in scripts]
        fleet = NamedNodes([server.address for server in servers], 0.0)
        fleet.look({})
        found = fleet.differences()
        assert {address_text(server.address) for server in servers} >= fleet.silent.keys()
    return fleet, found


def begin(node: str, digest: str) -> tuple[Step, ...]:
    return state(node, digest), state(node, digest)


def test_nodes_of_one_digest_are_not_read() -> None:
    fleet, found = asked(begin("a", "1"), begin("b", "1"))
    assert (found, fleet.silent, len(fleet.views)) == ((0, []), {}, 2)


def test_open_conflicts_are_compared_where_the_trees_are_the_same() -> None:
    same = (tree(b"\x01"), tree())
    _, found = asked(
        (*begin("a", "1"), *same, reply({"items": [LOST]}), NO_CONFLICTS),
        (*begin("b", "2"), *same, NO_CONFLICTS, NO_CONFLICTS),
    )
    assert found == (1, ["x.:1: open conflicts: a has a:5, b has none"])


def test_open_conflicts_are_compared_where_another_path_differs() -> None:
    seen = (tree(), reply({}))
    _, found = asked(
        (*begin("a", "1"), tree(b"\x01"), tree(), reply(change(1), b"\x01"), reply({"items": [LOST]}), NO_CONFLICTS),
        (*begin("b", "2"), tree(), *seen, NO_CONFLICTS, NO_CONFLICTS),
    )
    assert found == (2, ["x.:0: a has 1 (a:1), b has nothing", "x.:1: open conflicts: a has a:5, b has none"])


def test_system_paths_are_compared_too() -> None:
    conflicts = (NO_CONFLICTS, NO_CONFLICTS)
    _, found = asked(
        (*begin("a", "1"), tree(), tree(b"\x01"), reply(change(1), b"\x01"), *conflicts),
        (*begin("b", "2"), tree(), tree(), reply({}), *conflicts),
    )
    assert found == (1, ["x.:0: a has 1 (a:1), b has nothing"])


def test_node_that_fails_in_the_middle_is_silent_and_the_others_are_compared() -> None:
    values, whole = tree(b"\x01"), (tree(b"\x01"), tree(), NO_CONFLICTS, NO_CONFLICTS)
    fleet, found = asked(
        (*begin("a", "1"), values, tree(), *whole),
        (*begin("b", "2"), values, close),
        (*begin("c", "3"), values, *whole),  # of the first comparison it is not asked for the system's paths any more
    )
    assert found == (0, [])
    assert [view.node for view in fleet.views] == ["a", "c"]
    assert len(fleet.silent) == 1


def test_failing_node_that_leaves_one_alone_ends_the_comparison() -> None:
    fleet, found = asked((*begin("a", "1"), tree(b"\x01")), (*begin("b", "2"), close))
    assert (found, [view.node for view in fleet.views]) == ((0, []), ["a"])
