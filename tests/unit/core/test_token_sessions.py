"""Sessions as the leader looks after them.

Knows: an authority that says what it is told to say.  Does not know tokens.
"""

from __future__ import annotations

from collections.abc import Collection

import attrs

from distkv.core.ground.calls import CallKey
from distkv.core.tokens.known_servers import map_of
from distkv.core.tokens.serving.session_shares import SessionShares
from distkv.core.tokens.serving.sessions import Sessions
from distkv.core.tokens.serving.turn import ServingTurn
from distkv.core.tokens.serving_settings import ServingSettings
from distkv.core.tokens.state import TokenState
from distkv.errors import BusyError
from distkv.model.event import NodeName
from distkv.model.standing import ServerStanding
from distkv.wire.token_errors import NotHeldError, SessionExpiredError
from distkv.wire.token_messages import (
    AskHolding,
    EndSession,
    KeepSession,
    LeaderQuestion,
    OpenSession,
    TellLoss,
    TokenResult,
)
from distkv.wire.token_replies import SessionClosed, SessionKept, SessionOpened, TokenDone
from distkv.wire.token_states import TokenServer
from tests.taken_effects import TakenEffects

ME = NodeName("s0")
TTL_MS = 3000
LONG_MS = 3031


class Office:
    """The leader, whose proposals come into effect when it is told so."""

    def __init__(self, sessions_max: int = 10) -> None:
        self.effective: TokenState | None = None
        self.grants_until_ms = self.leads_until_ms = 10**9
        self.elected_ms = 1000
        self.opened = list[str]()
        self.ended = list[str]()
        self.answers = dict[int, TokenResult]()
        settings = ServingSettings(ME, (ME,), 1, 1000, TTL_MS, 500, sessions_max=sessions_max)
        self.sessions = Sessions(settings, self, SessionShares(sessions_max))
        self.state = TokenState(1, 5, ME, {ME: TokenServer(ServerStanding.READY, 1, 5)}, {"4-x": TTL_MS}, 5)
        self.look(1000)

    def answer(self, call: CallKey, result: TokenResult, changed: int, *, waits: bool = True) -> None:  # noqa: ARG002
        assert call.number not in self.answers
        self.answers[call.number] = result

    def withdraw(self, call: CallKey) -> None:
        raise NotImplementedError

    def turn(self, now_ms: int) -> ServingTurn:
        map = map_of(self.state, ME, is_sure=True)
        return ServingTurn(now_ms, 0.0, True, self.state.changed, map, self, TakenEffects())

    def ask(self, number: int, question: LeaderQuestion, now_ms: int) -> None:
        self.sessions.asked(key(number), question, self.turn(now_ms))

    def propose_open(self, ttl_ms: int, tag: str) -> None:
        self.opened.append(f"{ttl_ms} {tag}")

    def propose_end(self, sessions: Collection[str]) -> None:
        self.ended += sessions

    def propose_servers(self, servers: Collection[NodeName]) -> None:
        raise NotImplementedError

    def change_waits_for(self, servers: Collection[NodeName], now_ms: int) -> str:
        raise NotImplementedError

    def stand(self, standing: ServerStanding) -> None:
        raise NotImplementedError

    def reset(self, now_ms: int, servers: Collection[NodeName] = ()) -> None:
        raise NotImplementedError

    def look(self, now_ms: int, **changes: object) -> None:
        self.state = attrs.evolve(self.state, **changes)  # type: ignore[arg-type]
        self.effective = self.state
        self.sessions.follow(self.state, self.turn(now_ms))
        self.sessions.woken(self.turn(now_ms))
        self.sessions.check()

    def keep(
        self, number: int, now_ms: int, version: int = 5, held: tuple[str, ...] = (), wait_ms: int = 900, *,
        turn: int = 0, heard: int = 0,
    ) -> None:  # fmt: skip
        self.ask(number, KeepSession("4-x", version, held, wait_ms, turn, heard), now_ms)


def key(number: int) -> CallKey:
    return CallKey(NodeName("p"), 1, number)


