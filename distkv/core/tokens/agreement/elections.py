"""When this server stands for election, who votes for it, and for whom it votes.

Knows: its candidacy, the term it is at, and when to try (again).  Does not know what a leader does.

Invariant: nobody raises its term before a majority said that it would vote, so a server that returns unseats no leader
that works; whoever acknowledged a leader votes for nobody while that one counts on it (`leases`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import attrs

from distkv.core.jump_limit import JUMP
from distkv.core.ready import Rng
from distkv.core.tokens.agreement.leases import LeaderHeard
from distkv.core.tokens.agreement.remembered import Remembered
from distkv.core.tokens.agreement.settings import ConsensusSettings
from distkv.core.tokens.agreement.turn import AgreementTurn
from distkv.core.tokens.state import has_majority
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.token_states import Founding, FoundingTold, TokenHello, VoteAsked, VoteGiven


class Elections:
    """The machine. Where a method gives a term, this server was elected in it."""

    def __init__(self, settings: ConsensusSettings, memory: Remembered, heard: LeaderHeard, rng: Rng) -> None:
        self.stand_ms = 0
        """When it stands, if no leader is heard before; one that cannot stand says that it is there."""
        self.founders: Final = Founders(settings, memory.life)
        self._settings: Final = settings
        self._memory: Final = memory
        self._heard: Final = heard
        self._rng: Final = rng
        self._candidacy: Candidacy | None = None
        self._term_seen = 0
        """The highest that another server refused with."""
        self._hello_ms = 0
        self._began_ms = 0
        self._age_s = 0

    @property
    def term(self) -> int:
        """The highest that it voted in, or in which it heard a leader or accepted a state. The last is needed where a
        disk was lost, and with it a vote: what made the new disk count is of no earlier term than that vote, or else
        the vote does not count any more."""
        return max(self._memory.vote.term, self._heard.term, self._memory.accepted_id.term)

    # -- when

    def begin(self, now_ms: int, age_s: int) -> None:
        """The server starts; `age_s` is for how long the network has existed."""
        self._began_ms = self._hello_ms = self.stand_ms = now_ms
        self._age_s = age_s
        if not self._memory.is_fresh:
            self.put_off(now_ms)
        elif self._settings.others:
            self.stand_ms += int(self._rng.random() * self._settings.round_ms)

    def wake_ms(self) -> int:
        """When `woken` is to be called."""
        return min(self._hello_ms, self.stand_ms) if self._memory.is_fresh else self.stand_ms

    def put_off(self, now_ms: int) -> None:
        """A leader was heard, or one is about to be. Each server waits for another time, so that two rarely stand at
        once."""
        self.stand_ms = now_ms + self._settings.long_ms + int(self._rng.random() * self._settings.lease_ms / 2)

    def withdraw(self) -> None:
        """It does not stand any more."""
        self._candidacy = None

    def woken(self, turn: AgreementTurn) -> int | None:
        """The time in `wake_ms` came."""
        if self._memory.is_fresh:
            return self._go_on_founding(turn)
        if turn.now_ms < self.stand_ms:
            return None
        self._heard.leader = None
        if self._memory.is_member and self._memory.is_voter:
            return self._stand(turn, is_trial=True)
        self.stand_ms = turn.now_ms + self._settings.lease_ms
        turn.tell_all(self._memory.others, self.hello())
        return None

    # -- standing

    def _stand(
        self, turn: AgreementTurn, *, is_trial: bool, lives: Mapping[NodeName, int] | None = None
    ) -> int | None:
        """Ask for votes. `lives` are those of a founding, for which all must vote."""
        self.stand_ms = turn.now_ms + int((1 + self._rng.random()) * self._settings.lease_ms / 4)
        if lives is None and turn.now_ms < self._heard.promised_ms:
            self.stand_ms = max(self.stand_ms, self._heard.promised_ms)
            return None
        term = max(self.term, self._term_seen) + 1
        lists = self._memory.lists
        voters = lives if lives is not None else {name: self._memory.life_of(name) for one in lists for name in one}
        self._candidacy = Candidacy(term, lists, voters, is_trial=is_trial, is_founding=lives is not None)
        if not is_trial:
            self._memory.voted(turn, term, self._settings.me)
        asked = VoteAsked(
            self._settings.servers_hash, self._memory.generation, term, is_trial, self._memory.accepted_id, lives or {}
        )
        turn.tell_all(self._memory.others, asked)
        self._candidacy.voted(self._settings.me, self._memory.life)
        return self._count(turn)

    def given(self, turn: AgreementTurn, voter: NodeName, life: int, given: VoteGiven) -> int | None:
        """A server answers."""
        self.refused(given.voted_term)
        candidacy = self._candidacy
        if candidacy is None or (candidacy.term, candidacy.is_trial) != (given.term, given.is_trial):
            return None
        if given.is_given:
            candidacy.voted(voter, life)
        return self._count(turn)

    def refused(self, term: int) -> None:
        """A server has to do with a later term. Of one that is far away a part counts (docs/protocol, JUMP-3)."""
        self._term_seen = max(self._term_seen, min(term, self.term + JUMP // 2))

    def _count(self, turn: AgreementTurn) -> int | None:
        candidacy = self._candidacy
        if candidacy is None or not candidacy.is_won:
            return None
        self._candidacy = None
        if candidacy.is_trial:
            return self._stand(turn, is_trial=False)
        if self._memory.is_fresh:
            self.found(turn, Founding(dict(candidacy.lives), self.age_s(turn.now_ms), 1))
        return candidacy.term

    # -- voting

    def asked(self, turn: AgreementTurn, candidate: NodeName, life: int, asked: VoteAsked) -> bool:
        """A server asks for the vote. Whether it got it, not for a trial only."""
        if self._memory.generation:
            is_free = turn.now_ms >= self._heard.promised_ms
            is_given = is_free and may_vote(asked, candidate, life, self._memory, self.term)
        else:
            is_given = may_found(asked, candidate, life, self._memory, self._settings.me)
        if is_given and not asked.is_trial:
            self._memory.voted(turn, asked.term, candidate)
            self.put_off(turn.now_ms)
        turn.tell(candidate, VoteGiven(
            self._settings.servers_hash, self._memory.generation, asked.term, asked.is_trial, is_given,
            self.term if self._memory.is_member or self._memory.is_fresh else 0,
        ))
        return is_given and not asked.is_trial

    # -- founding

    def hello(self) -> TokenHello:
        """What a server says that may know less than others."""
        return TokenHello(self._settings.servers_hash, self._memory.generation, self._memory.known_generation)

    def found(self, turn: AgreementTurn, founding: Founding) -> None:
        """This server founds: all hear of it, and so does the store."""
        self._memory.found(turn, founding)
        turn.found(founding)
        told = FoundingTold(self._settings.servers_hash, founding.generation, founding)
        turn.tell_all(self._memory.others, told)

    def age_s(self, now_ms: int) -> int:
        """For how long the network has existed; at least 1."""
        return max(1, self._age_s + (now_ms - self._began_ms) // 1000)

    def _go_on_founding(self, turn: AgreementTurn) -> int | None:
        """Nobody told a founding yet. If the store has one, only a server can say more."""
        now_ms = turn.now_ms
        if now_ms >= self._hello_ms:
            self._hello_ms = now_ms + self._settings.round_ms
            turn.tell_all(self._memory.others, self.hello())
        if now_ms < self.stand_ms:
            return None
        lives = self.founders.fresh_lives(now_ms)
        if lives is not None and not self._memory.known_generation:
            return self._stand(turn, is_trial=False, lives=lives)
        self.stand_ms = self._hello_ms
        return None

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self.founders.check()
        candidacy, vote = self._candidacy, self._memory.vote
        if candidacy is not None:
            candidacy.check()
            is_own = (vote.term, vote.candidate) == (candidacy.term, self._settings.me)
            must(candidacy.is_trial or is_own or vote.term > candidacy.term, "who stands votes for itself")


class Candidacy:
    """One try to become the leader.

    Invariant: in each term a server votes once, and a majority of each list is needed (of a founding: all), so that a
    term has one leader; whoever votes has accepted nothing later than the candidate."""

    def __init__(
        self, term: int, lists: Collection[Collection[NodeName]], lives: Mapping[NodeName, int], *, is_trial: bool,
        is_founding: bool = False,
    ) -> None:  # fmt: skip
        self.term: Final = term
        self.is_trial: Final = is_trial
        """Whether it only asks who would vote for it, so that nobody's term is raised in vain."""
        self.lives: Final = lives
        """With which the voters count."""
        self._lists: Final = lists
        self._is_founding: Final = is_founding
        self._voters: Final = set[NodeName]()

    def voted(self, name: NodeName, life: int) -> None:
        """A server votes for it. Of one whose disk is another than that which counts, the vote does not."""
        if self.lives.get(name) == life:
            self._voters.add(name)

    @property
    def is_won(self) -> bool:
        """Whether that is enough."""
        if self._is_founding:
            return self._voters == self.lives.keys()
        return has_majority(self._lists, self._voters)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(self._voters <= self.lives.keys(), "who votes counts")


