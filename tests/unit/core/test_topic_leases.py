"""A lease counts from when it was asked for, a promise from when it was heard; who slept or started anew asks first."""

from __future__ import annotations

from collections.abc import Collection

import attrs

from distkv.core.ground.calls import CallKey
from distkv.core.ground.data import ServiceRows
from distkv.core.ground.machine import EntryChanged, ServiceWoken
from distkv.core.ground.node_calls import Replied
from distkv.core.ground.turn import AnsweredNode, AskedOfNode, DataKept, ServiceTurn
from distkv.core.topics.leases import LeasePurpose, Leases
from distkv.errors import PeerError
from distkv.model.event import NodeName
from distkv.wire.declared import pack
from distkv.wire.topic_messages import LEASE_REPLIES, LeaseAsked, LeaseGiven, LeaseProbe
from distkv.wire.topic_questions import NODE_QUESTIONS
from tests.topic_copies import SETTINGS, A, B, C

T = "news"
LEASE_MS, SHORT_MS, LONG_MS = SETTINGS.lease_ms, SETTINGS.short_ms, SETTINGS.long_ms
QUARTER_MS = LEASE_MS // 4
START_MS = 10_000


@attrs.define
class Node:
    """One that owns or follows, and what it wants to be done."""

    followers: Collection[NodeName] = ()
    others: Collection[NodeName] = ()
    away: Collection[NodeName] = ()
    shown: set[tuple[str, NodeName]] = attrs.field(factory=set)
    """What the store shows to be taken."""
    back: set[tuple[str, NodeName]] = attrs.field(factory=set)
    """What it shows to be taken back."""
    now_ms: int = START_MS
    data: ServiceRows = attrs.field(factory=ServiceRows)
    leases: Leases = attrs.field(init=False)
    asked: list[AskedOfNode] = attrs.field(factory=list)
    given: list[LeaseGiven] = attrs.field(factory=list)
    sleeps: int = 0

    def __attrs_post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.leases = Leases(SETTINGS, self, self.data, self.now_ms)
        turn = self.turn()
        self.leases.begin(turn)
        self.take(turn)

    def turn(self) -> ServiceTurn:
        return ServiceTurn("topics", self.now_ms, 1.7e9)

    def take(self, turn: ServiceTurn) -> None:
        self.leases.check()
        for effect in turn.effects:
            if isinstance(effect, AskedOfNode):
                self.asked.append(effect)
            elif isinstance(effect, AnsweredNode):
                self.given.append(LEASE_REPLIES.read(effect.body))
            elif isinstance(effect, DataKept):
                self.data.put(effect.key, effect.value)

    def pass_time(self, ms: int) -> None:
        """Awake all the time."""
        for _ in range(ms // 100):
            self.now_ms += 100
            self.wake()
        self.now_ms += ms % 100
        self.wake()

    def wake(self) -> None:
        turn = self.turn()
        self.leases.step(turn, ServiceWoken())
        self.take(turn)

    def answer(self, node: NodeName, said: LeaseGiven | None = None, at: int = -1) -> None:
        """A node answers one of the questions; the last one."""
        what = [one for one in self.asked if one.node == node and isinstance(one.purpose, LeasePurpose)][at]
        turn = self.turn()
        self.leases.step(turn, Replied(what.purpose, pack(said or LeaseGiven())))
        self.take(turn)

    def fail(self, what: AskedOfNode) -> None:
        turn = self.turn()
        self.leases.step(turn, Replied(what.purpose, PeerError("silent")))
        self.take(turn)

    def ask(self, node: NodeName, question: LeaseAsked | LeaseProbe | None = None) -> LeaseGiven:
        """A node asks this one."""
        turn = self.turn()
        self.leases.asked(turn, CallKey(node, 1, 1), question or LeaseAsked())
        self.take(turn)
        return self.given[-1]

    def took(self, name: str, node: NodeName) -> None:
        turn = self.turn()
        self.leases.took(turn, name, node)
        self.take(turn)

    def see(self) -> None:
        turn = self.turn()
        self.leases.step(turn, EntryChanged(T))
        self.take(turn)

    def may_answer(self) -> bool:
        return self.leases.may_answer(T, self.followers, self.now_ms)

    def probes(self) -> list[AskedOfNode]:
        return [one for one in self.asked if isinstance(NODE_QUESTIONS.read(one.body), LeaseProbe)]

    # -- LeaseHost

    def needed(self) -> Collection[NodeName]:
        return self.followers

    def peers(self) -> Collection[NodeName]:
        return self.others

    def suspects(self) -> Collection[NodeName]:
        return self.away

    def slept(self, turn: ServiceTurn) -> None:  # noqa: ARG002
        self.sleeps += 1

    def knows_taken(self, name: str, node: NodeName) -> bool:
        return (name, node) in self.shown

    def is_taken_back(self, name: str, node: NodeName) -> bool:
        return (name, node) in self.back


def _owner() -> Node:
    """One that has slept its time."""
    node = Node(followers=[B], others=[B])
    node.answer(B)
    return node


# -- the owner


def test_owner_without_others_answers_at_once() -> None:
    assert Node().may_answer()


def test_owner_answers_when_each_follower_gave_a_lease() -> None:
    node = Node(followers=[B, C])
    node.answer(B)
    assert not node.may_answer()
    node.answer(C)
    assert node.may_answer()


def test_lease_ends_a_short_lease_after_it_was_asked_for() -> None:
    node = Node(followers=[B], others=[B])
    node.now_ms += 300
    node.answer(B)
    assert node.leases.holds(B, START_MS + SHORT_MS - 1)
    assert not node.leases.holds(B, START_MS + SHORT_MS)


def test_late_answer_makes_no_lease_shorter() -> None:
    node = _owner()
    node.pass_time(QUARTER_MS)
    node.answer(B)
    node.answer(B, at=0)
    assert node.leases.holds(B, START_MS + SHORT_MS)


def test_followers_are_asked_each_quarter_of_a_lease() -> None:
    node = _owner()
    node.pass_time(2 * LEASE_MS)
    assert len(node.asked) == 1 + 8


def test_follower_is_silent_a_long_lease_after_its_last_answer() -> None:
    node = _owner()
    node.pass_time(QUARTER_MS)
    node.answer(B)
    assert not node.leases.is_silent(B, node.now_ms + LONG_MS - 1)
    assert node.leases.is_silent(B, node.now_ms + LONG_MS)


def test_owner_that_slept_takes_no_follower_for_silent() -> None:
    node = _owner()
    node.now_ms += 10 * LEASE_MS
    node.wake()
    assert not node.leases.is_silent(B, node.now_ms)


def test_owner_that_slept_answers_nothing_before_it_asked_all_others() -> None:
    node = Node(others=[B])
    node.pass_time(2 * LEASE_MS)
    assert node.may_answer()
    node.now_ms += LEASE_MS
    assert not node.may_answer()
    node.wake()
    assert not node.may_answer()
    node.pass_time(QUARTER_MS)
    node.answer(B)
    assert node.may_answer()


def test_owner_that_started_anew_waits_a_lease_for_others_that_are_silent() -> None:
    node = Node(others=[B])
    node.pass_time(LEASE_MS - 1)
    assert not node.may_answer()
    node.pass_time(1)
    assert node.may_answer()


def test_topic_that_was_taken_is_suspended_until_the_store_shows_it() -> None:
    node = _owner()
    node.pass_time(QUARTER_MS)
    node.answer(B, LeaseGiven((T,)))
    assert not node.may_answer()
    assert node.leases.may_answer("jobs", [B], node.now_ms)
    node.shown.add((T, B))
    node.see()
    assert node.may_answer()


def test_node_that_said_it_took_a_topic_is_asked_until_it_says_so_no_more() -> None:
    """COPY-10."""
    node = _owner()
    node.ask(C, LeaseAsked(taken=(T,)))
    node.pass_time(QUARTER_MS)
    node.answer(B)
    node.answer(C, LeaseGiven((T,)))
    assert not node.may_answer()
    node.pass_time(QUARTER_MS)
    node.answer(B)
    node.answer(C)
    assert node.may_answer()
    node.asked.clear()
    node.pass_time(QUARTER_MS)
    assert {one.node for one in node.asked} == {B}


def test_owner_says_what_it_has_seen_until_it_hears_of_it_no_more() -> None:
    node = _owner()
    node.pass_time(QUARTER_MS)
    node.answer(B, LeaseGiven((T,)))
    node.shown.add((T, B))
    node.see()
    node.shown.clear()  # another entry says nothing of it
    node.pass_time(QUARTER_MS)
    assert NODE_QUESTIONS.read(node.asked[-1].body) == LeaseAsked(known=(T,))
    assert node.may_answer()


def test_lease_of_a_node_that_took_more_than_it_can_say_does_not_count() -> None:
    node = Node(followers=[B])
    node.answer(B, LeaseGiven(("other",), more=True))
    assert not node.leases.holds(B, node.now_ms)


def test_owner_is_told_by_a_question_what_was_taken() -> None:
    node = Node()
    node.ask(B, LeaseAsked(taken=(T,)))
    assert not node.may_answer()


# -- the follower


def test_follower_takes_over_when_its_promise_is_over_and_a_probe_was_in_vain() -> None:
    node = Node(away=[A])
    node.pass_time(LONG_MS)
    node.ask(A)
    heard_ms, before = node.now_ms, len(node.probes())
    node.pass_time(LONG_MS - 100)
    assert len(node.probes()) == before
    node.pass_time(QUARTER_MS + 100)
    probe = node.probes()[before]
    assert isinstance(probe.purpose, LeasePurpose)
    assert probe.purpose.asked_ms >= heard_ms + LONG_MS
    assert not node.leases.may_take_over(A, node.now_ms)
    node.pass_time(LEASE_MS)
    node.fail(probe)
    assert node.leases.may_take_over(A, node.now_ms)


def test_follower_that_started_anew_keeps_the_promises_of_before() -> None:
    node = Node(away=[A])
    node.pass_time(LONG_MS - 1)
    assert node.probes() == []
    node.pass_time(QUARTER_MS)
    assert node.probes()


def test_follower_does_not_take_over_from_an_owner_that_answers_a_probe() -> None:
    node = Node(away=[A])
    node.pass_time(LONG_MS + QUARTER_MS)
    first = node.probes()[0]
    node.answer(A)
    node.pass_time(LEASE_MS)
    node.fail(first)
    assert not node.leases.may_take_over(A, node.now_ms)


def test_follower_does_not_take_over_from_an_owner_that_asks_again() -> None:
    node = Node(away=[A])
    node.pass_time(LONG_MS + QUARTER_MS)
    first = node.probes()[0]
    node.pass_time(LEASE_MS)
    node.fail(first)
    node.ask(A)
    assert not node.leases.may_take_over(A, node.now_ms)
    node.pass_time(LONG_MS)
    assert not node.leases.may_take_over(A, node.now_ms)


def test_follower_that_slept_during_a_probe_asks_anew() -> None:
    node = Node(away=[A])
    node.pass_time(LONG_MS + QUARTER_MS)
    first = node.probes()[0]
    node.now_ms += 2 * LEASE_MS
    node.fail(first)
    assert not node.leases.may_take_over(A, node.now_ms)


def test_follower_that_slept_after_a_probe_in_vain_asks_anew() -> None:
    node = Node(away=[A])
    node.pass_time(LONG_MS + QUARTER_MS)
    first = node.probes()[0]
    node.pass_time(LEASE_MS)
    node.fail(first)
    node.now_ms += LEASE_MS
    node.wake()
    assert not node.leases.may_take_over(A, node.now_ms)


def test_what_was_taken_is_told_until_it_is_known() -> None:
    node = Node()
    node.took(T, A)
    assert node.ask(A).taken == (T,)
    assert node.ask(B).taken == ()
    node.start()
    assert node.ask(A).taken == (T,)
    assert node.ask(A, LeaseAsked(known=(T,))).taken == ()
    node.start()
    assert node.ask(A).taken == ()


def test_what_was_taken_back_is_told_no_more() -> None:
    node = Node()
    node.took(T, A)
    node.back.add((T, A))
    node.see()
    assert node.ask(A).taken == ()
    assert len(node.data) == 0


def test_what_a_follower_was_left_out_of_is_told_with_the_question() -> None:
    node = _owner()
    node.took(T, B)
    node.pass_time(QUARTER_MS)
    assert NODE_QUESTIONS.read(node.asked[-1].body) == LeaseAsked(taken=(T,))
    node.answer(B, LeaseGiven(known=(T,)))
    assert len(node.data) == 0


def test_node_of_which_nobody_wants_anything_is_not_woken() -> None:
    node = Node()
    assert node.leases.wake_ms() is None


def test_answer_that_cannot_be_read_gives_no_lease() -> None:
    node = Node(followers=[B])
    turn = node.turn()
    assert node.leases.step(turn, Replied(node.asked[0].purpose, b"nonsense"))
    assert not node.leases.holds(B, node.now_ms)


def test_node_that_slept_says_so_and_one_that_is_awake_does_not() -> None:
    node = Node()
    node.ask(B)
    assert node.leases.wake_ms() == node.now_ms + QUARTER_MS, "a promise is a reason to see whether it sleeps"
    node.pass_time(LONG_MS)
    assert node.sleeps == 0
    node.now_ms += LEASE_MS
    node.ask(B)
    assert node.sleeps == 1


def test_follower_has_answered_when_it_gave_a_lease_since_the_owner_slept() -> None:
    """TOPIC-17."""
    node = _owner()
    node.pass_time(QUARTER_MS)
    assert node.leases.has_answered(B)
    node.now_ms += 2 * LEASE_MS
    node.wake()
    assert not node.leases.has_answered(B)
    node.pass_time(QUARTER_MS)
    node.answer(B)
    assert node.leases.has_answered(B)
