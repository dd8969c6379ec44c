"""What one machine makes of the words of others, each spoken by hand.

Knows: which frames follow from which.  Does not know fleets (`test_fleets`).
"""

from __future__ import annotations

import attrs
import pytest

from distkv.swim.inputs import Dropped, LeaveGroup, Noticed, SwimSettings
from distkv.swim.members import MEMBERS_MAX
from distkv.wire.swim_frames import (
    DOMAIN,
    Frame,
    GossipFrame,
    JoinAck,
    JoinCode,
    JoinNak,
    JoinRequest,
    Leave,
    Nack,
    PingFrame,
    PongFrame,
    encode_frame,
)
from distkv.wire.swim_records import Address, MemberState, NodeId, NodeRecord, Payload, Rumour
from tests.swim_net import Spoken, place, record_of, spoken

DESK, SOFA, LAMP = record_of("desk", 1), record_of("sofa", 2), record_of("lamp", 0)
ALIVE, SUSPECT, DEAD, LEFT = MemberState


def _alive(record: NodeRecord) -> Rumour:
    return Rumour(ALIVE, record.id, record=record)


def _join(machine: Spoken, record: NodeRecord, number: int) -> list[tuple[Address, Frame]]:
    """A node joins by the machine, with all that is asked of it."""
    answers = machine.hear(number, JoinRequest(record, b"", b"", "fleet"))
    naks = [frame for _, frame in answers if isinstance(frame, JoinNak)]
    return machine.hear(number, JoinRequest(record, naks[0].etag, b"", "fleet")) if naks else answers


def _lamp(*others: tuple[NodeRecord, int], settings: SwimSettings | None = None) -> Spoken:
    """The machine of lamp, that knows desk and others, and has told all."""
    machine = spoken(settings=settings)
    for record, number in ((DESK, 1), *others):
        _join(machine, record, number)
    _hear_all(machine)
    return machine


def _hear_all(machine: Spoken) -> None:
    """Desk asks until the machine has nothing left to tell."""
    for _ in range(30):
        machine.hear(1, PingFrame(DESK.id, machine.machine.own.id, 1))


def _gossip(machine: Spoken, *rumours: Rumour) -> list[tuple[Address, Frame]]:
    """Desk says this."""
    return machine.hear(1, GossipFrame(DESK.id, Payload(rumours)))


def _rumours(sent: list[tuple[Address, Frame]], name: str) -> list[Rumour]:
    """What was said about a node."""
    frames = [frame for _, frame in sent if isinstance(frame, GossipFrame | PingFrame | PongFrame)]
    return [one for frame in frames for one in frame.payload.rumours if one.id.node == name]


def _pings(sent: list[tuple[Address, Frame]], name: str, ttl: int = 0) -> list[tuple[Address, PingFrame]]:
    return [(to, one) for to, one in sent if isinstance(one, PingFrame) and (one.target.node, one.ttl) == (name, ttl)]


# -- who joins


def test_stranger_gets_a_token_and_joins_with_it() -> None:
    """docs/protocol, SWIM-5, SWIM-6, SWIM-7."""
    machine = spoken()
    ((address, nak),) = machine.hear(1, JoinRequest(DESK, b"", b"", "fleet"))
    assert address == place(1)
    assert isinstance(nak, JoinNak)
    assert nak.code == JoinCode.TOKEN_EXPECTED
    assert machine.sees("desk") is None
    answers = machine.hear(1, JoinRequest(DESK, nak.etag, b"", "fleet"))
    assert (place(1), JoinAck(machine.machine.own)) in answers
    assert machine.sees("desk") is ALIVE


def test_token_of_another_place_is_worth_nothing() -> None:
    """docs/protocol, SWIM-7."""
    machine = spoken()
    ((_, nak),) = machine.hear(1, JoinRequest(DESK, b"", b"", "fleet"))
    assert isinstance(nak, JoinNak)
    machine.hear(2, JoinRequest(DESK, nak.etag, b"", "fleet"))
    assert machine.sees("desk") is None


def test_answer_to_a_stranger_is_not_longer_than_its_question() -> None:
    """docs/protocol, SWIM-8."""
    machine = _lamp()
    questions: list[Frame] = [
        JoinRequest(SOFA, b"", b"", "fleet"),
        JoinRequest(SOFA, b"", b"", "others"),
        JoinRequest(SOFA, b"", b"", "fleet", 9),
        PingFrame(SOFA.id, machine.machine.own.id, 7),
    ]
    for question in questions:
        answers = machine.hear(2, question)
        assert [to for to, _ in answers] == [place(2)]
        assert sum(len(encode_frame(one)) for _, one in answers) <= len(encode_frame(question))


