"""The leader of one term: its rounds, and what it proposes.

Knows: what it heard from the servers, what is proposed and what is in effect.  Does not know how it was elected, nor
who writes and sends what it wants.

Invariant: a version is proposed only when the one before it is on the disks of a majority of each of its lists; of the
servers only those count whose life is the same in both. A server that is not down in what is in effect, and is in what
is proposed, is named in no round: its lease must run out before others take over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import attrs

from distkv.core.tokens.agreement.beats import Beats, WholeSent
from distkv.core.tokens.agreement.lists import ListStep, next_step, why_waiting
from distkv.core.tokens.agreement.settings import ConsensusSettings
from distkv.core.tokens.agreement.standings import Standings, Wish, next_servers
from distkv.core.tokens.state import TokenState, has_majority, state_head, state_id, whole_change
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.model.standing import ServerStanding
from distkv.wire.token_states import Founding, LeaderRound, OwnTime, ServerBeat, StateChange, StateId, TokenServer

GONE_LEASES: Final = 4
"""So long whoever left the list is told of rounds: then it knows, or is away."""


class Leading:
    """The machine of a leader."""

    def __init__(self, settings: ConsensusSettings, term: int, generation: int, now_ms: int) -> None:
        self.term: Final = term
        self.effective: TokenState | None = None
        """As far as it knows: None until its first proposal is in effect."""
        self.beats: Final = Beats(now_ms)
        self.rounds: Final = Rounds(settings, now_ms)
        self.sessions: Final = SessionQueue()
        self.wanted: tuple[NodeName, ...] | None = None
        """The list of servers that is to be in force; None: as it is."""
        self._gone: Final = dict[NodeName, int]()
        """Who is no server any more, and until when it is told so."""
        self._settings: Final = settings
        self._generation: Final = generation
        self._proposal: Proposal | None = None

    @property
    def leads_until_ms(self) -> int:
        """Until when no other leader can be there; 0: it does not know yet what is in effect."""
        return 0 if self.effective is None else self.rounds.leads_until_ms

    # -- what is proposed

    def first_change(self, found: TokenState | None, founding: Founding) -> StateChange:
        """What a new leader proposes: what it found, once more, or the first state of all."""
        if found is None:
            servers = {name: TokenServer(ServerStanding.DOWN, life, founding.version)
                       for name, life in sorted(founding.servers.items())}
            return whole_change(
                TokenState(self.term, founding.version, self._settings.me, servers, {}, founding.version)
            )
        state = attrs.evolve(found, term=self.term, version=found.version + 1, leader=self._settings.me)
        return StateChange(state_head(state), state_id(found), {})

    def next_change(self, mine: Wish, now_ms: int) -> StateChange | None:
        """What there is to propose, now that everything is in effect; None: nothing, or not yet. `mine` is what this
        server wants itself."""
        proposal = self._proposal
        if proposal is None or not proposal.is_in_effect or self._settings.me not in proposal.state.servers:
            return None
        before = proposal.state
        step = self._list_step(proposal, now_ms)
        if step is not None:
            return self._listed(before, step)
        moved = Standings(self._settings, before, self.beats, mine, now_ms).changed()
        opened, ended = self.sessions.take(before)
        if not (moved or opened or ended):
            return None
        version = before.version + max(1, len(opened))
        ids = {f"{before.version + 1 + at}-{tag}": ttl_ms for at, (ttl_ms, tag) in enumerate(opened)}
        servers = next_servers(before.servers, {**before.servers, **moved}, version)
        changed = version if moved else before.changed
        state = attrs.evolve(before, version=version, servers=servers, changed=changed)
        return StateChange(state_head(state), state_id(before), ids, tuple(ended))

    def _list_step(self, proposal: Proposal, now_ms: int) -> ListStep | None:
        """What is to become of the list. A version has this, or something else."""
        before = proposal.state
        if self.wanted is None and not before.next and before.list == before.names:
            return None
        if self.wanted == before.list and not before.next:
            self.wanted = None
        lives = self._lives(now_ms)
        counting = [self._settings.me, *(name for name in self._having(proposal) if name in lives)]
        return next_step(before, self.wanted, lives, counting)

    def _listed(self, before: TokenState, step: ListStep) -> StateChange:
        version = before.version + 1
        servers = next_servers(before.servers, dict(sorted(step.servers.items())), version)
        state = attrs.evolve(before, version=version, servers=servers, list=step.list, next=step.next)
        return StateChange(state_head(state), state_id(before), {})

    def waits_for(self, wanted: tuple[NodeName, ...], now_ms: int) -> str:
        """What a change to this list waits for, in words; empty: it is done."""
        if self.effective is None:
            return "a majority of the servers"
        return why_waiting(self.effective, wanted, self._lives(now_ms))

    def _lives(self, now_ms: int) -> dict[NodeName, int]:
        """Of the others that are heard."""
        return self.beats.lives(now_ms - self._settings.long_ms)

    def propose(self, change: StateChange, base: TokenState | None, state: TokenState) -> None:
        """It goes out with the next round. This server has accepted it."""
        self._proposal = Proposal(state, base, change)
        self._reckon(self._proposal)

    # -- what comes back

    def heard(self, name: NodeName, life: int, beat: ServerBeat, now_ms: int) -> None:
        """A beat of another server, in this term. It acknowledges no round that was not begun."""
        proposal = self._proposal
        if proposal is None or beat.number > self.rounds.number:
            return
        servers = proposal.state.servers
        if name in servers or name in (self.wanted or ()):
            self.beats.take(name, life, beat, servers.get(name), now_ms)
            self._reckon(proposal)

    def bring_into_effect(self) -> bool:
        """The proposal is in effect if a majority has it. Whether that is new."""
        proposal = self._proposal
        if proposal is None or proposal.is_in_effect:
            return False
        if not has_majority(proposal.state.lists, [self._settings.me, *self._having(proposal)]):
            return False
        for name in proposal.before.servers:
            if name not in proposal.state.servers and name != self._settings.me:
                self._gone[name] = self.rounds.next_ms + GONE_LEASES * self._settings.long_ms
        self.effective, proposal.is_in_effect = proposal.state, True
        self._reckon(proposal)
        return True

    def _having(self, proposal: Proposal) -> list[NodeName]:
        """The others that count, and have what is proposed."""
        return [name for name in self._counting(proposal) if self.beats.seen[name].accepted == proposal.id]

    def _counting(self, proposal: Proposal) -> Iterator[NodeName]:
        """The others that count: members, with the life that both the proposal and the state before it have."""
        for name, seen in self.beats.seen.items():
            if seen.newest.is_member and proposal.has_life(name, seen.life):
                yield name

    def _reckon(self, proposal: Proposal) -> None:
        """How long it leads, after something that counts for that has changed."""
        by_name = {name: self.beats.seen[name].acked for name in self._counting(proposal)}
        by_name[self._settings.me] = self.rounds.number
        self.rounds.acknowledge(min(_majority_number(one, by_name) for one in proposal.state.lists))

    # -- rounds

    def begin_round(self, now_ms: int) -> Iterable[tuple[NodeName, LeaderRound]]:
        """What each of the others is told."""
        proposal, rounds = self._proposal, self.rounds
        if proposal is None:
            return
        rounds.begin(now_ms)
        self._reckon(proposal)
        effective = None if self.effective is None else state_id(self.effective)
        for name in self._told(proposal, now_ms):
            yield name, LeaderRound(
                self._settings.servers_hash, self._generation, self.term, rounds.number, rounds.acked, effective,
                self._named(name, proposal), self._change_for(name, proposal, now_ms),
            )

    def _told(self, proposal: Proposal, now_ms: int) -> list[NodeName]:
        """Who is told of a round: all servers, those that are wanted, and for a while those that are none any more."""
        for name in [name for name, until_ms in self._gone.items() if now_ms >= until_ms]:
            del self._gone[name]
        effective = () if self.effective is None else self.effective.servers
        names = dict.fromkeys([*proposal.state.servers, *effective, *(self.wanted or ()), *self._gone])
        return [name for name in names if name != self._settings.me]

    def _named(self, name: NodeName, proposal: Proposal) -> OwnTime | None:
        """The own time by which a server may reckon its lease."""
        seen = self.beats.seen.get(name)
        if seen is None or self.effective is None or not proposal.has_life(name, seen.life):
            return None
        return None if proposal.is_falling(name) else seen.counting

    def _change_for(self, name: NodeName, proposal: Proposal, now_ms: int) -> StateChange | None:
        """What a server lacks. Of whom nothing was heard yet, it is thought that it has what is usual."""
        seen = self.beats.seen.get(name)
        is_wanted = name not in proposal.state.servers and name not in self._gone
        if is_wanted or (seen is not None and seen.accepted == proposal.id):
            return None
        if seen is None:
            return proposal.change
        change = proposal.change_from(seen.accepted)
        if change is None and not seen.has_whole_to_come(now_ms - self._settings.lease_ms):
            seen.whole = WholeSent(self.rounds.number, now_ms)
            return proposal.whole()
        return change

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self.beats.check()
        self.rounds.check()
        if self._proposal is not None:
            self._proposal.check()
            before = self._proposal.before
            must(self.effective is None or self.effective is before,
                 "a version is proposed when the one before it is in effect")  # fmt: skip


def _majority_number(names: Iterable[NodeName], acked: Mapping[NodeName, int]) -> int:
    """The highest round that a majority of a list has acknowledged."""
    numbers = sorted([acked.get(name, 0) for name in names], reverse=True)
    return numbers[len(numbers) // 2]


@attrs.define(slots=True)
class Proposal:
    """A version that a leader proposes: from which state it was made, by which change, and with whom it counts.

    Invariant: of the servers only those count whose life is the same in what was in effect before and in what is
    proposed."""

    state: TokenState
    base: TokenState | None
    """From which it was made; None: it is the first of all."""
    change: StateChange
    """From the base to it."""
    is_in_effect: bool = False
    _whole: StateChange | None = None

    @property
    def id(self) -> StateId:
        """Of the state."""
        return state_id(self.state)

    @property
    def before(self) -> TokenState:
        """What was in effect before; the proposal itself when that is, or nothing was."""
        return self.state if self.is_in_effect or self.base is None else self.base

    def has_life(self, name: NodeName, life: int) -> bool:
        """Whether a server counts in this life."""
        before, after = self.before.servers.get(name), self.state.servers.get(name)
        return before is not None and after is not None and life == before.life == after.life

    def is_falling(self, name: NodeName) -> bool:
        """Whether a server is to be declared down: until then it must hear of no newer beat of its own."""
        before, after = self.before.servers[name], self.state.servers[name]
        return before.standing is not ServerStanding.DOWN and after.standing is ServerStanding.DOWN

    def change_from(self, accepted: StateId) -> StateChange | None:
        """From this state to what is proposed; None: only the whole of it brings that."""
        return self.change if self.base is None or accepted == state_id(self.base) else None

    def whole(self) -> StateChange:
        """All of it, for who has another state."""
        if self._whole is None:
            self._whole = whole_change(self.state)
        return self._whole

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(self.change.head.id == self.id, "the change leads to what is proposed")
        must(self.base is None or state_id(self.base) < self.id, "what is proposed is later than what it was made from")


ROUNDS_MAX: Final = 64
"""So many rounds wait for a majority; the oldest is forgotten first."""
LOST_LEASES: Final = 2
"""A leader that no majority acknowledges for so many leases gives up: others may hear it, and wait in vain."""


class Rounds:
    """The rounds since the election: which of them a majority acknowledged, and until when the leader leads by that.

    Invariant: a majority acknowledges no round that was not begun; the leader counts `short_ms` from the begin of the
    last one that it did, never from when it heard of that."""

    def __init__(self, settings: ConsensusSettings, now_ms: int) -> None:
        self.number = 0
        """Of the last one that was begun."""
        self.acked = 0
        """The highest that a majority acknowledged."""
        self.next_ms = now_ms
        """When the next one is due."""
        self._settings: Final = settings
        self._acked_ms = now_ms
        """When that one began, or the leader was elected."""
        self._waiting: Final = deque[tuple[int, int]]()
        """The number and the begin of those after it."""

    @property
    def leads_until_ms(self) -> int:
        """Until when no other leader can be there: the rule of leases, with its own time at the begin of a round."""
        return self._acked_ms + self._settings.short_ms if self.acked else 0

    def is_lost(self, now_ms: int) -> bool:
        """Whether the leader should give up."""
        return now_ms >= self._acked_ms + LOST_LEASES * self._settings.long_ms

    def begin(self, now_ms: int) -> None:
        """The next one."""
        self.number += 1
        self._waiting.append((self.number, now_ms))
        if len(self._waiting) > ROUNDS_MAX:
            self._waiting.popleft()
        self.next_ms = now_ms + self._settings.round_ms

    def acknowledge(self, number: int) -> None:
        """A majority did, up to this one."""
        self.acked = max(self.acked, min(number, self.number))
        while self._waiting and self._waiting[0][0] <= self.acked:
            self._acked_ms = self._waiting.popleft()[1]

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        waiting = [number for number, _ in self._waiting]
        must(self.acked <= self.number, "no round is acknowledged that was not begun")
        must(waiting == sorted(waiting) and all(self.acked < one <= self.number for one in waiting),
             "the rounds that wait for a majority are after the last acknowledged one, in their order")  # fmt: skip
        must(len(waiting) <= ROUNDS_MAX, "few rounds wait for a majority")


AT_ONCE_MAX: Final = 1000


class SessionQueue:
    """The sessions that are to be opened and ended in the next versions, in their order.

    Invariant: of what waits at most `AT_ONCE_MAX` sessions are opened, and as many ended, in one version."""

    def __init__(self) -> None:
        self._opening: Final = deque[tuple[int, str]]()
        self._ending: Final = dict[str, None]()

    def __len__(self) -> int:
        return len(self._opening)

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._opening and not self._ending

    def open(self, ttl_ms: int, tag: str) -> None:
        """A session, with this in its id."""
        self._opening.append((ttl_ms, tag))

    def end(self, sessions: Collection[str]) -> None:
        """Those of them that are open when the turn comes."""
        self._ending.update(dict.fromkeys(sessions))

    def take(self, state: TokenState) -> tuple[list[tuple[int, str]], list[str]]:
        """What goes into the version after this one."""
        opened = [self._opening.popleft() for _ in range(min(AT_ONCE_MAX, len(self._opening)))]
        ended = list[str]()
        while self._ending and len(ended) < AT_ONCE_MAX:
            one = next(iter(self._ending))
            del self._ending[one]
            if one in state.sessions:
                ended.append(one)
        return opened, ended
