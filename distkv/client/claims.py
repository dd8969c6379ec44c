"""One token that a session wants, holds or gives up: what is to be asked about it next.

Knows: the states of such a claim, and what each answer makes of it.  Does not know the session, nor other tokens.

Invariant: a claim has one request under way at the most. What was granted by knowledge that is older than what the
session has named is not believed.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import Final

import attrs

from distkv.errors import BusyError, DistkvError, NotReadyError, RequestError
from distkv.model.fence import NO_GRANT, Fence, GrantNumber
from distkv.wire.held_tokens import HELD_MAX, HeldToken
from distkv.wire.token_errors import HeldError, NotHeldError, SessionExpiredError, TimedOutError, UngrantedError
from distkv.wire.token_fields import read_ticket, ticket_text
from distkv.wire.token_replies import TokenGranted, TokenReply
from distkv.wire.token_requests import TokenAcquire, TokenRelease

AGAIN_MS: Final = 100
"""After so long a request that could not be carried out is sent again."""
FIRST_WAIT_MS: Final = 250
"""So long the first request for a token waits: after it there is a ticket, which keeps the place whatever server dies.
"""
NEXT_WAIT_MS: Final = 5000
LATE_MS: Final = 2000
"""When an answer is so late the client does not wait for it any longer."""


class ClaimState(Enum):
    """How far a claim is."""

    WANTED = "wanted"
    HELD = "held"
    TAKEN = "taken"
    """It is not ours any more, and whoever works under it may not have stopped: the server waits for that."""
    RELEASING = "releasing"
    """No server has said yet that it is released."""
    BARRED = "barred"
    """It is released, and a late copy of the release could undo another acquire: the session does not ask again."""


@attrs.define(slots=True)
class Claim:
    """All times are milliseconds of the client's clock."""

    token: str
    is_shared: bool
    data: bytes | None
    """Packed: what it is to be with the grant; afterwards what it is."""
    wait_until_ms: int | None
    """None: it is a try."""
    give_up_ms: int
    state: ClaimState = ClaimState.WANTED
    ticket: str | None = None
    number: GrantNumber | None = None
    """Of its grant."""
    change: int = 0
    """The number of the newest change of the data that is stored."""
    call: int | None = None
    """The request that is under way."""
    again_ms: int = 0
    """Not before this is it asked again."""
    let_go_ms: int = 0
    """When it is taken: it is listed until then at the most."""
    is_sent: bool = False
    """Whether a request for the token ever left; while the answer is not known it may be held."""
    is_repeated: bool = False
    """Whether the release was sent before, and not answered: that one may arrive late."""
    before: GrantNumber | None = None
    """With which the session held the token the last time."""
    refusal: DistkvError | None = None
    """Why it was not granted the last time."""
    keeps_data: bool = False
    """Whether the data stays when nobody holds the token."""

    @property
    def is_listed(self) -> bool:
        """Whether a keep-alive names it."""
        return self.state in (ClaimState.HELD, ClaimState.TAKEN)

    def held(self, *, with_data: bool) -> HeldToken:
        """As a keep-alive names it."""
        epoch, counter = self.number or NO_GRANT
        data, keeps_data = (self.data, self.keeps_data) if with_data else (None, False)
        return HeldToken(self.token, epoch, counter, self.is_shared, data, self.change, keeps_data)

    def shown_fence(self) -> Fence:
        """As users see it."""
        return Fence(0, *(self.number or NO_GRANT), self.token)

    # -- what is asked

    def request(self, session: str, now_ms: int) -> TokenAcquire | TokenRelease | None:
        """What to ask now, if anything."""
        if self.call is not None or now_ms < self.again_ms:
            return None
        if self.state is ClaimState.RELEASING:
            return TokenRelease(0, session, self.token, self.number)
        if self.state is not ClaimState.WANTED:
            return None
        wait_s = None
        if self.wait_until_ms is not None:
            longest_ms = FIRST_WAIT_MS if self.ticket is None else NEXT_WAIT_MS
            wait_s = max(0, min(longest_ms, self.wait_until_ms - now_ms)) / 1000
        ticket = None if self.ticket is None else read_ticket(self.ticket)
        wish = self.is_shared, wait_s, self.data, ticket, self.before, self.keeps_data
        return TokenAcquire(0, session, self.token, *wish)

    def wake_ms(self, *, can_ask: bool) -> int | None:
        """When there is something to do because time passed."""
        again_ms = self.again_ms if can_ask and self.call is None else None
        match self.state:
            case ClaimState.WANTED:
                return self.give_up_ms if again_ms is None else min(again_ms, self.give_up_ms)
            case ClaimState.RELEASING:
                return again_ms
            case ClaimState.TAKEN:
                return self.let_go_ms
            case ClaimState.HELD | ClaimState.BARRED:
                return None

    # -- what is answered

    def granted(self, grant: TokenGranted, named: int, now_ms: int) -> bool:
        """A server granted it; whether that is to be believed. `named` is the newest version that the session named."""
        if grant.version < named:
            self.again_ms = now_ms + AGAIN_MS
            return False
        self.state, self.number = ClaimState.HELD, grant.number
        self.data, self.keeps_data = grant.data, grant.keeps_data
        return True

    def refused(self, error: DistkvError, now_ms: int) -> DistkvError | None:
        """A server did not grant it; why it is given up, or None: it is asked again."""
        if isinstance(error, UngrantedError):
            self.ticket = self._checked(error.ticket) or self.ticket
            self.refusal = error
        if self.wait_until_ms is None:
            return error
        if isinstance(error, TimedOutError) and now_ms < self.wait_until_ms:
            self.refusal = None
            self.again_ms = now_ms if error.ticket is not None else now_ms + AGAIN_MS
            return None
        if not (is_bearable(error) or isinstance(error, NotHeldError)) or now_ms >= self.wait_until_ms:
            return error
        self.again_ms = now_ms + AGAIN_MS
        return None

    def why_given_up(self, lost: DistkvError | None) -> DistkvError:
        """What the user is told when its time is over. `lost`: why there is no connection."""
        if lost is not None:
            return lost
        return self.refusal or TimedOutError(f"{self.token!r} was not granted in time, and no server says why")

    def taken(self, let_go_ms: int) -> None:
        """It is not ours any more."""
        self.state, self.let_go_ms = ClaimState.TAKEN, let_go_ms

    def give_back(self, now_ms: int) -> None:
        """From now on it is released, until a server says that it is."""
        self.state, self.call, self.again_ms, self.is_repeated = ClaimState.RELEASING, None, now_ms, False

    def release_answered(self, error: DistkvError | None, now_ms: int) -> bool:
        """Whether it is released now."""
        if error is None or isinstance(error, NotHeldError | SessionExpiredError):
            if self.number is None and self.is_repeated:
                self.state = ClaimState.BARRED
            return True
        self.again_ms, self.is_repeated = now_ms + AGAIN_MS, True
        return False

    def connection_lost(self) -> None:
        """What was under way is asked again."""
        if self.call is not None and self.state is ClaimState.RELEASING:
            self.is_repeated = True
        self.call = None

    # -- inside

    @staticmethod
    def _checked(ticket: str | None) -> str | None:
        """A ticket that can be sent."""
        try:
            return None if ticket is None else ticket_text(read_ticket(ticket))
        except DistkvError:
            return None


