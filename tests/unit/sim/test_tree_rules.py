"""The rules of the server tree see what they are there for."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from distkv.core.edges import Deliver
from distkv.core.ready import Ready
from distkv.core.server_tree.backlog import ITEMS_MAX
from distkv.core.server_tree.machine import ServerTree
from distkv.core.server_tree.parents import TreePeer
from distkv.core.server_tree.settings import TreeSettings
from distkv.model.event import NodeName
from distkv.sim.rule import BrokenRuleError, Observed
from distkv.sim.rules.trees import HeardOnce, OverrunEnds, circle_of
from distkv.wire.edges import TreeFrame

A, B, C = NodeName("a"), NodeName("b"), NodeName("c")


class _Nobody:
    """A ground on which no other node is."""

    def is_registered(self, name: NodeName, life: int | None = None) -> bool:  # noqa: ARG002
        return False

    def peers(self, now_ms: int) -> Mapping[NodeName, TreePeer]:  # noqa: ARG002
        return {}


class _Placed(ServerTree):
    """A machine that stands where the test says."""

    def __init__(self, parent: NodeName | None, *children: NodeName) -> None:
        super().__init__(TreeSettings(A, "", 2, 5000), Random(1), _Nobody())
        self._above, self._below = parent, [*children]

    @property
    def parent(self) -> NodeName | None:
        return self._above

    @property
    def children(self) -> list[NodeName]:
        return self._below


@pytest.mark.parametrize(
    ("trees", "circle"),
    [
        ({A: _Placed(None, B), B: _Placed(A, C), C: _Placed(B)}, []),
        ({A: _Placed(C, B), B: _Placed(A, C), C: _Placed(B, A)}, [A, B, C]),
        ({A: _Placed(C, B), B: _Placed(A, C), C: _Placed(B)}, []),
        ({A: _Placed(B, B), B: _Placed(A, A), C: _Placed(None)}, [A, B]),
        ({A: _Placed(B), B: _Placed(None)}, []),
    ],
    ids=["line", "circle", "one end only", "pair", "parent that does not know it"],
)
def test_circle_is_one_of_edges_that_both_ends_have(
    trees: Mapping[NodeName, ServerTree], circle: list[NodeName]
) -> None:
    assert circle_of(trees) == circle


class _Running:
    """A process, as far as the rule looks at it."""

    def __init__(self, host: Any) -> None:
        self.host = host


def _hear(rule: HeardOnce, process: Any, origin: NodeName, *numbers: int) -> None:
    for number in numbers:
        rule.stepped(process, None, Ready(edges=[Deliver(TreeFrame(origin, 1, number, "say", b""))]))


def test_what_is_heard_twice_or_out_of_order_breaks_the_rule() -> None:
    rule, process = HeardOnce(), _Running(SimpleNamespace(name="a", node=A))
    _hear(rule, process, B, 1, 3)
    _hear(rule, process, C, 1)
    for number in (3, 2):
        with pytest.raises(BrokenRuleError, match="after"):
            _hear(rule, process, B, number)
    with pytest.raises(BrokenRuleError):
        _hear(rule, process, A, 9)


def test_edge_on_which_too_much_waits_breaks_the_rule() -> None:
    edges = SimpleNamespace(longest=ITEMS_MAX)
    host = SimpleNamespace(name="a", process=SimpleNamespace(edges=edges))
    fleet = cast(Observed, SimpleNamespace(ours=lambda: [host]))
    OverrunEnds().second(fleet)
    edges.longest += 1
    with pytest.raises(BrokenRuleError, match="321 items"):
        OverrunEnds().second(fleet)
