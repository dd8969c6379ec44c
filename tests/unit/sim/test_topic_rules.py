"""The rules about topics notice what must never be.

Knows: `distkv.sim.topics.rules`.
"""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from distkv.core.ready import Note, Ready
from distkv.model.event import NodeName
from distkv.model.ranges import Ranges
from distkv.sim.fleet import Fleet
from distkv.sim.host import Host
from distkv.sim.rule import BrokenRuleError, Observer
from distkv.sim.topics.moments import (
    GetSent,
    GetTold,
    Identity,
    MessageRecorded,
    PutDenied,
    PutSent,
    PutStored,
    StateForked,
    SubscriptionMissed,
    SubscriptionSent,
    SubscriptionTaken,
    TopicLimited,
    TopicMoment,
)
from distkv.sim.topics.rules import (
    GoneIsTold,
    NeverAgain,
    OnceIntoState,
    OnlyPutsCome,
    ProducersInOrder,
    PutsAreKept,
)
from distkv.sim.topics.troubles import APART, RETIRED, Troubles
from distkv.sim.wording import DEEDS
from distkv.wire.message import ResetRecord

STEP_MS = 100


def _put(counter: int, *, copies: int = 2) -> tuple[TopicMoment, TopicMoment]:
    value, identity = f"m{counter}", ("p", counter)
    return PutSent("p", "t", value, identity), PutStored("p", "t", value, identity, copies)


def _subscribed(op: int = 1) -> TopicMoment:
    return SubscriptionTaken("t", "s", True, op, is_changed=True, copies=2)


def _gone(counter: int) -> TopicMoment:
    return _got(1, gone=(("p", Ranges([(counter, counter + 1)])),))


def _unsubscribes(op: int | None = 2) -> TopicMoment:
    return SubscriptionSent("t", "s", False, op)


def _recorded(counter: int, state: int = 1) -> TopicMoment:
    return MessageRecorded("t", "s", state, ("p", counter), f"m{counter}")


def _got(number: int, *counters: int, gone: tuple[tuple[str, Ranges], ...] = ()) -> TopicMoment:
    return GetTold("t", "s", number, tuple((("p", one), f"m{one}") for one in counters), gone)


def _asked(number: int, *done: Identity) -> TopicMoment:
    return GetSent("t", "s", number, done)


def _tell(rule: Observer, *moments: TopicMoment) -> None:
    for number, moment in enumerate(moments):
        rule.moment(number * STEP_MS, moment)


def _lost_disks(troubles: Troubles, *names: str) -> None:
    for name in names:
        troubles.befell(10**6, name, "loses its disk")
        troubles.lost_disk(Host(name, f"{name}:1", NodeName(name)), is_copied=False)


def _lacking(rule: Observer) -> str:
    """What the rule says when all is well."""
    try:
        rule.settled(Fleet(1))
    except BrokenRuleError as error:
        return str(error)
    return ""


def test_message_that_comes_twice_into_a_state_is_noticed() -> None:
    with pytest.raises(BrokenRuleError, match="once into a state"):
        _tell(OnceIntoState(Troubles()), _recorded(1), _recorded(1))


def test_message_comes_once_into_each_of_two_states() -> None:
    rule = OnceIntoState(Troubles())
    _tell(rule, _recorded(1), _recorded(1, state=2))
    assert rule.count == 2


def test_message_of_which_a_copied_state_knows_is_noticed() -> None:
    with pytest.raises(BrokenRuleError, match="once into a state"):
        _tell(OnceIntoState(Troubles()), _recorded(1), StateForked(1, 2, 1), _recorded(1, state=2))


def test_message_that_a_state_lost_may_come_again() -> None:
    rule = OnceIntoState(Troubles())
    _tell(rule, _recorded(1), _recorded(2), StateForked(1, 2, 1), _recorded(2, state=2))
    assert rule.count == 3


def test_answered_put_that_a_subscriber_lacks_is_noticed() -> None:
    rule = PutsAreKept(Troubles())
    _tell(rule, _subscribed(), *_put(1))
    assert "lacks m1" in _lacking(rule)


