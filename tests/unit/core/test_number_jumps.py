"""By how much one message raises a number that only grows: rows of the table in docs/protocol, 'What one message may
raise'. tests/tidy/test_jump_table.py says where the others are.

Knows: single machines, and what they are told.  What forged numbers cost token servers is in
tests/property/test_token_forged.py.
"""

from __future__ import annotations

import pytest

from distkv.core.gossip import BASES_AHEAD
from distkv.core.ground.calls import BOOT_JUMP, CHECK_MS, UNKNOWN_MAX, CallKey, QuestionCame
from distkv.core.jump_limit import JUMP, JumpLimit
from distkv.core.ready import FollowTold, HeardMessage
from distkv.core.server_tree.flood import START_JUMP
from distkv.core.tokens.known_servers import KnownServers
from distkv.model.event import Event, Kind, NodeName, Tick, new_event
from distkv.model.fence import FENCE_MAX, Fence
from distkv.model.path import Path
from distkv.model.standing import ServerStanding
from distkv.wire.calls import CallAsked, CallsSeen
from distkv.wire.edges import START_MAX, TreeFrame
from distkv.wire.message import Update
from distkv.wire.token_messages import TokenMap
from distkv.wire.token_states import NUMBER_MAX, TokenServer
from tests.fleet import Fleet
from tests.unit.core.test_flood import ME, ORIGIN
from tests.unit.core.test_flood import _due as due
from tests.unit.core.test_flood import _flood as flood_of_one
from tests.unit.core.test_gossip_hostile import _settled as settled
from tests.unit.core.test_gossip_hostile import header
from tests.unit.core.test_links import linked
from tests.unit.core.test_token_calls import A, B, End, pass_on


def test_number_far_away_comes_nearer_each_time_that_it_is_said() -> None:
    """docs/protocol, JUMP-2."""
    limit, said = JumpLimit(), 5
    assert limit.take(7 + JUMP, 7)
    assert not limit.take(8 + JUMP, 7)
    while not limit.take(7 + 10 * JUMP, 7):
        said += 1
    assert said < 20
    assert not limit.take(NUMBER_MAX, 7)


# -- fences


def fenced(fleet: Fleet, base: int, node: NodeName = A) -> Event:
    link = (node, Tick(fleet["b" if node == A else "a"].tree.ledger.last(node) + 1))
    tock = fleet["a"].tock
    return new_event(Path(["door"]), Kind.SET, b"\x01", (link,), tock, 1.0, False, None, Fence(base, 0, 0, ""))


@pytest.mark.parametrize("base", [FENCE_MAX, FENCE_MAX - 1, BASES_AHEAD + 1])
def test_base_of_a_fence_far_ahead_is_taken_neither_from_gossip_nor_from_a_link(base: int) -> None:
    fleet = settled()
    ready = fleet.step("a", HeardMessage(Update(header(fleet, "b"), (fenced(fleet, base, NodeName("b")),))))
    assert [note.id for note in ready.notes] == ["fence_jump"]
    assert fleet["a"].tree.head(Path(["door"])) is None
    fleet = linked("b", "c")
    follow = fleet["b"].following.parents[A].follow
    ready = fleet.step("b", FollowTold(follow, (fenced(fleet, base),), {}))
    assert [note.id for note in ready.notes] == ["fence_jump"]
    assert fleet["b"].tree.head(Path(["door"])) is None


def test_base_of_a_fence_within_a_step_is_taken_and_can_be_lifted_further() -> None:
    fleet = settled()
    for times in (1, 2):
        event = fenced(fleet, times * BASES_AHEAD, NodeName("b"))
        assert not fleet.step("a", HeardMessage(Update(header(fleet, "b"), (event,)))).notes
    head = fleet["a"].tree.head(Path(["door"]))
    assert head is not None
    assert head.fence.base == 2 * BASES_AHEAD


# -- frames of the server tree


@pytest.mark.parametrize("start", [START_MAX, START_MAX - 1, 101 + START_JUMP])
def test_start_of_a_frame_far_ahead_silences_nobody(start: int) -> None:
    flood = flood_of_one(start=100)
    flood.open(1, {}, 0)
    assert not flood.take(1, TreeFrame(ORIGIN, start, 1, "say", b""), 5)
    assert flood.take(1, TreeFrame(ORIGIN, 7, 1, "say", b""), 6)
    flood = flood_of_one(start=100)
    flood.open(2, {ME: (start, 1)}, 0)
    assert flood.give("say", b"", 7).start == 100, "a neighbour that says so is not believed, either"


