"""Each rule of the simulator notices when it is broken.

Knows: how to break each: behind the back of the core, because the core itself does not.
"""

from __future__ import annotations

import pytest

from distkv.core.ageing import Expiry
from distkv.core.client_writes import LocalDecision, LocalSet
from distkv.core.lives import Lives
from distkv.core.node import Node
from distkv.core.ready import PeerAnswered, PeerOffered, Wake
from distkv.core.update import Store
from distkv.model.entry import Entry
from distkv.model.event import Event, Kind, NodeName
from distkv.model.path import Path
from distkv.model.state import State
from distkv.model.tree import Tree
from distkv.sim.fleet import Fleet
from distkv.sim.host import Host
from distkv.sim.network import NetworkFaults
from distkv.sim.rule import BrokenRuleError, Observer
from distkv.sim.rules.alike import AllAlike, is_at_rest
from distkv.sim.rules.contents import OneContent
from distkv.sim.rules.disk import DiskKeeps
from distkv.sim.rules.durable import NothingUndone
from distkv.sim.rules.kept import WHOLE_EVERY, PromisesAreKept
from distkv.sim.rules.ledger import LedgerPartition
from distkv.sim.rules.progress import WAKES_MAX, NoBusyLoop, ReadyStays
from distkv.sim.rules.ring import RingStays
from distkv.sim.rules.ticks import TicksRise
from distkv.sim.rules.ttl import TtlEnds
from distkv.sim.rules.writes import AcknowledgedStay, DecisionsCloseOne, WritesWin
from distkv.sim.strangers import namesake_of
from distkv.sim.workload import RING
from distkv.wire.decisions import Dismiss
from distkv.wire.message import EventBatch, Update
from distkv.wire.value_requests import SetValue
from distkv.wire.values import pack_value


def _fleet(rule: Observer, *names: str) -> Fleet:
    """A fleet at rest, whose first node founded the network."""
    fleet = Fleet(observers=[rule])
    fleet.start(names[0], init="root")
    for name in names[1:]:
        fleet.start(name)
    assert fleet.run_until(lambda: all(h.live.is_serving for h in fleet.running()) and is_at_rest(fleet), 60_000)
    return fleet


def _set(fleet: Fleet, name: str, path: str, value: object) -> None:
    """A client's write, which is acknowledged."""
    host = fleet.hosts[name]
    reply = fleet.step(name, LocalSet(SetValue(1, Path(path.split(".")), pack_value(value)))).reply
    event = getattr(reply, "event", None)
    if host.process is not None and event is not None:
        fleet.acknowledge(host.process, event)


def _set_back_in_secret(fleet: Fleet, host: Host) -> None:
    """The disk loses its last write, no rule hears of it, and nobody else is there to tell."""
    copy = host.disk.copy()
    _set(fleet, host.name, "x", 1)
    fleet.run(1000)
    fleet.end(host)
    host.disk.roll_back(copy)
    fleet.partition([host.name])
    fleet.start(host.name)
    fleet.run(30_000)


def test_ready_that_is_left_is_noticed() -> None:
    rule = ReadyStays()
    fleet = _fleet(rule, "n0")
    process = fleet.hosts["n0"].process
    assert process is not None
    process.step(Wake())
    process.replica = fleet.start("n1", up=False).live
    with pytest.raises(BrokenRuleError, match="n0 served clients and is passive now"):
        process.step(Wake())


def test_machine_that_breaks_its_promise_is_noticed() -> None:
    fleet = _fleet(PromisesAreKept(), "n0")
    fleet.hosts["n0"].live.store.losses.are_any = True
    with pytest.raises(BrokenRuleError, match="n0: it does not hold that it is known whether there are some"):
        fleet.run(WHOLE_EVERY * 60_000)


def test_process_that_spins_is_noticed() -> None:
    fleet = _fleet(NoBusyLoop(), "n0")
    fleet.run(1)
    for _ in range(WAKES_MAX):
        fleet.step("n0", Wake())
    with pytest.raises(BrokenRuleError, match="was woken 51 times"):
        fleet.step("n0", Wake())


def test_second_content_of_a_tick_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Node, "begin_life_if_due", lambda *_: False)  # a core that asks nobody what he heard of it
    fleet = _fleet(OneContent(), "n0", "n1")
    _set_back_in_secret(fleet, fleet.hosts["n1"])
    with pytest.raises(BrokenRuleError, match="one content per tick"):
        _set(fleet, "n1", "y", 2)


