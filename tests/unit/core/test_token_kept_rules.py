"""Rules of tokens that a history shows only when servers change, restart or lose a connection at a certain moment.

Knows: single machines of servers and clients, told things one by one.  Does not know a network.
"""

from __future__ import annotations

from distkv.client.claims import AGAIN_MS
from distkv.core.ground.machine import ServiceWoken
from distkv.core.ready import Answer, ServiceAsked
from distkv.core.tokens.machine import TOKENS
from distkv.core.tokens.serving.survey import ClaimedToken, Survey
from distkv.model.event import NodeName
from distkv.model.fence import Fence
from distkv.wire.held_tokens import TokenHolder
from distkv.wire.token_errors import TimedOutError
from distkv.wire.token_messages import EndSession
from distkv.wire.token_replies import SessionKept, TokenDone
from distkv.wire.token_requests import TokenAcquire, TokenData, TokenKeep, TokenRelease
from distkv.wire.token_slots import TokenRecord, decode_token
from tests.service_steps import stepped
from tests.unit.client.test_holding import TTL_MS as CLIENT_TTL_MS
from tests.unit.client.test_holding import Session, granted, live
from tests.unit.core.test_token_grants import LOCK_DELAY_MS, S1, S2, S3, Desk
from tests.unit.core.test_token_machine import A, B, C, begun
from tests.unit.core.test_token_part import claim
from tests.unit.core.test_token_sessions import Office


def restarted(desk: Desk) -> Desk:
    """A server that has what this one wrote."""
    slots = [slot.value for slot in desk.effects.now.slots if slot.key == "token/t" and slot.value is not None]
    found = Desk()
    found.grants.install(decode_token(slots[-1]), found.turn(0))
    return found


# -- servers


def test_token_that_was_broken_is_not_granted_after_a_restart_before_its_loser_knows() -> None:
    """docs/protocol, TOKEN-10."""
    desk = Desk()
    first = desk.ask(S1)
    fence = Fence(0, *desk.fence(first), "t")
    desk.grants.take("t", None, desk.turn(0))
    again = restarted(desk)
    second = again.ask(S2, wait_s=10**6)
    again.grants.woken(again.turn(10 ** 6))
    assert not again.has(second)
    assert [loss.fence.token for loss in again.grants.losses()] == ["t"], "it is told again"
    again.grants.loss_known(S1, fence, again.turn(10 ** 6))
    again.grants.woken(again.turn(10 ** 6 + LOCK_DELAY_MS))
    assert again.has(second)


def test_token_that_was_broken_is_granted_after_a_restart_when_the_time_of_its_loser_is_over() -> None:
    desk = Desk()
    desk.ask(S1)
    desk.grants.take("t", None, desk.turn(0))
    again = restarted(desk)
    second = again.ask(S2, wait_s=10**6)
    again.grants.session_ended(S1, again.turn(50000), delay_ms=LOCK_DELAY_MS)
    again.grants.woken(again.turn(50000 + LOCK_DELAY_MS - 1))
    assert not again.has(second)
    again.grants.woken(again.turn(50000 + LOCK_DELAY_MS))
    assert again.has(second)


def test_loser_whose_session_ends_starts_the_lock_delay() -> None:
    """It may go on for as long as one that held the token (docs/protocol, SESSION-6)."""
    desk = Desk()
    desk.ask(S1)
    second = desk.ask(S2, wait_s=10**6)
    desk.grants.take("t", None, desk.turn(0))
    desk.grants.session_ended(S1, desk.turn(5000), delay_ms=LOCK_DELAY_MS)
    desk.grants.woken(desk.turn(5000 + LOCK_DELAY_MS - 1))
    assert not desk.has(second)
    desk.grants.woken(desk.turn(5000 + LOCK_DELAY_MS))
    assert desk.has(second)


def test_queue_lock_delay_and_places_go_along_with_a_hand_over() -> None:
    """docs/protocol, PART-6, TOKEN-4, SESSION-6."""
    desk = Desk()
    desk.ask(S1)
    desk.ask(S2, wait_s=60)
    desk.grants.session_ended(S1, desk.turn(0), delay_ms=LOCK_DELAY_MS)
    record = desk.grants.handed("t", 200)
    assert record is not None
    other = Desk()
    other.rules.changed = 8
    other.grants.install(record, other.turn(1000))
    third = other.ask(S3, 1000, wait_s=60)
    second = other.ask(S2, 1000, wait_s=60)
    other.grants.woken(other.turn(1299))
    assert not other.has(second)
    other.grants.woken(other.turn(1300))
    assert (other.has(second), other.has(third)) == (True, False)