@pytest.mark.parametrize(("start", "number"), [(100, 2**62), (101, 1), (100 + START_JUMP, 5)])
def test_node_in_whose_name_somebody_spoke_goes_on_above_that(start: int, number: int) -> None:
    """docs/protocol, JUMP-4."""
    flood = flood_of_one(start=100)
    flood.open(1, {}, 0)
    flood.give("say", b"first", 4)
    assert not flood.take(1, TreeFrame(ME, start, number, "say", b"forged"), 5)
    flood.give("say", b"second", 6)
    frames = due(flood, 1)
    assert [frame.body for frame in frames] == [b"first", b"second"]
    assert all((frame.start, frame.number) > (start, number) for frame in frames)


# -- calls


@pytest.mark.parametrize("boot", [2**62, 2**63 - 1, BOOT_JUMP + 2])
def test_start_of_a_call_far_ahead_is_none(boot: int) -> None:
    a, b = End(A), End(B)
    assert b.calls.told(A, CallAsked(boot, 1, 1, b"forged"), 0) == []
    number = a.calls.ask(B, b"what", 0)
    assert pass_on(a, b) == [QuestionCame(CallKey(A, 1, number), b"what")]


@pytest.mark.parametrize("boot", [2, 1000, BOOT_JUMP])
def test_node_that_asks_goes_on_above_a_start_of_its_name_that_is_not_its(boot: int) -> None:
    """docs/protocol, JUMP-4."""
    a, b = End(A), End(B)
    b.calls.told(A, CallAsked(boot, 1, 1, b"forged"), 0)
    b.said()
    number = a.calls.ask(B, b"what", 0)
    assert pass_on(a, b) == []
    pass_on(b, a)
    assert pass_on(a, b)[-1] == QuestionCame(CallKey(A, boot + 1, number), b"what")
    b.calls.answer(CallKey(A, boot + 1, number), b"this")
    assert len(pass_on(b, a)) == 1


@pytest.mark.parametrize("number", [2**62, 1000])
def test_question_that_is_never_known_is_asked_under_another_start(number: int) -> None:
    """Somebody said that all questions up to a high number are over (docs/protocol, JUMP-4)."""
    a, b = End(A), End(B)
    b.calls.told(A, CallAsked(1, number, number, b"forged"), 0)
    asked = a.calls.ask(B, b"what", 0)
    came = pass_on(a, b)
    for count in range(1, UNKNOWN_MAX + 3):
        a.calls.woken(count * CHECK_MS)
        came += pass_on(a, b, count * CHECK_MS)
        pass_on(b, a, count * CHECK_MS)
        came += pass_on(a, b, count * CHECK_MS)
    assert [event for event in came if isinstance(event, QuestionCame)] == [QuestionCame(CallKey(A, 2, asked), b"what")]


def test_floor_above_the_question_itself_ends_nothing() -> None:
    b = End(B)
    b.calls.told(A, CallAsked(1, 1, 1, b"what"), 0)
    assert b.calls.told(A, CallAsked(1, 2, 2**62, b"forged"), 0) == []
    assert b.calls.is_waiting(CallKey(A, 1, 1))


def test_start_by_which_a_peer_goes_is_not_believed_far_ahead() -> None:
    a = End(A)
    a.calls.ask(B, b"what", 0)
    a.said()
    a.calls.told(B, CallsSeen(2 + BOOT_JUMP, (), ()), 0)
    assert a.said() == []


# -- maps of the token servers


@pytest.mark.parametrize(("version", "changed"), [(NUMBER_MAX, 9), (101 + JUMP, 9), (101, NUMBER_MAX), (101, 102)])
def test_map_of_the_token_servers_far_ahead_is_not_taken(version: int, changed: int) -> None:
    known = KnownServers((A, B))
    servers = {A: TokenServer(ServerStanding.READY, 1, 7), B: TokenServer(ServerStanding.READY, 2, 7)}
    known.heard(TokenMap(5, 100, 9, A, servers, 0, is_sure=True), 0)
    assert not known.heard(TokenMap(5, version, changed, B, servers, 0, is_sure=True), 10)
    assert known.leader == A
