"""Who passed whom in a queue is noticed, and nobody is accused of it who may have an earlier place.

Knows: `distkv.sim.tokens.turns`.
"""

from __future__ import annotations

from distkv.core.tokens.serving.served_token import ServedToken, WaitingSession
from distkv.sim.tokens.turns import Turns
from distkv.wire.held_tokens import TokenHolder
from distkv.wire.token_fields import Ticket

LATE_MS = 100
A, B = "1-a", "2-b"


class Desk:
    """Turns, and the queue of the token `t` at one server."""

    def __init__(self) -> None:
        self.turns = Turns(LATE_MS)
        self.token = ServedToken("t")
        self.counter = 0

    def ask(self, at_ms: float, session: str, ticket: Ticket | None = None) -> None:
        self.turns.asked(at_ms, (session, at_ms), session, "t", ticket)

    def tell(self, at_ms: float, session: str, asked_ms: float, ticket: Ticket | None) -> None:
        self.turns.told(at_ms, (session, asked_ms), ticket)

    def wait(self, at_ms: float, session: str, server: str = "s", changed: int = 5) -> None:
        self.token.queue[session] = WaitingSession(session, (changed, 1), False, None)
        assert self.look(at_ms, server, changed) is None

    def look(self, at_ms: float, server: str = "s", changed: int = 5) -> str | None:
        return self.turns.looked(at_ms, server, changed, [self.token])

    def grant(self, at_ms: float, session: str, server: str = "s") -> str | None:
        self.counter += 1
        self.token.queue.pop(session, None)
        self.token.give(TokenHolder(session, False, 1, self.counter, 0.0))
        found = self.look(at_ms, server)
        self.token.grants.clear()
        assert self.look(at_ms, server) is None
        return found

    def restart(self) -> None:
        self.turns.stopped("s")
        self.token = ServedToken("t")


def test_who_came_first_passes_nobody() -> None:
    desk = Desk()
    desk.ask(0, A)
    desk.wait(1, A)
    desk.ask(2, B)
    desk.wait(3, B)
    assert desk.grant(4, A) is None
    assert desk.turns.compared == 1


def test_who_came_later_and_is_granted_first_is_noticed() -> None:
    desk = Desk()
    desk.ask(0, A)
    desk.wait(1, A)
    desk.ask(2, B)
    assert "1-a is in the queue of s since 1 ms" in (desk.grant(4, B) or "")


def test_who_waited_elsewhere_may_have_a_place_from_there() -> None:
    desk = Desk()
    desk.ask(0, A)
    desk.wait(1, A)
    other = desk.token
    desk.token = ServedToken("t")
    desk.ask(2, B)
    desk.wait(3, B, "other")
    desk.token = other
    assert desk.grant(4, B) is None


def test_ticket_keeps_the_place_at_a_server_that_forgot_it() -> None:
    desk = Desk()
    desk.ask(0, A)
    desk.wait(1, A)
    desk.tell(50, A, 0, (5, 1))
    desk.ask(60, B)
    desk.restart()
    desk.wait(70, B)
    desk.ask(80, A, (5, 1))
    desk.wait(81, A)
    assert "has the ticket (5, 1) since 50 ms" in (desk.grant(200, B) or "")


def test_ticket_that_is_not_given_again_keeps_nothing() -> None:
    desk = Desk()
    desk.ask(0, A)
    desk.wait(1, A)
    desk.tell(50, A, 0, (5, 1))
    desk.ask(60, B)
    desk.restart()
    desk.wait(70, B)
    desk.ask(80, A)
    desk.wait(81, A)
    assert desk.grant(200, B) is None


def test_ticket_of_before_the_last_grant_may_bring_an_early_place() -> None:
    desk = Desk()
    desk.ask(0, B)
    desk.tell(1, B, 0, (5, 1))
    desk.ask(2, B, (5, 1))
    assert desk.grant(3, B) is None
    desk.tell(4, B, 2, None)
    desk.ask(5, A)
    desk.wait(6, A)
    desk.ask(7, B, (5, 1))
    assert desk.grant(300, B) is None
