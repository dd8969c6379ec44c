"""Clients of the token service in true time: each with a clock of its own, and what it believes to hold.

Knows: the rules by which a client may believe in a token, and what must never be true of two.  Does not know nodes: it
asks one, may leave it for another, and may stand still for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import ceil, floor
from random import Random
from typing import Final, Protocol, TypeAlias

import attrs

from distkv.errors import DistkvError
from distkv.model.event import NodeName
from distkv.model.fence import NO_GRANT, GrantNumber
from distkv.wire.held_tokens import HeldToken
from distkv.wire.token_errors import NotHeldError, SessionExpiredError, UngrantedError
from distkv.wire.token_fields import read_ticket
from distkv.wire.token_replies import SessionKept, SessionOpened, TokenGranted, TokenReply
from distkv.wire.token_requests import (
    TokenAcquire,
    TokenBreak,
    TokenClose,
    TokenKeep,
    TokenOpen,
    TokenRelease,
    TokenRequest,
)

LEASE_MS: Final = 1000
TTL_MS: Final = 3000
LOCK_DELAY_MS: Final = 500
DRIFT: Final = 0.01
REQUESTS: Final = 1_000_000
"""The numbers of a client's requests begin with its own number times this."""

Tell: TypeAlias = Callable[[TokenReply | DistkvError], None]


@attrs.frozen
class Clock:
    """A clock that drifts."""

    offset: int
    rate: float

    def read(self, true_ms: float) -> int:
        return floor(self.offset + true_ms * self.rate)

    def true(self, ms: int) -> float:
        """When it shows this."""
        return (ms - self.offset) / self.rate


class ClientNode(Protocol):
    """A node, as a client sees it."""

    @property
    def is_up(self) -> bool:
        """Whether its process runs, or only stands still."""

    def ask(self, id: int, request: TokenRequest, tell: Tell) -> None:
        """A request has come to the host."""

    def leave(self, client: int) -> list[Tell]:
        """The connection of a client ends; whom it would have told something still."""


class ClientWorld(Protocol):
    """What a client lives in."""

    @property
    def rng(self) -> Random: ...
    @property
    def now(self) -> float:
        """Milliseconds of true time."""

    @property
    def sites(self) -> Mapping[NodeName, ClientNode]: ...
    @property
    def believed(self) -> Beliefs: ...

    def at(self, when: float, what: Callable[[], None]) -> None: ...
    def later(self, ms: float, what: Callable[[], None]) -> None: ...


class Beliefs:
    """What all clients believe to hold, and whether that can be true."""

    def __init__(self, fleet: ClientWorld) -> None:
        self._fleet: Final = fleet
        self._holders: Final = dict[str, dict[Client, HeldToken]]()
        self._highest: Final = dict[str, GrantNumber]()
        self.grants = 0
        self.served: Final = list[tuple[float, str, str]]()

    def begin(self, client: Client, held: HeldToken) -> None:
        holders = self._holders.setdefault(held.token, {})
        for other in [other for other in holders if not other.lives]:
            del holders[other]
        others = {other: found for other, found in holders.items() if other is not client}
        is_alone = not others or (held.is_shared and all(found.is_shared for found in others.values()))
        assert is_alone, f"{client} got {held} at {self._fleet.now:.0f}, beside {others}"
        fence, highest = held.fence.number, self._highest.get(held.token, NO_GRANT)
        if client in holders and holders[client].fence.number == fence:
            return
        if not held.is_shared:
            assert fence > highest, f"{client} got {held} at {self._fleet.now:.0f}, after {highest}"
        self._highest[held.token] = max(fence, highest)
        holders[client] = held
        self.grants += 1

    def end(self, client: Client, token: str) -> None:
        self._holders.get(token, {}).pop(client, None)