def test_tick_that_others_heard_of_and_is_used_again_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Node, "begin_life_if_due", lambda *_: False)  # a core that asks nobody what he heard of it
    fleet = _fleet(TicksRise(), "n0", "n1")
    _set_back_in_secret(fleet, fleet.hosts["n1"])
    with pytest.raises(BrokenRuleError, match="others heard of it before"):
        _set(fleet, "n1", "y", 2)


def test_tock_that_was_said_before_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = _fleet(TicksRise(), "n0", "n1")
    monkeypatch.setattr(Store, "replayed", lambda _store: None)  # a start that does not go on at the ceiling
    fleet.run(60_000)
    fleet.partition(["n0"], ["n1"])
    fleet.run(60_000)
    fleet.end(fleet.hosts["n1"])
    with pytest.raises(BrokenRuleError, match="n1 says the tock"):
        fleet.start("n1")


def test_write_that_does_not_win_where_it_is_made_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = _fleet(WritesWin(), "n0")
    _set(fleet, "n0", "x", 1)
    monkeypatch.setattr("distkv.model.entry.is_above", lambda _new, _head: False)
    monkeypatch.setattr("distkv.model.entry.sort_down", lambda events: events.sort(key=lambda event: event.tick))
    with pytest.raises(BrokenRuleError, match="n0 wrote"):
        fleet.step("n0", LocalSet(SetValue(1, Path(["x"]), b"\x02")))


def _contested(rule: Observer) -> Fleet:
    """Three nodes that wrote at one path without knowing it of each other; n2 won."""
    fleet = _fleet(rule, "n0", "n1", "n2")
    fleet.partition(["n0"], ["n1"], ["n2"])
    for number, name in enumerate(("n0", "n1", "n2")):
        for _ in range(number + 1):
            _set(fleet, name, "x", number)
    fleet.heal()
    assert fleet.run_until(lambda: is_at_rest(fleet), 60_000)
    return fleet


def _dismiss(fleet: Fleet, name: str, loser_of: str) -> None:
    entry = fleet.hosts[name].live.tree.get(Path(["x"]))
    assert entry is not None
    (link,) = [loser.link for loser in entry.conflicts() if loser.node == loser_of]
    fleet.step(name, LocalDecision(Dismiss(1, link)))


def test_decision_that_closes_what_it_is_about_breaks_nothing() -> None:
    fleet = _contested(DecisionsCloseOne())
    _dismiss(fleet, "n0", "n1")
    _dismiss(fleet, "n0", "n0")


def test_decision_that_closes_another_loser_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lives, "begin_life", lambda *_: [])
    fleet = _contested(DecisionsCloseOne())
    with pytest.raises(BrokenRuleError, match=r"is about n1:\d+\.2, and closes .*SET x n0:"):
        _dismiss(fleet, "n0", "n1")


def test_decision_that_leaves_its_loser_open_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Entry, "sources", lambda entry, _decided=(): [entry.head])
    fleet = _contested(DecisionsCloseOne())
    with pytest.raises(BrokenRuleError, match=r"leaves n1:\d+\.2 open"):
        _dismiss(fleet, "n2", "n1")


def test_disk_that_forgets_is_noticed() -> None:
    fleet = _fleet(DiskKeeps(), "n0", "n1")
    with pytest.raises(BrokenRuleError, match="and its start finds"):
        _set_back_in_secret(fleet, fleet.hosts["n1"])


def test_wrong_digest_is_noticed() -> None:
    fleet = _fleet(LedgerPartition(), "n0")
    fleet.hosts["n0"].live.tree.digest ^= 1
    with pytest.raises(BrokenRuleError, match="its entries make"):
        fleet.end(fleet.hosts["n0"])


def test_entry_that_the_ledger_lacks_is_noticed() -> None:
    fleet = _fleet(LedgerPartition(), "n0")
    _set(fleet, "n0", "x", 1)
    tree = fleet.hosts["n0"].live.tree
    book = tree.ledger.book(("n0", 0))
    assert book is not None
    book.held.discard(book.last)
    with pytest.raises(BrokenRuleError, match="does not hold it"):
        fleet.end(fleet.hosts["n0"])