def may_vote(asked: VoteAsked, candidate: NodeName, life: int, memory: Remembered, term: int) -> bool:
    """Whether a voter whose promise is over votes for a candidate; `term` is the highest that it has to do with.

    A candidate that has accepted more than the voter knows better in which life it counts. With as much they know the
    same."""
    if not memory.is_member or asked.accepted < memory.accepted_id:
        return False
    if asked.accepted == memory.accepted_id and memory.life_of(candidate) != life:
        return False
    return _is_new(asked, candidate, memory, term)


def may_found(asked: VoteAsked, candidate: NodeName, life: int, memory: Remembered, me: NodeName) -> bool:
    """Whether a server that knows of no founding votes for this one."""
    is_right = asked.lives.get(me) == memory.life and asked.lives.get(candidate) == life
    is_new = _is_new(asked, candidate, memory, memory.vote.term)
    return not memory.known_generation and not asked.is_trial and is_right and is_new


def _is_new(asked: VoteAsked, candidate: NodeName, memory: Remembered, term: int) -> bool:
    """A vote that was given is given again, if the answer was lost."""
    if not asked.is_trial and asked.term == term == memory.vote.term:
        return memory.vote.candidate == candidate
    return asked.term > term


HEARD_LEASES: Final = 2


@attrs.frozen(slots=True)
class FounderHeard:
    """What one server said last."""

    life: int
    known: int | None
    """The generation of the founding that it knows; 0: none. None: it did not say."""
    ms: int


