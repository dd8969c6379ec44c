"""The check of a node looks at each machine that there is in it, and changes nothing."""

from __future__ import annotations

import gc
import random
import sys
from types import FrameType

import trio

from distkv.core.ground.turn import ServiceTurn
from distkv.core.replica import Replica
from distkv.core.tokens.machine import TOKENS, TokenMachine
from distkv.core.tokens.token_settings import TokenSettings
from distkv.model.event import NodeName
from tests.node.nodes import Node, run, solo_node
from tests.offenders import assert_none

SERVING_S = 10.0
"""After so long a token server that is alone grants."""


def machines_in(replica: Replica) -> dict[int, object]:
    """Everything that has a `check` and that the node holds, by its identity."""
    found, todo = dict[int, object](), [object(), replica]
    seen = set[int]()
    while todo:
        one = todo.pop()
        if id(one) in seen or not _is_of_core(one):
            continue
        seen.add(id(one))
        if hasattr(one, "check"):
            found[id(one)] = one
        todo += gc.get_referents(one)
    return found


def _is_of_core(one: object) -> bool:
    """Whether there may be machines in it."""
    kind = type(one)
    if kind is ServiceTurn:
        return False  # it is what a step is given
    return kind in (dict, list, tuple, set) or kind.__module__.startswith("distkv.core")


def looked_at(replica: Replica) -> set[int]:
    """Whose `check` is called by that of the node."""
    found = set[int]()

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name == "check":
            found.add(id(frame.f_locals["self"]))

    sys.setprofile(look)
    try:
        replica.check()
    finally:
        sys.setprofile(None)
    return found


async def served(node: Node) -> None:
    """Something of everything happens."""
    async with node.client() as client:
        await client.ask("set_value", path=["a"], value=1)
        session = (await client.ask("token_open", ttl=60.0))["session"]
        await client.ask("token_acquire", session=session, token="t")


def test_check_of_a_node_looks_at_each_machine_in_it() -> None:
    machine = TokenMachine(TokenSettings((NodeName("a"),)), random.Random(1))

    async def main() -> None:
        async with solo_node(services={TOKENS: machine}) as node:
            await trio.sleep(SERVING_S)
            await served(node)
            seen, there = looked_at(node.replica), machines_in(node.replica)
            assert len(there) > 30
            assert_none(sorted(type(one).__qualname__ for id, one in there.items() if id not in seen))

    run(main)