def test_loser_above_the_winner_is_noticed() -> None:
    fleet = _fleet(LedgerPartition(), "n0", "n1")
    fleet.partition(["n0"], ["n1"])
    _set(fleet, "n0", "x", 1)
    _set(fleet, "n1", "x", 2)
    fleet.heal()
    assert fleet.run_until(lambda: is_at_rest(fleet), 60_000)
    entry = fleet.hosts["n0"].live.tree.get(Path(["x"]))
    assert entry is not None
    (loser,) = entry.losers
    entry.head, entry.losers = loser, (entry.head,)
    with pytest.raises(BrokenRuleError, match="is above the winner"):
        fleet.end(fleet.hosts["n0"])


def test_nodes_that_end_apart_are_noticed() -> None:
    rule = AllAlike()
    fleet = _fleet(rule, "n0", "n1")
    fleet.partition(["n0"], ["n1"])
    _set(fleet, "n0", "x", 1)
    with pytest.raises(BrokenRuleError, match="n0 and n1 differ in digest"):
        rule.settled(fleet)


def test_nodes_whose_disks_are_still_writing_are_not_at_rest() -> None:  # seed 182: a watcher was not told of it yet
    fleet = _fleet(AllAlike(), "n0", "n1")
    fleet.commit_ms = (400, 400)
    _set(fleet, "n0", "x", 1)
    fleet.run(500)  # n0's disk has it, n1 has heard it
    assert fleet.hosts["n0"].live.tree.digest == fleet.hosts["n1"].live.tree.digest
    assert not is_at_rest(fleet)
    fleet.run(1000)
    assert is_at_rest(fleet)


def test_message_that_leaves_before_its_commit_is_noticed() -> None:
    fleet = _fleet(NothingUndone(), "n0")
    fleet.commit_ms = (400, 400)
    ready = fleet.step("n0", LocalSet(SetValue(1, Path(["x"]), pack_value(1))))
    (update,), process = ready.messages, fleet.hosts["n0"].process
    assert process is not None
    assert isinstance(update, Update)
    with pytest.raises(BrokenRuleError, match=r"n0:\S+ is spoken of, and is not on the disk of n0"):
        fleet.gossip(process, update)
    fleet.run(500)
    fleet.gossip(process, update)


def test_answer_that_shows_what_is_not_durable_is_noticed() -> None:
    rule = NothingUndone()
    fleet = _fleet(rule, "n0", "n1")
    fleet.commit_ms = (400, 400)
    ready = fleet.step("n0", LocalSet(SetValue(1, Path(["x"]), pack_value(1))))
    (update,) = ready.messages
    assert isinstance(update, Update)
    for what in (PeerOffered(fleet.hosts["n0"].live.maps()), PeerAnswered(1, EventBatch(update.events))):
        with pytest.raises(BrokenRuleError, match="is not on the disk of n0"):
            rule.delivered(fleet.hosts["n1"], what)


def _set_for_a_while(fleet: Fleet, name: str, ttl_s: float) -> None:
    fleet.step(name, LocalSet(SetValue(1, Path(["x"]), pack_value(1), ttl=ttl_s)))


def test_value_that_is_ended_too_early_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    came = Expiry.came

    def come(expiry: Expiry, event: Event, after_s: float, tree: Tree, now_ms: int) -> None:
        came(expiry, event, after_s / 2, tree, now_ms)

    monkeypatch.setattr(Expiry, "came", come)
    fleet = _fleet(TtlEnds(), "n0")
    _set_for_a_while(fleet, "n0", 3.0)
    with pytest.raises(BrokenRuleError, match=r"n0 ends x by n0:\S+ after 1500 ms, and its ttl is 3\.0 s"):
        fleet.run(10_000)


def test_value_that_another_node_ends_after_one_ttl_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    came = Expiry.came

    def come(expiry: Expiry, event: Event, _after_s: float, tree: Tree, now_ms: int) -> None:
        came(expiry, event, 0.0 if event.ttl is None else event.ttl, tree, now_ms)

    monkeypatch.setattr(Expiry, "came", come)
    fleet = _fleet(TtlEnds(), "n0", "n1")
    _set_for_a_while(fleet, "n1", 30.0)
    fleet.run(1000)
    fleet.end(fleet.hosts["n1"])
    with pytest.raises(BrokenRuleError, match=r"n0 ends x by n0:\S+ after \d+ ms, and its ttl is 30\.0 s"):
        fleet.run(59_000)