class Founders:
    """All that were heard and speak as servers: which of them count depends on the list.

    Invariant: what was said longer ago than `HEARD_LEASES` leases counts as not said."""

    def __init__(self, settings: ConsensusSettings, life: int) -> None:
        self._settings: Final = settings
        self._life: Final = life
        self._heard: Final = dict[NodeName, FounderHeard]()
        self.version = 0
        """The highest that any of the others had accepted, or said that a leader had, since this server started."""

    def heard(self, name: NodeName, life: int, known: int | None, now_ms: int) -> None:
        """Any message of another server, and which founding it knows, if it says that."""
        before = self._heard.get(name)
        if known is None and before is not None and before.life == life:
            known = before.known
        self._heard[name] = FounderHeard(life, known, now_ms)

    @property
    def generation(self) -> int:
        """The highest of a founding that any of the others knows, as far as they said so."""
        return max((one.known or 0 for one in self._heard.values()), default=0)

    def fresh_lives(self, now_ms: int) -> dict[NodeName, int] | None:
        """The lives of all; None: some were not heard, or know of a founding."""
        lives = self.lives(now_ms, self._settings.servers)
        are_fresh = [lives[name] and self._heard[name].known == 0 for name in self._settings.others]
        return lives if all(are_fresh) else None

    def lives(self, now_ms: int, names: Iterable[NodeName]) -> dict[NodeName, int]:
        """The lives of these; 0: it was not heard."""
        since_ms = now_ms - HEARD_LEASES * self._settings.lease_ms
        lives = {name: one.life for name, one in self._heard.items() if one.ms > since_ms}
        lives[self._settings.me] = self._life
        return {name: lives.get(name, 0) for name in names}

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(self._settings.me not in self._heard, "nobody hears itself")