def test_session_is_opened_when_it_is_in_effect() -> None:
    office = Office()
    office.ask(1, OpenSession("tag", TTL_MS), 1000)
    assert office.opened == [f"{TTL_MS} tag"]
    assert office.answers == {}
    office.look(1100, version=6, sessions={"4-x": TTL_MS, "6-tag": TTL_MS})
    assert office.answers == {1: SessionOpened("6-tag", TTL_MS, 5)}


def test_repeated_opening_opens_one_session() -> None:
    office = Office()
    office.ask(1, OpenSession("tag", TTL_MS), 1000)
    office.ask(2, OpenSession("tag", TTL_MS), 1000)
    assert len(office.opened) == 1


def test_session_for_which_nobody_waits_any_more_ends_as_soon_as_it_is_there() -> None:
    office = Office()
    office.ask(1, OpenSession("gone", TTL_MS), 1000)
    office.ask(2, OpenSession("again", TTL_MS), 1000)
    for number in (1, 2):
        office.sessions.call_gone(key(number))
    office.ask(3, OpenSession("again", TTL_MS), 1000)
    office.look(1100, version=7, sessions={"4-x": TTL_MS, "6-gone": TTL_MS, "7-again": TTL_MS})
    assert office.ended == ["6-gone"]
    assert office.answers == {3: SessionOpened("7-again", TTL_MS, 5)}


def test_session_that_was_refused_without_a_majority_does_not_stay() -> None:
    office = Office()
    office.ask(1, OpenSession("tag", TTL_MS), 1000)
    office.sessions.refuse_all(office.turn(1000))
    office.look(1100, version=6, sessions={"4-x": TTL_MS, "6-tag": TTL_MS})
    assert office.ended == ["6-tag"]


def test_beyond_the_limit_no_session_is_opened() -> None:
    office = Office(sessions_max=1)
    office.ask(1, OpenSession("tag", TTL_MS), 1000)
    assert isinstance(office.answers[1], BusyError)
    assert office.opened == []


def test_keep_is_answered_after_its_wait() -> None:
    office = Office()
    office.keep(1, 1000)
    office.look(1903)
    assert office.answers == {}
    office.look(1904)
    assert office.answers == {1: SessionKept(5, TTL_MS)}


def test_keeps_are_answered_together_with_those_that_came_little_later() -> None:
    office = Office()
    office.look(1000, sessions={"4-x": TTL_MS, "5-y": TTL_MS})
    office.keep(1, 1000)
    office.ask(2, KeepSession("5-y", 5, (), 900), 1004)
    office.look(1903)
    assert office.answers == {}
    office.look(1904)
    assert office.answers.keys() == {1, 2}


def test_keep_is_answered_after_a_third_of_the_ttl_at_the_latest() -> None:
    office = Office()
    office.keep(1, 1000, wait_ms=10**6)
    assert office.sessions.due_ms == 1000 + TTL_MS // 3


def test_keep_is_answered_at_once_when_a_server_changed() -> None:
    office = Office()
    office.keep(1, 1000)
    office.look(1001, version=6, changed=6)
    assert office.answers == {1: SessionKept(6, TTL_MS)}


def test_other_session_does_not_wake_a_keep() -> None:
    office = Office()
    office.keep(1, 1000)
    office.look(1001, version=6, sessions={"4-x": TTL_MS, "6-y": TTL_MS})
    assert office.answers == {}


def test_keep_is_not_confirmed_when_the_lease_of_the_leader_is_over() -> None:
    office = Office()
    office.leads_until_ms = 1500
    office.keep(1, 1000)
    office.look(1904)  # when it would be due
    assert office.answers == {}
    office.leads_until_ms = 3000
    office.look(1950)
    assert office.answers == {1: SessionKept(5, TTL_MS)}


def test_session_ends_when_nothing_was_heard_for_its_ttl_and_the_drift() -> None:
    office = Office()
    office.keep(1, 2000)
    office.look(2000 + LONG_MS - 1)
    assert office.ended == []
    office.look(2000 + LONG_MS)
    assert office.ended == ["4-x"]