def test_join_is_answered_where_it_came_from_whatever_the_record_says() -> None:
    """docs/protocol, SWIM-23."""
    machine = spoken()
    assert {to for to, _ in machine.hear(9, JoinRequest(DESK, b"", b"", "fleet"))} == {place(9)}


def test_twenty_join_requests_a_second_are_looked_at() -> None:
    """docs/protocol, SWIM-8."""
    machine = spoken()
    answers = [machine.hear(1, JoinRequest(DESK, b"", b"", "fleet")) for _ in range(50)]
    assert sum(map(bool, answers)) == 20
    assert machine.machine.counts.dropped["rate"] == 30
    machine.wait(1_000)
    assert machine.hear(1, JoinRequest(DESK, b"", b"", "fleet"))


@pytest.mark.parametrize(("admission", "answers"), [("ignore", 0), ("closed", 1)])
def test_nobody_joins_where_nobody_may(admission: str, answers: int) -> None:
    """docs/protocol, SWIM-5."""
    machine = spoken(settings=SwimSettings("fleet", admission=admission))
    assert len(_join(machine, DESK, 1)) == answers
    assert machine.sees("desk") is None


def test_leaving_node_lets_nobody_in() -> None:
    """docs/protocol, SWIM-18."""
    machine = _lamp()
    machine.step(LeaveGroup())
    assert machine.hear(2, JoinRequest(SOFA, b"", b"", "fleet")) == []


def test_own_request_that_comes_back_is_not_answered() -> None:
    machine = spoken()
    assert machine.hear(0, JoinRequest(machine.machine.own, b"", b"", "fleet")) == []


def test_request_of_a_live_member_from_elsewhere_is_answered_at_its_own_place() -> None:
    """docs/protocol, SWIM-14."""
    machine = _lamp()
    answers = _join(machine, DESK, 9)
    assert {to for to, one in answers if isinstance(one, JoinAck)} == {place(1)}


def test_name_does_not_move_while_its_holder_lives() -> None:
    """docs/protocol, SWIM-13."""
    machine = _lamp()
    other = attrs.evolve(record_of("desk", 9, DESK.generation + 5), start=b"12345678")
    answers = _join(machine, other, 9)
    ((to, ping),) = _pings(answers, "desk")
    assert to == place(1)
    answers = machine.hear(1, PongFrame(ping.source, DESK.id, ping.seq))
    assert (place(9), JoinNak(DOMAIN, JoinCode.NAME_TAKEN, b"10.0.0.2:7000")) in answers
    assert machine.machine.members()[0].start == DESK.start


def test_name_moves_when_its_holder_is_silent() -> None:
    """docs/protocol, SWIM-13."""
    machine = _lamp()
    other = attrs.evolve(record_of("desk", 9, DESK.generation + 5), start=b"12345678")
    _join(machine, other, 9)
    answers = machine.wait(1_000)
    assert (place(9), JoinAck(machine.machine.own)) in answers
    assert machine.machine.members()[0].start == other.start


def test_older_start_of_a_name_is_not_let_in_again() -> None:
    """docs/protocol, SWIM-14."""
    machine = _lamp()
    newer = attrs.evolve(DESK, generation=DESK.generation + 5, start=b"12345678")
    _join(machine, newer, 1)
    assert machine.machine.members()[0].start == newer.start
    machine.hear(1, JoinRequest(DESK, b"", b"", "fleet"))
    assert machine.machine.counts.dropped["replay"] == 1


def test_acknowledgement_that_was_not_asked_for_is_believed_by_nobody() -> None:
    """docs/protocol, SWIM-9."""
    machine = spoken()
    machine.hear(1, JoinAck(DESK))
    assert machine.sees("desk") is None


def test_joiner_shows_its_token() -> None:
    """docs/protocol, SWIM-6."""
    machine = spoken(seeds=[place(1)])
    machine.wait(1)
    answers = machine.hear(1, JoinNak(DOMAIN, JoinCode.TOKEN_EXPECTED, b"token"))
    assert answers == [(place(1), JoinRequest(machine.machine.own, b"token", b"", "fleet"))]
    machine.hear(1, JoinAck(DESK))
    assert machine.sees("desk") is ALIVE
    assert machine.machine.is_joined


