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

from distkv.core.tokens.agreement.beats import Beats
from distkv.core.tokens.agreement.lists import ListStep, is_leaving, next_step, why_waiting
from distkv.core.tokens.agreement.settings import ConsensusSettings
from distkv.core.tokens.state import TokenState, has_majority, state_head, state_id, whole_change
from distkv.model.event import NodeName
from distkv.model.standing import ServerStanding
from distkv.wire.declared import evolve
from distkv.wire.token_states import Founding, LeaderRound, OwnTime, ServerBeat, StateChange, TokenServer

AT_ONCE_MAX: Final = 1000
"""So many sessions are opened, and as many ended, in one version."""
ROUNDS_MAX: Final = 64
"""So many rounds wait for a majority; the oldest is forgotten first."""
GONE_LEASES: Final = 4
"""So long whoever left the list is told of rounds: then it knows, or is away."""
LOST_LEASES: Final = 2
"""A leader that no majority acknowledges for so many leases gives up: others may hear it, and wait in vain."""


@attrs.frozen(slots=True)
class WholeSent:
    """A whole state is on its way to a server; it may be large."""

    number: int
    ms: int


class Leading:
    """The machine of a leader."""

    def __init__(self, settings: ConsensusSettings, term: int, start: int, generation: int, now_ms: int) -> None:
        self.term: Final = term
        self.elected_ms: Final = now_ms
        self.effective: TokenState | None = None
        """As far as it knows: None until its first proposal is in effect."""
        self.next_ms = now_ms
        """When the next round is due."""
        self.beats: Final = Beats(now_ms)
        self.sessions: Final = SessionQueue()
        self.wanted: tuple[NodeName, ...] | None = None
        """The list of servers that is to be in force; None: as it is."""
        self._gone: Final = dict[NodeName, int]()
        """Who is no server any more, and until when it is told so."""
        self._settings: Final = settings
        self._start: Final = start
        self._generation: Final = generation
        self._base: TokenState | None = None
        """That of the proposal."""
        self._before: TokenState | None = None
        """What was in effect before the proposal; the proposal itself when that is in effect."""
        self._proposal: TokenState | None = None
        self._change: StateChange | None = None
        """From the base to it."""
        self._whole: StateChange | None = None
        self._wholes: Final = dict[NodeName, WholeSent]()
        self._rounds: Final = deque[tuple[int, int]]()
        """The number and the begin of those from the last acknowledged one on."""
        self._number = 0
        self._acked = 0
        self._acked_ms = now_ms
        """When the last round began that a majority acknowledged."""
        self.leads_until_ms = 0
        """Until when no other leader can be there: the rule of leases, with its own time at the begin of a round."""

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

    def next_change(self, wanted: ServerStanding, since: int, now_ms: int) -> StateChange | None:
        """What there is to propose, now that everything is in effect; None: nothing, or not yet. `wanted` is what this
        server wants, in the standing that it has since that version."""
        before = self.effective
        if before is None or before is not self._proposal or self._settings.me not in before.servers:
            return None
        step = self._list_step(before, now_ms)
        if step is not None:
            return self._listed(before, step)
        mine = (wanted, since)
        servers = {name: self._next_server(name, server, mine, now_ms) for name, server in before.servers.items()}
        servers = _one_after_another(before, servers)
        is_moved = any(one is not None for one in servers.values())
        opened, ended = self.sessions.take(before)
        if not (is_moved or opened or ended):
            return None
        version = before.version + max(1, len(opened))
        ids = {f"{before.version + 1 + at}-{tag}": ttl_ms for at, (ttl_ms, tag) in enumerate(opened)}
        state = attrs.evolve(
            before,
            version=version,
            servers={name: before.servers[name] if one is None else evolve(one, since=version)
                     for name, one in servers.items()},
            changed=version if is_moved else before.changed,
        )
        return StateChange(state_head(state), state_id(before), ids, tuple(ended))

    def _list_step(self, before: TokenState, now_ms: int) -> ListStep | None:
        """What is to become of the list. A version has this, or something else."""
        if self.wanted is None and not before.next and before.list == before.names:
            return None
        if self.wanted == before.list and not before.next:
            self.wanted = None
        lives = self.beats.lives(now_ms - self._settings.long_ms)
        having = [name for name in self._counting() if self.beats.seen[name].accepted == state_id(before)]
        counting = [self._settings.me, *(name for name in having if name in lives)]
        return next_step(before, self.wanted, lives, counting)

    def _listed(self, before: TokenState, step: ListStep) -> StateChange:
        version = before.version + 1
        servers = {
            name: one if name in before.servers and before.servers[name] is one else evolve(one, since=version)
            for name, one in sorted(step.servers.items())
        }
        state = attrs.evolve(before, version=version, servers=servers, list=step.list, next=step.next)
        return StateChange(state_head(state), state_id(before), {})

    def waits_for(self, wanted: tuple[NodeName, ...], now_ms: int) -> str:
        """What a change to this list waits for, in words; empty: it is done."""
        if self.effective is None:
            return "a majority of the servers"
        return why_waiting(self.effective, wanted, self.beats.lives(now_ms - self._settings.long_ms))

    def propose(self, change: StateChange, base: TokenState | None, state: TokenState) -> None:
        """It goes out with the next round. This server has accepted it."""
        self._base, self._proposal, self._change, self._whole = base, state, change, None
        self._before = state if base is None else base
        self._reckon()

    def _next_server(
        self, name: NodeName, server: TokenServer, mine: tuple[ServerStanding, int], now_ms: int
    ) -> TokenServer | None:
        """What a server becomes; None: it stays what it is. A new life is admitted only after the old one was declared
        down: that one may hang, with a lease."""
        life, wish = self._wish(name, server, mine, now_ms)
        if server.standing is ServerStanding.DOWN:
            may_boot = wish is ServerStanding.BOOTING and self.effective is not None and name in self.effective.lasting
            return TokenServer(ServerStanding.BOOTING, life, 0) if may_boot else None
        if self._is_gone(name, server, wish, now_ms):
            return TokenServer(ServerStanding.DOWN, server.life, 0)
        if server.standing is ServerStanding.BOOTING and wish is ServerStanding.READY and life == server.life:
            return TokenServer(ServerStanding.READY, server.life, 0)
        if server.standing is ServerStanding.READY and self.effective is not None and is_leaving(self.effective, name):
            return TokenServer(ServerStanding.LEAVING, server.life, 0)
        return None

    def _is_gone(self, name: NodeName, server: TokenServer, wish: ServerStanding | None, now_ms: int) -> bool:
        """Whether a server has no lease any more, or needs none: it has handed over all. Of itself this one knows at
        once that it forgot what it served."""
        if server.standing is ServerStanding.LEAVING and wish is ServerStanding.BOOTING:
            return True
        if name == self._settings.me:
            return server.standing is ServerStanding.READY and wish is ServerStanding.BOOTING
        return now_ms >= self.beats.alive_ms(name, server) + self._settings.long_ms

    def _wish(
        self, name: NodeName, server: TokenServer, mine: tuple[ServerStanding, int], now_ms: int
    ) -> tuple[int, ServerStanding | None]:
        """A server's life, and what it wants in the standing that it has."""
        if name == self._settings.me:
            return server.life, mine[0] if mine[1] == server.since else None
        seen = self.beats.seen.get(name)
        if seen is None or now_ms >= seen.heard_ms + self._settings.long_ms:
            return server.life, None
        wish = next((one for one in ServerStanding if seen.wants(one, server)), None)
        return seen.life, wish

    # -- what comes back

    def heard(self, name: NodeName, life: int, beat: ServerBeat, now_ms: int) -> None:
        """A beat of another server, in this term. It acknowledges no round that was not begun."""
        state, is_known = self._proposal, beat.number <= self._number
        if state is not None and is_known and (name in state.servers or name in (self.wanted or ())):
            self.beats.take(name, life, beat, state.servers.get(name), now_ms)
            self._reckon()

    def bring_into_effect(self) -> bool:
        """The proposal is in effect if a majority has it. Whether that is new."""
        state = self._proposal
        if state is None or state is self.effective:
            return False
        having = [name for name in self._counting() if self.beats.seen[name].accepted == state_id(state)]
        if not has_majority(state.lists, [self._settings.me, *having]):
            return False
        for name in self._before.servers if self._before is not None else ():
            if name not in state.servers and name != self._settings.me:
                self._gone[name] = self.next_ms + GONE_LEASES * self._settings.long_ms
        self.effective = self._before = state
        self._reckon()
        return True

    def _reckon(self) -> None:
        """How long it leads, after something that counts for that has changed."""
        if self._proposal is None:
            return
        by_name = {name: self.beats.seen[name].acked for name in self._counting()} | {self._settings.me: self._number}
        acked = min(self._number, *(_majority_number(one, by_name) for one in self._proposal.lists))
        if acked > self._acked:
            self._acked = acked
            while self._rounds and self._rounds[0][0] <= acked:
                self._acked_ms = self._rounds.popleft()[1]
        if self._acked and self.effective is not None:
            self.leads_until_ms = self._acked_ms + self._settings.short_ms

    def is_lost(self, now_ms: int) -> bool:
        """Whether it should give up."""
        return now_ms >= self._acked_ms + LOST_LEASES * self._settings.long_ms

    def _counting(self) -> Iterator[NodeName]:
        """The others that count: members, with the life that both the proposal and the state before it have."""
        if self._proposal is None or self._before is None:
            return
        for name, seen in self.beats.seen.items():
            before, after = self._before.servers.get(name), self._proposal.servers.get(name)
            is_in_both = before is not None and after is not None and seen.life == before.life == after.life
            if is_in_both and seen.newest.is_member:
                yield name

    # -- rounds

    def begin_round(self, now_ms: int) -> Iterable[tuple[NodeName, LeaderRound]]:
        """What each of the others is told."""
        self._number += 1
        self._rounds.append((self._number, now_ms))
        if len(self._rounds) > ROUNDS_MAX:
            self._rounds.popleft()
        self._reckon()
        self.next_ms = now_ms + self._settings.round_ms
        effective = None if self.effective is None else state_id(self.effective)
        for name in self._told(now_ms):
            yield name, LeaderRound(
                self._settings.servers_hash, self._generation, self.term, self._number, self._acked, effective,
                self._named(name), self._change_for(name, now_ms),
            )

    def _told(self, now_ms: int) -> list[NodeName]:
        """Who is told of a round: all servers, those that are wanted, and for a while those that are none any more."""
        for name in [name for name, until_ms in self._gone.items() if now_ms >= until_ms]:
            del self._gone[name]
        some = [state.servers for state in (self._proposal, self.effective) if state is not None]
        names = dict.fromkeys([name for one in [*some, self.wanted or (), self._gone] for name in one])
        return [name for name in names if name != self._settings.me]

    def _named(self, name: NodeName) -> OwnTime | None:
        """The own time by which a server may reckon its lease."""
        seen = self.beats.seen.get(name)
        if seen is None or self.effective is None or self._proposal is None:
            return None
        before, after = self.effective.servers.get(name), self._proposal.servers.get(name)
        if before is None or after is None:
            return None
        is_falling = before.standing is not ServerStanding.DOWN and after.standing is ServerStanding.DOWN
        return None if is_falling or not seen.life == before.life == after.life else seen.counting

    def _change_for(self, name: NodeName, now_ms: int) -> StateChange | None:
        """What a server lacks. Of whom nothing was heard yet, it is thought that it has what is usual."""
        seen, state = self.beats.seen.get(name), self._proposal
        is_wanted = state is not None and name not in state.servers and name not in self._gone
        if state is None or is_wanted or (seen is not None and seen.accepted == state_id(state)):
            return None
        if seen is None or self._base is None or seen.accepted == state_id(self._base):
            return self._change
        sent = self._wholes.get(name)
        if sent is not None and seen.newest.number < sent.number and now_ms < sent.ms + self._settings.lease_ms:
            return None
        self._wholes[name] = WholeSent(self._number, now_ms)
        if self._whole is None:
            self._whole = whole_change(state)
        return self._whole


def _one_after_another(
    before: TokenState, servers: dict[NodeName, TokenServer | None]
) -> dict[NodeName, TokenServer | None]:
    """Of those who join one boots after another: else each would ask all sessions what the others might have."""
    booting = [name for name, one in before.servers.items() if one.standing is ServerStanding.BOOTING]
    joining = [name for name, one in servers.items() if one is not None and name not in before.list
               and one.standing is ServerStanding.BOOTING]  # fmt: skip
    late = joining if booting else joining[1:]
    return servers | dict.fromkeys(late)


def _majority_number(names: Iterable[NodeName], acked: Mapping[NodeName, int]) -> int:
    """The highest round that a majority of a list has acknowledged."""
    numbers = sorted([acked.get(name, 0) for name in names], reverse=True)
    return numbers[len(numbers) // 2]


class SessionQueue:
    """What is to be opened and ended in the next versions."""

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