def test_answered_put_that_came_is_as_promised() -> None:
    rule = PutsAreKept(Troubles())
    _tell(rule, _subscribed(), *_put(1), _recorded(1))
    assert _lacking(rule) == ""


def test_put_before_a_subscription_is_not_owed() -> None:
    rule = PutsAreKept(Troubles())
    _tell(rule, *_put(1), _subscribed())
    assert _lacking(rule) == ""


def test_put_without_an_answer_is_not_owed() -> None:
    rule = PutsAreKept(Troubles())
    _tell(rule, _subscribed(), _put(1)[0])
    assert _lacking(rule) == ""


def test_nothing_is_owed_after_an_unsubscribe() -> None:
    rule = PutsAreKept(Troubles())
    _tell(rule, _subscribed(), *_put(1), _unsubscribes())
    assert _lacking(rule) == ""


def test_subscription_that_a_later_op_ended_is_none() -> None:
    rule = PutsAreKept(Troubles())
    _tell(rule, _unsubscribes(2), _subscribed(1), *_put(1))
    assert _lacking(rule) == ""


def test_subscription_above_the_end_of_another_one_counts() -> None:
    rule = PutsAreKept(Troubles())
    _tell(rule, _unsubscribes(2), _subscribed(3), *_put(1))
    assert "lacks m1" in _lacking(rule)


def test_put_before_a_subscription_was_repeated_elsewhere_is_owed() -> None:
    rule = PutsAreKept(Troubles())
    _tell(rule, _subscribed(), *_put(1), _subscribed())
    assert "lacks m1" in _lacking(rule)


def test_subscription_that_was_repeated_elsewhere_outlives_the_disks_of_the_first() -> None:
    rule = PutsAreKept(Troubles())
    _tell(rule, _subscribed())
    _lost_disks(rule.troubles, "a", "b")
    rule.moment(2 * 10**6, _subscribed())
    for number, moment in enumerate(_put(1)):
        rule.moment(3 * 10**6 + number, moment)
    assert "lacks m1" in _lacking(rule)


def test_subscriber_that_is_said_to_be_none_is_noticed() -> None:
    with pytest.raises(BrokenRuleError, match="subscribed since 0 ms"):
        _tell(PutsAreKept(Troubles()), _subscribed(), SubscriptionMissed("t", "s", 50, "not subscribed"))


def test_subscriber_that_asked_before_it_was_subscribed_may_be_none() -> None:
    rule = PutsAreKept(Troubles())
    _tell(rule, _subscribed(), SubscriptionMissed("t", "s", 0, "not subscribed"))
    assert rule.troubles.is_whole


def test_message_that_is_said_to_be_gone_is_not_owed() -> None:
    rule = PutsAreKept(Troubles())
    _tell(rule, _subscribed(), *_put(1), _got(1, gone=(("p", Ranges([(1, 2)])),)))
    assert _lacking(rule) == ""


def test_message_on_two_disks_outlives_one_of_them() -> None:
    rule = PutsAreKept(Troubles())
    _tell(rule, _subscribed(), *_put(1))
    _lost_disks(rule.troubles, "a")
    assert "lacks m1" in _lacking(rule)


def test_message_whose_disks_are_all_lost_is_not_owed() -> None:
    rule = PutsAreKept(Troubles())
    _tell(rule, _subscribed(), *_put(1))
    _lost_disks(rule.troubles, "a", "b")
    assert _lacking(rule) == ""


def test_one_of_two_messages_with_one_identity_is_not_owed() -> None:
    rule = PutsAreKept(Troubles())
    _tell(rule, _subscribed(), *_put(1), PutSent("q", "t", "other", ("p", 1)))
    assert _lacking(rule) == ""


def test_message_that_is_gone_without_a_split_is_noticed() -> None:
    with pytest.raises(BrokenRuleError, match="is gone"):
        _tell(GoneIsTold(Troubles()), _subscribed(), *_put(1), _gone(1))


