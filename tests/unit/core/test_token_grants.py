"""Which session gets a token, and with which fence.

Knows: one server's tokens.  Does not know parts, nor how sessions end.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from distkv.core.ground.calls import CallKey
from distkv.core.tokens.known_servers import map_of
from distkv.core.tokens.serving.grants import Grants
from distkv.core.tokens.serving.part import TokenPart
from distkv.core.tokens.serving.survey import ClaimedToken
from distkv.core.tokens.serving.turn import ServingTurn
from distkv.core.tokens.serving_settings import ServingSettings
from distkv.errors import BusyError
from distkv.model.event import NodeName
from distkv.model.fence import Fence, GrantNumber
from distkv.wire.held_tokens import TokenHolder
from distkv.wire.token_errors import HeldError, NoQuorumError, NotHeldError, TimedOutError, UngrantedError
from distkv.wire.token_fields import Ticket, read_ticket
from distkv.wire.token_messages import TokenResult
from distkv.wire.token_replies import TokenDone, TokenGranted
from distkv.wire.token_requests import TokenAcquire, TokenData
from distkv.wire.token_slots import QueuedSession, TokenRecord, decode_token
from tests.taken_effects import TakenEffects

S1, S2, S3 = "1-a", "2-b", "3-c"
LEASE_MS, LOCK_DELAY_MS = 1000, 500


class AnyPart(TokenPart):
    """All tokens are this server's."""

    def __init__(self) -> None:
        super().__init__(NodeName("s0"), TakenEffects())
        self.number = 0

    def serves(self, token: str) -> bool:  # noqa: ARG002
        return True

    def next_number(self) -> GrantNumber:
        self.number += 1
        return GrantNumber(5, self.number)


class Rules:
    """A server that may grant, until it is told otherwise."""

    def __init__(self) -> None:
        self.is_serving = True
        self.answers = dict[int, TokenResult]()
        self.withdrawn = list[int]()
        self.changed = 7

    def answer(self, call: CallKey, result: TokenResult, changed: int, *, waits: bool = True) -> None:  # noqa: ARG002
        assert call.number not in self.answers
        self.answers[call.number] = result

    def withdraw(self, call: CallKey) -> None:
        self.withdrawn.append(call.number)


class Desk:
    def __init__(self, **limits: int) -> None:
        self.rules = Rules()
        self.effects = TakenEffects()
        names = (NodeName("s0"),)
        settings = ServingSettings(
            names[0], names, 1, LEASE_MS, lock_delay_ms=LOCK_DELAY_MS, tokens_max=limits.get("tokens", 100),
            waiters_max=limits.get("waiters", 100),
        )
        self.grants = Grants(settings, AnyPart())
        self.turns = list[ServingTurn]()
        self.count = 0

    def turn(self, now_ms: int) -> ServingTurn:
        rules, map = self.rules, map_of(None, NodeName("s0"), is_sure=True)
        self.turns.append(ServingTurn(now_ms, 0.0, rules.is_serving, rules.changed, map, rules, self.effects))
        return self.turns[-1]

    @property
    def told(self) -> list[tuple[str, str]]:
        """The sessions that are to learn of losses."""
        return [(loss.session, loss.fence.token) for turn in self.turns for loss in turn.losses]

    def ask(
        self, session: str, now_ms: int = 0, *, shared: bool = False, wait_s: float | None = 5.0,
        ticket: Ticket | None = None, token: str = "t", data: bytes | None = None,
        before: GrantNumber | None = None, keeps_data: bool = False,
    ) -> int:
        self.count += 1
        request = TokenAcquire(0, session, token, shared, wait_s, data, ticket, before, keeps_data)
        turn = self.turn(now_ms)
        self.grants.acquire(key(self.count), request, now_ms, turn, serves=turn.may_grant)
        return self.count

    def granted(self, number: int) -> TokenGranted:
        granted = self.rules.answers[number]
        assert isinstance(granted, TokenGranted)
        return granted

    def fence(self, number: int) -> GrantNumber:
        granted = self.granted(number)
        return granted.number

    def ticket(self, number: int) -> Ticket:
        refused = self.rules.answers[number]
        assert isinstance(refused, UngrantedError)
        return read_ticket(refused.ticket)

    def has(self, number: int) -> bool:
        return isinstance(self.rules.answers.get(number), TokenGranted)