def begun_anew(claims: Collection[Claim], now_ms: int) -> tuple[int, int] | None:
    """If tokens are only waited for, and for longer, have another session ask for them: until when a refusal of that is
    borne, and when it is given up. None: they are not."""
    ends = [claim.wait_until_ms or 0 for claim in claims if claim.state is ClaimState.WANTED]
    if not claims or len(ends) < len(claims) or min(ends) <= now_ms:
        return None
    for claim in claims:  # the new one never held it
        claim.call, claim.again_ms, claim.is_sent, claim.before = None, 0, False, None
    return max(ends), max(claim.give_up_ms for claim in claims)


def adopted(held: HeldToken, now_ms: int) -> Claim:
    """What a session holds already."""
    claim = Claim(held.token, held.is_shared, held.data, None, now_ms, ClaimState.HELD, keeps_data=held.keeps_data)
    claim.number, claim.is_sent = held.fence.number, True
    return claim


def withdrawn(token: str) -> HeldError:
    """The server took the token before its grant came."""
    return HeldError(f"{token!r} was taken from the session while it was being granted: ask again")


def is_bearable(error: DistkvError) -> bool:
    """Whether the same request may succeed soon."""
    return isinstance(error, UngrantedError | BusyError | NotReadyError)


def error_of(result: TokenReply | DistkvError) -> DistkvError:
    """Why there is not the answer that was asked for."""
    return result if isinstance(result, DistkvError) else RequestError("the node answered something else: report this")


class LastGrants:
    """By which grant a session held each token that it gave back; of the last `HELD_MAX` ones."""

    def __init__(self) -> None:
        self._found: Final = dict[str, GrantNumber]()

    def keep(self, claim: Claim) -> None:
        """It is given back."""
        number = claim.number or claim.before
        if number is not None:
            self._found[claim.token] = number
            if len(self._found) > HELD_MAX:
                del self._found[next(iter(self._found))]

    def take(self, token: str) -> GrantNumber | None:
        """It is asked for again."""
        return self._found.pop(token, None)