def test_message_without_a_producer_that_is_gone_is_noticed() -> None:
    put = PutSent("x", "t", "m1", None), PutStored("x", "t", "m1", ("~a", 1), 2)
    with pytest.raises(BrokenRuleError, match="is gone"):
        _tell(GoneIsTold(Troubles()), _subscribed(), *put, _got(1, gone=(("~a", Ranges([(1, 2)])),)))


def test_message_that_was_put_before_the_subscription_was_answered_may_be_gone() -> None:
    put, stored = _put(1)
    rule = GoneIsTold(Troubles())
    _tell(rule, put, _subscribed(), stored, _gone(1))
    assert rule.troubles.is_whole


def test_message_may_be_gone_for_who_unsubscribes() -> None:
    rule = GoneIsTold(Troubles())
    _tell(rule, _subscribed(), *_put(1), _unsubscribes(), _gone(1))
    assert rule.troubles.is_whole


def test_message_that_is_gone_after_the_subscription_was_repeated_elsewhere_is_noticed() -> None:
    with pytest.raises(BrokenRuleError, match="is gone"):
        _tell(GoneIsTold(Troubles()), _subscribed(), *_put(1), _subscribed(), _gone(1))


@pytest.mark.parametrize("what", ["split a | b", "cut a > b"])
def test_message_may_be_gone_after_a_split(what: str) -> None:
    troubles = Troubles()
    troubles.befell(10, "", what)
    assert not troubles.is_whole
    _tell(GoneIsTold(troubles), _subscribed(), *_put(1), _gone(1))


def _kept_too_much() -> tuple[GoneIsTold, int]:
    """A subscriber is known, and a node lets go what it kept for others; when that was."""
    rule, fleet = GoneIsTold(Troubles()), Fleet(1)
    host = fleet.start("a", init=1)
    fleet.run(STEP_MS)
    assert host.process is not None
    rule.moment(1, _subscribed())
    rule.stepped(host.process, None, Ready(notes=[Note("topic_away_limit_reached", {"count": 1})]))
    return rule, host.process.now_ms


def test_message_may_be_gone_that_was_put_before_a_node_kept_too_much_for_others() -> None:
    """GONE-3."""
    rule, let_go_ms = _kept_too_much()
    for moment in (*_put(1), _gone(1)):
        rule.moment(let_go_ms, moment)
    assert rule.troubles.is_whole


def test_message_that_is_gone_and_was_put_later_than_that_is_noticed() -> None:
    rule, let_go_ms = _kept_too_much()
    for moment in _put(1):
        rule.moment(let_go_ms + 1, moment)
    with pytest.raises(BrokenRuleError, match="is gone"):
        rule.moment(let_go_ms + 1, _gone(1))


def test_message_may_be_gone_where_a_topic_keeps_less() -> None:
    rule = GoneIsTold(Troubles())
    _tell(rule, TopicLimited("t"), _subscribed(), *_put(1), _gone(1))
    assert rule.troubles.is_whole


def test_message_that_comes_after_its_successor_is_noticed() -> None:
    with pytest.raises(BrokenRuleError, match="in its order"):
        _tell(ProducersInOrder(Troubles()), *_put(1), *_put(2), _recorded(2), _recorded(1))


def test_message_that_was_stored_long_after_its_successor_may_come_late() -> None:
    rule, late = ProducersInOrder(Troubles()), 10**5
    _tell(rule, *_put(2), _recorded(2))
    for moment in (*_put(1), _recorded(1)):
        rule.moment(late, moment)
    assert rule.troubles.is_whole


def test_message_that_one_successor_had_not_to_wait_for_may_come_after_all_of_them() -> None:
    rule, late = ProducersInOrder(Troubles()), 10**5
    _tell(rule, *_put(2), _recorded(2))
    for moment in (*_put(3), _recorded(3), *_put(1), _recorded(1)):
        rule.moment(late, moment)
    assert rule.troubles.is_whole


