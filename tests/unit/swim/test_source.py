"""Sentences about groups (docs/protocol) that no other test shows: whom a node asks and when, and who is let in.

Knows: what a machine sends in answer to what a test says, and what a small fleet sends.  Does not know why.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import attrs
import pytest

from distkv.sim.swim.net import SwimNet
from distkv.swim.challenge import proof
from distkv.swim.inputs import KnownNodes, LeaveGroup, Seeds, SwimSettings, Woke
from distkv.swim.keyring import Keyring
from distkv.swim.machine import SwimMachine
from distkv.swim.members import ABSENT_KEPT_MS
from distkv.swim.seal import PlainSeal
from distkv.wire.swim_frames import (
    DOMAIN,
    BroadcastFrame,
    Frame,
    GossipFrame,
    JoinAck,
    JoinCode,
    JoinNak,
    JoinRedirect,
    JoinRequest,
    Leave,
    PingFrame,
    PongFrame,
    decode_frame,
)
from distkv.wire.swim_records import Address, MemberState, NodeRecord, Payload, Rumour
from tests.swim_net import INTERVAL_MS, Spoken, fleet, place, record_of, spoken

DESK, SOFA, VASE = record_of("desk", 1), record_of("sofa", 2), record_of("vase", 3)
RING = Keyring((b"k" * 32,))


def _token(machine: Spoken, record: NodeRecord, number: int) -> bytes:
    ((_, nak),) = machine.hear(number, JoinRequest(record, b"", b"", "fleet"))
    assert isinstance(nak, JoinNak)
    assert nak.code == JoinCode.TOKEN_EXPECTED
    return nak.etag


def _let_in(*records: NodeRecord) -> Spoken:
    """The machine of lamp, with members of places 1, 2, ..."""
    machine = spoken()
    for number, record in enumerate(records, 1):
        machine.hear(number, JoinRequest(record, _token(machine, record, number), b"", "fleet"))
        assert machine.sees(record.node) is MemberState.ALIVE
    return machine


def test_other_version_is_refused_with_the_one_that_is_spoken() -> None:
    """docs/protocol, SWIM-11."""
    machine = spoken()
    answers = machine.hear(1, JoinRequest(DESK, b"", b"", "fleet", 9))
    assert answers == [(place(1), JoinNak(DOMAIN, JoinCode.VERSION, b"1"))]


@pytest.mark.parametrize("is_proven", [False, True])
def test_who_shows_its_token_must_prove_the_secret_too(is_proven: bool) -> None:
    """docs/protocol, SWIM-7."""
    own = record_of("lamp", 0)
    machine = Spoken(SwimMachine(own, SwimSettings("fleet"), PlainSeal(), Random(1), bytes(32), RING))
    machine.step(Woke())
    token = _token(machine, DESK, 1)
    other = Keyring((b"x" * 32,))
    auth = proof((RING if is_proven else other).keys[0], token, DESK)
    machine.hear(1, JoinRequest(DESK, token, auth, "fleet"))
    assert (machine.sees("desk") is MemberState.ALIVE) is is_proven


def test_who_was_let_in_asks_for_the_table() -> None:
    """docs/protocol, SWIM-9."""
    machine = spoken(seeds=[place(1)])
    machine.wait(1)
    answers = machine.hear(1, JoinAck(DESK))
    pages = [(to, one.payload.page) for to, one in answers if isinstance(one, PingFrame)]
    assert pages == [(place(1), 0)]


@pytest.mark.parametrize(
    "frame", [JoinRedirect(("10.0.0.9:7000",), DOMAIN, 6, b""), BroadcastFrame(VASE)], ids=["redirect", "broadcast"]
)
def test_redirect_and_broadcast_move_nobody(frame: Frame) -> None:
    """docs/protocol, SWIM-19."""
    machine = spoken(seeds=[place(1)])
    machine.wait(1)
    assert machine.hear(1, frame) == []
    assert machine.machine.counts.dropped["stranger"] == 1
    assert [one.node for one in machine.machine.members()] == ["lamp"]
    assert {to for to, _ in machine.wait(20_000)} == {place(1)}


def test_about_six_of_those_who_hear_of_a_suspicion_ping_the_suspect() -> None:
    """docs/protocol, SWIM-29."""
    others = [record_of(f"n{number}", number) for number in range(2, 61)]
    machine = _let_in(DESK)
    alive = [Rumour(MemberState.ALIVE, one.id, record=one) for one in others]
    for rumour in alive:
        machine.hear(1, GossipFrame(DESK.id, Payload((rumour,))))
    pinged = 0
    for other in others:
        suspicion = Rumour(MemberState.SUSPECT, other.id, "desk")
        answers = machine.hear(1, GossipFrame(DESK.id, Payload((suspicion,))))
        pinged += any(isinstance(one, PingFrame) and one.target == other.id for _, one in answers)
    assert 2 <= pinged <= 12


def test_registered_node_is_remembered_and_another_is_not() -> None:
    """docs/protocol, SWIM-38."""
    machine = _let_in(DESK, SOFA, VASE)
    machine.step(KnownNodes({"sofa": place(2)}))
    dead = Rumour(MemberState.DEAD, SOFA.id), Rumour(MemberState.DEAD, VASE.id)
    machine.hear(1, GossipFrame(DESK.id, Payload(dead)))
    machine.now_ms += ABSENT_KEPT_MS - 100_000
    machine.wait(1)
    assert (machine.sees("sofa"), machine.sees("vase")) == (MemberState.DEAD, MemberState.DEAD)
    machine.now_ms += 200_000
    machine.wait(61_000)
    assert (machine.sees("sofa"), machine.sees("vase")) == (MemberState.DEAD, None)


def test_place_of_a_registered_node_and_of_a_seed_is_asked_while_others_live() -> None:
    """docs/protocol, SWIM-39."""
    machine = _let_in(DESK)
    machine.step(KnownNodes({"sofa": place(2)}))
    machine.step(Seeds((place(3),)))
    asked = list[Address]()
    for _ in range(200):
        for to, frame in machine.wait(100):
            match frame:
                case JoinRequest():
                    asked.append(to)
                case PingFrame(source, target, seq) if to == place(1):
                    machine.hear(1, PongFrame(source, target, seq, 0, Payload(table=1)))
    assert {*asked} == {place(2), place(3)}
    assert 8 <= len(asked) <= 11


@attrs.define
class _Wire:
    """What passed in a fleet that has no secret."""

    sent: list[tuple[int, Address, Address, Frame]]

    def pings(self, origin: Address, ttl: int) -> list[tuple[int, Address, PingFrame]]:
        found = [(now_ms, to, one) for now_ms, by, to, one in self.sent if by == origin and isinstance(one, PingFrame)]
        return [(now_ms, to, one) for now_ms, to, one in found if one.ttl == ttl and one.source.node == "n0"]


def _watched(net: SwimNet) -> _Wire:
    wire = _Wire([])
    net.sent = lambda origin, to, data: wire.sent.append((net.now_ms, origin, to, decode_frame(data)))
    return wire


def test_all_that_live_are_pinged_in_turn_in_another_order_each_time() -> None:
    """docs/protocol, SWIM-21."""
    net = fleet(7, is_sealed=False)
    wire = _watched(net)
    net.run(60 * INTERVAL_MS)
    asked = [one.target.node for _, _, one in wire.pings(place(0), 0)]
    assert 59 <= len(asked) <= 61
    start = next(at for at in range(6) if all(len({*asked[n : n + 6]}) == 6 for n in range(at, 54, 6)))
    rounds = {tuple(asked[at : at + 6]) for at in range(start, 54, 6)}
    assert len(rounds) > 5


def test_three_others_are_asked_after_six_tenths_and_the_suspicion_comes_at_the_end() -> None:
    """docs/protocol, SWIM-22."""
    net = fleet(7, is_sealed=False)
    wire = _watched(net)
    silent = place(3)
    net.passes = lambda origin, to: not (place(0) in (origin, to) and silent in (origin, to))
    assert net.run_until(lambda: bool(wire.pings(place(0), 1)), 20 * INTERVAL_MS) is not None
    net.run(INTERVAL_MS)
    assert net.nodes["n0"].sees("n3") is MemberState.ALIVE
    relayed = wire.pings(place(0), 1)
    seq = relayed[0][2].seq
    (asked_ms,) = [now_ms for now_ms, _, one in wire.pings(place(0), 0) if one.seq == seq]
    assert {now_ms - asked_ms for now_ms, _, one in relayed if one.seq == seq} == {INTERVAL_MS * 6 // 10}
    assert len({to for _, to, one in relayed if one.seq == seq} - {silent}) == 3


def test_leave_is_said_to_three_members_twice_within_an_interval() -> None:
    """docs/protocol, SWIM-16."""
    net = fleet(9, is_sealed=False)
    wire = _watched(net)
    net.hand(net.nodes["n0"], LeaveGroup())
    net.run(5 * INTERVAL_MS)
    said = [(now_ms, to) for now_ms, _, to, frame in wire.sent if frame == Leave(net.nodes["n0"].machine.own)]
    first_ms, last_ms = said[0][0], said[-1][0]
    assert [now_ms for now_ms, _ in said] == [first_ms] * 3 + [last_ms] * 3
    assert 0 < last_ms - first_ms <= INTERVAL_MS
    assert len({to for now_ms, to in said if now_ms == first_ms}) == 3


def test_news_is_told_to_three_nodes_each_four_tenths_of_an_interval() -> None:
    """docs/protocol, SWIM-35."""
    net = fleet(9, is_sealed=False)
    wire = _watched(net)
    net.add("n9", place(9), [place(0)])
    net.run(5 * INTERVAL_MS)
    told = [(now_ms, to) for now_ms, by, to, one in wire.sent if by == place(0) and isinstance(one, GossipFrame)]
    ticks = [now_ms for now_ms, number in Counter(now_ms for now_ms, _ in told).items() if number == 3]
    assert len(ticks) > 1
    assert {after - before for before, after in pairwise(ticks)} == {INTERVAL_MS * 4 // 10}
    net.run(20 * INTERVAL_MS)
    wire.sent.clear()
    net.run(10 * INTERVAL_MS)
    assert [one for *_, one in wire.sent if isinstance(one, GossipFrame)] == []


def test_nobody_says_a_higher_generation_of_another_node_than_that_said_itself() -> None:
    """docs/protocol, SWIM-20."""
    net = fleet(6, is_sealed=False, loss=0.1)
    highest = {node.machine.name: node.machine.own.generation for node in net.running()}
    invented = list[Rumour]()

    def note(_: Address, __: Address, data: bytes) -> None:
        for node in net.running():
            highest[node.machine.name] = max(highest[node.machine.name], node.machine.own.generation)
        match decode_frame(data):
            case GossipFrame(payload=payload) | PingFrame(payload=payload) | PongFrame(payload=payload):
                said = payload.rumours + payload.sample
                invented.extend([one for one in said if one.id.generation > highest[one.id.node]])

    net.sent = note
    before = dict(highest)
    net.kill("n5")
    net.freeze("n4")
    net.run(60 * INTERVAL_MS)
    net.thaw("n4")
    net.run(60 * INTERVAL_MS)
    assert invented == []
    assert highest["n4"] > before["n4"]
    assert highest["n5"] == before["n5"]
