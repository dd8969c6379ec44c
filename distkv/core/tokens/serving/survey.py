"""Finding out who holds the tokens of a part whose server is gone: every session says so.

Knows: which sessions have to say what they hold, and what those said that did.  Does not know what is done with it, nor
which tokens are meant.

Invariant: the survey is over only when each session that was open when it began has claimed, knowing of the version by
which the part came here, or has ended; and when nobody can get a token too early that was held by a session which ended
meanwhile.

Why a claim must know of the version: a client ignores every grant that comes from older knowledge than it has claimed
with. So what the lost server granted late is either in the claim, or never taken for a grant.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final

import attrs

from distkv.core.ground.calls import CallKey
from distkv.model.invariant import must
from distkv.wire.held_tokens import HeldToken, TokenHolder


@attrs.frozen(slots=True)
class SessionClaim:
    """What a session holds."""

    call: CallKey
    version: int
    """The change of servers that its client knew of."""
    held: tuple[HeldToken, ...]


@attrs.define(slots=True)
class ClaimedToken:
    """Who holds a token, as the sessions say."""

    holders: list[TokenHolder] = attrs.field(factory=list)
    losers: list[TokenHolder] = attrs.field(factory=list)
    """Those that claim it, too, with a lower fence, and cannot have it."""
    data: bytes | None = None
    keeps_data: bool = False


class Survey:
    """All times are milliseconds."""

    def __init__(self, lock_delay_ms: int) -> None:
        self._lock_delay_ms: Final = lock_delay_ms
        self._claims: Final = dict[str, SessionClaim]()
        """By session: those that are not answered yet."""
        self._waiting: dict[str, None] | None = None
        """Whose claim is still wanted; None: nothing has to be found out."""
        self._open: Final = dict[str, None]()
        """All sessions of the survey that did not end."""
        self._version = 0
        self._free_ms = 0
        """Before that it does not end."""
        self.due_ms: int | None = None
        """When it may be over because time passed; only read."""

    @property
    def is_open(self) -> bool:
        """Whether something has to be found out."""
        return self._waiting is not None

    @property
    def count(self) -> int:
        """How many claims are kept."""
        return len(self._claims)

    def begin(self, version: int, sessions: Iterable[str], now_ms: int) -> None:
        """From now on each of these is to claim; who ended just before may have held something, too."""
        self._version = version
        self._waiting = dict.fromkeys(sessions)
        self._open.clear()
        self._open.update(self._waiting)
        self._free_ms = now_ms + self._lock_delay_ms
        for session, claim in self._claims.items():
            if claim.version >= version:
                self._waiting.pop(session, None)
        self._note_due()

    def stop(self) -> None:
        """Nothing has to be found out any more."""
        self._waiting = None
        self._note_due()

    def claimed(self, session: str, claim: SessionClaim) -> CallKey | None:
        """A session says what it holds; the call of an older claim, which is of no use now.

        Of two claims that know of the same version one may be late, and nobody can say which. So both count: what is
        claimed too much the session is asked about (TOKEN-11)."""
        old = self._claims.pop(session, None)
        if old is not None and old.version > claim.version:
            self._claims[session] = old
            return claim.call
        if old is not None and old.version == claim.version:
            claim = attrs.evolve(claim, held=_together(old.held, claim.held))
        self._claims[session] = claim
        if self._waiting is not None and claim.version >= self._version:
            self._waiting.pop(session, None)
            self._note_due()
        return None if old is None else old.call

    def ended(self, session: str, now_ms: int) -> None:
        """A session is over. Nobody knows what it held."""
        self._open.pop(session, None)
        if self._waiting is not None and session in self._waiting:
            del self._waiting[session]
            self._free_ms = max(self._free_ms, now_ms + self._lock_delay_ms)
            self._note_due()

    def call_gone(self, call: CallKey) -> None:
        """The claim of this call is forgotten, so it is waited for again: another one comes, or the session ends."""
        for session in [session for session, claim in self._claims.items() if claim.call == call]:
            del self._claims[session]
            if self._waiting is not None and session in self._open:
                self._waiting[session] = None
                self._note_due()

    def is_over(self, now_ms: int) -> bool:
        """Whether all has been found out."""
        return self._waiting is not None and not self._waiting and now_ms >= self._free_ms

    def claims(self, sessions: Container[str]) -> dict[str, ClaimedToken]:
        """What was found out of each token; what a session claimed that is over counts for nothing."""
        found = dict[str, list[tuple[str, HeldToken]]]()
        for session, claim in self._claims.items():
            if claim.version >= self._version and session in sessions:
                for held in claim.held:
                    if held.epoch <= self._version:  # none of the lost server has a later one
                        found.setdefault(held.token, []).append((session, held))
        return {name: _settled(some) for name, some in found.items()}

    def take_calls(self, changed: int) -> list[CallKey]:
        """The claims that need not be kept by a server which knows of the changes up to this one; they are forgotten
        here, and are to be answered."""
        if self._waiting is not None:
            return []
        found = {session: claim.call for session, claim in self._claims.items() if claim.version <= changed}
        for session in found:
            del self._claims[session]
        return list(found.values())

    def _note_due(self) -> None:
        self.due_ms = self._free_ms if self._waiting is not None and not self._waiting else None

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(self._waiting is None or self._waiting.keys() <= self._open.keys(), "who is to claim did not end")


def _settled(claims: list[tuple[str, HeldToken]]) -> ClaimedToken:
    """Of claims that cannot all be true the one with the highest fence counts."""
    found = ClaimedToken()
    for session, held in sorted(claims, key=lambda one: (one[1].fence, one[0]), reverse=True):
        holder = TokenHolder(session, held.is_shared, held.epoch, held.counter, 0.0, held.change)
        if not found.holders or (held.is_shared and all(one.is_shared for one in found.holders)):
            found.holders.append(holder)
            if found.data is None:
                found.data, found.keeps_data = held.data, held.keeps_data
        else:
            found.losers.append(holder)
    return found


def _together(one: tuple[HeldToken, ...], other: tuple[HeldToken, ...]) -> tuple[HeldToken, ...]:
    """Of each token what was said last, as far as that can be seen; data may have been said only once."""
    found = dict[str, HeldToken]()
    for held in sorted([*one, *other], key=lambda held: (held.fence, held.change, held.data is not None)):
        found[held.token] = held
    return tuple(found.values())
