"""The rules about the activity network notice what must never be, and excuse what is not promised.

Knows: `distkv.sim.activity`: its rules, and what they are told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext

import attrs
import pytest

from distkv.core.activity.settings import ACTIVITY, ActivitySettings
from distkv.sim.activity.moments import (
    ActivityEchoed,
    ActivityGivenOut,
    ActivityHeard,
    ActivityWritten,
    ChatBegun,
    ChatMoment,
    ClientArrived,
    ClientSentOn,
    GapHeard,
    NodeEnded,
    NodeEnding,
    PassedOver,
)
from distkv.sim.activity.nodes import ActivityNodes
from distkv.sim.activity.part import PART
from distkv.sim.activity.rules import EndsInOrder, SeldomSentOn
from distkv.sim.fleet import Fleet
from distkv.sim.rule import BrokenRuleError, Observer

SENT_ON = ClientSentOn("u")
A, B = "a.0", "b.0"


@attrs.frozen
class SomeHost:
    """A host, as far as rules look at it."""

    name: str


@attrs.frozen
class SomeProcess:
    """A process, as far as rules look at it."""

    host: SomeHost
    now_ms: int


class Story:
    """Nodes a, b and c with listeners, which run since long; and all rules."""

    def __init__(self) -> None:
        self.rules = PART.rules()
        self.fleet = Fleet()
        self.fleet.services[ACTIVITY] = ActivityNodes(self.fleet.hosts, 0, ActivitySettings())
        for name in "abc":
            self.fleet.host(name)
            self.start(0, name)
        self.tell(50_000, ChatBegun("v"))

    def tell(self, at_ms: int, *moments: ChatMoment) -> Story:
        """It happens, after all that is to be looked at in each second until then."""
        while self.fleet.now_ms < at_ms:
            self.fleet.run(min(1000, at_ms - self.fleet.now_ms))
            for rule in self.rules:
                rule.second(self.fleet)
        for moment in moments:
            for rule in self.rules:
                rule.moment(at_ms, moment)
        return self

    def befell(self, at_ms: int, name: str, what: str) -> None:
        self.tell(at_ms)
        for rule in self.rules:
            rule.befell(at_ms, name, what)

    def start(self, at_ms: int, name: str) -> None:
        for rule in self.rules:
            rule.started(SomeProcess(SomeHost(name), at_ms), ())  # type: ignore[arg-type]

    def end(self, at_ms: int, *names: str) -> None:
        self.tell(at_ms)
        for name in names:
            for rule in self.rules:
                rule.ended(SomeProcess(SomeHost(name), at_ms))  # type: ignore[arg-type]

    def sent(self, at_ms: int, text: str, origin: str, number: int, holders: str = "abc", copies: int = 0) -> None:
        """Its sender u has the echo of it."""
        node, (client, _) = origin[0], text.split("-")
        self.tell(at_ms, ActivityWritten(client, text), ActivityGivenOut(node, origin, number, holders, copies))
        self.tell(at_ms, ActivityHeard(client, text, origin, number, node), ActivityEchoed(client, text))

    def hears(self, at_ms: int, text: str, origin: str, number: int, node: str) -> None:
        self.tell(at_ms, ActivityHeard("v", text, origin, number, node))

    def settle(self, at_ms: int = 200_000) -> Story:
        self.tell(at_ms)
        for rule in self.rules:
            if rule.rule != "clients are spread evenly":
                rule.settled(self.fleet)
        return self


def at(node: str) -> ClientArrived:
    return ClientArrived("u", node)


def tell(rule: Observer, moments: Iterable[tuple[int, ChatMoment]]) -> None:
    for at_ms, moment in moments:
        rule.moment(at_ms, moment)


def judged(*, is_broken: bool) -> AbstractContextManager[object]:
    return pytest.raises(BrokenRuleError) if is_broken else nullcontext()


def broken(rule: str) -> AbstractContextManager[object]:
    return pytest.raises(BrokenRuleError, match=rule)


# -- loss


def test_what_was_echoed_and_is_not_heard_is_noticed() -> None:
    story = Story()
    story.sent(60_000, "u-1", A, 1)
    with broken("v does not hear u-1"):
        story.settle()


def test_what_was_heard_is_not_lost() -> None:
    story = Story()
    story.sent(60_000, "u-1", A, 1)
    story.hears(61_000, "u-1", A, 1, "b")
    assert story.settle()


def test_what_was_not_echoed_may_be_lost() -> None:
    story = Story()
    story.tell(60_000, ActivityWritten("u", "u-1"), ActivityGivenOut("c", A, 1), ActivityHeard("u", "u-1", A, 1, "c"))
    assert story.settle()


def side_change(*, between: str, passed: int = 0) -> Story:
    """A node has 2 and not 1; then something befalls b, and c speaks for the same sender."""
    story = Story()
    story.tell(60_000, ActivityWritten("u", "u-1"), ActivityGivenOut("a", A, 1, "ab", 0))
    story.tell(60_000, ActivityHeard("u", "u-1", A, 1, "a"))
    story.sent(60_100, "u-2", A, 2, "abc")
    story.end(60_200, "a")
    if passed:
        story.tell(60_300, PassedOver("c", A, 1, passed, {1: ["b"]}))
    story.befell(61_000, "b", between)
    story.sent(62_000, "u-3", "c.0", 1, "bc")
    story.hears(62_000, "u-3", "c.0", 1, "b")
    return story


def test_what_waits_for_an_earlier_one_that_could_not_be_known_may_be_dropped_where_its_sender_goes() -> None:
    assert side_change(between="is cut off").settle()


def test_what_waits_for_an_earlier_one_that_could_be_known_is_not_lost() -> None:
    with broken("v does not hear u-2"):
        side_change(between="has nothing").settle()


def test_what_waits_for_nothing_more_is_not_lost() -> None:
    with broken("v does not hear u-2"):
        side_change(between="is cut off", passed=1).settle()


def test_a_node_that_begins_anew_in_its_process_has_nothing_of_before() -> None:
    story = Story()
    story.sent(60_000, "u-1", A, 1, "a")
    story.sent(61_000, "w-1", "a.1", 1)
    story.hears(61_000, "w-1", "a.1", 1, "b")
    assert story.settle()


def test_nobody_can_say_what_only_nodes_that_ended_knew() -> None:
    story = Story()
    story.sent(60_000, "u-1", A, 1, "ac")
    story.end(60_100, "a", "c")
    assert story.settle()


def test_one_copy_that_is_left_is_owed() -> None:
    story = Story()
    story.sent(60_000, "u-1", A, 1)
    story.end(60_100, "a", "c")
    with broken("nobody said so"):
        story.settle()


def test_side_of_a_split_is_not_owed_what_the_other_one_lost() -> None:
    story = Story()
    story.befell(40_000, "", "split a | b c")
    story.fleet.partition("a", "bc")
    story.sent(60_000, "u-1", A, 1, "a")
    story.end(61_000, "a")
    assert story.settle()


def test_late_one_of_the_other_side_is_owed_as_long_as_it_is_kept() -> None:
    story = Story()
    story.befell(40_000, "", "split a | b c")
    story.fleet.partition("a", "bc")
    story.sent(60_000, "u-1", A, 1, "a")
    story.fleet.heal()
    story.befell(70_000, "", "heal")
    with broken("nobody said so"):
        story.settle()


# -- gaps


@pytest.mark.parametrize(
    ("happens", "is_broken"),
    [
        pytest.param(lambda _: None, True, id="others have it"),
        pytest.param(lambda story: story.end(70_000, "a"), True, id="one of those who have it ended"),
        pytest.param(lambda story: story.end(70_000, "a", "c"), False, id="all who have it ended"),
        pytest.param(lambda story: story.tell(125_000), False, id="it is older than kept"),
        pytest.param(lambda story: story.befell(100_000, "b", "is cut off from all"), False, id="its node was cut off"),
        pytest.param(lambda story: story.befell(100_000, "a", "pauses"), True, id="one of those who have it paused"),
        pytest.param(lambda story: story.befell(63_000, "b", "pauses"), True, id="its node paused a while ago"),
    ],
)
def test_gap_excuses_only_what_no_node_has_that_could_be_asked(
    happens: Callable[[Story], object], *, is_broken: bool
) -> None:
    story = Story()
    story.sent(60_000, "u-1", A, 1, "ac")
    happens(story)
    at_ms = max(story.fleet.now_ms, 100_000)
    story.tell(at_ms, GapHeard("v", A, 1, 1, "b", {1: ()}))
    with judged(is_broken=is_broken):
        story.settle()


def test_what_was_passed_over_when_nobody_had_it_stays_passed_over() -> None:
    story = Story()
    story.befell(50_000, "b", "is cut off from all")
    story.sent(60_000, "u-1", A, 1, "ac")
    story.tell(62_000, PassedOver("b", A, 1, 1, {1: "ac"}))
    story.tell(110_000, GapHeard("v", A, 1, 1, "b", {1: "ac"}))
    assert story.settle()


def test_node_that_passes_over_what_another_one_has_is_noticed() -> None:
    story = Story()
    story.sent(60_000, "u-1", A, 1, "ac")
    story.tell(62_000, PassedOver("b", A, 1, 1, {1: "c"}))
    story.end(63_000, "a", "c")
    story.tell(100_000, GapHeard("v", A, 1, 1, "b", {1: ()}))
    with broken("b said"):
        story.settle()


# -- order


def test_nobody_hears_an_earlier_one_after_a_later_one() -> None:
    story = Story()
    story.sent(60_000, "u-1", A, 1)
    story.sent(61_000, "u-2", B, 1)
    story.hears(62_000, "u-2", B, 1, "b")
    with broken("after u-2"):
        story.hears(63_000, "u-1", A, 1, "b")


def test_who_goes_to_the_other_side_may_hear_an_earlier_one_there() -> None:
    story = Story()
    story.befell(50_000, "", "split a c | b")
    story.fleet.partition("ac", "b")
    story.sent(60_000, "u-1", A, 1, "ac")
    story.sent(61_000, "u-2", B, 1, "b")
    story.hears(62_000, "u-2", B, 1, "b")
    story.hears(63_000, "u-1", A, 1, "c")
    assert story.settle()


def test_split_that_lasts_excuses_to_its_end() -> None:
    story = Story()
    story.befell(50_000, "", "split a c | b")
    story.fleet.partition("ac", "b")
    story.sent(160_000, "u-1", A, 1, "ac")
    story.sent(161_000, "u-2", B, 1, "b")
    story.hears(162_000, "u-2", B, 1, "b")
    story.hears(163_000, "u-1", A, 1, "c")
    assert story.settle()


def test_numbers_of_one_origin_are_in_order_wherever_a_client_goes() -> None:
    story = Story()
    story.befell(50_000, "c", "is cut off from all")
    story.sent(60_000, "u-1", A, 1)
    story.sent(61_000, "u-2", A, 2, "ab")
    story.hears(62_000, "u-2", A, 2, "b")
    with broken("after u-2"):
        story.hears(63_000, "u-1", A, 1, "c")


def test_what_a_sender_sent_on_its_former_side_need_not_come_behind_a_later_one() -> None:
    story = Story()
    story.befell(50_000, "", "split a | b c")
    story.fleet.partition("a", "bc")
    story.sent(60_000, "u-1", A, 1, "a")
    story.sent(61_000, "u-2", B, 1, "bc")
    story.hears(62_000, "u-2", B, 1, "b")
    story.fleet.heal()
    story.befell(70_000, "", "heal")
    assert story.settle()


def test_what_a_sender_sent_before_it_moved_is_owed_where_all_could_know_it() -> None:
    story = Story()
    story.sent(60_000, "u-1", A, 1, "ac")
    story.sent(61_000, "u-2", B, 1)
    story.hears(62_000, "u-2", B, 1, "b")
    with broken("v does not hear u-1"):
        story.settle()


def back_at_a(story: Story) -> Story:
    """While the network is split, u is back at a, where it was before, and sends 4."""
    story.befell(62_000, "", "split a | b c")
    story.fleet.partition("a", "bc")
    story.sent(63_000, "u-3", B, 2, "bc")
    story.sent(64_000, "u-4", A, 2, "a")
    story.hears(64_000, "u-4", A, 2, "a")
    story.fleet.heal()
    story.befell(70_000, "", "heal")
    return story


def test_what_a_sender_sent_on_the_other_side_need_not_come_where_it_is_back_and_sends_again() -> None:
    story = Story()
    story.sent(61_000, "u-2", A, 1)
    story.hears(61_000, "u-2", A, 1, "a")
    assert back_at_a(story).settle()


def test_what_could_be_known_where_a_sender_came_is_owed_when_it_is_back_there() -> None:
    story = Story()
    story.sent(60_000, "u-1", B, 1, "bc")
    story.sent(61_000, "u-2", A, 1)
    story.hears(61_000, "u-2", A, 1, "a")
    with broken("v does not hear u-1"):
        back_at_a(story).settle()


def test_nobody_hears_an_activity_twice() -> None:
    story = Story()
    story.sent(60_000, "u-1", A, 1)
    story.hears(62_000, "u-1", A, 1, "b")
    with broken("again"):
        story.hears(62_000, "u-1", A, 1, "b")


# -- echoes


def test_echo_without_its_copies_is_noticed() -> None:
    with broken("echoes 1"):
        Story().sent(60_000, "u-1", A, 1, "ab", 2)


def test_node_that_ended_a_moment_ago_may_have_been_a_copy() -> None:
    story = Story()
    story.start(0, "d")
    story.end(55_000, "c")
    story.sent(60_000, "u-1", A, 1, "ab", 2)
    story.hears(61_000, "u-1", A, 1, "b")
    assert story.settle()


def test_node_that_is_cut_off_echoes_what_only_it_has() -> None:
    story = Story()
    story.befell(50_000, "a", "is cut off from all")
    story.sent(60_000, "u-1", A, 1, "a", 2)
    story.hears(61_000, "u-1", A, 1, "b")
    assert story.settle()


# -- who is sent on


@pytest.mark.parametrize(
    ("moments", "is_broken"),
    [
        pytest.param([(0, at("a")), (1, SENT_ON)], False, id="its first node sends it on"),
        pytest.param([(0, at("a")), (1, SENT_ON), (5, at("b")), (50_000, SENT_ON)], True, id="so does the next"),
        pytest.param([(0, at("a")), (5, at("b")), (60_010, SENT_ON)], False, id="a minute later"),
        pytest.param([(0, at("a")), (5, at("b")), (50_000, at("b")), (60_010, SENT_ON)], False, id="it was away"),
        pytest.param([(0, at("a")), (5, at("b")), (9, NodeEnding("b")), (10, SENT_ON)], False, id="its node ends"),
        pytest.param([(0, at("a")), (5, at("b")), (9, NodeEnding("a")), (10, SENT_ON)], True, id="another node ends"),
    ],
)
def test_client_that_is_sent_on_soon_after_it_came_is_noticed(
    moments: list[tuple[int, ChatMoment]], *, is_broken: bool
) -> None:
    with judged(is_broken=is_broken):
        tell(SeldomSentOn(), moments)


def test_client_of_a_node_that_began_again_has_come() -> None:
    rule = SeldomSentOn()
    tell(rule, [(0, at("a"))])
    rule.ended(SomeProcess(SomeHost("a"), 2000))  # type: ignore[arg-type]
    with judged(is_broken=True):
        tell(rule, [(3000, at("a")), (4000, SENT_ON)])


@pytest.mark.parametrize(("befell", "is_broken"), [("wall clock jumps 3600 s", False), ("clock runs at 1.02", True)])
def test_only_a_wall_clock_that_jumped_excuses_who_is_sent_on(befell: str, *, is_broken: bool) -> None:
    rule = SeldomSentOn()
    rule.befell(0, "a", befell)
    with judged(is_broken=is_broken):
        tell(rule, [(0, at("a")), (5, at("b")), (10, SENT_ON)])


@pytest.mark.parametrize(
    ("ended", "ended_ms", "is_broken"),
    [
        pytest.param(NodeEnded("a", is_done=True, left=0), 61_000, False, id="in order"),
        pytest.param(NodeEnded("a", is_done=True, left=1), 61_000, True, id="a client is left"),
        pytest.param(NodeEnded("a", is_done=False, left=0), 75_000, True, id="it never says that it is done"),
        pytest.param(NodeEnded("a", is_done=True, left=0), 72_000, True, id="it takes long"),
    ],
)
def test_node_that_ends_without_sending_its_clients_on_is_noticed(
    ended: NodeEnded, ended_ms: int, *, is_broken: bool
) -> None:
    with judged(is_broken=is_broken):
        Story().tell(60_000, NodeEnding("a")).tell(ended_ms, ended)


def test_last_node_that_ends_has_nowhere_to_send_clients() -> None:
    story = Story()
    story.end(60_000, "b", "c")
    story.tell(60_000, NodeEnding("a")).tell(61_000, NodeEnded("a", is_done=True, left=3))
    assert story.settle()


def test_rules_of_a_planned_end_are_among_all() -> None:
    assert any(isinstance(rule, EndsInOrder) for rule in PART.rules())
