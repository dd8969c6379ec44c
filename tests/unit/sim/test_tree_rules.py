"""The rules of the server tree see what they are there for."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from distkv.core.ground.frames import Heard, Lacked, Origin
from distkv.core.ready import Ready
from distkv.core.server_tree.backlog import ITEMS_MAX
from distkv.core.server_tree.machine import ServerTree
from distkv.core.server_tree.parents import TreePeer
from distkv.core.server_tree.settings import TreeSettings
from distkv.model.event import NodeName
from distkv.sim.rule import BrokenRuleError, Observed
from distkv.sim.rules.trees import HeardOnce, OverrunEnds, circle_of
from distkv.sim.sayings import SAY, Sayings

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

    def __init__(self, name: str) -> None:
        self.machine = Sayings()
        self.host = SimpleNamespace(name=name, node=NodeName(name))
        self.replica = SimpleNamespace(services={SAY: self.machine})

    def tell(self, rule: HeardOnce, *told: Heard | Lacked | None) -> None:
        self.machine.heard.extend(told)
        rule.stepped(cast(Any, self), None, Ready())


def _heard(origin: NodeName, number: int, start: int = 1) -> Heard:
    return Heard(Origin(origin, start), number, b"")


@pytest.mark.parametrize(
    "told",
    [
        [_heard(B, 2)],
        [_heard(B, 1), _heard(B, 1)],
        [_heard(B, 1), _heard(B, 3)],
        [_heard(B, 1), Lacked(Origin(B, 1), 3, 4)],
        [Lacked(Origin(B, 1), 1, 4), _heard(B, 4)],
        [_heard(B, 1, start=2), _heard(B, 1, start=1)],
        [_heard(B, 1, start=2), _heard(B, 2, start=3)],
        [_heard(A, 1)],
    ],
    ids=["first", "twice", "gap", "gap before a gap", "lacked and heard", "earlier start", "later start", "own"],
)
def test_number_that_is_not_the_next_one_breaks_the_rule(told: list[Heard | Lacked]) -> None:
    rule, process = HeardOnce(), _Running("a")
    process.tell(rule, *told[:-1])
    with pytest.raises(BrokenRuleError, match="is told"):
        process.tell(rule, told[-1])


def test_numbers_that_are_heard_or_lacked_in_order_break_nothing() -> None:
    rule, process, origin = HeardOnce(), _Running("a"), Origin(B, 1)
    process.tell(rule, None, Lacked(origin, 1, 3), _heard(B, 4), _heard(C, 1), Lacked(origin, 5, 5), _heard(B, 6))
    process.tell(rule, _heard(B, 1, start=2), None, Lacked(Origin(B, 2), 1, 1))
    with pytest.raises(BrokenRuleError, match="and not 2 of 2"):
        process.tell(rule, _heard(B, 4, start=2))


def test_edge_on_which_too_much_waits_breaks_the_rule() -> None:
    edges = SimpleNamespace(longest=ITEMS_MAX)
    host = SimpleNamespace(name="a", process=SimpleNamespace(edges=edges))
    fleet = cast(Observed, SimpleNamespace(ours=lambda: [host]))
    OverrunEnds().second(fleet)
    edges.longest += 1
    with pytest.raises(BrokenRuleError, match="321 items"):
        OverrunEnds().second(fleet)