def test_place_that_is_handed_over_is_kept_for_who_has_not_asked_again_yet() -> None:
    desk = Desk()
    desk.ask(S1)
    desk.ask(S2, wait_s=60)
    record = desk.grants.handed("t", 0)
    assert record is not None
    other = Desk()
    other.rules.changed = 8
    other.grants.install(TokenRecord("t", (), None, queue=record.queue), other.turn(0))
    third = other.ask(S3, 0, wait_s=60)
    assert not other.has(third), "the place of the other one is before it"


def test_survey_that_finds_nobody_frees_who_waits_and_forgets_losers() -> None:
    """docs/protocol, PART-3."""
    holder, loser = (TokenHolder(session, False, 1, 1, 0.0) for session in (S1, S3))
    desk = Desk()
    desk.grants.install(TokenRecord("t", (holder,), None, lost=(loser,)), desk.turn(0))
    second = desk.ask(S2, 0, wait_s=60)
    assert not desk.has(second)
    desk.grants.replace_holders("t", ClaimedToken(), desk.turn(10))
    assert desk.has(second)
    assert list(desk.grants.losses()) == []


def test_session_that_ends_during_a_survey_claims_nothing() -> None:
    survey = Survey(500)
    survey.begin(7, ["1-a", "2-b"], 0)
    survey.claimed("1-a", claim(1, 7, "t"))
    survey.ended("1-a", 100)
    survey.claimed("2-b", claim(2, 7, "u"))
    assert list(survey.claims({"2-b"})) == ["u"]


def test_end_that_was_proposed_under_one_reign_is_proposed_under_the_next() -> None:
    office = Office()
    office.ask(1, EndSession("4-x"), 1100)
    assert office.ended == ["4-x"]
    office.leads_until_ms = 0
    office.look(2000)
    office.leads_until_ms, office.elected_ms = 10**9, 3000
    office.look(3000)
    assert office.ended == ["4-x", "4-x"]
    office.look(3100, sessions={})
    assert 1 in office.answers


def test_acquire_and_its_release_that_come_together_are_both_answered() -> None:
    """The node knows of no server yet; the later request counts."""
    machine, _ = begun(me=NodeName("d"), servers=(A, B, C))
    effects = stepped(machine, TOKENS, 1, ServiceAsked(TOKENS, 1, TokenAcquire(0, "5-a", "t", False, 60.0)))
    effects += stepped(machine, TOKENS, 1, ServiceAsked(TOKENS, 2, TokenRelease(0, "5-a", "t")))
    answers = {one.id: one.result for one in effects if isinstance(one, Answer)}
    assert isinstance(answers[1], TimedOutError)
    for now_ms in range(2, 20_000, 100):
        wake_ms = machine.wake_ms()
        if wake_ms is not None and wake_ms <= now_ms:
            from_now = stepped(machine, TOKENS, now_ms, ServiceWoken())
            answers |= {one.id: one.result for one in from_now if isinstance(one, Answer)}
    assert set(answers) == {1, 2}


# -- clients


def with_data() -> Session:
    """It holds a token with data, and has told so in a keep-alive."""
    session = live()
    session.answer(TokenKeep, SessionKept(7, CLIENT_TTL_MS, ()))
    session.acquire(data=b"\x05")
    session.answer(TokenAcquire, granted())
    return session


def test_data_is_told_again_to_the_next_node_when_the_connection_was_lost_after_a_keep_alive() -> None:
    """docs/protocol, PART-9: what was told may not have arrived."""
    session = with_data()
    session.later(AGAIN_MS)
    session.break_off()
    session.do(session.holding.connected)
    (keep,) = session.asked(TokenKeep)
    assert isinstance(keep.request, TokenKeep)
    assert keep.request.version == 7
    session.answer(TokenKeep, SessionKept(7, CLIENT_TTL_MS, ()))
    session.break_off()
    session.do(session.holding.connected)
    (keep,) = session.asked(TokenKeep)
    assert isinstance(keep.request, TokenKeep)
    assert [held.token for held in keep.request.held] == ["a"]
    session.do(lambda now: session.holding.set_data("a", b"\x06", 60_000, now))
    (write,) = session.asked(TokenData)
    session.break_off()
    session.do(session.holding.connected)
    (again,) = session.asked(TokenData)
    assert again.request == write.request
    session.answer(TokenData, TokenDone())
    session.break_off()
    session.do(session.holding.connected)
    (keep,) = session.asked(TokenKeep)
    assert isinstance(keep.request, TokenKeep)
    assert [held.data for held in keep.request.held] == [b"\x06"]
