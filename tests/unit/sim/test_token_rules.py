"""The rules about tokens notice what must never be.

Knows: `distkv.sim.tokens.rules`.
"""

from __future__ import annotations

import attrs
import pytest

from distkv.core.tokens.machine import TOKENS
from distkv.model.fence import Fence
from distkv.sim.fleet import Fleet
from distkv.sim.rule import BrokenRuleError, Observer
from distkv.sim.tokens.crowd import ALL_WANTED, LAST_MS
from distkv.sim.tokens.data_rule import DataIsKept
from distkv.sim.tokens.moments import DataMoment, TokenChange, TokenMoment
from distkv.sim.tokens.nodes import TokenNodes
from distkv.sim.tokens.rules import FencesGrow, OneHolder, TurnsAreKept, WantedIsGranted
from distkv.wire.values import pack_value


@attrs.define(eq=False)
class Holder:
    """A client that believes what a test says."""

    name: str
    session: str = "1-a"
    is_frozen: bool = False
    is_sure: bool = True

    def believes(self, token: str) -> bool:
        return self.is_sure and bool(token)


def _held(user: Holder, counter: int, *, is_shared: bool = False) -> TokenMoment:
    return TokenMoment(user, "t", TokenChange.HELD, is_shared, Fence(0, 2, counter, "t"))


def _gone(user: Holder) -> TokenMoment:
    return TokenMoment(user, "t", TokenChange.GONE)


def _tell(rule: Observer, *moments: TokenMoment) -> None:
    for at_ms, moment in enumerate(moments):
        rule.token(at_ms * 2000, moment)


def test_two_exclusive_holders_are_noticed() -> None:
    with pytest.raises(BrokenRuleError, match="one holds a token"):
        _tell(OneHolder(), _held(Holder("u"), 1), _held(Holder("v"), 2))


def test_exclusive_holder_beside_a_shared_one_is_noticed() -> None:
    with pytest.raises(BrokenRuleError, match="one holds a token"):
        _tell(OneHolder(), _held(Holder("u"), 1, is_shared=True), _held(Holder("v"), 2))


def test_shared_holders_are_allowed() -> None:
    rule = OneHolder()
    _tell(rule, _held(Holder("u"), 1, is_shared=True), _held(Holder("v"), 2, is_shared=True))
    assert rule.grants == 2


def test_holder_who_released_is_allowed_a_successor() -> None:
    rule, user = OneHolder(), Holder("u")
    _tell(rule, _held(user, 1), _gone(user), _held(Holder("v"), 2))
    assert rule.grants == 2


def test_holder_whose_clock_says_that_it_is_over_is_allowed_a_successor() -> None:
    rule = OneHolder()
    _tell(rule, _held(Holder("u", is_sure=False), 1), _held(Holder("v"), 2))
    assert rule.grants == 2


def test_fence_that_is_given_again_is_noticed() -> None:
    with pytest.raises(BrokenRuleError, match="fences grow"):
        _tell(FencesGrow(), _held(Holder("u"), 5), _held(Holder("v"), 5))


def _changes(user: Holder, number: int, *, counter: int = 1, is_done: bool = True) -> list[DataMoment]:
    """A change of the data to this number, which is asked for, and done."""
    asked = DataMoment(user, "t", Fence(0, 2, counter, "t"), False, number, pack_value(number), is_done=False)
    return [asked, attrs.evolve(asked, is_done=True)] if is_done else [asked]


def _granted(data: int | None, *changes: DataMoment) -> None:
    """After these changes somebody gets the token, with this data."""
    rule = DataIsKept()
    for at_ms, change in enumerate(changes):
        rule.token_data(at_ms, change)
    rule.token(100, attrs.evolve(_held(Holder("w"), 3), data=None if data is None else pack_value(data)))
    assert rule.checked == 1


def test_data_that_ended_with_its_holder_is_not_told_to_the_next_one() -> None:
    ended = [attrs.evolve(one, keeps=False) for one in _changes(Holder("u"), 1)]
    _granted(None, *ended)
    with pytest.raises(BrokenRuleError, match=r"got t:2\.3 at 100 ms"):
        _granted(1, *ended)


def test_data_that_was_stored_last_is_right() -> None:
    _granted(2, *_changes(Holder("u"), 1), *_changes(Holder("v"), 2, counter=2))