def key(number: int) -> CallKey:
    return CallKey(NodeName("p"), 1, number)


def test_free_token_is_granted_and_is_in_a_slot_of_the_same_step() -> None:
    desk = Desk()
    first = desk.ask(S1)
    assert desk.has(first)
    (slot,) = desk.effects.take().slots
    assert slot.value is not None
    assert [one.session for one in decode_token(slot.value).holders] == [S1]


def test_session_that_holds_gets_the_same_fence_again() -> None:
    desk = Desk()
    first, second = desk.ask(S1), desk.ask(S1)
    assert desk.fence(first) == desk.fence(second)


def test_release_that_a_crash_undid_is_done_again_by_the_next_request() -> None:
    desk = Desk()
    first = desk.ask(S1)  # and it was released, and the disk did not hear of it
    second = desk.ask(S1, before=desk.fence(first))
    assert desk.fence(first) < desk.fence(second)


def test_request_that_comes_late_does_not_undo_a_later_grant() -> None:
    desk = Desk()
    epoch, counter = desk.fence(desk.ask(S1))
    late = desk.ask(S1, before=(epoch, counter - 1))
    assert desk.fence(late) == (epoch, counter)


def test_fences_grow_from_holder_to_holder() -> None:
    desk = Desk()
    first, second = desk.ask(S1), desk.ask(S2)
    desk.grants.release(S1, "t", None, desk.turn(0))
    assert desk.fence(first) < desk.fence(second)


def test_waiters_are_served_in_their_order() -> None:
    desk = Desk()
    desk.ask(S1)
    second, third = desk.ask(S2), desk.ask(S3)
    desk.grants.release(S1, "t", None, desk.turn(0))
    assert desk.has(second)
    assert not desk.has(third)


def test_shared_ones_are_granted_together() -> None:
    desk = Desk()
    desk.ask(S1)
    second, third = desk.ask(S2, shared=True), desk.ask(S3, shared=True)
    desk.grants.release(S1, "t", None, desk.turn(0))
    assert desk.has(second)
    assert desk.has(third)
    assert desk.fence(second) != desk.fence(third)


def test_shared_one_waits_behind_an_exclusive_one() -> None:
    desk = Desk()
    desk.ask(S1, shared=True)
    desk.ask(S2)
    assert not desk.has(desk.ask(S3, shared=True))


def test_try_for_a_held_token_is_refused_with_a_ticket_and_keeps_nobody_waiting() -> None:
    desk = Desk()
    desk.ask(S1)
    second = desk.ask(S2, wait_s=None)
    assert isinstance(desk.rules.answers[second], HeldError)
    assert desk.ticket(second)[0] == desk.rules.changed
    third = desk.ask(S3)
    desk.grants.release(S1, "t", None, desk.turn(0))
    assert desk.has(third)


def test_wait_that_is_over_is_refused_with_a_ticket_that_keeps_the_place() -> None:
    desk = Desk()
    desk.ask(S1)
    second = desk.ask(S2, wait_s=1.0)
    third = desk.ask(S3, 100)
    desk.grants.woken(desk.turn(1000))
    assert isinstance(desk.rules.answers[second], TimedOutError)
    desk.grants.release(S1, "t", None, desk.turn(1100))
    assert not desk.has(third)
    assert desk.has(desk.ask(S2, 1200, ticket=desk.ticket(second)))


