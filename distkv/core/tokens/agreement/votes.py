"""Standing for election: who voted for this server, and when it votes for another.

Knows: one candidacy, and the rule of a voter.  Does not know when to stand, nor what a leader does.

Invariant: in each term a server votes once, and a majority of each list is needed (of a founding: all), so that a term
has one leader; whoever votes has accepted nothing later than the candidate.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from distkv.core.tokens.agreement.remembered import Remembered
from distkv.core.tokens.state import has_majority
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.token_states import VoteAsked


class Candidacy:
    """One try to become the leader."""

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