@pytest.mark.parametrize("is_first_answered", [True, False])
def test_messages_of_a_node_come_in_order_where_one_was_answered_before_the_other_was_asked(
    is_first_answered: bool,
) -> None:
    first, second = (PutSent("", "t", f"m{number}", None) for number in (1, 2))
    one, two = (PutStored("", "t", f"m{number}", ("~n1.5", number), 2) for number in (1, 2))
    moments: list[TopicMoment] = [first, one, second, two] if is_first_answered else [first, second, one, two]
    came = [MessageRecorded("t", "s", 1, ("~n1.5", number), f"m{number}") for number in (2, 1)]
    rule = ProducersInOrder(Troubles())
    with pytest.raises(BrokenRuleError, match="in its order") if is_first_answered else nullcontext():
        _tell(rule, *moments, *came)


def test_message_that_was_said_to_be_done_and_comes_again_is_noticed() -> None:
    with pytest.raises(BrokenRuleError, match="never again"):
        _tell(NeverAgain(Troubles()), _asked(1), _got(1, 1), _asked(2, ("p", 1)), _got(2), _asked(3), _got(3, 1))


def test_message_that_is_not_said_to_be_done_comes_again() -> None:
    rule = NeverAgain(Troubles())
    _tell(rule, _asked(1), _got(1, 1), _asked(2), _got(2, 1))
    assert rule.checked == 2


def test_message_whose_done_was_not_answered_may_come_again() -> None:
    rule = NeverAgain(Troubles())
    _tell(rule, _asked(1), _got(1, 1), _asked(2, ("p", 1)), _asked(3), _got(3, 1))
    assert rule.checked == 2


def test_message_that_nobody_put_is_noticed() -> None:
    with pytest.raises(BrokenRuleError, match="nobody put"):
        _tell(OnlyPutsCome(Troubles()), _got(1, 1))


def test_message_whose_put_was_refused_is_noticed() -> None:
    refused = PutDenied("p", "t", "m1", "backlog", is_certain=True)
    with pytest.raises(BrokenRuleError, match="was refused"):
        _tell(OnlyPutsCome(Troubles()), _put(1)[0], refused, _got(1, 1))


def test_message_with_one_try_that_nobody_answered_may_come() -> None:
    refused = PutDenied("p", "t", "m1", "backlog", is_certain=True)
    rule = OnlyPutsCome(Troubles())
    _tell(rule, _put(1)[0], _put(1)[0], refused, _got(1, 1))
    assert rule.troubles.is_whole


def test_identity_of_two_messages_is_noticed() -> None:
    other = PutSent("q", "t", "other", ("p", 1))
    with pytest.raises(BrokenRuleError, match="is m1 and other"):
        _tell(OnlyPutsCome(Troubles()), _put(1)[0], other, _got(1, 1), GetTold("t", "s", 2, ((("p", 1), "other"),)))


def test_words_for_what_sets_a_node_apart_are_those_that_are_told() -> None:
    assert set(DEEDS.values()) > APART


def _first_step(troubles: Troubles, fleet: Fleet) -> None:
    """A new host downloads what others have: its own disk held nothing."""
    host = fleet.start("a", init=1)
    assert host.process is not None
    troubles.started(host.process, [])
    troubles.stepped(host.process, None, Ready(records=[ResetRecord()]))


def test_new_host_loses_no_disk() -> None:
    troubles = Troubles()
    _first_step(troubles, Fleet(1))
    assert troubles.is_whole


def test_host_whose_life_is_over_has_lost_its_disk() -> None:
    troubles, fleet = Troubles(), Fleet(1)
    _first_step(troubles, fleet)
    (host,) = fleet.ours()
    assert host.process is not None
    troubles.stepped(host.process, None, Ready(records=[ResetRecord()]))
    assert troubles.lost_since(0) == 1


def test_node_that_was_retired_counts_as_a_lost_disk() -> None:
    troubles = Troubles()
    troubles.befell(60, "a", RETIRED)
    assert (troubles.lost_since(50), troubles.lost_since(70), troubles.is_whole) == (1, 0, False)
