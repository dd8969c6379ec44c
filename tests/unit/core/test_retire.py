"""A node that is gone for good is said to be so (docs/protocol.rst, RETIRE-1 and RETIRE-2)."""

from __future__ import annotations

from random import Random

import pytest

from distkv.core.client_writes import Retired, RetireNode
from distkv.core.ready import MembersSeen
from distkv.core.registry import node_path, retired_path
from distkv.core.update import Store
from distkv.errors import DistkvError, ExistsError, NotFoundError, NotReadyError, RequestError
from distkv.model.event import Event, Kind, NodeName, Tick, Tock
from distkv.wire.message import EventRecord
from distkv.wire.values import pack_value
from tests.fleet import Fleet, grown

A, B, C = NodeName("a"), NodeName("b"), NodeName("c")
LATE_MS = 20_000
"""After so long a node that says nothing does not seem alive."""


def without_b() -> Fleet:
    fleet = grown("a", "b", "c")
    fleet.crash("b")
    fleet.run(LATE_MS)
    return fleet


def test_retired_node_is_registered_nowhere_any_more() -> None:
    fleet = without_b()
    life = fleet["a"].registry.nodes[B].life
    assert fleet.step("a", RetireNode(B, force=False)).reply == Retired(life, True)
    fleet.run(100)
    assert [sorted(fleet[name].registry.nodes) for name in "ac"] == [["a", "c"]] * 2
    assert fleet["c"].registry.retired == {B: [life]}


def test_node_that_is_retired_already_is_told_so() -> None:
    fleet = without_b()
    fleet.step("a", RetireNode(B, force=False))
    tick = fleet["a"].tick
    assert fleet.step("a", RetireNode(B, force=False)).reply == Retired(fleet["a"].registry.retired[B][0], False)
    assert fleet["a"].tick == tick


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("b", ExistsError, "b was heard less than 15 s ago: stop it and wait 15 s, or insist with --force"),
        ("a", RequestError, "cannot retire itself"),
        ("z", NotFoundError, "no node z is registered"),
    ],
)
def test_retirement_that_cannot_be_meant_changes_nothing(name: str, error: type[DistkvError], words: str) -> None:
    fleet = grown("a", "b")
    ready = fleet.step("a", RetireNode(NodeName(name), force=False))
    assert isinstance(ready.reply, error)
    assert words in str(ready.reply)
    assert (ready.records, sorted(fleet["a"].registry.nodes)) == ([], ["a", "b"])


def test_node_that_answers_is_not_retired_however_long_it_was_not_heard() -> None:
    fleet = without_b()
    reply = fleet.step("a", RetireNode(B, force=False, answers=True)).reply
    assert isinstance(reply, ExistsError)
    assert "b answers at its address: stop it" in str(reply)


@pytest.mark.parametrize("answers", [None, False])
def test_agent_alone_keeps_no_node_that_was_asked_from_being_retired(answers: bool | None) -> None:
    fleet = without_b()
    addr = fleet["a"].registry.nodes[B].addr
    fleet.step("a", MembersSeen({B: addr}))
    reply = fleet.step("a", RetireNode(B, force=False, answers=answers)).reply
    assert isinstance(reply, ExistsError if answers is None else Retired), reply


def test_node_that_seems_alive_is_retired_by_force() -> None:
    fleet = grown("a", "b")
    assert isinstance(fleet.step("a", RetireNode(B, force=True)).reply, Retired)
    assert sorted(fleet["a"].registry.nodes) == ["a"]


def test_node_that_is_not_ready_retires_nobody() -> None:
    fleet = Fleet()
    fleet.start("a", init="root")
    assert isinstance(fleet.step("a", RetireNode(B, force=True)).reply, NotReadyError)


def test_name_comes_back_in_a_life_above_the_one_that_is_over() -> None:
    fleet = without_b()
    over = fleet["a"].registry.nodes[B].life
    fleet.step("a", RetireNode(B, force=False))
    fleet.wipe("b", is_copied=True)
    fleet.start("b")
    assert fleet.run_until(fleet.is_converged, 60_000)
    assert fleet["a"].registry.nodes[B].life > over


def test_nothing_waits_for_the_word_of_a_retired_node() -> None:
    fleet = without_b()
    fleet.step("a", RetireNode(B, force=False))
    fleet.crash("c")
    fleet.start("c")
    assert fleet.run_until(fleet.is_converged, 60_000)


# -- the store ----------------------------------------------------------------------------------------------------


def store() -> Store:
    found = Store(A, 5)
    found.own.begin_life(0)
    found.found_network(bytes(8), pack_value("root"), 1000.0)
    return found


def registered(node: str, tick: int, tock: int, life: int) -> Event:
    value = pack_value({"life": life, "addr": "b:1", "since": 1.0})
    return Event(node_path("b"), Kind.SET, value, ((NodeName(node), Tick(tick)),), Tock(tock), 1.0)


def test_no_later_entry_of_the_same_life_outbids_a_retirement() -> None:
    found = store()
    found.retire(B, 7, 2.0)
    found.register(B, 7, "b:2", 3.0)
    assert B not in found.registry.nodes


def test_deletion_of_its_entry_does_not_undo_a_retirement() -> None:
    found = store()
    found.register(B, 7, "b:2", 3.0)
    found.retire(B, 7, 2.0)
    found.write(retired_path(B, 7), Kind.DELETE, b"", 4.0)
    assert found.registry.is_retired(B, 7)
    assert B not in found.registry.nodes


def test_retirement_of_a_life_leaves_a_later_one_registered() -> None:
    found = store()
    found.register(B, 9, "b:2", 3.0)
    found.retire(B, 7, 2.0)
    assert found.registry.nodes[B].life == 9


def test_retired_youngest_life_counts_above_an_older_one_in_conflict_with_it() -> None:
    found = store()
    found.remote(registered("x", 1, 50, life=7))
    found.remote(registered("y", 1, 51, life=3))
    found.retire(B, 7, 2.0)
    assert B not in found.registry.nodes


def test_life_that_was_retired_before_its_first_change_is_not_given_again() -> None:
    found = store()
    found.retire(B, 7, 1001.0)
    assert found.registry.next_life(B, 1002.0, Random(0)) > 7


def test_replay_of_records_knows_what_is_retired() -> None:
    found, again = store(), Store(A, 5)
    events = [found.register(B, 7, "b:2", 3.0).event, found.retire(B, 7, 2.0).event]
    for event in reversed(events):
        again.replay(EventRecord(event, 0.0))
    assert (again.registry.nodes, again.registry.retired) == ({}, {B: [7]})


@pytest.mark.parametrize("life", ["x", -1, 1.5, None, True])
def test_path_that_names_no_life_retires_nothing(life: object) -> None:
    found = store()
    found.register(B, 1, "b:1", 3.0)
    found.write(retired_path("b", life), Kind.SET, pack_value(1), 4.0)  # type: ignore[arg-type]
    assert found.registry.nodes[B].life == 1