def test_token_from_where_nobody_was_asked_is_not_used() -> None:
    """docs/protocol, SWIM-9."""
    machine = spoken(seeds=[place(1)])
    machine.wait(1)
    assert machine.hear(2, JoinNak(DOMAIN, JoinCode.TOKEN_EXPECTED, b"token")) == []


def test_joiner_asks_all_places_again_and_again() -> None:
    """docs/protocol, SWIM-10."""
    machine = spoken(seeds=[place(1), place(2)])
    asked = [to for to, _ in machine.wait(60_000)]
    assert {*asked} == {place(1), place(2)}
    assert 8 <= asked.count(place(1)) <= 30


# -- who is believed


def test_stranger_is_answered_with_nothing_and_believed_nothing() -> None:
    """docs/protocol, SWIM-27."""
    machine = _lamp()
    answers = machine.hear(2, PingFrame(SOFA.id, LAMP.id, 7, 0, Payload((Rumour(DEAD, DESK.id),))))
    assert answers == [(place(2), PongFrame(SOFA.id, machine.machine.own.id, 7))]
    machine.hear(2, GossipFrame(SOFA.id, Payload((_alive(SOFA),))))
    assert machine.sees("desk") is ALIVE
    assert machine.sees("sofa") is None
    assert machine.machine.counts.dropped["stranger"] == 2


def test_whoever_has_this_nodes_own_name_is_believed_nothing() -> None:
    machine = _lamp()
    machine.hear(2, GossipFrame(NodeId("lamp", 5), Payload((_alive(SOFA),))))
    assert machine.sees("sofa") is None
    assert machine.machine.counts.dropped["stranger"] == 1


def test_what_links_say_of_this_node_itself_means_nothing() -> None:
    machine = spoken()
    machine.step(Noticed("lamp", False))
    assert machine.wait(5_000) == []


def test_more_members_than_there_is_room_for_are_not_believed() -> None:
    """docs/protocol, SWIM-12."""
    machine = _lamp()
    for number in range(MEMBERS_MAX + 10):
        _gossip(machine, _alive(record_of(f"n{number}", 100)))
    assert len(machine.machine.members()) == MEMBERS_MAX


def test_ping_is_answered_where_it_came_from() -> None:
    """docs/protocol, SWIM-23, SWIM-25."""
    machine = _lamp()
    answers = machine.hear(9, PingFrame(DESK.id, machine.machine.own.id, 7, 3))
    assert answers[0][0] == place(9)
    assert isinstance(answers[0][1], PongFrame)
    assert answers[0][1].ttl == 3


def test_relayed_ping_is_answered_by_the_relay_and_at_the_askers_own_place() -> None:
    """docs/protocol, SWIM-23."""
    machine = _lamp((SOFA, 2))
    answers = machine.hear(2, PingFrame(DESK.id, machine.machine.own.id, 7, 0))
    assert [to for to, one in answers if isinstance(one, PongFrame)] == [place(2), place(1)]


def test_forgotten_node_joins_again() -> None:
    """docs/protocol, SWIM-40."""
    machine = _lamp()
    sent = machine.wait(600)
    ((_, ping),) = _pings(sent, "desk")
    answers = machine.hear(1, PongFrame(ping.source, DESK.id, ping.seq))
    assert [(to, type(one)) for to, one in answers] == [(place(1), JoinRequest)]


# -- words about this node


@pytest.mark.parametrize("state", [SUSPECT, DEAD, LEFT])
def test_word_about_this_node_is_refuted_with_a_higher_generation(state: MemberState) -> None:
    """docs/protocol, SWIM-30."""
    machine = _lamp()
    before = machine.machine.own.generation
    answers = _gossip(machine, Rumour(state, NodeId("lamp", before), "desk"))
    assert machine.machine.own.generation == before + 1
    assert _alive(machine.machine.own) in _rumours(answers, "lamp")
    assert {to for to, _ in answers} == {place(1)}
    counts = machine.machine.counts
    assert (counts.told_suspect, counts.told_dead) == ((1, 0) if state is SUSPECT else (0, 1))
    assert machine.machine.statistics()["health"] == 1


def test_word_of_a_higher_generation_is_outdone() -> None:
    """docs/protocol, SWIM-30."""
    machine = _lamp()
    _gossip(machine, Rumour(DEAD, NodeId("lamp", 1 << 40)))
    assert machine.machine.own.generation == (1 << 40) + 1


