"""`--init`: a new network, or a clear refusal where one is.

Knows: what docs/protocol, 'Start-up', says of --init.  Does not know how the core does it.
"""

from __future__ import annotations

import pytest

from distkv.core.ready import HeardMessage, MembersSeen, PeerAnswered, PeerDone, TransportUp, Wake
from distkv.core.replica import Replica
from distkv.errors import InitRefusedError
from distkv.model.event import NodeName
from distkv.model.path import ROOT, Path
from distkv.model.state import State
from distkv.sim.network import NetworkFaults
from distkv.sim.told import core_settings
from distkv.wire.message import Ping, Start
from distkv.wire.records import encode_record
from distkv.wire.values import pack_value, unpack_value
from tests.fleet import Fleet, grown

CLOCK_MS = 5000


def _founding(**more: object) -> Fleet:
    fleet = Fleet()
    fleet.start("a", init="root", **more)
    return fleet


def test_founder_waits_for_one_clock() -> None:
    fleet = _founding()
    fleet.run(CLOCK_MS - 1)
    before = fleet["a"].state
    fleet.run(1)
    assert (before, fleet["a"].state) == (State.PASSIVE, State.READY)


def test_founder_asks_twice() -> None:
    fleet = _founding()
    fleet.run(CLOCK_MS)
    pings = [at for at, _, message in fleet.sent if isinstance(message, Ping)]
    assert pings == [0, CLOCK_MS // 2]


def test_founder_waits_for_the_transport_first() -> None:
    fleet = Fleet()
    fleet.start("a", init="root", up=False)
    fleet.run(10 * CLOCK_MS)
    before = fleet["a"].state
    fleet.transport("a", up=True)
    fleet.run(CLOCK_MS - 1)
    assert (before, fleet["a"].state) == (State.PASSIVE, State.PASSIVE)


def test_founder_writes_root_network_and_its_own_registration() -> None:
    fleet = _founding()
    fleet.run(CLOCK_MS)
    a = fleet["a"]
    root = a.tree.get(ROOT)
    assert root is not None
    assert unpack_value(root.head.value) == "root"
    assert a.network_id is not None
    assert (a.registry.nodes[NodeName("a")].life, a.registry.nodes[NodeName("a")].addr) == (0, "a:1")


def test_founder_is_in_life_zero() -> None:
    fleet = _founding()
    fleet.run(CLOCK_MS)
    assert (fleet["a"].life, fleet["a"].tick) == (0, 3)


def test_solo_founder_is_ready_at_once() -> None:
    fleet = Fleet(members_seen=False)
    fleet.start("a", init="root", up=False, alone=True)
    assert fleet["a"].state is State.READY


def test_solo_node_with_data_goes_on_at_once() -> None:
    fleet = Fleet(members_seen=False)
    fleet.start("a", init="root", up=False, alone=True)
    fleet.set("a", "x", 1)
    fleet.crash("a")
    fleet.start("a", up=False, alone=True)
    assert (fleet["a"].state, fleet["a"].tree.live_count) == (State.READY, 4)


def test_init_on_a_directory_with_data_is_refused() -> None:
    fleet = grown("a")
    fleet.crash("a")
    member = fleet.start("a", init="root")
    assert isinstance(member.fatal, InitRefusedError)
    assert "start without --init" in str(member.fatal)


def test_init_on_a_directory_with_data_writes_nothing() -> None:
    fleet = grown("a")
    fleet.crash("a")
    records = fleet.records("a")
    fleet.start("a", init="root")
    assert [*map(encode_record, fleet.records("a"))] == [*map(encode_record, records)]


def _cut_short(has_network: bool) -> Fleet:
    """A fleet whose c ended in the middle of its first download."""
    fleet = grown("a", "b")
    for number in range(250):
        fleet.set("a", "x", number)
        fleet.set("b", f"y{number}", number)
    fleet.run(1000)
    fleet.start("c")
    assert fleet.run_until(lambda: bool(fleet["c"].tree.ledger.ticks()), CLOCK_MS)
    assert fleet.run_until(lambda: (fleet["c"].network_id is not None) is has_network, CLOCK_MS)
    assert fleet["c"].life is None
    fleet.crash("c")
    return fleet


def test_init_on_a_directory_with_a_part_of_a_network_is_refused() -> None:
    fleet = _cut_short(has_network=True)
    assert isinstance(fleet.start("c", init="root").fatal, InitRefusedError)


@pytest.mark.parametrize("init", [None, "root"])
def test_head_of_a_download_without_its_network_counts_for_nothing(init: object) -> None:
    fleet = _cut_short(has_network=False)
    fleet.start("c", init=init, up=False)
    assert not fleet["c"].tree.ledger.ticks()


@pytest.mark.parametrize("members_seen", [True, False], ids=["members", "pings"])
def test_init_is_refused_when_a_network_answers(members_seen: bool) -> None:
    fleet = grown("a", "b", members_seen=members_seen)
    member = fleet.start("c", init="root")
    fleet.run(2 * CLOCK_MS)
    assert isinstance(member.fatal, InitRefusedError)
    assert "without --init" in str(member.fatal)


def test_init_is_refused_by_a_regular_ping() -> None:
    fleet = grown("a", "b", members_seen=False)
    fleet.run(3 * CLOCK_MS)
    fleet.start("c", init="root")
    fleet.step("c", HeardMessage(fleet.pings()[-1][2]))
    assert isinstance(fleet.members["c"].fatal, InitRefusedError)


def test_init_is_refused_by_a_member_asked_after_one_without_data() -> None:
    fleet = grown("a", members_seen=False)
    fleet.start("empty", up=False)
    fleet.faults = NetworkFaults(loss=1.0)
    fleet.start("new", init="root")
    fleet.step("new", MembersSeen({"empty": "empty:1", "a": "a:1"}))
    fleet.run(2 * CLOCK_MS)
    assert isinstance(fleet.members["new"].fatal, InitRefusedError)


def test_init_is_refused_by_a_member_asked_after_one_that_does_not_answer() -> None:
    fleet = grown("a", members_seen=False)
    fleet.faults = NetworkFaults(loss=1.0)
    fleet.start("new", init="root")
    fleet.step("new", MembersSeen({"gone": "gone:1", "a": "a:1"}))
    fleet.run(2 * CLOCK_MS)
    assert isinstance(fleet.members["new"].fatal, InitRefusedError)


def test_member_that_never_answers_does_not_keep_a_founder_waiting() -> None:
    fleet = _founding()
    fleet.step("a", MembersSeen({"gone": "gone:1"}))
    fleet.run(CLOCK_MS)
    assert fleet["a"].state is State.READY


def test_empty_nodes_do_not_keep_a_founder_from_founding() -> None:
    fleet = Fleet()
    fleet.start("x")
    fleet.start("y")
    fleet.start("a", init="root")
    assert fleet.run_until(fleet.is_converged, 3 * CLOCK_MS)


def test_founder_that_crashes_before_it_founded_may_try_again() -> None:
    fleet = _founding()
    fleet.run(CLOCK_MS // 2)
    fleet.crash("a")
    fleet.start("a", init="root")
    fleet.run(CLOCK_MS)
    assert fleet["a"].state is State.READY


def test_founders_value_may_be_nil() -> None:
    settings = core_settings(
        NodeName("a"), "a:1", Start(1.0, 1), init_value=pack_value(None), network_id=b"12345678", alone=True
    )
    replica = Replica(settings, Fleet().rng)
    replica.begin(0, 1.0)
    assert replica.is_serving


def test_answers_to_nobodys_question_change_nothing() -> None:
    fleet = grown("a")
    ready = fleet.step("a", PeerAnswered(999, fleet["a"].maps()))
    ready_done = fleet.step("a", PeerDone(999))
    assert (ready.records, ready.messages, ready_done.records, ready_done.messages) == ([], [], [], [])


def test_second_word_that_the_transport_is_up_does_not_lengthen_the_wait() -> None:
    fleet = _founding()
    fleet.run(CLOCK_MS - 100)
    fleet.step("a", TransportUp())
    fleet.run(100)
    assert fleet["a"].state is State.READY


def test_wake_that_comes_late_founds_all_the_same() -> None:
    settings = core_settings(NodeName("a"), "a:1", Start(1.0, 1), init_value=b"\x01", network_id=b"12345678")
    replica = Replica(settings, Fleet().rng)
    replica.begin(0, 1.0)
    replica.step(0, 1.0, TransportUp())
    replica.step(10 * CLOCK_MS, 51.0, Wake())
    assert replica.is_serving
    assert replica.tree.get(Path((None,))) is not None
