"""One session step by step: what it asks next, what it tells, until when it may be counted on.

Knows: the machine from outside.  Does not know how questions travel (`tests.property.test_token_holding` has networks).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from distkv.client.claims import AGAIN_MS
from distkv.client.holding import CLOSE_MS, DRIFT, Holding
from distkv.client.holding_news import (
    DataAnswered,
    SessionEnded,
    SessionNews,
    SessionQuestion,
    TokenObtained,
    TokenRefused,
    TokenReleased,
    TokenTaken,
)
from distkv.errors import BusyError, DisabledError, DistkvError, NotReadyError, RequestError, UnreachableError
from distkv.model.fence import Fence
from distkv.wire.token_errors import HeldError, NoQuorumError, NotHeldError, SessionExpiredError, TimedOutError
from distkv.wire.token_replies import SessionClosed, SessionKept, SessionOpened, TokenDone, TokenGranted, TokenReply
from distkv.wire.token_requests import TokenAcquire, TokenClose, TokenData, TokenKeep, TokenOpen, TokenRelease

TTL_MS = 3000
LIVES_MS = int(TTL_MS * (1 - DRIFT))
SESSION = "5-abc"
GONE = UnreachableError("gone")
RECOVERING = NotReadyError("it starts")


class Session:
    """A machine, a clock, and what it asked and told."""

    def __init__(self, *, wait_ms: int = 0, grace_s: float = 0) -> None:
        self.now = 1000
        self.holding = Holding(grace_s=grace_s)
        self.open: list[SessionQuestion] = []
        self.news: list[SessionNews] = []
        self.holding.open(wait_ms, 500, self.now)
        self.do(self.holding.connected)

    def do(self, what: Callable[[int], object]) -> None:
        what(self.now)
        self.open += self.holding.take_questions()
        self.news += self.holding.take_news()

    def later(self, ms: int) -> None:
        """Time passes, and the machine is woken whenever it wants to be."""
        end = self.now + ms
        while not self.holding.wants_other_node:
            wake_ms = self.holding.wake_ms()
            if wake_ms is None or wake_ms > end:
                break
            assert wake_ms > self.now, "it wants to be woken without end"
            self.now = wake_ms
            self.do(self.holding.woken)
        self.now = end
        self.do(self.holding.woken)

    def asked(self, kind: type) -> list[SessionQuestion]:
        """What waits for an answer, of this kind."""
        return [one for one in self.open if type(one.request) is kind]

    def answer(self, kind: type, result: TokenReply | DistkvError) -> object:
        """Answer the newest question of a kind; its request."""
        found = self.asked(kind)[-1]
        self.open.remove(found)
        self.do(lambda now: self.holding.answered(found.id, result, now))
        return found.request

    def break_off(self) -> None:
        self.open.clear()
        self.do(lambda now: self.holding.disconnected(GONE, now))

    def acquire(self, token: str = "a", wait_ms: int | None = None, data: bytes | None = None) -> None:
        self.do(lambda now: self.holding.acquire(token, wait_ms=wait_ms, data=data, now_ms=now))


def granted(token: str = "a", version: int = 7, counter: int = 3) -> TokenGranted:
    return TokenGranted(token, 2, counter, version, False)


def live() -> Session:
    found = Session()
    found.answer(TokenOpen, SessionOpened(SESSION, TTL_MS, 7))
    return found


def holder() -> Session:
    found = live()
    found.acquire()
    found.answer(TokenAcquire, granted())
    return found


# -- the session --------------------------------------------------------------------------------------------------


def test_session_lives_from_when_it_was_asked_for() -> None:
    session = Session()
    asked = session.now
    session.later(200)
    session.answer(TokenOpen, SessionOpened(SESSION, TTL_MS, 7))
    session.acquire()
    session.answer(TokenAcquire, granted())
    assert session.holding.lost_at_ms("a") == asked + LIVES_MS


def test_session_counts_from_when_the_confirmed_keep_alive_was_sent() -> None:
    session = holder()
    sent = session.now
    session.later(400)
    session.answer(TokenKeep, SessionKept(7, TTL_MS))
    assert session.holding.lost_at_ms("a") == sent + LIVES_MS


def test_session_that_nobody_confirms_is_over_by_its_own_clock() -> None:
    session = holder()
    session.later(LIVES_MS - 1)
    assert session.holding.fence("a", session.now) is not None
    session.later(1)
    assert session.holding.fence("a", session.now) is None
    assert [type(one) for one in session.news[-2:]] == [TokenTaken, SessionEnded]


def test_answer_that_comes_after_the_end_is_not_believed() -> None:
    session = holder()
    session.now += LIVES_MS + 5  # the process stood still
    session.answer(TokenKeep, SessionKept(7, TTL_MS))
    assert session.holding.is_over


def test_next_keep_alive_leaves_at_once_and_names_the_newest_version() -> None:
    session = live()
    session.answer(TokenKeep, SessionKept(9, TTL_MS))
    (keep,) = session.asked(TokenKeep)
    assert isinstance(keep.request, TokenKeep)
    assert keep.request.version == 9


def test_keep_alive_lists_what_is_held() -> None:
    session = holder()
    session.answer(TokenKeep, SessionKept(8, TTL_MS))
    (keep,) = session.asked(TokenKeep)
    assert isinstance(keep.request, TokenKeep)
    assert [(one.token, one.epoch, one.counter) for one in keep.request.held] == [("a", 2, 3)]


@pytest.mark.parametrize("kind", [TokenKeep, TokenAcquire])
def test_node_that_serves_nobody_is_left_for_another_one_which_is_asked_the_same(kind: type) -> None:
    session = live()
    session.acquire(wait_ms=60_000)
    session.answer(kind, RECOVERING)
    assert not session.holding.wants_other_node
    session.later(AGAIN_MS)
    assert session.holding.wants_other_node
    session.break_off()
    session.do(session.holding.connected)
    assert not session.holding.wants_other_node
    session.answer(TokenAcquire, granted())
    assert session.news[-1] == TokenObtained("a", Fence(0, 2, 3, "a"))


def test_end_is_told_to_a_node_that_serves() -> None:
    session = holder()
    session.do(session.holding.close)
    session.answer(TokenClose, RECOVERING)
    session.later(AGAIN_MS)
    session.break_off()
    session.do(session.holding.connected)
    session.answer(TokenClose, SessionClosed(SESSION))
    assert session.news[-1] == SessionEnded(None)


def test_keep_alive_that_is_not_answered_asks_for_another_node_while_there_is_time() -> None:
    session = holder()
    session.later(TTL_MS // 2)
    assert session.holding.wants_other_node


def test_refused_keep_alive_is_asked_again_soon() -> None:
    session = live()
    session.answer(TokenKeep, NoQuorumError("none"))
    assert session.asked(TokenKeep) == []
    session.later(150)
    assert len(session.asked(TokenKeep)) == 1


def test_expired_session_is_over_with_all_that_it_held() -> None:
    session = holder()
    session.answer(TokenKeep, SessionExpiredError("over"))
    assert [type(one) for one in session.news[-2:]] == [TokenTaken, SessionEnded]
    assert session.holding.fence("a", session.now) is None


def test_open_bears_no_quorum_for_as_long_as_the_user_waits() -> None:
    session = Session(wait_ms=300)
    session.answer(TokenOpen, NoQuorumError("none"))
    assert not session.holding.is_over
    session.later(301)
    session.answer(TokenOpen, NoQuorumError("none"))
    assert session.news == [SessionEnded(session.news[-1].error)]  # type: ignore[union-attr]
    assert session.holding.is_over


def test_open_where_tokens_are_not_served_is_refused_at_once() -> None:
    session = Session(wait_ms=10_000)
    session.answer(TokenOpen, DisabledError("off"))
    assert session.holding.is_over


def test_close_is_told_to_a_node_though_a_keep_alive_is_under_way() -> None:
    session = holder()
    session.do(session.holding.close)
    assert len(session.asked(TokenClose)) == 1
    session.answer(TokenClose, SessionClosed(SESSION))
    assert session.news[-1] == SessionEnded(None)


def test_close_that_nobody_answers_ends_all_the_same() -> None:
    session = holder()
    session.do(session.holding.close)
    session.later(CLOSE_MS)
    assert session.holding.is_over


# -- tokens -------------------------------------------------------------------------------------------------------


def test_grant_is_told_with_its_fence() -> None:
    session = holder()
    (obtained,) = [one for one in session.news if isinstance(one, TokenObtained)]
    assert str(obtained.fence) == "a:2.3"


def test_grant_from_older_knowledge_than_was_named_is_ignored_and_asked_for_again() -> None:
    session = live()
    session.acquire()
    session.answer(TokenKeep, SessionKept(9, TTL_MS))
    session.answer(TokenAcquire, granted(version=8))
    assert session.holding.fence("a", session.now) is None
    session.later(150)
    session.answer(TokenAcquire, granted(version=9))
    assert session.holding.fence("a", session.now) is not None


def test_wait_begins_with_a_short_request_whose_ticket_keeps_the_place() -> None:
    session = live()
    session.acquire(wait_ms=5000)
    first = session.answer(TokenAcquire, TimedOutError("not yet").with_ticket("7.5"))
    (second,) = session.asked(TokenAcquire)
    assert isinstance(first, TokenAcquire)
    assert isinstance(second.request, TokenAcquire)
    assert (first.wait_s, first.ticket) == (0.25, None)
    assert (second.request.ticket, second.request.wait_s) == ((7, 5), 5.0)


def test_wait_that_is_over_is_refused_and_its_place_given_up() -> None:
    session = live()
    session.acquire(wait_ms=200)
    session.later(200)
    session.answer(TokenAcquire, TimedOutError("no").with_ticket("7.5"))
    assert isinstance(session.news[-1], TokenRefused)
    assert len(session.asked(TokenRelease)) == 1


def test_try_that_finds_it_held_is_refused() -> None:
    session = live()
    session.acquire()
    session.answer(TokenAcquire, HeldError("held"))
    assert isinstance(session.news[-1], TokenRefused)


def test_release_names_the_fence() -> None:
    session = holder()
    session.do(lambda now: session.holding.release("a", now))
    request = session.answer(TokenRelease, TokenDone())
    assert isinstance(request, TokenRelease)
    assert request.fence == (2, 3)
    assert session.news[-1] == TokenReleased("a")


def test_token_is_not_asked_for_before_its_release_was_answered() -> None:
    session = holder()
    session.do(lambda now: session.holding.release("a", now))
    with pytest.raises(RequestError):
        session.acquire()
    session.answer(TokenRelease, TokenDone())
    session.acquire()
    assert len(session.asked(TokenAcquire)) == 1


def test_release_without_a_fence_that_was_sent_twice_bars_the_token_for_this_session() -> None:
    session = live()
    session.acquire(wait_ms=5000)
    session.do(lambda now: session.holding.release("a", now))
    session.break_off()
    session.do(session.holding.connected)
    session.answer(TokenRelease, TokenDone())
    with pytest.raises(BusyError):
        session.acquire()


def test_token_that_is_taken_is_told_and_listed_until_its_user_has_let_go() -> None:
    session = holder()
    session.answer(TokenKeep, SessionKept(7, TTL_MS, ("a",)))
    assert isinstance(session.news[-1], TokenTaken)
    keep = session.answer(TokenKeep, SessionKept(7, TTL_MS, ("a",)))
    assert isinstance(keep, TokenKeep)
    assert [one.token for one in keep.held] == ["a"]
    session.do(lambda now: session.holding.let_go("a", now))
    session.later(150)
    (keep_now,) = session.asked(TokenKeep)
    assert isinstance(keep_now.request, TokenKeep)
    assert keep_now.request.held == ()


def test_token_that_was_taken_is_released_by_its_fence_before_it_is_asked_for_again() -> None:
    session = holder()  # the loss may have been of a grant before this one, which the server knows to be held then
    session.answer(TokenKeep, SessionKept(7, TTL_MS, ("a",)))
    session.do(lambda now: session.holding.let_go("a", now))
    with pytest.raises(RequestError, match="giving it up"):
        session.acquire()
    released = session.answer(TokenRelease, TokenDone())
    assert isinstance(released, TokenRelease)
    assert released.fence == (2, 3)
    session.acquire()
    assert session.asked(TokenAcquire)


def test_loss_that_is_told_before_the_grant_withdraws_the_wish() -> None:
    session = live()
    session.acquire()
    (asked,) = session.asked(TokenAcquire)
    session.answer(TokenKeep, SessionKept(7, TTL_MS, ("a",)))
    assert isinstance(session.news[-1], TokenRefused)
    session.do(lambda now: session.holding.answered(asked.id, granted(), now))
    assert session.holding.fence("a", session.now) is None


def test_on_another_connection_all_that_was_under_way_is_asked_again() -> None:
    session = holder()
    session.acquire("b", wait_ms=5000)
    session.answer(TokenAcquire, TimedOutError("not yet").with_ticket("7.5"))
    session.do(lambda now: session.holding.set_data("a", b"\x01", 5000, now))
    session.break_off()
    session.do(session.holding.connected)
    asked = [type(one.request) for one in session.open]
    assert asked == [TokenKeep, TokenAcquire, TokenData]
    (again,) = session.asked(TokenAcquire)
    assert isinstance(again.request, TokenAcquire)
    assert again.request.ticket == (7, 5)


# -- data ---------------------------------------------------------------------------------------------------------


def test_data_of_one_token_is_stored_in_the_order_in_which_it_was_set() -> None:
    session = holder()
    for data in (b"\x01", b"\x02"):
        session.do(lambda now, data=data: session.holding.set_data("a", data, 5000, now))  # type: ignore[misc]
    assert len(session.asked(TokenData)) == 1
    session.answer(TokenData, TokenDone())
    second = session.answer(TokenData, TokenDone())
    assert isinstance(second, TokenData)
    assert (second.data, second.change, session.holding.data("a", session.now)) == (b"\x02", 2, b"\x02")


def test_change_of_data_names_its_fence_and_its_number_and_keep_alives_name_the_last_one() -> None:
    session = holder()
    session.do(lambda now: session.holding.set_data("a", b"\x01", 5000, now))
    asked = session.answer(TokenData, TokenDone())
    assert isinstance(asked, TokenData)
    (held,) = session.holding.listed()
    assert (asked.fence, asked.change, held.change) == ((held.epoch, held.counter), 1, 1)


def test_keep_alive_after_one_that_was_refused_says_again_what_data_there_is() -> None:
    session = live()
    session.acquire(data=b"\x01")
    session.answer(TokenAcquire, TokenGranted("a", 2, 3, 7, False, b"\x01"))
    session.answer(TokenKeep, SessionKept(8, TTL_MS, ()))
    found = session.answer(TokenKeep, BusyError("later"))
    session.later(AGAIN_MS)
    again = session.asked(TokenKeep)[-1].request
    assert isinstance(found, TokenKeep)
    assert isinstance(again, TokenKeep)
    assert [[one.data for one in keep.held] for keep in (found, again)] == [[b"\x01"], [b"\x01"]]


def test_long_grace_leaves_a_whole_ttl_between_two_keep_alives() -> None:
    grace_ms = 60_000
    found = Session(grace_s=grace_ms / 1000)
    (asked,) = found.asked(TokenOpen)
    assert asked.request == TokenOpen(0, None, 60.0)
    found.answer(TokenOpen, SessionOpened(SESSION, TTL_MS + grace_ms, 7))
    keep = found.asked(TokenKeep)[-1].request
    assert isinstance(keep, TokenKeep)
    assert keep.wait_s is not None
    assert keep.wait_s <= TTL_MS / 6000


def test_keep_alives_are_numbered_and_name_the_last_one_that_was_answered() -> None:
    session = live()
    keeps = [session.answer(TokenKeep, SessionKept(8, TTL_MS, ())) for _ in range(2)]
    session.break_off()
    session.do(session.holding.connected)
    keeps.append(session.asked(TokenKeep)[-1].request)
    first, second, third = [(one.turn, one.heard) for one in keeps if isinstance(one, TokenKeep)]
    assert first[0] < second[0] < third[0]
    assert (second[1], third[1]) == (first[0], second[0])


def test_wish_that_never_left_does_not_forget_the_fence_of_before() -> None:
    session = holder()
    session.do(lambda now: session.holding.release("a", now))
    session.answer(TokenRelease, TokenDone())
    session.break_off()
    session.acquire()
    session.later(2000)
    session.do(session.holding.connected)
    session.acquire()
    (asked,) = session.asked(TokenAcquire)
    assert isinstance(asked.request, TokenAcquire)
    assert asked.request.before == (2, 3)


def test_data_of_a_token_that_is_not_held_is_refused() -> None:
    session = live()
    with pytest.raises(NotHeldError):
        session.holding.set_data("a", b"\x01", 5000, session.now)


def test_data_that_no_server_stores_is_given_up_in_time() -> None:
    session = holder()
    session.do(lambda now: session.holding.set_data("a", b"\x01", 300, now))
    session.later(300)
    (told,) = [one for one in session.news if isinstance(one, DataAnswered)]
    assert told.error is not None


def test_token_that_was_given_back_is_asked_for_with_its_last_fence() -> None:
    session = holder()
    session.do(lambda now: session.holding.release("a", now))
    session.answer(TokenRelease, TokenDone())
    session.acquire()
    session.acquire("b")
    (again, other) = (one.request for one in session.asked(TokenAcquire))
    assert isinstance(again, TokenAcquire)
    assert isinstance(other, TokenAcquire)
    assert (again.before, other.before) == ((2, 3), None)


def test_last_fence_of_a_token_outlives_an_attempt_that_failed() -> None:
    session = holder()
    session.do(lambda now: session.holding.release("a", now))
    session.answer(TokenRelease, TokenDone())
    session.acquire()
    session.answer(TokenAcquire, HeldError("held"))
    session.answer(TokenRelease, NotHeldError("not held"))
    session.acquire()
    again = session.asked(TokenAcquire)[-1].request
    assert isinstance(again, TokenAcquire)
    assert again.before == (2, 3)


def test_client_that_slept_asks_for_an_answer_while_its_session_lives() -> None:
    session = holder()
    session.now += 2700  # nobody woke it
    session.answer(TokenKeep, SessionKept(7, TTL_MS))
    (keep,) = (one.request for one in session.asked(TokenKeep))
    assert isinstance(keep, TokenKeep)
    assert keep.wait_s == (1000 + LIVES_MS - session.now) // 2 / 1000


# -- who only waits -----------------------------------------------------------------------------------------------

TICKET = "7.12"
EXPIRED = SessionExpiredError("over")


def waiter(wait_ms: int = 60_000) -> Session:
    """It has a place in the queue."""
    found = live()
    found.acquire(wait_ms=wait_ms)
    found.answer(TokenAcquire, TimedOutError("held").with_ticket(TICKET))
    return found


def ended(session: Session) -> list[SessionNews]:
    return [one for one in session.news if isinstance(one, SessionEnded | TokenRefused | TokenTaken)]


@pytest.mark.parametrize("is_connected", [True, False])
def test_who_waits_opens_another_session_when_the_servers_stood_still_for_longer_than_its_ttl(
    is_connected: bool,
) -> None:
    """docs/protocol, SESSION-13."""
    session = waiter()
    if not is_connected:
        session.break_off()
    session.later(LIVES_MS + 5000)
    if not is_connected or session.holding.wants_other_node:
        session.break_off()
        session.do(session.holding.connected)
    session.answer(TokenOpen, SessionOpened("9-def", TTL_MS, 9))
    (asked,) = session.asked(TokenAcquire)
    assert isinstance(asked.request, TokenAcquire)
    assert (asked.request.session, asked.request.ticket, asked.request.before) == ("9-def", (7, 12), None)
    session.answer(TokenAcquire, granted(version=9, counter=8))
    assert ended(session) == []
    assert session.news[-1] == TokenObtained("a", Fence(0, 2, 8, "a"))
    assert session.holding.session == "9-def"


def test_who_waits_and_is_told_that_the_session_is_over_leaves_its_old_place() -> None:
    session = waiter()
    session.later(50)
    session.answer(TokenAcquire, EXPIRED)
    (closed,) = session.asked(TokenClose)
    assert closed.request == TokenClose(0, SESSION)
    session.answer(TokenClose, EXPIRED)
    session.answer(TokenOpen, SessionOpened("9-def", TTL_MS, 9))
    assert session.asked(TokenAcquire)
    assert ended(session) == []


def test_answer_to_the_session_before_says_nothing_about_the_next_one() -> None:
    session = waiter()
    session.later(50)
    (late,) = session.asked(TokenKeep) or [None]
    session.answer(TokenAcquire, EXPIRED)
    session.answer(TokenOpen, SessionOpened("9-def", TTL_MS, 9))
    if late is not None:
        session.do(lambda now: session.holding.answered(late.id, EXPIRED, now))
    assert session.holding.session == "9-def"
    assert ended(session) == []


def test_who_waits_gives_up_when_its_time_is_over_whatever_sessions_it_had() -> None:
    session = waiter(wait_ms=10_000)
    session.break_off()
    session.later(30_000)
    refused, over = ended(session)
    assert refused == TokenRefused("a", GONE)
    assert isinstance(over, SessionEnded)


def test_wait_that_is_over_with_the_session_is_not_gone_on_with() -> None:
    session = waiter(wait_ms=LIVES_MS - 100)
    session.break_off()
    session.later(LIVES_MS)
    assert any(isinstance(one, SessionEnded) for one in session.news)


def _tries(session: Session) -> None:
    session.acquire("b")


def _holds(session: Session) -> None:
    session.acquire("b")
    session.answer(TokenAcquire, granted("b"))


def _releases(session: Session) -> None:
    _holds(session)
    session.do(lambda now: session.holding.release("b", now))


@pytest.mark.parametrize("also", [_tries, _holds, _releases])
def test_session_that_does_more_than_wait_ends(also: Callable[[Session], None]) -> None:
    session = waiter()
    also(session)
    session.break_off()
    session.later(LIVES_MS + 1)
    assert any(isinstance(one, SessionEnded) for one in session.news)


def test_session_that_the_user_named_is_not_replaced() -> None:
    session = Session()
    session.holding = Holding()
    session.holding.adopt(SESSION, (), 500, session.now)
    session.do(session.holding.connected)
    session.answer(TokenKeep, SessionKept(7, TTL_MS, ()))
    session.acquire(wait_ms=60_000)
    session.answer(TokenAcquire, EXPIRED)
    assert ended(session) == [TokenRefused("a", EXPIRED), SessionEnded(EXPIRED)]