def test_old_word_about_this_node_is_answered_and_changes_nothing() -> None:
    """docs/protocol, SWIM-31."""
    machine = _lamp()
    own = machine.machine.own
    answers = _gossip(machine, Rumour(DEAD, NodeId("lamp", own.generation - 1)))
    assert machine.machine.own == own
    assert _alive(own) in _rumours(answers, "lamp")
    assert machine.machine.counts.told_dead == 0


def test_highest_generation_is_not_passed() -> None:
    machine = _lamp()
    own = machine.machine.own
    _gossip(machine, Rumour(DEAD, NodeId("lamp", 2**63 - 1)))
    assert machine.machine.own == own


def test_leaving_node_does_not_speak_up() -> None:
    """docs/protocol, SWIM-18."""
    machine = _lamp()
    machine.step(LeaveGroup())
    own = machine.machine.own
    _gossip(machine, Rumour(LEFT, own.id))
    assert machine.machine.own == own


def test_namesake_is_probed_and_not_refuted() -> None:
    """docs/protocol, SWIM-15."""
    machine = _lamp()
    own = machine.machine.own
    other = attrs.evolve(record_of("lamp", 9, own.generation + 5), start=b"12345678")
    answers = _gossip(machine, _alive(other))
    ((to, ping),) = _pings(answers, "lamp")
    assert to == place(9)
    assert machine.machine.own == own
    machine.hear(9, PongFrame(ping.source, other.id, ping.seq))
    machine.wait(1_000)
    assert machine.machine.own == own


def test_namesake_that_is_silent_is_refuted() -> None:
    """docs/protocol, SWIM-15."""
    machine = _lamp()
    other = attrs.evolve(record_of("lamp", 9, LAMP.generation + 5), start=b"12345678")
    _gossip(machine, _alive(other))
    machine.wait(1_000)
    assert machine.machine.own.generation == other.generation + 1


def test_former_life_at_the_same_place_is_refuted_at_once() -> None:
    machine = _lamp()
    former = attrs.evolve(LAMP, generation=LAMP.generation + 5, start=b"12345678")
    _gossip(machine, _alive(former))
    assert machine.machine.own.generation == former.generation + 1


# -- words about others


def test_old_word_is_answered_with_the_newer() -> None:
    """docs/protocol, SWIM-31."""
    machine = _lamp()
    newer = attrs.evolve(SOFA, generation=SOFA.generation + 5)
    _gossip(machine, _alive(newer))
    answers = _gossip(machine, Rumour(DEAD, SOFA.id))
    assert _alive(newer) in _rumours(answers, "sofa")
    assert {to for to, _ in answers} == {place(1)}
    assert machine.sees("sofa") is ALIVE


def test_dead_node_that_speaks_is_told_so() -> None:
    """docs/protocol, SWIM-31."""
    machine = _lamp((SOFA, 2))
    _gossip(machine, Rumour(DEAD, SOFA.id))
    _hear_all(machine)
    answers = machine.hear(2, PingFrame(SOFA.id, machine.machine.own.id, 7))
    assert Rumour(DEAD, SOFA.id, record=SOFA) in _rumours(answers, "sofa")
    machine.hear(2, GossipFrame(SOFA.id, Payload((_alive(attrs.evolve(SOFA, generation=SOFA.generation + 1)),))))
    assert machine.sees("sofa") is ALIVE


def test_suspect_is_told_so_with_the_ping() -> None:
    """docs/protocol, SWIM-29."""
    machine = _lamp((SOFA, 2))
    answers = _gossip(machine, Rumour(SUSPECT, SOFA.id, "desk"))
    ((to, ping),) = _pings(answers, "sofa")
    assert to == place(2)
    assert Rumour(SUSPECT, SOFA.id, record=SOFA) in ping.payload.rumours


def test_suspicion_ripens() -> None:
    """docs/protocol, SWIM-28."""
    machine = _lamp((SOFA, 2))
    _gossip(machine, Rumour(SUSPECT, SOFA.id, "desk"))
    assert machine.sees("sofa") is SUSPECT
    machine.wait(20_000)
    assert machine.sees("sofa") is DEAD


def test_suspicion_that_was_refuted_does_not_ripen() -> None:
    machine = _lamp((SOFA, 2))
    _gossip(machine, Rumour(SUSPECT, SOFA.id, "desk"))
    higher = attrs.evolve(SOFA, generation=SOFA.generation + 1)
    _gossip(machine, _alive(SOFA))
    assert machine.sees("sofa") is SUSPECT
    _gossip(machine, _alive(higher))
    assert machine.sees("sofa") is ALIVE