def test_place_that_nobody_comes_back_for_is_passed_over_after_the_grace() -> None:
    desk = Desk()
    desk.ask(S1)
    desk.ask(S2, wait_s=1.0)
    third = desk.ask(S3)
    desk.grants.woken(desk.turn(1000))
    desk.grants.release(S1, "t", None, desk.turn(1100))
    desk.grants.woken(desk.turn(1000 + LEASE_MS // 2 - 1))
    assert not desk.has(third)
    desk.grants.woken(desk.turn(1000 + LEASE_MS // 2))
    assert desk.has(third)


def test_ticket_of_an_earlier_change_comes_before_later_ones() -> None:
    desk = Desk()
    desk.ask(S1)
    second, third = desk.ask(S2), desk.ask(S3, ticket=(4, 99))
    desk.grants.release(S1, "t", None, desk.turn(0))
    assert desk.has(third)
    assert not desk.has(second)


def test_place_is_behind_those_that_servers_gave_before_the_last_change() -> None:
    desk = Desk()
    desk.ask(S1)
    desk.rules.changed = 8  # its epoch is 5 still: it serves what it served before
    second, third = desk.ask(S2), desk.ask(S3, ticket=(7, 99))
    desk.grants.release(S1, "t", None, desk.turn(0))
    assert desk.has(third)
    assert not desk.has(second)


def test_ticket_of_a_change_that_the_server_does_not_know_is_no_worse_than_none() -> None:
    desk = Desk()
    desk.ask(S1)
    second, third = desk.ask(S2, ticket=(9, 1)), desk.ask(S3)
    desk.grants.release(S1, "t", None, desk.turn(0))
    assert desk.has(second)
    assert not desk.has(third)


def test_session_that_asks_again_keeps_its_place_and_the_earlier_request_is_refused() -> None:
    desk = Desk()
    desk.ask(S1)
    second = desk.ask(S2)
    third = desk.ask(S3)
    again = desk.ask(S2)
    assert isinstance(desk.rules.answers[second], TimedOutError)
    desk.grants.release(S1, "t", None, desk.turn(0))
    assert desk.has(again)
    assert not desk.has(third)


def test_token_of_an_ended_session_is_free_after_the_lock_delay() -> None:
    desk = Desk()
    desk.ask(S1)
    second = desk.ask(S2)
    desk.grants.session_ended(S1, desk.turn(0), delay_ms=LOCK_DELAY_MS)
    desk.grants.woken(desk.turn(LOCK_DELAY_MS - 1))
    assert not desk.has(second)
    desk.grants.woken(desk.turn(LOCK_DELAY_MS))
    assert desk.has(second)


def test_token_of_a_session_that_ended_in_order_is_free_at_once() -> None:
    desk = Desk()
    desk.ask(S1)
    second = desk.ask(S2)
    desk.grants.session_ended(S1, desk.turn(0), delay_ms=0)
    assert desk.has(second)


def test_broken_token_is_granted_when_its_holder_knows_and_the_lock_delay_is_over() -> None:
    desk = Desk()
    first, second = desk.ask(S1), desk.ask(S2)
    assert desk.grants.take("t", None, desk.turn(0)) == 1
    assert desk.told == [(S1, "t")]
    assert desk.rules.withdrawn == [first]
    desk.grants.woken(desk.turn(LOCK_DELAY_MS))
    assert not desk.has(second)
    desk.grants.loss_known(S1, Fence(0, *desk.fence(first), "t"), desk.turn(LOCK_DELAY_MS))
    assert desk.has(second)


def test_grant_that_nobody_heard_of_is_taken_back() -> None:
    desk = Desk()
    first, second = desk.ask(S1), desk.ask(S2)
    desk.grants.call_gone(key(first), desk.turn(0))
    assert desk.has(second)


def test_grant_that_was_asked_for_again_is_not_taken_back() -> None:
    desk = Desk()
    first, second = desk.ask(S1), desk.ask(S2)
    desk.ask(S1)
    desk.grants.call_gone(key(first), desk.turn(0))
    assert not desk.has(second)


def test_release_with_an_older_fence_does_nothing() -> None:
    desk = Desk()
    desk.ask(S1)
    assert isinstance(desk.grants.release(S1, "t", (5, 1), desk.turn(0)), NotHeldError)
    assert [one.session for one in desk.grants.item("t").holders] == [S1]


def test_release_withdraws_from_the_queue() -> None:
    desk = Desk()
    desk.ask(S1)
    second, third = desk.ask(S2), desk.ask(S3)
    assert desk.grants.release(S2, "t", None, desk.turn(0)) == TokenDone()
    desk.grants.release(S1, "t", None, desk.turn(0))
    assert isinstance(desk.rules.answers[second], NotHeldError)
    assert desk.has(third)


@pytest.mark.parametrize("shared", [False, True])
def test_session_that_holds_in_one_mode_is_refused_the_other_and_keeps_its_fence(*, shared: bool) -> None:
    desk = Desk()
    first = desk.ask(S1, shared=shared)
    assert isinstance(desk.rules.answers[desk.ask(S1, shared=not shared)], HeldError)
    assert desk.fence(desk.ask(S1, shared=shared)) == desk.fence(first)


def test_data_stays_with_the_free_token() -> None:
    desk = Desk()
    desk.ask(S1, data=b"\x01", keeps_data=True)
    desk.grants.release(S1, "t", None, desk.turn(0))
    granted = desk.rules.answers[desk.ask(S2)]
    assert isinstance(granted, TokenGranted)
    assert granted.data == b"\x01"


def test_free_token_without_data_is_forgotten() -> None:
    desk = Desk()
    desk.ask(S1)
    desk.grants.release(S1, "t", None, desk.turn(0))
    assert list(desk.grants.tokens) == []


def test_beyond_the_limit_the_oldest_free_token_with_data_is_forgotten() -> None:
    desk = Desk(tokens=2)
    for name in ("a", "b", "c"):
        desk.ask(S1, token=name, data=b"\x01", keeps_data=True)
        desk.grants.release(S1, name, None, desk.turn(0))
    assert list(desk.grants.tokens) == ["b", "c"]


def test_nothing_is_kept_of_a_call_that_is_gone_while_nothing_may_be_granted() -> None:
    desk = Desk()
    call = desk.ask(S1)
    desk.rules.is_serving = False
    desk.grants.call_gone(key(call), desk.turn(10))
    assert desk.grants.holds(S1, "t")
    desk.grants.check()


def test_nothing_is_kept_of_calls_when_a_survey_shows_other_holders() -> None:
    desk = Desk()
    desk.ask(S1)
    desk.grants.replace_holders("t", ClaimedToken([TokenHolder(S2, False, 5, 9, 0.0)]), desk.turn(10))
    assert desk.grants.holds(S2, "t")
    desk.grants.check()


def test_token_that_was_free_and_is_held_again_is_not_forgotten_beyond_the_limit() -> None:
    """Its holder would go on, and somebody else would get it beside him."""
    desk = Desk(tokens=1)
    desk.ask(S1, token="a", data=b"\x01", keeps_data=True)
    desk.grants.release(S1, "a", None, desk.turn(0))
    assert isinstance(desk.rules.answers[desk.ask(S2, token="a")], TokenGranted)
    assert isinstance(desk.rules.answers[desk.ask(S1, token="b")], BusyError)
    assert desk.grants.holds(S2, "a")
    desk.grants.check()


def test_beyond_the_limit_of_held_tokens_another_one_is_refused() -> None:
    desk = Desk(tokens=1)
    desk.ask(S1, token="a")
    assert isinstance(desk.rules.answers[desk.ask(S1, token="b")], BusyError)
    assert list(desk.grants.tokens) == ["a"]


def test_beyond_the_limit_of_waiters_another_one_is_refused() -> None:
    desk = Desk(waiters=1)
    desk.ask(S1)
    desk.ask(S2)
    assert isinstance(desk.rules.answers[desk.ask(S3)], BusyError)


def test_try_waits_a_lease_for_a_part_that_is_not_served() -> None:
    desk = Desk()
    desk.rules.is_serving = False
    first = desk.ask(S1, wait_s=None)
    desk.grants.woken(desk.turn(LEASE_MS - 1))
    assert first not in desk.rules.answers
    desk.grants.woken(desk.turn(LEASE_MS))
    assert isinstance(desk.rules.answers[first], NoQuorumError)


def test_waiters_of_a_part_are_served_by_ticket_when_it_is() -> None:
    desk = Desk()
    desk.rules.is_serving = False
    first, second = desk.ask(S1, ticket=(3, 9)), desk.ask(S2, ticket=(3, 2))
    desk.rules.is_serving = True
    desk.grants.grant_waiting(desk.turn(10))
    assert desk.has(second)
    assert not desk.has(first)


@pytest.mark.parametrize("session", [S1, S2])
def test_data_is_set_by_a_holder_only(session: str) -> None:
    desk = Desk()
    desk.ask(S1)
    found = desk.grants.set_data(TokenData(1, session, "t", b"\x01"), desk.turn(0))
    assert isinstance(found, TokenDone if session == S1 else NotHeldError)


def _changed(
    desk: Desk, data: bytes, change: int, fence: GrantNumber | None = None, *, keeps: bool = False
) -> bool:
    """Whether the holder may change the data."""
    found = desk.grants.set_data(TokenData(1, S1, "t", data, fence, change, keeps), desk.turn(0))
    return isinstance(found, TokenDone)


def test_change_of_data_that_comes_after_a_later_one_is_refused() -> None:
    desk = Desk()
    desk.ask(S1)
    assert [_changed(desk, b"\x01", 1), _changed(desk, b"\x02", 2), _changed(desk, b"\x01", 1)] == [True, True, False]
    assert desk.grants.item("t").data == b"\x02"


def test_change_of_data_that_comes_twice_is_done() -> None:
    desk = Desk()
    desk.ask(S1)
    assert [_changed(desk, b"\x01", 1), _changed(desk, b"\x01", 1)] == [True, True]


def test_change_of_data_under_an_earlier_grant_is_refused() -> None:
    desk = Desk()
    desk.ask(S1)
    (before,) = desk.grants.item("t").holders
    desk.grants.release(S1, "t", None, desk.turn(0))
    desk.ask(S1, LOCK_DELAY_MS)
    assert not _changed(desk, b"\x01", 7, before.number)


def test_number_of_a_change_is_on_the_disk() -> None:
    desk = Desk()
    desk.ask(S1)
    _changed(desk, b"\x01", 1)
    _changed(desk, b"\x01", 2)
    slot = desk.effects.take().slots[-1].value
    assert slot is not None
    assert [one.change for one in decode_token(slot).holders] == [2]


def test_late_request_for_a_token_that_is_held_does_not_change_its_data() -> None:
    desk = Desk()
    desk.ask(S1, data=b"\x01")
    _changed(desk, b"\x02", 1)
    desk.ask(S1, 10, data=b"\x01")
    assert desk.grants.item("t").data == b"\x02"


def test_change_that_a_sharer_made_is_not_undone_by_a_late_one_of_another() -> None:
    desk = Desk()
    for session, data in ((S1, b"\x01"), (S2, b"\x02")):
        desk.ask(session, shared=True)
        desk.grants.set_data(TokenData(1, session, "t", data, None, 1), desk.turn(0))
    desk.grants.set_data(TokenData(1, S1, "t", b"\x01", None, 1), desk.turn(0))
    assert desk.grants.item("t").data == b"\x02"


def test_grant_of_which_nobody_heard_leaves_the_data_as_it_was() -> None:
    desk = Desk()
    desk.ask(S1)
    _changed(desk, b"\x02", 1, keeps=True)
    desk.grants.release(S1, "t", None, desk.turn(0))
    late = desk.ask(S1, LOCK_DELAY_MS, data=b"\x01")
    desk.grants.call_gone(key(late), desk.turn(LOCK_DELAY_MS))
    assert (desk.grants.item("t").holders, desk.grants.item("t").data) == ((), b"\x02")


def _end_by_release(desk: Desk) -> None:
    desk.grants.release(S1, "t", None, desk.turn(0))


def _end_by_session(desk: Desk) -> None:
    desk.grants.session_ended(S1, desk.turn(0), delay_ms=0)


def _end_by_break(desk: Desk) -> None:
    desk.grants.take("t", None, desk.turn(0))


def _end_by_survey(desk: Desk) -> None:
    desk.grants.replace_holders("t", ClaimedToken(), desk.turn(0))


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("with_grant", [False, True])
@pytest.mark.parametrize("end", [_end_by_release, _end_by_session, _end_by_break, _end_by_survey])
def test_data_ends_with_its_holder_unless_it_is_to_stay(
    end: Callable[[Desk], None], with_grant: bool, keeps: bool
) -> None:
    """(docs/protocol, TOKEN-20)"""
    desk = Desk()
    desk.ask(S1, data=b"\x01" if with_grant else None, keeps_data=keeps)
    if not with_grant:
        _changed(desk, b"\x01", 1, keeps=keeps)
    end(desk)
    kept = b"\x01" if keeps else None
    assert desk.grants.item("t").data == kept
    last = desk.effects.take().slots[-1].value
    assert (None if last is None else decode_token(last).data) == kept


def test_data_of_tokens_that_are_shared_ends_with_the_last_holder() -> None:
    """(docs/protocol, TOKEN-20)"""
    desk = Desk()
    for session in (S1, S2):
        desk.ask(session, shared=True)
    _changed(desk, b"\x01", 1)
    found = list[bytes | None]()
    for session in (S1, S2):
        desk.grants.release(session, "t", None, desk.turn(0))
        found.append(desk.grants.item("t").data)
    assert found == [b"\x01", None]


def test_next_holder_does_not_inherit_data() -> None:
    """(docs/protocol, TOKEN-20)"""
    desk = Desk()
    desk.ask(S1, data=b"\x01")
    waits = desk.ask(S2)
    desk.grants.release(S1, "t", None, desk.turn(0))
    assert desk.granted(waits).data is None


def test_data_that_stays_stays_with_a_holder_who_does_not_change_it() -> None:
    """(docs/protocol, TOKEN-20)"""
    desk = Desk()
    desk.ask(S1, data=b"\x01", keeps_data=True)
    desk.grants.release(S1, "t", None, desk.turn(0))
    granted = desk.granted(desk.ask(S2))
    desk.grants.release(S2, "t", None, desk.turn(0))
    assert (granted.data, granted.keeps_data, desk.grants.item("t").data) == (b"\x01", True, b"\x01")


def test_data_of_a_grant_that_its_client_does_not_know_of_goes_with_it() -> None:
    desk = Desk()
    desk.ask(S1, data=b"\x01")
    (asked,) = desk.grants.woken(desk.turn(LEASE_MS))
    session, fence = asked.session, asked.fence
    desk.grants.heard_holding(session, fence, False, desk.turn(LEASE_MS))
    assert desk.grants.item("t").data is None


def test_session_in_the_queue_that_turns_out_to_share_the_token_gets_no_second_grant() -> None:
    desk = Desk()
    desk.rules.is_serving = False
    asked = desk.ask(S1, shared=True)
    desk.grants.replace_holders("t", ClaimedToken([TokenHolder(S1, True, 3, 9, 0.0)]), desk.turn(10))
    desk.rules.is_serving = True
    desk.grants.grant_waiting(desk.turn(20))
    assert desk.fence(asked) == (3, 9)
    waits = desk.ask(S2, 25)
    desk.grants.call_gone(key(asked), desk.turn(30))
    assert not desk.has(waits)
    assert [(one.epoch, one.counter) for one in desk.grants.item("t").holders] == [(3, 9)]


def test_session_that_gave_back_what_a_crash_left_it_gets_a_higher_fence() -> None:
    desk = Desk()
    desk.rules.is_serving = False
    asked = desk.ask(S1, before=(3, 9))
    desk.grants.replace_holders("t", ClaimedToken([TokenHolder(S1, False, 3, 9, 0.0)]), desk.turn(10))
    desk.rules.is_serving = True
    desk.grants.grant_waiting(desk.turn(20))
    assert desk.fence(asked) > (3, 9)


def test_data_of_two_unheard_grants_goes_in_any_order() -> None:
    desk = Desk()
    calls = [desk.ask(session, shared=True, data=data) for session, data in ((S1, b"\x01"), (S2, b"\x02"))]
    for call in calls:
        desk.grants.call_gone(key(call), desk.turn(10))
    assert desk.grants.item("t").data is None


def test_data_that_a_sharer_stored_stays_though_an_unheard_grant_brought_the_same() -> None:
    desk = Desk()
    desk.ask(S2, shared=True)
    unheard = desk.ask(S1, shared=True, data=b"\x01")
    desk.grants.set_data(TokenData(1, S2, "t", b"\x01"), desk.turn(0))
    desk.grants.call_gone(key(unheard), desk.turn(10))
    assert desk.grants.item("t").data == b"\x01"


def test_place_that_is_handed_over_counts_although_its_session_asked_here_before() -> None:
    desk = Desk()
    desk.rules.is_serving = False
    desk.ask(S2)
    queue = (QueuedSession(S2, 5, 1, False), QueuedSession(S3, 5, 2, False))
    desk.grants.install(TokenRecord("t", (), None, queue), desk.turn(10))
    first = desk.grants.tokens["t"].first()
    assert first is not None
    assert (first.session, first.ticket) == (S2, (5, 1))


def test_free_token_is_got_by_who_does_not_want_to_wait() -> None:
    desk = Desk()
    first, second = desk.ask(S1, wait_s=0.0), desk.ask(S2, wait_s=0.0)
    assert desk.has(first)
    assert isinstance(desk.rules.answers[second], TimedOutError)


def test_break_up_to_a_fence_leaves_later_holders_alone() -> None:
    desk = Desk()
    desk.ask(S1)
    (before,) = desk.grants.item("t").holders
    desk.grants.release(S1, "t", None, desk.turn(0))
    desk.ask(S2, LOCK_DELAY_MS)
    assert desk.grants.take("t", before.number, desk.turn(LOCK_DELAY_MS)) == 0
    assert [one.session for one in desk.grants.item("t").holders] == [S2]


def test_grant_for_which_its_session_asks_again_is_not_one_that_nobody_wants() -> None:
    desk = Desk()
    desk.ask(S1)
    (asked,) = desk.grants.woken(desk.turn(LEASE_MS))
    session, fence = asked.session, asked.fence
    desk.grants.wanted(S1, "t", LEASE_MS)
    desk.grants.heard_holding(session, fence, False, desk.turn(LEASE_MS))
    assert [one.session for one in desk.grants.item("t").holders] == [S1]


def test_grant_that_its_client_does_not_know_of_is_taken_back() -> None:
    desk = Desk()
    desk.ask(S1)
    (asked,) = desk.grants.woken(desk.turn(LEASE_MS))
    session, fence = asked.session, asked.fence
    desk.grants.heard_holding(session, fence, False, desk.turn(LEASE_MS))
    assert (desk.told, desk.grants.item("t").holders) == ([(S1, "t")], ())


def test_grant_that_was_told_again_after_the_question_stays() -> None:
    desk = Desk()
    desk.ask(S1)
    (asked,) = desk.grants.woken(desk.turn(LEASE_MS))
    session, fence = asked.session, asked.fence
    desk.ask(S1, LEASE_MS + 10)
    desk.grants.heard_holding(session, fence, False, desk.turn(LEASE_MS + 20))
    assert [one.session for one in desk.grants.item("t").holders] == [S1]


def test_grant_that_its_client_knows_of_is_not_asked_about_again() -> None:
    desk = Desk()
    desk.ask(S1)
    (asked,) = desk.grants.woken(desk.turn(LEASE_MS))
    session, fence = asked.session, asked.fence
    desk.grants.heard_holding(session, fence, True, desk.turn(LEASE_MS))
    assert desk.grants.woken(desk.turn(100 * LEASE_MS)) == []