def test_second_server_of_a_name_ends_what_that_name_wrote_after_one_ttl() -> None:  # seed 385
    fleet = Fleet(observers=[TtlEnds()])
    name = namesake_of("n0")
    fleet.host(name, node=NodeName("n0"))
    fleet.start(name, init="root")
    fleet.run(20_000)
    _set_for_a_while(fleet, name, 3.0)
    fleet.run(3100)
    head = fleet.hosts[name].live.tree.head(Path(["x"]))
    assert head is not None
    assert head.kind is Kind.EXPIRE


@pytest.fixture
def nobody_ends_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    due = Expiry.due

    def find_and_leave(expiry: Expiry, tree: Tree, now_ms: int) -> list[Event]:
        list(due(expiry, tree, now_ms))
        return []

    monkeypatch.setattr(Expiry, "due", find_and_leave)


@pytest.mark.usefixtures("nobody_ends_anything")
def test_value_that_its_writer_does_not_end_is_noticed() -> None:
    fleet = _fleet(TtlEnds(), "n0", "n1")
    _set_for_a_while(fleet, "n1", 30.0)
    fleet.run(29_000)
    with pytest.raises(BrokenRuleError, match=r"n1 still shows <SET x n1:\S+ .*, \d+ ms too late"):
        fleet.run(2000)


@pytest.mark.usefixtures("nobody_ends_anything")
def test_value_of_a_node_that_is_gone_which_nobody_ends_is_noticed() -> None:
    fleet = _fleet(TtlEnds(), "n0", "n1")
    _set_for_a_while(fleet, "n1", 30.0)
    fleet.run(1000)
    fleet.end(fleet.hosts["n1"])
    fleet.run(59_000)
    with pytest.raises(BrokenRuleError, match=r"n0 still shows <SET x n1:\S+ .*, \d+ ms too late"):
        fleet.run(20_000)


def test_value_whose_writer_cannot_end_it_yet_is_not_missed() -> None:
    fleet = _fleet(TtlEnds(), "n0", "n1")
    n1 = fleet.hosts["n1"]
    fleet.partition(["n0"], ["n1"])
    _set_for_a_while(fleet, "n1", 3.0)
    n1.pause()
    fleet.run(20_000)
    n1.resume()
    fleet.run(1000)
    _set_for_a_while(fleet, "n1", 3.0)
    n1.disk.fill()
    fleet.run(20_000)
    n1.disk.make_space()
    fleet.run(6000)
    head = n1.live.tree.head(Path(["x"]))
    assert head is not None
    assert head.kind is Kind.EXPIRE


def test_acknowledged_write_that_is_gone_is_noticed() -> None:
    rule = AcknowledgedStay()
    fleet = _fleet(rule, "n0", "n1")
    fleet.partition(["n0"], ["n1"])
    _set(fleet, "n1", "x", 1)
    fleet.wipe("n1", is_copied=True)
    with pytest.raises(BrokenRuleError, match="was acknowledged, and nothing at x knows it"):
        rule.settled(fleet)


def test_acknowledged_write_of_a_disk_that_burned_is_not_missed() -> None:
    rule = AcknowledgedStay()
    fleet = _fleet(rule, "n0", "n1")
    fleet.partition(["n0"], ["n1"])
    _set(fleet, "n1", "x", 1)
    fleet.wipe("n1")
    rule.settled(fleet)
    assert rule.count == 1


def test_acknowledged_write_whose_last_copy_burned_is_not_missed() -> None:  # seed 10 of burn and roll-back
    rule = AcknowledgedStay()
    fleet = _fleet(rule, "n0", "n1", "n2")
    fleet.partition(["n0"], ["n1", "n2"])
    _set(fleet, "n1", "x", 1)
    fleet.run(1000)
    fleet.wipe("n1", is_copied=True)
    fleet.wipe("n2")
    rule.settled(fleet)
    assert rule.count == 1


def _voided_by_a_download(rule: Observer) -> Fleet:
    """n1 wrote x and n0 does not hear of it; n1 hands over to n2, and its download breaks off at once."""
    fleet = _fleet(rule, "n0", "n1", "n2")
    fleet.partition(["n0"], ["n1", "n2"])
    _set(fleet, "n1", "x", 1)
    fleet.run(1000)
    fleet.end(fleet.hosts["n1"])
    fleet.network.faults = NetworkFaults(answer_ms=(20, 20), update_loss=1.0)
    fleet.start("n1", restored=True)
    for number in range(1000):
        if fleet.hosts["n1"].live.state is State.DOWNLOADING:
            break
        _set(fleet, "n2", "y", number)  # else both hold the same, and nothing is downloaded
        fleet.run(10)
    assert fleet.hosts["n1"].live.state is State.DOWNLOADING
    fleet.end(fleet.hosts["n1"])
    return fleet