def test_page_that_has_a_live_node_dead_makes_it_a_suspect() -> None:
    """docs/protocol, SWIM-37."""
    machine = _lamp((SOFA, 2))
    sample = (Rumour(DEAD, SOFA.id, record=SOFA),)
    machine.hear(1, PongFrame(machine.machine.own.id, DESK.id, 7, 0, Payload((), 5, 0, sample)))
    assert machine.sees("sofa") is SUSPECT


def test_unknown_node_of_which_nobody_says_more_is_left_out() -> None:
    machine = _lamp()
    _gossip(machine, Rumour(DEAD, SOFA.id), Rumour(SUSPECT, NodeId("vase", 5), "desk"))
    assert [one.node for one in machine.machine.members()] == ["desk", "lamp"]


def test_leave_is_of_one_generation() -> None:
    """docs/protocol, SWIM-17."""
    machine = _lamp((SOFA, 2))
    newer = attrs.evolve(SOFA, generation=SOFA.generation + 1)
    _gossip(machine, _alive(newer))
    machine.hear(2, Leave(SOFA))
    assert machine.sees("sofa") is ALIVE
    machine.hear(2, Leave(newer))
    assert machine.sees("sofa") is LEFT


def test_leave_of_a_start_that_is_over_changes_nothing() -> None:
    """docs/protocol, SWIM-17."""
    machine = _lamp((SOFA, 2))
    machine.hear(2, Leave(attrs.evolve(SOFA, generation=SOFA.generation + 9, start=b"12345678")))
    assert machine.sees("sofa") is ALIVE


# -- relays


def test_relay_subtracts_and_passes_the_answer_back() -> None:
    """docs/protocol, SWIM-4, SWIM-24, SWIM-25, SWIM-26."""
    machine = _lamp((SOFA, 2))
    sent = machine.hear(1, PingFrame(DESK.id, SOFA.id, 7, 1))
    assert sent == [(place(2), PingFrame(DESK.id, SOFA.id, 7, 0))]
    pong = PongFrame(DESK.id, SOFA.id, 7, 0, Payload((), 5))
    assert machine.hear(2, pong) == [(place(1), pong)]
    assert machine.hear(2, pong) == []


def test_ping_is_passed_on_once() -> None:
    """docs/protocol, SWIM-26."""
    machine = _lamp((SOFA, 2))
    machine.hear(1, PingFrame(DESK.id, SOFA.id, 7, 1))
    assert machine.hear(1, PingFrame(DESK.id, SOFA.id, 7, 1)) == []


def test_relay_passes_nothing_without_ttl() -> None:
    """docs/protocol, SWIM-24."""
    machine = _lamp((SOFA, 2))
    assert machine.hear(1, PingFrame(DESK.id, SOFA.id, 7, 0)) == []


def test_relay_that_does_not_know_the_target_passes_it_while_the_ttl_lasts() -> None:
    """docs/protocol, SWIM-24."""
    machine = _lamp((SOFA, 2))
    assert machine.hear(1, PingFrame(DESK.id, NodeId("vase", 1), 7, 1)) == []
    assert machine.hear(1, PingFrame(DESK.id, NodeId("vase", 1), 8, 200)) == [
        (place(2), PingFrame(DESK.id, NodeId("vase", 1), 8, 3))
    ]


def test_relay_serves_no_stranger() -> None:
    """docs/protocol, SWIM-26."""
    machine = _lamp((SOFA, 2))
    vase = record_of("vase", 3)
    assert machine.hear(3, PingFrame(vase.id, SOFA.id, 7, 1)) == []


def test_relay_that_hears_nothing_says_so() -> None:
    """docs/protocol, SWIM-26."""
    machine = _lamp((SOFA, 2))
    machine.hear(1, PingFrame(DESK.id, SOFA.id, 7, 1))
    assert (place(1), Nack(DESK.id, SOFA.id, 7)) in machine.wait(200)


def test_silent_node_is_asked_by_others_before_it_is_suspected() -> None:
    """docs/protocol, SWIM-22."""
    machine = _lamp((SOFA, 2), (record_of("vase", 3), 3))
    sent = machine.wait(4_000)
    relayed = _pings(sent, "sofa", ttl=1)
    assert relayed
    assert place(2) not in {to for to, _ in relayed}
    assert machine.sees("sofa") is not ALIVE