def test_new_leader_counts_from_its_election() -> None:
    office = Office()
    office.elected_ms = 3000
    office.look(3000)
    office.look(3000 + LONG_MS - 1)
    assert office.ended == []
    office.look(3000 + LONG_MS)
    assert office.ended == ["4-x"]


def test_keep_of_a_session_whose_end_is_proposed_is_not_confirmed() -> None:
    office = Office()
    office.look(1000 + LONG_MS)
    office.keep(1, 1000 + LONG_MS, wait_ms=0)
    assert office.answers == {}
    office.look(5000, version=6, sessions={})
    assert isinstance(office.answers[1], SessionExpiredError)


def test_closed_session_is_answered_when_its_end_is_in_effect() -> None:
    office = Office()
    office.ask(1, EndSession("4-x"), 1000)
    assert office.ended == ["4-x"]
    office.look(1100, version=6, sessions={})
    assert office.answers == {1: SessionClosed("4-x")}


def test_loss_is_told_at_once_and_confirmed_when_the_next_keep_does_not_list_it() -> None:
    office = Office()
    office.keep(1, 1000, held=("t",))
    office.ask(2, TellLoss("4-x", (1, 2, "t")), 1100)
    assert office.answers == {1: SessionKept(5, TTL_MS, ("t",))}
    office.keep(3, 1200)
    assert office.answers[2] == TokenDone()


def test_keep_that_was_sent_before_the_loss_was_told_does_not_confirm_it() -> None:
    office = Office()
    office.ask(1, TellLoss("4-x", (1, 2, "t")), 1100)
    office.keep(2, 1200)
    assert office.answers == {2: SessionKept(5, TTL_MS, ("t",))}


def test_session_that_goes_on_with_what_it_lost_is_ended() -> None:
    office = Office()
    office.ask(1, TellLoss("4-x", (1, 2, "t")), 1100)
    for number, now_ms in enumerate((1200, 2200, 3200, 4201), 2):
        office.keep(number, now_ms, held=("t",))
    assert office.ended == ["4-x"]


def test_loss_of_a_session_that_ends_is_confirmed() -> None:
    office = Office()
    office.ask(1, TellLoss("4-x", (1, 2, "t")), 1100)
    office.look(1200, version=6, sessions={})
    assert office.answers == {1: TokenDone()}


def test_client_that_lists_a_token_counts_on_it() -> None:
    office = Office()
    office.ask(1, AskHolding("4-x", (1, 2, "t")), 1000)
    office.keep(2, 1100, held=("t",))
    assert office.answers[1] == TokenDone()


def test_client_does_not_count_on_what_it_lists_in_no_keep_after_an_answer() -> None:
    office = Office()
    office.ask(1, AskHolding("4-x", (1, 2, "t")), 1000)
    office.keep(2, 1100)
    assert 1 not in office.answers  # it was sent before the client had heard anything
    office.keep(3, 1200)
    assert isinstance(office.answers[1], NotHeldError)


def test_loss_is_told_to_the_later_of_two_keeps_and_confirmed_by_the_one_after_it() -> None:
    office = Office()
    office.keep(1, 1000, held=("t",))
    office.keep(2, 1010)
    assert office.answers == {1: SessionKept(5, TTL_MS)}
    office.ask(3, TellLoss("4-x", (1, 2, "t")), 1050)
    assert office.answers[2] == SessionKept(5, TTL_MS, ("t",))
    assert 3 not in office.answers
    office.keep(4, 1100)
    assert office.answers[3] == TokenDone()


def test_session_that_was_to_be_opened_without_a_lease_is_proposed_when_there_is_one() -> None:
    office = Office()
    office.leads_until_ms = 1050
    office.ask(1, OpenSession("b", TTL_MS), 1100)
    office.look(1100)
    assert office.opened == []
    office.leads_until_ms = 10**9
    office.look(1200)
    assert office.opened == [f"{TTL_MS} b"]


# -- which keep-alive counts