@pytest.mark.parametrize("data", [None, 1])
def test_data_of_before_the_last_change_is_noticed(data: int | None) -> None:
    with pytest.raises(BrokenRuleError, match=r"got t:2\.3 at 100 ms"):
        _granted(data, *_changes(Holder("u"), 1), *_changes(Holder("v"), 2, counter=2))


@pytest.mark.parametrize("data", [1, 2])
def test_change_that_nobody_was_told_of_may_be_there_or_not(data: int) -> None:
    user = Holder("u")
    _granted(data, *_changes(user, 1), *_changes(user, 2, is_done=False))


def test_change_that_was_asked_for_before_another_one_of_the_same_session_and_comes_after_it_is_noticed() -> None:
    user = Holder("u")
    (first, *told), (second, done) = _changes(user, 1), _changes(user, 2)
    with pytest.raises(BrokenRuleError, match="with data 1"):
        _granted(1, first, second, *told, done)


def _queued(user: Holder, place: int, *, is_shared: bool = False) -> TokenMoment:
    return TokenMoment(user, "t", TokenChange.QUEUED, is_shared, ticket=(2, place))


def test_who_is_passed_over_when_all_is_well_is_noticed() -> None:
    rule = TurnsAreKept()
    rule.befell(0, "", ALL_WANTED)
    with pytest.raises(BrokenRuleError, match="who waits gets his turn"):
        _tell(rule, _queued(Holder("u"), 1), _queued(late := Holder("v"), 2), _held(late, 3))


def test_turns_in_the_order_of_places_are_right() -> None:
    rule, first, second = TurnsAreKept(), Holder("u"), Holder("v")
    rule.befell(0, "", ALL_WANTED)
    _tell(rule, _queued(first, 1), _queued(second, 2), _held(first, 3), _gone(first), _held(second, 4))
    with pytest.raises(BrokenRuleError):  # it did look
        _tell(rule, _queued(first, 5), _queued(second, 6), _held(second, 7))


def test_shared_ones_hear_of_their_grants_in_any_order() -> None:
    rule, first, second = TurnsAreKept(), Holder("u"), Holder("v")
    rule.befell(0, "", ALL_WANTED)
    _tell(rule, _queued(first, 1, is_shared=True), _queued(second, 2, is_shared=True))
    rule.token(9000, _held(second, 4, is_shared=True))
    with pytest.raises(BrokenRuleError):  # an exclusive one cannot have been granted beside it
        rule.token(9000, _held(Holder("w"), 5))


def _watched(rule: WantedIsGranted) -> Fleet:
    fleet = Fleet(1, observers=[rule])
    fleet.host("a")
    fleet.services[TOKENS] = TokenNodes(fleet.hosts, 1, 1, 1000, 3000, 0.01)
    rule.befell(0, "", ALL_WANTED)
    return fleet


def test_token_that_stays_free_while_it_is_wanted_is_noticed() -> None:
    rule = WantedIsGranted()
    fleet = _watched(rule)
    rule.token(0, TokenMoment(Holder("u"), "t", TokenChange.WANTED))
    with pytest.raises(BrokenRuleError, match="what is wanted is granted"):
        fleet.run(10_000)


def test_token_that_is_held_meanwhile_may_be_waited_for() -> None:
    rule = WantedIsGranted()
    fleet = _watched(rule)
    rule.token(0, _held(Holder("v"), 1))
    rule.token(0, TokenMoment(Holder("u"), "t", TokenChange.WANTED))
    fleet.run(10_000)
    assert fleet.now_ms == 10_000


def test_refusal_when_all_is_well_is_noticed() -> None:
    rule, user = WantedIsGranted(), Holder("u")
    fleet = _watched(rule)
    rule.token(LAST_MS, TokenMoment(user, "t", TokenChange.WANTED))
    rule.token(LAST_MS + 1, _gone(user))
    with pytest.raises(BrokenRuleError, match="did not get t"):
        fleet.run(10_000)


def test_servers_that_lost_their_disks_owe_nothing() -> None:
    rule = WantedIsGranted()
    fleet = _watched(rule)
    rule.lost_disk(fleet.hosts["a"], is_copied=False)
    rule.token(0, TokenMoment(Holder("u"), "t", TokenChange.WANTED))
    fleet.run(10_000)
    assert fleet.now_ms == 10_000