# -- health and pauses


def test_node_that_hears_nobody_becomes_slower() -> None:
    """docs/protocol, SWIM-32."""
    machine = _lamp((SOFA, 2))
    machine.wait(3_000)
    assert machine.machine.statistics()["health"] != 0


@pytest.mark.parametrize(("nacks", "worse"), [(0, 1), (1, 1), (2, 0), (3, 0)])
def test_nacks_of_most_relays_tell_that_this_node_hears_well(nacks: int, worse: int) -> None:
    """docs/protocol, SWIM-32."""
    others = [(record_of(f"n{number}", number), number) for number in range(2, 6)]
    machine = _lamp(*others)
    places = {place(number): number for number in range(6)}
    while not (relayed := [(to, one) for to, one in machine.wait(50) if isinstance(one, PingFrame) and one.ttl == 1]):
        pass
    assert len(relayed) == 3
    before = machine.machine.statistics()["health"]
    for to, ping in relayed[:nacks]:
        machine.hear(places[to], Nack(ping.source, ping.target, ping.seq))
    machine.wait(250)
    assert (before, machine.machine.statistics()["health"]) == (0, worse)


def test_node_that_did_not_answer_is_probed_when_nothing_comes_on_its_link() -> None:
    machine = _lamp(*[(record_of(f"n{number}", number), number) for number in range(2, 40)])
    machine.step(Noticed("n7", False))
    machine.step(Noticed("n7", True))
    machine.wait(1_100)
    assert machine.machine.statistics()["udp_blocked"] == ["n7"]
    sent = machine.wait(5_000)
    assert _pings(sent, "n7")


def test_pause_lengthens_suspicions_and_voids_probes() -> None:
    """docs/protocol, SWIM-33."""
    machine = _lamp((SOFA, 2))
    _gossip(machine, Rumour(SUSPECT, SOFA.id, "desk"))
    machine.now_ms += 60_000
    machine.wait(1)
    assert machine.sees("sofa") is SUSPECT
    assert machine.sees("desk") is ALIVE
    assert machine.machine.statistics()["health"] == 1


def test_drops_of_the_kernel_are_as_a_pause() -> None:
    """docs/protocol, SWIM-33."""
    machine = _lamp((SOFA, 2))
    machine.wait(350)
    before = machine.machine.statistics()["health"]
    machine.step(Dropped(5))
    assert machine.machine.statistics()["health"] == before + 1 if isinstance(before, int) else False


# -- links


def test_node_that_is_heard_on_a_link_is_not_suspected() -> None:
    """docs/protocol, SWIM-34."""
    machine = _lamp()
    for _ in range(10):
        machine.step(Noticed("desk", True))
        machine.wait(1_000)
    assert machine.sees("desk") is ALIVE
    assert machine.machine.statistics()["udp_blocked"] == ["desk"]
    machine.step(Noticed("desk", False))
    machine.wait(10_000)
    assert machine.sees("desk") is not ALIVE


def test_what_links_say_is_told_to_nobody() -> None:
    """docs/protocol, SWIM-34."""
    machine = _lamp((SOFA, 2))
    _gossip(machine, Rumour(SUSPECT, SOFA.id, "desk"))
    machine.step(Noticed("sofa", True))
    sent = machine.wait(900)
    assert {one.state for one in _rumours(sent, "sofa")} <= {SUSPECT}
    assert {one.by for one in _rumours(sent, "sofa")} <= {"desk", ""}


def test_node_whose_link_broke_is_probed_next() -> None:
    """docs/protocol, SWIM-34."""
    machine = _lamp(*[(record_of(f"n{number}", number), number) for number in range(2, 12)])
    machine.step(Noticed("n7", False))
    sent = machine.wait(600)
    assert next(one.target.node for _, one in sent if isinstance(one, PingFrame)) == "n7"


# -- who is gone


def test_dead_node_is_asked_again_and_again() -> None:
    """docs/protocol, SWIM-39."""
    machine = _lamp((SOFA, 2))
    _gossip(machine, Rumour(DEAD, SOFA.id))
    sent = machine.wait(20_000)
    assert 8 <= sum((to, type(one)) == (place(2), JoinRequest) for to, one in sent) <= 11


def test_node_that_left_is_not_asked() -> None:
    """docs/protocol, SWIM-39."""
    machine = _lamp((SOFA, 2))
    machine.hear(2, Leave(SOFA))
    assert [one for to, one in machine.wait(20_000) if to == place(2)] == []
