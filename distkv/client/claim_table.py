"""All tokens that a session wants, holds or gives up, and the data that it stores in them.

Knows: what becomes of each when it is wished for, answered, taken, or late.  Does not know how long the session lives
(`keep_alive`), nor connections (`holding`). The time is an argument, in milliseconds of the client's clock.

Invariant: no token is asked for before a server said that an earlier claim of it is released. Whoever wishes something
is told once what became of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import attrs

from distkv.client import claims
from distkv.client.claims import AGAIN_MS, Claim, ClaimState, LastGrants
from distkv.client.holding_news import (
    DataAnswered,
    SessionNews,
    TokenObtained,
    TokenRefused,
    TokenReleased,
    TokenTaken,
)
from distkv.errors import BusyError, DistkvError, RequestError
from distkv.model.fence import GrantNumber
from distkv.wire.held_tokens import HELD_MAX, HeldToken
from distkv.wire.token_errors import NotHeldError
from distkv.wire.token_replies import TokenGranted, TokenReply
from distkv.wire.token_requests import TokenAcquire, TokenData, TokenRelease

ClaimRequest: TypeAlias = TokenAcquire | TokenRelease | TokenData
"""What is asked about tokens."""


class ClaimTable:
    """The claims of one session, and its writes of data."""

    def __init__(self, tell: Callable[[SessionNews], object], let_go_ms: int) -> None:
        """`tell`: called with what the user is to be told; `let_go_ms`: so long whoever works under a token that was
        taken may go on."""
        self._tell: Final = tell
        self._let_go_ms: Final = let_go_ms
        self._claims: Final = dict[str, Claim]()
        self._before: Final = LastGrants()
        self._writes: Final = DataWrites()

    # -- reading

    @property
    def is_settled(self) -> bool:
        """Whether no release is under way. May be asked while another thread changes it."""
        return not any(claim.state is ClaimState.RELEASING for claim in list(self._claims.values()))

    def get(self, token: str) -> Claim | None:
        """What is to be had of a token, or given up; None: nothing."""
        return self._claims.get(token)

    def held(self, token: str) -> Claim | None:
        """A token that was granted and not taken; None: it was not."""
        claim = self._claims.get(token)
        return claim if claim is not None and claim.state is ClaimState.HELD else None

    def listed(self, *, with_data: bool) -> tuple[HeldToken, ...]:
        """What a keep-alive names: all that is held, or was and is not let go yet."""
        return tuple([claim.held(with_data=with_data) for claim in self._claims.values() if claim.is_listed])

    def wake_ms(self, *, can_ask: bool) -> int | None:
        """When there is something to do because time passed."""
        moments = [claim.wake_ms(can_ask=can_ask) for claim in self._claims.values()]
        moments.append(self._writes.wake_ms(can_ask=can_ask))
        return min((ms for ms in moments if ms is not None), default=None)

    # -- what the user wants

    def adopt(self, held: Iterable[HeldToken], now_ms: int) -> None:
        """The session holds these already."""
        for one in held:
            self._claims[one.token] = claims.adopted(one, now_ms)

    def want(self, claim: Claim) -> None:
        """Ask for a token, until it is obtained or refused.

        Raises:
            RequestError: the session has asked for it already, or may not ask for it again.
            BusyError: it has too many.
        """
        token = claim.token
        old = self._claims.get(token)
        if old is not None and old.state is ClaimState.BARRED:
            raise BusyError(f"a late release could undo it if this session held {token!r} again: open another session")
        if old is not None:
            raise RequestError(f"the session has asked for {token!r} already, or is giving it up: wait for the answer")
        if len(self._claims) >= HELD_MAX:
            raise BusyError(f"a session holds at most {HELD_MAX} tokens: release some, or open another one")
        self._claims[token], claim.before = claim, self._before.take(token)

    def release(self, token: str, now_ms: int) -> None:
        """Give up a token, or the wish to have it."""
        claim = self._claims.get(token)
        if claim is not None and claim.state is ClaimState.TAKEN:
            self.let_go(token, now_ms)
        elif claim is not None and claim.state in (ClaimState.WANTED, ClaimState.HELD):
            self._give_back(claim, now_ms)

    def let_go(self, token: str, now_ms: int) -> None:
        """Nobody works under a token any more that was taken."""
        claim = self._claims.get(token)
        if claim is not None and claim.state is ClaimState.TAKEN:
            claim.give_back(now_ms)  # by its fence: the loss that was told may have been of an earlier one

    def set_data(self, token: str, data: bytes | None, give_up_ms: int, *, keeps_data: bool) -> int:
        """Change the data of a token that is held; the number of the answer. Raises BusyError: too many changes."""
        return self._writes.add(token, data, give_up_ms, keeps_data=keeps_data)

    def forget(self) -> None:
        """The user ends the session: he wants to know of nothing."""
        self._claims.clear()
        for write in self._writes.of_token(None):
            self._writes.finish(write)

    # -- what the session goes through

    def begin_anew(self, now_ms: int) -> tuple[int, int] | None:
        """Another session asks for what is wanted. See `claims.begun_anew`."""
        return claims.begun_anew(self._claims.values(), now_ms)

    def end(self, why: DistkvError) -> None:
        """The session is over."""
        for claim in self._claims.values():
            if claim.state is ClaimState.HELD:
                self._tell(TokenTaken(claim.token, str(why)))
            elif claim.state is ClaimState.WANTED:
                self._tell(TokenRefused(claim.token, why))
        self._fail_writes(None, why)
        self._claims.clear()

    def connection_lost(self) -> None:
        """What was under way is asked again."""
        for claim in self._claims.values():
            claim.connection_lost()
        self._writes.connection_lost()

    def look(self, lost: DistkvError | None, now_ms: int) -> None:
        """What is over because time passed. `lost`: why there is no connection."""
        for claim in list(self._claims.values()):
            if claim.state is ClaimState.WANTED and now_ms >= claim.give_up_ms:
                self._refuse(claim, claim.why_given_up(lost), now_ms)
            elif claim.state is ClaimState.TAKEN and now_ms >= claim.let_go_ms:
                claim.give_back(now_ms)
        for write in self._writes.late(now_ms):
            self._finish(write, lost or RequestError("no server stored the data in time"))

    def ask(self, session: str, send: Callable[[ClaimRequest], int], now_ms: int) -> None:
        """Ask whatever is due; `send` gives the number of the question."""
        for claim in self._claims.values():
            request = claim.request(session, now_ms)
            if request is not None:
                claim.is_sent = True
                claim.call = send(request)
        for write in self._writes.to_send(now_ms):
            write.call = send(write.request(session, self._claims[write.token].number))

    # -- what is answered

    def answered(
        self, request: ClaimRequest, id: int, result: TokenReply | DistkvError, named: int | None, now_ms: int
    ) -> None:
        """A question was answered. `named`: the newest version that the session named; None: it does not live."""
        if isinstance(request, TokenData):
            self._take_data(id, result, now_ms)
            return
        claim = self._claims.get(request.token)
        if claim is not None and claim.call == id:
            claim.call = None
            self._take_claim(claim, result, named, now_ms)

    def lost(self, tokens: Iterable[str]) -> list[Claim]:
        """Those of tokens that the server took of which that is news."""
        taken = [claim for name in tokens if (claim := self._claims.get(name)) is not None]
        return [claim for claim in taken if claim.state in (ClaimState.HELD, ClaimState.WANTED)]

    def lose(self, claim: Claim, now_ms: int) -> None:
        """The server took a token, perhaps before its grant has come: such a grant does not count any more."""
        if claim.state is ClaimState.WANTED:
            self._refuse(claim, claims.withdrawn(claim.token), now_ms)
            return
        claim.taken(now_ms + self._let_go_ms)
        text = f"the token {claim.token!r} was taken from the session: somebody broke it, or it was claimed twice"
        self._fail_writes(claim.token, NotHeldError(text))
        self._tell(TokenTaken(claim.token, text))

    # -- inside

    def _take_claim(self, claim: Claim, result: TokenReply | DistkvError, named: int | None, now_ms: int) -> None:
        if claim.state is ClaimState.RELEASING:
            if claim.release_answered(result if isinstance(result, DistkvError) else None, now_ms):
                if claim.state is ClaimState.RELEASING:
                    self._drop(claim)
                self._tell(TokenReleased(claim.token))
        elif isinstance(result, TokenGranted):
            if named is not None and claim.granted(result, named, now_ms):
                self._tell(TokenObtained(claim.token, claim.shown_fence()))
        else:
            error = claim.refused(claims.error_of(result), now_ms)
            if error is not None:
                self._refuse(claim, error, now_ms)

    def _refuse(self, claim: Claim, error: DistkvError, now_ms: int) -> None:
        """It is given up. Where a grant may still come, it is released until a server says so."""
        self._tell(TokenRefused(claim.token, error))
        if claim.is_sent:
            self._give_back(claim, now_ms)
        else:
            self._drop(claim)

    def _drop(self, claim: Claim) -> None:
        """Nothing is asked about it any more."""
        del self._claims[claim.token]
        self._before.keep(claim)

    def _give_back(self, claim: Claim, now_ms: int) -> None:
        self._fail_writes(claim.token, NotHeldError(f"{claim.token!r} was released before its data was stored"))
        if claim.is_sent:
            claim.give_back(now_ms)
        else:
            self._drop(claim)
            self._tell(TokenReleased(claim.token))

    def _take_data(self, id: int, result: TokenReply | DistkvError, now_ms: int) -> None:
        write, error = self._writes.of_call(id), result if isinstance(result, DistkvError) else None
        if write is not None and error is not None and claims.is_bearable(error):
            self._writes.again(write, now_ms)
        elif write is not None:
            claim = self._claims.get(write.token)
            if claim is not None and error is None:
                claim.data, claim.keeps_data, claim.change = write.data, write.keeps_data, write.number
            self._finish(write, error)

    def _fail_writes(self, token: str | None, error: DistkvError) -> None:
        """Those of one token; None: all."""
        for write in self._writes.of_token(token):
            self._finish(write, error)

    def _finish(self, write: DataWrite, error: DistkvError | None) -> None:
        self._writes.finish(write)
        self._tell(DataAnswered(write.number, error))


WRITES_MAX: Final = 1000


@attrs.define(slots=True)
class DataWrite:
    """Data that a session stores in a token which it holds. All times are milliseconds of the client's clock."""

    number: int
    token: str
    data: bytes | None
    """Packed."""
    give_up_ms: int
    call: int | None = None
    """The request that is under way."""
    again_ms: int = 0
    keeps_data: bool = False

    def request(self, session: str, number: GrantNumber | None) -> TokenData:
        """As it is asked."""
        return TokenData(0, session, self.token, self.data, number, self.number, self.keeps_data)