class Client:
    """A client's real half: it keeps its session alive, and believes what it may believe."""

    def __init__(self, fleet: ClientWorld, number: int, clock: Clock) -> None:
        self.fleet: Final = fleet
        self.number: Final = number
        self.clock: Final = clock
        self.rng: Final = Random(fleet.rng.random())
        self.session = ""
        self.until_ms = 0
        self.version = self.acked = 0
        self.held: Final = dict[str, HeldToken]()
        self.unsure: Final = set[str]()
        """What it released without knowing the fence: such a release may be late, and is not to undo an acquire."""
        self.releasing: Final = set[str]()
        """What is not asked for before a server said that it is released: else the old grant would be told again."""
        self.wanted: Final = dict[str, int]()
        """Of each token that is asked for, the number of the request that counts."""
        self.is_dead = False
        self.is_idle = False
        self.obtained: Final = list[tuple[str, float]]()
        self.hold_ms: tuple[int, int] = (50, 1500)
        self.open_ms = 0
        self._count = 0
        self._keep = 0
        self._insisted: Final = set[str]()
        self._line = 0
        """Which of its connections it has."""
        self._still_true = 0.0
        self._site = fleet.sites[self.rng.choice(list(fleet.sites))]

    def __repr__(self) -> str:
        return f"client {self.number} ({self.session})"

    @property
    def now_ms(self) -> int:
        return self.clock.read(self.fleet.now)

    @property
    def lives(self) -> bool:
        """Whether its session lives, as it believes."""
        return bool(self.session) and self.now_ms < self.until_ms

    def ask(self, request: TokenRequest, tell: Callable[[TokenReply | DistkvError], None]) -> None:
        site = self._site

        def told(result: TokenReply | DistkvError) -> None:
            self.do(lambda: tell(result))

        if not site.is_up:
            self._move()
            self.fleet.later(30, lambda: told(DistkvError("nobody answers")))
            return
        self._count += 1
        id, line = self.number * REQUESTS + self._count, self._line

        def arrive() -> None:
            if not site.is_up:
                told(DistkvError("the connection broke"))
            elif line != self._line:
                told(DistkvError("the connection was given up"))
            else:
                site.ask(id, request, told)

        self.fleet.later(self.rng.randrange(1, 10), arrive)

    def _move(self) -> None:
        """Perhaps another node is better; at least another connection is: what the old one tells yet is not heard."""
        old, self._site = self._site, self.fleet.sites[self.rng.choice(list(self.fleet.sites))]
        self._line += 1
        for tell in old.leave(self.number):
            self.fleet.later(1, lambda tell=tell: tell(DistkvError("the connection was given up")))  # type: ignore[misc]

    def pause(self, ms: float) -> None:
        """Stand still: what comes is looked at later. It goes on to believe."""
        self._still_true = self.fleet.now + ms

    def do(self, what: Callable[[], None]) -> None:
        """Now, or when it goes on."""
        if self.fleet.now < self._still_true:
            self.fleet.at(self._still_true, lambda: self.do(what))
        else:
            what()

    def later(self, ms: float, what: Callable[[], None]) -> None:
        """When so much time has passed, if it does not stand still then."""
        self.fleet.later(ms, lambda: self.do(what))

    # -- the session

    def open(self) -> None:
        if self.is_dead:
            return
        self.session, sent_ms = "", self.now_ms
        self.wanted.clear()
        self.unsure.clear()
        self.releasing.clear()
        for token in list(self.held):
            self.drop(token)

        def opened(result: TokenReply | DistkvError) -> None:
            if isinstance(result, SessionOpened) and not self.session:
                self.session, self.version, self.acked = result.session, result.version, 0
                self.until_ms = sent_ms + floor(result.ttl_ms * (1 - DRIFT))
                self.keep()
            elif not self.session:
                self.later(200, self.open)

        self.ask(TokenOpen(0, TTL_MS / 1000), opened)

    def keep(self) -> None:
        if self.is_dead:
            return
        if not self.lives:
            self.open()
            return
        self._keep += 1
        number, session, sent_ms = self._keep, self.session, self.now_ms
        self.acked = self.version

        def kept(result: TokenReply | DistkvError) -> None:
            if self.is_dead or session != self.session:
                return
            if not self.lives or isinstance(result, SessionExpiredError):
                self.open()
                return
            if isinstance(result, SessionKept):
                self.until_ms = max(self.until_ms, sent_ms + floor(result.ttl_ms * (1 - DRIFT)))
                self.version = max(self.version, result.version)
                for token in result.lost:
                    self.drop(token)
                    if self.wanted.pop(token, None) is not None:
                        self.release(token)  # a grant that is on its way does not count any more
            if number == self._keep:
                self.later(5 if isinstance(result, SessionKept) else 100, self.keep)

        held = tuple(self.held.values())
        self.ask(TokenKeep(0, session, self.version, held, TTL_MS / 3000), kept)
        self.later(TTL_MS / 2, lambda: self._again(number))

    def _again(self, number: int) -> None:
        """No answer came: perhaps another node is better."""
        if number == self._keep and not self.is_dead:
            self._move()
            self.keep()

    # -- tokens

    def drop(self, token: str) -> None:
        self.held.pop(token, None)
        self.fleet.believed.end(self, token)

    def acquire(self, token: str, *, shared: bool = False, wait_s: float | None = 2.0, ticket: str = "") -> None:
        if self.is_dead or not self.lives or {token} & (self.held.keys() | self.unsure | self.releasing):
            return
        self._count += 1
        number = self.wanted[token] = self._count
        session, since = self.session, self.fleet.now

        def answered(result: TokenReply | DistkvError) -> None:
            if self.is_dead or session != self.session or self.wanted.get(token) != number:
                return
            del self.wanted[token]
            if isinstance(result, TokenGranted) and result.version >= self.acked and self.lives:
                held = HeldToken(token, result.epoch, result.counter, result.is_shared)
                self.fleet.believed.begin(self, held)
                self.held[token] = held
                self.obtained.append((token, self.fleet.now - since))
                long_ms = self.hold_ms[1] * self.rng.choice((1, 1, 5))
                self.later(self.rng.randrange(self.hold_ms[0], long_ms), lambda: self.release(token))
                return
            if isinstance(result, SessionExpiredError):
                self.open()
                return
            kept = result.ticket if isinstance(result, UngrantedError) else None
            if self.rng.random() < 0.8:
                self.later(100, lambda: self._ask_again(token, shared=shared, wait_s=wait_s, ticket=kept or ""))
            else:
                self.release(token)

        asked = TokenAcquire(0, session, token, shared, wait_s, None, read_ticket(ticket) if ticket else None)
        self.ask(asked, answered)

    def _ask_again(self, token: str, *, shared: bool, wait_s: float | None, ticket: str) -> None:
        if not self.is_idle:
            self.acquire(token, shared=shared, wait_s=wait_s, ticket=ticket)
        elif token not in self.wanted:
            self.release(token)

    def release(self, token: str, fence: GrantNumber | None = None, *, is_again: bool = False) -> None:
        """Until it is sure."""
        if self.is_dead or not self.lives or token in self.wanted:
            return
        if token in self.releasing and not is_again:
            return  # one release at a time: the answer to one says nothing of another
        held, session = self.held.get(token), self.session
        fence = fence if held is None else held.fence.number
        if fence is None:
            self.unsure.add(token)
        self.releasing.add(token)
        self.drop(token)

        def released(result: TokenReply | DistkvError) -> None:
            is_over = not isinstance(result, DistkvError) or isinstance(result, NotHeldError | SessionExpiredError)
            if session == self.session and is_over:
                self.releasing.discard(token)
            if session == self.session and is_over and not is_again:
                self.unsure.discard(token)
            elif not is_over and session == self.session and (fence is not None or token not in self.held):
                self.later(100, lambda: self.release(token, fence, is_again=True))

        self.ask(TokenRelease(0, session, token, fence), released)

    def retire(self) -> None:
        """Want nothing more, and give up what is held, as soon as it goes on."""
        self.is_idle, self.hold_ms = True, (1, 2)
        for token in list(self.held):
            self.do(lambda token=token: self.release(token))  # type: ignore[misc]

    def insist(self, tokens: Iterable[str]) -> None:
        """Open a session, and ask for these until all were obtained."""
        self._insisted.update(tokens)
        self.open()
        self._insist()

    @property
    def missing(self) -> frozenset[str]:
        """Of what it insists on, what it did not obtain yet."""
        return frozenset(self._insisted) - {token for token, _ in self.obtained}

    def _insist(self) -> None:
        if self.lives and self.missing & self.unsure:
            self.close()  # what a late release may undo is not asked for in the same session
        for token in sorted(self.missing - self.wanted.keys()):
            self.acquire(token, wait_s=5.0)
        if self.missing:
            self.later(50, self._insist)

    def break_(self, token: str) -> None:
        self.ask(TokenBreak(0, token), lambda _: None)

    def close(self) -> None:
        for token in list(self.held):
            self.drop(token)
        session, self.session = self.session, ""
        self.wanted.clear()
        self.ask(TokenClose(0, session), lambda _: self.later(200, self.open))


def calm_ms() -> int:
    """Within so long of true time all that is wanted is granted once all is well."""
    return ceil(3 * LEASE_MS + TTL_MS + LOCK_DELAY_MS)
