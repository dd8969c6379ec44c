"""What a token server must not forget: the founding, its vote, and the last state that it accepted.

Knows: the slots in which these are kept, and what they make of this server.  Does not know who leads, nor what is in
effect.

Invariant: the slots are those of this life of the directory; the accepted state is of the founding beside it, and its
(term, version) only grows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from distkv.core.tokens.agreement.settings import ConsensusSettings
from distkv.core.tokens.agreement.turn import AgreementTurn
from distkv.core.tokens.state import TokenState, applied, state_id, state_of
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.declared import pack
from distkv.wire.token_states import (
    Founding,
    StateChange,
    StateId,
    StateVote,
    decode_founding,
    decode_head,
    decode_number,
    decode_vote,
)

SESSION: Final = "session/"
KEYS: Final = ("admitted", "founding", "life", "state", "vote")


class Remembered:
    """What is on the disk, or is on its way there."""

    def __init__(self, settings: ConsensusSettings, life: int) -> None:
        self.life: Final = life
        self.founding: Founding | None = None
        self.entry: Founding | None = None
        """The newest that the store had since the start. It decides nothing: anybody can write there (docs/protocol,
        QUORUM-21)."""
        self.vote = StateVote(0, None)
        self.accepted: TokenState | None = None
        self._admitted = False
        self._settings: Final = settings
        self._me: Final = settings.me

    def restore(self, turn: AgreementTurn, slots: Mapping[str, bytes]) -> None:
        """What the disk has. If it was written in another life, it is void, and removed.

        Raises:
            DecodeError: a slot is damaged.
        """
        if "life" not in slots or decode_number(slots["life"]) != self.life:
            for key in sorted(slots):
                if key in KEYS or key.startswith(SESSION):
                    turn.keep(key, None)
            turn.keep("life", pack(self.life))
            return
        self.founding = decode_founding(slots["founding"]) if "founding" in slots else None
        self.vote = decode_vote(slots["vote"]) if "vote" in slots else self.vote
        self._admitted = "admitted" in slots
        if "state" in slots:
            sessions = {
                key.removeprefix(SESSION): decode_number(value)
                for key, value in slots.items()
                if key.startswith(SESSION)
            }
            self.accepted = state_of(decode_head(slots["state"]), sessions)

    # -- what it makes of this server

    @property
    def is_fresh(self) -> bool:
        """Whether nobody told it a founding: with all others that are fresh it may found, if the store has none."""
        return self.founding is None

    @property
    def generation(self) -> int:
        """Of the founding; 0: there is none."""
        return 0 if self.founding is None else self.founding.generation

    @property
    def known_generation(self) -> int:
        """The highest, also of the entry in the store; 0: there is none, so it may found."""
        return max(self.generation, 0 if self.entry is None else self.entry.generation)

    @property
    def is_behind(self) -> bool:
        """Whether the store has a later founding than it was told, or a later list: then it asks the servers."""
        entry, known = self.entry, self.founding
        if entry is None or known is None:
            return entry is not None
        return (entry.generation, entry.version) > (known.generation, known.version)

    @property
    def listed(self) -> tuple[NodeName, ...]:
        """The list as a node knows it that takes no part, also by the store; empty: it knows none."""
        newest = self.entry if self.is_behind else self.founding
        return () if newest is None else tuple(sorted(newest.servers))

    @property
    def accepted_id(self) -> StateId:
        """Of the last state that it accepted."""
        return state_id(self.accepted)

    @property
    def lists(self) -> tuple[tuple[NodeName, ...], ...]:
        """Of which a majority is needed, as far as this node knows: of the newest list, or of two. What it accepted may
        be older than what the store has, if it was away, or left."""
        accepted, founding = self.accepted, self.founding
        if accepted is not None and (founding is None or founding.version <= accepted.version):
            return accepted.lists
        return ((self._settings.servers if founding is None else tuple(sorted(founding.servers))),)

    @property
    def servers(self) -> Collection[NodeName]:
        """Who has to do with the newest list of which this node knows; what it accepted may be older than that."""
        accepted, founding = self.accepted, self.founding
        if accepted is not None and (founding is None or founding.version <= accepted.version):
            return accepted.servers
        return self._settings.servers if founding is None else founding.servers

    @property
    def others(self) -> list[NodeName]:
        """All that may know more: also those that the settings name."""
        known = self.accepted.servers if self.accepted is not None else ()
        return [name for name in dict.fromkeys([*self.servers, *known, *self._settings.servers]) if name != self._me]

    @property
    def is_server(self) -> bool:
        """Whether it is one of them, as far as it knows."""
        return self._me in self.servers or self.is_departing

    @property
    def is_departing(self) -> bool:
        """Whether it accepted a list without itself that may not be in force yet. Perhaps nobody else has accepted it:
        then only this server can bring it into force, as in Raft."""
        accepted, founding = self.accepted, self.founding
        if accepted is None or founding is None or self._me in accepted.servers:
            return False
        return self._admitted and founding.version < accepted.version

    @property
    def is_voter(self) -> bool:
        """Whether it may stand: it is in a list, and did not only begin to join."""
        return self.is_departing or any(self._me in one for one in self.lists)

    @property
    def is_member(self) -> bool:
        """Whether it counts: its life is the one of the founding, or a state that has it was in effect."""
        is_right = self.life_of(self._me) == self.life or self.is_departing
        return self._admitted and bool(self.generation) and is_right

    def life_of(self, name: NodeName) -> int:
        """The life with which a server counts in the last state that this one accepted; 0: it does not."""
        if self.accepted is not None:
            return self.accepted.servers[name].life if name in self.accepted.servers else 0
        return self.founding.servers.get(name, 0) if self.founding is not None else 0

    # -- what becomes of it

    def voted(self, turn: AgreementTurn, term: int, candidate: NodeName) -> None:
        """Durable before the candidate hears of it."""
        self.vote = StateVote(term, candidate)
        turn.keep("vote", pack(self.vote))

    def accept(self, turn: AgreementTurn, state: TokenState, change: StateChange) -> None:
        """A state in the place of the one before; only what differs is written."""
        before = self.accepted
        opened: Mapping[str, int] = change.opened
        ended: Collection[str] = change.ended
        if change.base is None and before is not None:
            opened = {one: ttl for one, ttl in change.opened.items() if before.sessions.get(one) != ttl}
            ended = [one for one in before.sessions if one not in change.opened]
        self.accepted = state
        turn.keep("state", pack(change.head))
        for one, ttl in opened.items():
            turn.keep(SESSION + one, pack(ttl))
        for one in ended:
            turn.keep(SESSION + one, None)

    def admit(self, turn: AgreementTurn) -> None:
        """A state that has this server's life is in effect: from now on it counts."""
        if not self._admitted:
            self._admitted = True
            turn.keep("admitted", pack(1))

    def found(self, turn: AgreementTurn, founding: Founding) -> None:
        """A founding, or one of a higher generation than before: what was agreed under a lower one is void.

        The term of the vote stays, so that terms only grow."""
        for one in self.accepted.sessions if self.accepted is not None else ():
            turn.keep(SESSION + one, None)
        if self.accepted is not None:
            turn.keep("state", None)
        self.accepted, self.founding = None, founding
        self.vote = StateVote(self.vote.term, None)
        self._admitted = founding.servers.get(self._me) == self.life
        turn.keep("founding", pack(founding))
        turn.keep("vote", pack(self.vote))
        turn.keep("admitted", pack(1) if self._admitted else None)

    def relist(self, turn: AgreementTurn, founding: Founding) -> None:
        """Another list came into force: what was agreed goes on."""
        self.founding = founding
        turn.keep("founding", pack(founding))

    def applied(self, change: StateChange) -> TokenState | None:
        """What the accepted state becomes by a change; None: it is for another one."""
        return applied(self.accepted, change)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        accepted = self.accepted
        must(accepted is None or self.founding is not None, "what was accepted belongs to a founding")
