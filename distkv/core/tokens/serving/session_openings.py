"""Sessions that are to be opened, as the leader sees to it.

Knows: by their tags, who waits for which, and what was proposed.  Does not know the sessions that are open, but their
tags, nor who leads.

Invariant: a session that was proposed, and for which nobody waits any more, ends as soon as it is there. All that are
open, or about to be, have their share (`session_shares`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from distkv.core.ground.calls import CallKey
from distkv.core.tokens.authority import Authority
from distkv.core.tokens.serving.open_session import OpenedSession
from distkv.core.tokens.serving.session_shares import SessionShares
from distkv.core.tokens.serving.turn import ServingTurn
from distkv.errors import BusyError
from distkv.model.invariant import must
from distkv.wire.token_messages import OpenSession
from distkv.wire.token_replies import SessionOpened


@attrs.define(slots=True)
class SessionOpening:
    """One of them."""

    call: CallKey | None
    """Who waits for it; None: nobody does any more."""
    ttl_ms: int
    proposed_ms: int | None = None
    """Of the election in which it was proposed; another leader may have dropped it."""


class SessionOpenings:
    """By tag. All times are milliseconds."""

    def __init__(self, authority: Authority, shares: SessionShares) -> None:
        self._authority: Final = authority
        self._shares: Final = shares
        self._asked: Final = dict[str, SessionOpening]()
        self._calls: Final = dict[CallKey, str]()
        """Of each call that waits the tag."""
        self._open: Final = dict[str, OpenedSession]()
        """Those that are in effect."""

    def ask(self, call: CallKey, asked: OpenSession, turn: ServingTurn) -> None:
        """Somebody wants one."""
        tag, old = asked.tag, self._asked.get(asked.tag)
        is_new = old is None or old.call is None
        refusal = self._shares.refusal(tag) if is_new else None
        if refusal is not None:
            turn.answer(call, BusyError(refusal))
            return
        self._shares.put(tag)
        if old is not None and old.call is not None:
            self._calls.pop(old.call, None)
        self._asked[tag] = SessionOpening(call, asked.ttl_ms, None if is_new or old is None else old.proposed_ms)
        self._calls[call] = tag
        if tag in self._open:
            self.opened(self._open[tag], turn)

    def propose(self, elected_ms: int, turn: ServingTurn) -> None:
        """This node leads since then: what it did not propose yet it proposes."""
        for tag, one in list(self._asked.items()):
            if one.call is not None and one.proposed_ms != elected_ms:
                one.proposed_ms = elected_ms
                try:
                    self._authority.propose_open(one.ttl_ms, tag)
                except BusyError as error:
                    self._shares.drop(tag)
                    del self._asked[tag], self._calls[one.call]
                    turn.answer(one.call, error)

    def opened(self, session: OpenedSession, turn: ServingTurn) -> bool:
        """It is in effect; whether somebody may wait for it still."""
        tag = session.tag
        self._open[tag] = session
        self._shares.put(tag)
        one = self._asked.get(tag)
        if one is None or one.call is None:
            return one is None
        del self._asked[tag], self._calls[one.call]
        turn.answer(one.call, SessionOpened(session.id, session.ttl_ms, turn.changed))
        return True

    def ended(self, session: OpenedSession) -> None:
        """It is over."""
        self._open.pop(session.tag, None)
        self._shares.drop(session.tag)

    def forget(self, tag: str) -> None:
        """Its end is proposed, whoever wanted it before."""
        if tag in self._asked and self._asked[tag].call is None:
            del self._asked[tag]

    def call_gone(self, call: CallKey) -> None:
        """Nobody waits for the answer."""
        tag = self._calls.pop(call, None)
        if tag is not None:
            self._unwanted(tag)

    def take_calls(self) -> list[CallKey]:
        """All that wait; they are forgotten here, and are to be answered otherwise."""
        found = list(self._calls)
        for tag in self._calls.values():
            self._unwanted(tag)
        self._calls.clear()
        return found

    def begin_reign(self, sessions: Iterable[str]) -> None:
        """This node leads from now on, and these are there."""
        self._shares.reset(sessions)
        for tag in [tag for tag, one in self._asked.items() if one.call is None]:
            del self._asked[tag]
        for tag in self._asked:
            self._shares.put(tag)

    def _unwanted(self, tag: str) -> None:
        one = self._asked[tag]
        one.call = None
        if one.proposed_ms is None:
            del self._asked[tag]
            self._shares.drop(tag)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        waiting = {one.call: tag for tag, one in self._asked.items() if one.call is not None}
        must(self._calls == waiting, "each call that waits for a session is known")
        must(all(tag == one.tag for tag, one in self._open.items()), "each session is known by its tag")