def test_acknowledged_write_of_a_voided_disk_whose_last_copy_burned_is_not_missed() -> None:  # seed 110
    rule = AcknowledgedStay()
    fleet = _voided_by_a_download(rule)
    fleet.wipe("n2")
    rule.settled(fleet)
    assert rule.count > 1  # x, and what n2 wrote at y


def test_acknowledged_write_of_a_voided_disk_is_noticed_when_no_disk_burned() -> None:
    rule = AcknowledgedStay()
    fleet = _voided_by_a_download(rule)
    with pytest.raises(BrokenRuleError, match="was acknowledged, and nothing at x knows it"):
        rule.settled(fleet)  # n2 has it, and is not looked at


def test_acknowledged_write_that_came_again_is_promised_as_before() -> None:
    rule = AcknowledgedStay()
    fleet = _voided_by_a_download(rule)
    fleet.start("n1")
    assert fleet.run_until(lambda: fleet.hosts["n1"].live.is_serving, 10_000)
    fleet.wipe("n2")
    with pytest.raises(BrokenRuleError, match="was acknowledged, and nothing at x knows it"):
        rule.settled(fleet)  # n1 has it, and is not looked at


def test_acknowledged_write_whose_overwriter_burned_is_not_missed() -> None:
    rule = AcknowledgedStay()
    fleet = _fleet(rule, "n0", "n1", "n2")
    fleet.partition(["n0"], ["n1", "n2"])
    _set(fleet, "n2", "x", 1)
    fleet.run(1000)
    _set(fleet, "n1", "x", 2)
    fleet.run(1000)
    fleet.wipe("n2", is_copied=True)
    fleet.wipe("n1")
    rule.settled(fleet)
    assert rule.count == 2


def _kept_by_n2(rule: Observer) -> Fleet:
    """n1 wrote x, and n2 has it, too; n0 and n3 do not hear of it."""
    fleet = _fleet(rule, "n0", "n1", "n2", "n3")
    fleet.partition(["n0"], ["n1", "n2"], ["n3"])
    _set(fleet, "n1", "x", 1)
    fleet.run(1000)
    return fleet


def test_acknowledged_write_is_noticed_when_another_disk_burned_than_has_it() -> None:
    rule = AcknowledgedStay()
    fleet = _kept_by_n2(rule)
    fleet.wipe("n1", is_copied=True)
    fleet.wipe("n3")
    with pytest.raises(BrokenRuleError, match="was acknowledged, and nothing at x knows it"):
        rule.settled(fleet)  # n2 has it, and is not looked at


def test_acknowledged_write_of_a_disk_that_burned_is_noticed_when_another_one_has_it() -> None:
    rule = AcknowledgedStay()
    fleet = _kept_by_n2(rule)
    fleet.wipe("n1")
    with pytest.raises(BrokenRuleError, match="was acknowledged, and nothing at x knows it"):
        rule.settled(fleet)  # n2 has it, and is not looked at


def test_acknowledged_write_whose_overwriter_did_not_burn_is_noticed() -> None:
    rule = AcknowledgedStay()
    fleet = _kept_by_n2(rule)
    _set(fleet, "n2", "x", 2)
    fleet.run(1000)
    fleet.wipe("n3")
    with pytest.raises(BrokenRuleError, match=r"SET x n1:.* was acknowledged, and nothing at x knows it"):
        rule.settled(fleet)  # n1 and n2 have what replaced it, and are not looked at


def test_acknowledged_write_that_somebody_replaced_knowing_it_is_not_missed() -> None:
    rule = AcknowledgedStay()
    fleet = _fleet(rule, "n0", "n1")
    for name in ("n0", "n1", "n0"):
        _set(fleet, name, "x", name)
        fleet.run(1000)
    rule.settled(fleet)
    assert rule.count == 3


def test_broken_ring_is_noticed() -> None:
    rule = RingStays()
    fleet = _fleet(rule, "n0")
    for number, path in enumerate(RING):
        _set(fleet, "n0", str(path), (number + 1) % len(RING))
    rule.settled(fleet)
    _set(fleet, "n0", str(RING[3]), 3)
    with pytest.raises(BrokenRuleError, match="n0 has a broken ring"):
        rule.settled(fleet)