class DataWrites:
    """All of a session: which are under way, and which wait.

    Invariant: of each token one write is under way at the most, so they take place in the order in which they were
    asked; each is told once what became of it."""

    def __init__(self) -> None:
        self._writes: Final = dict[int, DataWrite]()
        self._number = 0

    def add(self, token: str, data: bytes | None, give_up_ms: int, *, keeps_data: bool = False) -> int:
        """One more; its number.

        Raises:
            BusyError: too many are under way.
        """
        if len(self._writes) >= WRITES_MAX:
            raise BusyError(f"{WRITES_MAX} changes of data are under way in this session: wait for some of them")
        self._number += 1
        self._writes[self._number] = DataWrite(self._number, token, data, give_up_ms, keeps_data=keeps_data)
        return self._number

    def to_send(self, now_ms: int) -> list[DataWrite]:
        """The first of each token, unless it is under way or was refused just now."""
        return [write for write in self._firsts() if write.call is None and now_ms >= write.again_ms]

    def of_call(self, call: int) -> DataWrite | None:
        return next((write for write in self._writes.values() if write.call == call), None)

    def again(self, write: DataWrite, now_ms: int) -> None:
        """It could not be carried out: it is sent again."""
        write.call, write.again_ms = None, now_ms + AGAIN_MS

    def finish(self, write: DataWrite) -> None:
        """Its user is told."""
        self._writes.pop(write.number, None)

    def late(self, now_ms: int) -> list[DataWrite]:
        """Those whose time is over."""
        return [write for write in self._writes.values() if now_ms >= write.give_up_ms]

    def of_token(self, token: str | None) -> list[DataWrite]:
        """Of one token; None: of all."""
        return [write for write in self._writes.values() if token in (None, write.token)]

    def connection_lost(self) -> None:
        for write in self._writes.values():
            write.call = None

    def wake_ms(self, *, can_ask: bool) -> int | None:
        """When there is something to do because time passed."""
        moments = [write.give_up_ms for write in self._writes.values()]
        moments += [write.again_ms for write in self._firsts() if can_ask and write.call is None]
        return min(moments, default=None)

    # -- inside

    def _firsts(self) -> list[DataWrite]:
        firsts = dict[str, DataWrite]()
        for write in self._writes.values():
            firsts.setdefault(write.token, write)
        return list(firsts.values())