def test_loss_is_not_confirmed_by_a_keep_whose_client_did_not_take_the_answer_that_named_it() -> None:
    office = Office()
    office.ask(1, TellLoss("4-x", (5, 1, "t")), 1000)
    office.keep(2, 1000, held=("t",), turn=7)
    office.keep(3, 1100, turn=8, heard=6)
    assert (office.answers[3], 1 in office.answers) == (SessionKept(5, TTL_MS, ("t",)), False)
    office.keep(4, 1200, turn=9, heard=8)
    assert office.answers[1] == TokenDone()


def test_keeps_of_two_processes_count_whatever_their_numbers_are() -> None:
    office = Office()
    office.keep(1, 1000, turn=9000, wait_ms=0)
    office.keep(2, 1100, turn=7, heard=6, wait_ms=0)
    assert [office.answers[number] for number in (1, 2)] == [SessionKept(5, TTL_MS, ())] * 2


def test_client_does_not_count_on_a_token_only_if_it_took_the_answer_from_after_the_question() -> None:
    office = Office()
    office.ask(1, AskHolding("4-x", (5, 1, "t")), 1000)
    office.keep(2, 1000, turn=7)
    office.keep(3, 1100, wait_ms=0, turn=8, heard=6)
    assert 1 not in office.answers
    office.keep(4, 1200, turn=9, heard=8)
    assert isinstance(office.answers[1], NotHeldError)


def test_session_that_does_not_name_for_a_ttl_what_it_was_told_is_ended() -> None:
    office = Office()
    office.keep(1, 1000, version=4)
    office.keep(2, 1000 + TTL_MS, version=4)
    assert office.ended == []
    office.keep(3, 1001 + TTL_MS, version=4)
    assert office.ended == ["4-x"]


def test_session_that_names_what_it_was_told_goes_on() -> None:
    office = Office()
    office.keep(1, 1000, version=4)
    office.keep(2, 1100, version=5, wait_ms=0)
    office.keep(3, 1101 + TTL_MS, version=5)
    assert office.ended == []


def test_end_is_proposed_only_by_who_leads() -> None:
    office = Office()
    office.ask(1, TellLoss("4-x", (5, 1, "t")), 1000)
    office.keep(2, 1000, held=("t",))
    office.leads_until_ms = 0
    office.look(1200)
    office.keep(3, 1001 + TTL_MS, held=("t",))
    assert office.ended == []


def test_who_asked_before_somebody_else_asks_the_same_is_answered() -> None:
    office = Office()
    for number, counter in ((1, 1), (2, 2)):
        office.ask(number, TellLoss("4-x", (5, counter, "t")), 1000)
        office.ask(2 + number, AskHolding("4-x", (5, counter, "q")), 1000)
        office.ask(4 + number, EndSession("4-x"), 1000)
    assert sorted(office.answers) == [1, 3, 5]


def test_first_keep_of_a_process_that_takes_a_session_over_confirms_no_loss() -> None:
    office = Office()
    office.keep(2, 1000, turn=9000, heard=8000, wait_ms=0)
    office.ask(1, TellLoss("4-x", (5, 1, "t")), 1000)
    office.keep(3, 1100, turn=10)
    assert (office.answers[3], 1 in office.answers) == (SessionKept(5, TTL_MS, ("t",)), False)
    office.keep(4, 1200, turn=11, heard=10)
    assert office.answers[1] == TokenDone()


def test_keep_without_a_number_confirms_no_loss_of_a_session_that_numbers_them() -> None:
    office = Office()
    office.ask(1, TellLoss("4-x", (5, 1, "t")), 1000)
    office.keep(2, 1000, held=("t",), turn=7)
    office.keep(3, 1100)
    assert 1 not in office.answers


def test_loss_is_confirmed_to_each_of_two_processes_that_keep_a_session() -> None:
    office = Office()
    office.ask(1, TellLoss("4-x", (5, 1, "t")), 1000)
    office.keep(2, 1000, turn=7, heard=5)
    office.keep(3, 1100, turn=8, heard=6)
    office.keep(4, 1200, turn=9, heard=7)
    assert office.answers[1] == TokenDone()
