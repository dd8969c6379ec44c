"""What must be true of token servers at every moment, seen from outside with true time.

Knows: what each server claims by its own clock, and every state that was ever in effect for one.  Does not know how
they come to it.

Invariant: a claim that breaks a promise raises at once, so that a seed fails where it went wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import attrs

from distkv.core.tokens.state import TokenState, state_id
from distkv.model.event import NodeName
from distkv.model.standing import ServerStanding
from distkv.wire.token_states import Founding, ServerBeat, StateId, StateMessage, VoteAsked, VoteGiven

TOKENS = tuple(f"token-{at}" for at in range(10))


@attrs.frozen(slots=True)
class Claim:
    """What one server would act on, once all that it rests on is on the disk."""

    effective: TokenState | None
    leads_until_ms: int
    grants_until_ms: int
    has_parts: bool
    parts: frozenset[str] | None = None
    """Which of `TOKENS` it serves; None: all that are its own."""


class Claimant(Protocol):
    """A server as its claims need it."""

    name: NodeName
    life: int
    claim: Claim | None

    def own_ms(self, now_ms: float) -> int:
        """Its clock."""


class Observer:
    """Sees everything."""

    def __init__(self) -> None:
        self.states: dict[int, TokenState] = {}
        """All that were ever in effect for anybody, by version."""
        self.ended: set[str] = set()
        """The sessions that were asked to end."""
        self.foundings: list[Founding] = []
        self.lives: set[tuple[NodeName, int]] = set()
        """All that were ever admitted."""
        self._owners: dict[StateId, tuple[NodeName | None, ...]] = {}

    def founds(self, founding: Founding) -> None:
        """A server founds."""
        self.foundings.append(founding)
        self.lives.update(founding.servers.items())

    def says(self, name: NodeName, life: int, message: StateMessage) -> None:
        """A message leaves a server: one with another disk than was admitted neither votes nor counts."""
        match message:
            case VoteGiven(is_given=True) | VoteAsked() | ServerBeat(is_member=True) if message.generation:
                assert (name, life) in self.lives, f"{name} in life {life} says {message}, and was never admitted"
            case _:
                pass

    def look(self, one: Claimant, all_of_them: Iterable[Claimant], now_ms: float) -> None:
        """A server's claim is a new one."""
        claim = one.claim
        if claim is None:
            return
        if claim.effective is not None and self.states.get(claim.effective.version) is not claim.effective:
            self._sees(claim.effective, all_of_them, now_ms)
        self.overlaps(all_of_them, now_ms)

    def overlaps(self, all_of_them: Iterable[Claimant], now_ms: float) -> None:
        """No two lead, or grant the same token."""
        leaders = [
            site.name for site in all_of_them if site.claim is not None and site.claim.leads_until_ms
            and site.own_ms(now_ms) < site.claim.leads_until_ms
        ]
        assert len(leaders) <= 1, f"{leaders} lead at the same time"
        granting = [site for site in all_of_them if _may_grant(site, now_ms)]
        if len({_version(site) for site in granting}) > 1:  # who knows the same agrees on who is responsible
            for at, token in enumerate(TOKENS):
                grants = [one.name for one in granting if self._owner(one.claim, at) == one.name and _has(one, token)]
                assert len(grants) <= 1, f"{grants} grant {token} at the same time"

    def _owner(self, claim: Claim | None, at: int) -> NodeName | None:
        assert claim is not None
        assert claim.effective is not None
        which = state_id(claim.effective)
        if which not in self._owners:
            self._owners[which] = tuple(map(claim.effective.server_of, TOKENS))
        return self._owners[which][at]

    def _sees(self, state: TokenState, all_of_them: Iterable[Claimant], now_ms: float) -> None:
        """A state is in effect: it must be on one line with all others."""
        known = self.states.get(state.version)
        assert known in (None, state), f"two states of version {state.version}: {known} and {state}"
        self.states[state.version] = state
        if known is not None:
            return
        versions = sorted(self.states)
        at = versions.index(state.version)
        if at:
            self._follows(self.states[versions[at - 1]], state)
        if at + 1 < len(versions):
            self._follows(state, self.states[versions[at + 1]])
        self.lives.update((name, server.life) for name, server in state.servers.items())
        for site in all_of_them:
            mine = state.servers.get(site.name)
            if (mine is None or mine.standing is ServerStanding.DOWN) and _may_grant(site, now_ms):
                claim = site.claim
                assert claim is not None
                assert claim.effective is not None
                assert claim.effective.version > state.version, f"{site.name} grants, and is down"

    def _follows(self, before: TokenState, after: TokenState) -> None:
        assert before.term <= after.term, f"terms of {before} and {after}"
        for one in before.sessions:
            assert one in after.sessions or one in self.ended, f"session {one} was lost after {before.version}"
        for one in after.sessions:
            assert one in before.sessions or int(one.partition("-")[0]) > before.version, f"session {one} came back"
        for name, server in after.servers.items():
            assert server == before.servers.get(name) or server.since > before.version, f"{name} changed in no version"
        for name, server in before.servers.items():
            is_there = name in after.servers or server.standing is ServerStanding.DOWN
            assert is_there or after.version > before.version + 1, f"{name} served, and is in no list any more"
        is_step = after.version > before.version + 1 or set(before.lists) & set(after.lists)
        assert is_step, f"{before.lists} became {after.lists} at once"


def _may_grant(site: Claimant, now_ms: float) -> bool:
    """Whether it serves what it believes to be responsible for."""
    claim = site.claim
    if claim is None or claim.effective is None or site.own_ms(now_ms) >= claim.grants_until_ms:
        return False
    server = claim.effective.servers.get(site.name)
    if server is None or server.standing is not ServerStanding.READY or server.life != site.life:
        return False
    return claim.has_parts


def _has(site: Claimant, token: str) -> bool:
    """Whether it has what it must know to grant this."""
    return site.claim is not None and (site.claim.parts is None or token in site.claim.parts)


def _version(site: Claimant) -> int:
    return 0 if site.claim is None or site.claim.effective is None else site.claim.effective.version
