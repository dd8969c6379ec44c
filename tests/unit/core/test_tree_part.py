"""The server tree within a replica: when a node takes part, and what a failure of its machine costs.

Knows: a replica without a transport.  Does not know other nodes' replicas: the simulator has these.
"""

from __future__ import annotations

from functools import partial
from random import Random

from distkv.core.client_writes import LocalSet
from distkv.core.edges import Close, EdgeAsked, EdgeEffect, EdgeTold, NodeMeasured, Say, TreeInput, TreeTurn
from distkv.core.ready import Input, Wake
from distkv.core.replica import Replica
from distkv.core.server_tree.machine import ServerTree
from distkv.core.server_tree.settings import TreeSettings
from distkv.core.tree_part import MakeTree
from distkv.model.event import NodeName
from distkv.model.path import Path
from distkv.sim.told import core_settings
from distkv.wire.edges import ParentRefusal
from distkv.wire.message import Start
from distkv.wire.value_requests import SetValue

ME, A = NodeName("me"), NodeName("a")
SETTINGS = TreeSettings(ME, "me:1", 2, 5000)
PLAIN: MakeTree = partial(ServerTree, SETTINGS, Random(1))


class _Failing(ServerTree):
    """Whose machine fails when it is measured; it has one edge."""

    @property
    def edges(self) -> list[int]:
        return [5]

    def step(self, turn: TreeTurn, what: TreeInput | None) -> None:
        super().step(turn, what)
        if isinstance(what, NodeMeasured):
            turn.close(77)
            raise ArithmeticError("half done")


def _replica(tree: MakeTree | None, *, init: bool = True) -> Replica:
    told = core_settings(ME, "me:1", Start(1.7e9, 1), alone=True, init_value=b"\x01" if init else None)
    replica = Replica(told, Random(0), {}, tree)
    replica.begin(0, 1.7e9)
    return replica


def _step(replica: Replica, what: Input, now_ms: int = 10) -> list[EdgeEffect]:
    return replica.step(now_ms, 1.7e9, what).edges


def test_node_takes_part_as_soon_as_it_serves() -> None:
    replica = _replica(PLAIN)
    assert replica.is_serving
    assert replica.server_tree is not None
    _step(replica, Wake(), 6000)
    assert replica.server_tree.path == (ME,)
    assert replica.wake_ms() is not None


def test_node_that_does_not_serve_is_no_parent() -> None:
    replica = _replica(PLAIN, init=False)
    assert _step(replica, EdgeAsked(1, A, 1)) == [Say(1, ParentRefusal("unknown")), Close(1)]


def test_node_without_a_tree_refuses() -> None:
    replica = _replica(None)
    assert _step(replica, EdgeAsked(1, A, 1)) == [Say(1, ParentRefusal("out")), Close(1)]
    assert replica.server_tree is None
    assert replica.failed_services == frozenset()


def test_tree_that_fails_is_off_and_the_node_goes_on() -> None:
    replica = _replica(partial(_Failing, SETTINGS, Random(1)))
    ready = replica.step(20, 1.7e9, NodeMeasured(1, {}))
    assert ready.edges == [Close(5)], "its edges end; nothing else of the step leaves"
    assert [note.id for note in ready.notes] == ["tree_failed"]
    assert replica.server_tree is None
    assert replica.failed_services == {"tree"}
    assert _step(replica, EdgeAsked(1, A, 1)) == [Say(1, ParentRefusal("out")), Close(1)]
    assert _step(replica, EdgeTold(5, ParentRefusal("full"))) == []
    assert replica.step(30, 1.7e9, LocalSet(SetValue(1, Path(["x"]), b"\x01"))).records
