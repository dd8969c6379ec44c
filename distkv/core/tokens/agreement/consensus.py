"""One state for all token servers: who leads, which version is in effect, and until when this server may grant.

Knows: the part of this node in the elections and rounds of its list of servers.  Does not know what a token is, what a
session does, nor how a message travels.

Invariant: of two states that are ever in effect, at whatever servers, one was made from the other, whatever messages
are lost, late or twice, and whatever servers stop, as long as their disks keep what was durable, or a disk that does
not comes back in another life. In each term one server leads. (docs/tokens, The servers.)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, assert_never

from distkv.core.ready import Rng
from distkv.core.tokens.agreement.admission import Admission, NumberLimits
from distkv.core.tokens.agreement.elections import Elections
from distkv.core.tokens.agreement.founding_anew import StoreEntry, founding_anew
from distkv.core.tokens.agreement.leading import Leading
from distkv.core.tokens.agreement.leases import LeaderHeard
from distkv.core.tokens.agreement.remembered import Remembered
from distkv.core.tokens.agreement.settings import ConsensusSettings
from distkv.core.tokens.agreement.standings import Wish
from distkv.core.tokens.agreement.turn import AgreementInput, AgreementTurn, AgreementWoken, EntryRead, StateTold
from distkv.core.tokens.state import TokenState, state_id
from distkv.errors import BusyError, NotReadyError
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.model.standing import ServerStanding
from distkv.wire.token_states import (
    NO_STATE,
    Founding,
    FoundingTold,
    LeaderRound,
    OwnTime,
    ServerBeat,
    StateChange,
    StateId,
    StateMessage,
    TokenHello,
    VoteAsked,
    VoteGiven,
)

STARTS: Final = 1 << 53


class Consensus:
    """The machine. All times are milliseconds of this host's clock that goes on while it sleeps."""

    def __init__(self, settings: ConsensusSettings, life: int, rng: Rng) -> None:
        self.effective: TokenState | None = None
        """The newest state that this server knows to be on the disks of a majority."""
        self._settings: Final = settings
        self._memory: Final = Remembered(settings, life)
        self._heard: Final = LeaderHeard(settings, int(rng.random() * STARTS))
        self._elections: Final = Elections(settings, self._memory, self._heard, rng)
        self._entry: Final = StoreEntry(settings, self._memory, self._elections)
        limits = NumberLimits(self._memory, self._heard, self._elections)
        self.admission: Final = Admission(settings, self._memory, limits)
        self._leading: Leading | None = None
        self._wish: Wish = (ServerStanding.DOWN, 0)
        """What this server said that it wants."""
        self.has_news = False
        """Only read: whether the leader is to hear of this server before its next round."""
        self._is_running = False

    # -- reading

    @property
    def start(self) -> int:
        """By which this start of the server is known. By chance; nobody but the servers hears it."""
        return self._heard.start

    @property
    def is_server(self) -> bool:
        """Whether this node is one of the servers, as far as it knows; else it takes no part."""
        return self._memory.is_server

    @property
    def list(self) -> tuple[NodeName, ...]:
        """The list in force, as far as this node knows; before the founding that of the settings."""
        return self._memory.lists[0] if self.is_server else self._memory.listed or self._memory.lists[0]

    @property
    def next(self) -> tuple[NodeName, ...]:
        """The list that is to take its place; empty: there is none."""
        return (*self._memory.lists, ())[1]

    @property
    def leader(self) -> NodeName | None:
        """Whom this server follows, or itself."""
        return self._settings.me if self._leading is not None else self._heard.leader

    @property
    def term(self) -> int:
        """The highest that it has to do with."""
        return self._elections.term

    @property
    def founding(self) -> Founding | None:
        """Which one it was told, if only of another list."""
        return self._memory.founding

    @property
    def listed(self) -> tuple[NodeName, ...]:
        """Who is to be asked for tokens, also by the store alone; empty: there is no founding yet."""
        return self._memory.listed

    @property
    def is_member(self) -> bool:
        """Whether its vote and its acknowledgements count: the life of its directory was admitted."""
        return self._memory.is_member

    @property
    def grants_until_ms(self) -> int:
        """Until when it may grant what it is responsible for by `effective`, and confirm that; 0: not at all (see
        `leases` for why that is safe)."""
        return self._heard.grants_until_ms

    @property
    def leads_until_ms(self) -> int:
        """Until when it may act as the leader; 0: not at all."""
        return 0 if self._leading is None else self._leading.leads_until_ms

    @property
    def elected_ms(self) -> int:
        """When it was elected, if it leads; else 0."""
        return 0 if self._leading is None else self._leading.beats.elected_ms

    def wake_ms(self) -> int | None:
        """When it wants to be woken, if nothing happens before; None: never."""
        me = self._settings.me
        if not self._is_running or not (self.is_server or self._settings.is_server or me in self._memory.listed):
            return None
        if self.has_news:
            return 0
        next_ms = self._elections.wake_ms() if self._leading is None else self._leading.rounds.next_ms
        return self._entry.wake_ms(next_ms)

    # -- what happens

    def restore(self, turn: AgreementTurn, slots: Mapping[str, bytes]) -> None:
        """Before `begin`: what the disk has.

        Raises:
            DecodeError: a slot is damaged.
        """
        self._memory.restore(turn, slots)

    def begin(self, turn: AgreementTurn, age_s: int) -> None:
        """The server starts; `age_s` is for how long the network has existed. It does not know what it acknowledged
        before: so it waits as if that had been a moment ago."""
        self._is_running = True
        if not self._memory.is_fresh:
            self._heard.promise(turn.now_ms)
        self._elections.begin(turn.now_ms, age_s)
        self._woken(turn)

    def step(self, turn: AgreementTurn, what: AgreementInput) -> None:
        """Take one input."""
        match what:
            case StateTold(sender=sender, life=life, message=message):
                self._told(turn, sender, life, message)
            case EntryRead(founding=founding):
                self._read_entry(turn, founding)
            case AgreementWoken():
                self._woken(turn)
            case _:
                assert_never(what)

    def _read_entry(self, turn: AgreementTurn, entry: Founding) -> None:
        """The store has this founding. Whoever knows it does not found, and asks the servers that it names; but what
        was agreed goes on until one of them says the same (docs/protocol, QUORUM-21)."""
        if self.admission.allow_founding(turn, entry):
            self._entry.read(turn, entry)

    def founded(self, turn: AgreementTurn, founding: Founding) -> None:
        """Another server told a founding. The first one is kept; one of a higher generation takes the place of it, and
        all that was agreed is void: `effective` is None, and nothing may be granted. One of the same generation and a
        higher version only says which list came into force since."""
        known = self._memory.founding
        is_next = known is None or founding.generation > known.generation
        is_newer = known is not None and (founding.generation, founding.version) > (known.generation, known.version)
        if not is_next and not is_newer:
            return
        if not self.admission.allow_founding(turn, founding):
            return
        if is_next:
            self._memory.found(turn, founding)
            self._begin_anew(turn.now_ms)
        else:
            self._memory.relist(turn, founding)

    def _woken(self, turn: AgreementTurn) -> None:
        if self.wake_ms() is None:
            return
        self._entry.ask_if_behind(turn)
        if self._leading is not None:
            self._go_on_leading(turn)
        else:
            self._lead(turn, self._elections.woken(turn))
        if self.has_news:
            self.has_news = False
            if self._heard.leader is not None:
                self._beat(turn, self._heard.leader, self._heard.term, self._heard.number)

    def _told(self, turn: AgreementTurn, sender: NodeName, life: int, message: StateMessage) -> None:
        """A message of another node. What makes no sense is counted and of no effect."""
        if not self._is_running or not self.admission.admit(turn, sender, message):
            return
        known = message.known if isinstance(message, TokenHello) else message.generation or None
        self._elections.founders.heard(sender, life, known, turn.now_ms)
        if isinstance(message, VoteAsked | ServerBeat):
            self._elections.founders.version = max(self._elections.founders.version, message.accepted.version)
        if isinstance(message, FoundingTold):
            self.founded(turn, message.founding)
            return
        generation = self._memory.generation
        if message.generation < generation and self._memory.founding is not None:
            told = FoundingTold(self._settings.servers_hash, generation, self._memory.founding)
            turn.tell(sender, told)
        elif message.generation > generation:
            turn.tell(sender, self._elections.hello())
        else:
            self._told_by_equal(turn, sender, life, message)

    def stand(self, standing: ServerStanding) -> None:
        """What this server is ready for: BOOTING, if it holds nothing and is to begin; READY, if it has all its parts.

        READY is said of the standing that it has in `effective` now, and holds for no other one: say it again when that
        is known, or changed. Whoever finds itself BOOTING since another version than it collected its parts for begins
        again. DOWN: it wants nothing."""
        wish = (standing, self._since())
        self.has_news = self.has_news or wish != self._wish
        self._wish = wish

    def propose_open(self, ttl_ms: int, tag: str) -> None:
        """As the leader: a session is to be opened in the next version. In `effective` its id is `VERSION-TAG`.

        Raises:
            NotReadyError: this server does not lead.
            BusyError: there are too many sessions.
        """
        leading = self._must_lead()
        count = len(leading.sessions) + (len(self._memory.accepted.sessions) if self._memory.accepted else 0)
        if count >= self._settings.sessions_max:
            raise BusyError(f"there are {count} sessions; the limit is {self._settings.sessions_max}: close some")
        leading.sessions.open(ttl_ms, tag)
        self.has_news = True

    def propose_end(self, sessions: Collection[str]) -> None:
        """As the leader: sessions end in the next version. Those that are not open are not minded.

        Raises:
            NotReadyError: this server does not lead.
        """
        self._must_lead().sessions.end(
            [one for one in sessions if self._memory.accepted is not None and one in self._memory.accepted.sessions]
        )
        self.has_news = True

    def reset(self, turn: AgreementTurn, servers: Collection[NodeName] = ()) -> None:
        """Found anew, because a majority is gone for good and with it the common state (`token reset --force`). All
        sessions and held tokens are forgotten; fences go on growing.

        This may break the promise that a token has one holder: if the majority that is thought lost lives somewhere,
        out of reach, it goes on granting until it hears of this founding. So does a second reset elsewhere at the same
        time. Servers that this one did not hear count as with a lost disk: they are admitted when they come.

        `servers`: the list; empty: the one in force.

        Raises:
            RequestError: this node is not in the list, or the list is neither in force nor in the settings.
            NotReadyError: it does not hear a majority of the list.
        """
        founding = founding_anew(self._settings, self._memory, self._elections, servers, turn.now_ms)
        self._elections.found(turn, founding)
        self._begin_anew(turn.now_ms)

    def propose_servers(self, servers: Collection[NodeName]) -> None:
        """As the leader: this list is to come into force. Ask again if another server leads meanwhile.

        Raises:
            NotReadyError: this server does not lead.
            BusyError: another change is under way.
        """
        leading, wanted = self._must_lead(), tuple(sorted(servers))
        state = self._memory.accepted
        if state is not None and state.next and wanted not in state.lists:
            old, new = (", ".join(one) for one in state.lists)
            raise BusyError(f"the servers change from {old} to {new}: wait until that is done, or go back to {old}")
        leading.wanted = wanted
        self.has_news = True

    def change_waits_for(self, servers: Collection[NodeName], now_ms: int) -> str:
        """As the leader: what a change to this list waits for, in words; empty: nothing, it is in force.

        Raises:
            NotReadyError: this server does not lead.
        """
        return self._must_lead().waits_for(tuple(sorted(servers)), now_ms)

    # -- messages

    def _told_by_equal(self, turn: AgreementTurn, sender: NodeName, life: int, message: StateMessage) -> None:
        """A message of a server that knows the same founding, or none as this one."""
        match message:
            case TokenHello():
                if self._memory.founding is not None:  # it may know of an earlier list only
                    generation = self._memory.generation
                    turn.tell(sender, FoundingTold(self._settings.servers_hash, generation, self._memory.founding))
            case FoundingTold():
                pass
            case VoteAsked():
                if self._elections.asked(turn, sender, life, message):
                    self._step_down(turn.now_ms)
            case VoteGiven():
                self._lead(turn, self._elections.given(turn, sender, life, message))
            case LeaderRound():
                if self._memory.generation:
                    self._round(turn, sender, message)
            case ServerBeat():
                self._heard_beat(turn, sender, life, message)
            case _:
                assert_never(message)

    # -- leading

    def _lead(self, turn: AgreementTurn, term: int | None) -> None:
        """If it was elected in a term: what was found is proposed once more."""
        founding = self._memory.founding
        if term is None or founding is None:
            return
        self._heard.follow(self._settings.me, term)
        self._leading = Leading(self._settings, term, founding.generation, turn.now_ms)
        self._propose(turn, self._leading, self._leading.first_change(self._memory.accepted, founding))
        self._go_on_leading(turn)

    def _step_down(self, now_ms: int) -> None:
        """It neither leads nor stands any more."""
        if self._leading is not None:
            self._heard.leader = None
            self._elections.put_off(now_ms)
        self._leading = None
        self._elections.withdraw()

    def _begin_anew(self, now_ms: int) -> None:
        """There is another founding."""
        self._step_down(now_ms)
        self._heard.forget()
        self.effective = None
        self._elections.put_off(now_ms)

    def _must_lead(self) -> Leading:
        if self._leading is None:
            raise NotReadyError(f"{self._settings.me} does not lead the token servers: ask {self.leader or 'again'}")
        return self._leading

    def _propose(self, turn: AgreementTurn, leading: Leading, change: StateChange) -> None:
        base = self._memory.accepted
        state = self._memory.applied(change)
        if state is not None:  # it always is: the leader made the change from what it accepted last
            self._memory.accept(turn, state, change)
            leading.propose(change, base, state)

    def _go_on_leading(self, turn: AgreementTurn) -> None:
        """Take what is in effect, propose what is next, and begin a round when one is due or there is news."""
        leading, now_ms = self._leading, turn.now_ms
        if leading is None:
            return
        if leading.rounds.is_lost(now_ms):
            self._step_down(now_ms)
            return
        is_due = now_ms >= leading.rounds.next_ms
        self.has_news = False
        while True:
            is_new = leading.bring_into_effect()
            if is_new and leading.effective is not None:
                was_changing = self.effective is not None and bool(self.effective.next)
                self._in_effect(turn, leading.effective)
                self._publish(turn, leading.effective, was_changing=was_changing)
            change = leading.next_change(self._wish_now(), now_ms)
            if change is not None:
                self._propose(turn, leading, change)
            is_due = is_due or is_new or change is not None
            if change is None:
                break
        if is_due:
            self._heard.promise(now_ms)
            for name, told in leading.begin_round(now_ms):
                turn.tell(name, told)
        self._heard.grant(leading.leads_until_ms)
        if leading.effective is not None and self._settings.me not in leading.effective.servers:
            self._step_down(now_ms)  # the others know; it has nothing to say any more

    def _publish(self, turn: AgreementTurn, state: TokenState, *, was_changing: bool) -> None:
        """A list that came into force is kept in the store, for all nodes, and for servers that lost their disks."""
        founding = self._memory.founding
        if founding is None or state.next or (tuple(sorted(founding.servers)) == state.list and not was_changing):
            return
        lives = {name: state.servers[name].life for name in state.list}
        listed = Founding(lives, state.version, founding.generation)
        turn.found(listed)
        for name in founding.servers:
            if name not in lives and name != self._settings.me:
                turn.tell(name, FoundingTold(self._settings.servers_hash, listed.generation, listed))
        self._memory.relist(turn, listed)

    def _heard_beat(self, turn: AgreementTurn, name: NodeName, life: int, beat: ServerBeat) -> None:
        leading = self._leading
        if leading is None or beat.term < leading.term:
            return
        if beat.term > leading.term:
            self._elections.refused(beat.term)
            if beat.is_member:
                self._step_down(turn.now_ms)
            return
        leading.heard(name, life, beat, turn.now_ms)
        self._go_on_leading(turn)

    # -- following

    def _round(self, turn: AgreementTurn, sender: NodeName, told: LeaderRound) -> None:
        """What the leader says; whoever voted in a later term, or heard a later leader, refuses."""
        if told.term < self.term or (told.term == self.term and self._leading is not None):
            self._beat(turn, sender, self.term, 0)
            return
        self._step_down(turn.now_ms)
        self._heard.follow(sender, told.term)
        self._heard.promise(turn.now_ms)
        self._elections.put_off(turn.now_ms)
        self._know(turn, told.effective)
        if told.change is not None:
            self._accept(turn, sender, told, told.change)
            self._know(turn, told.effective)
        self._heard.heard(told)
        self._heard.take_rounds(state_id(self.effective))
        self.has_news = False
        self._beat(turn, sender, told.term, told.number)

    def _accept(self, turn: AgreementTurn, sender: NodeName, told: LeaderRound, change: StateChange) -> None:
        if change.head.id.term != told.term or change.head.leader != sender:
            self.admission.drop(turn, sender, "odd_change")
        elif change.head.id > self._memory.accepted_id:
            if (state := self._memory.applied(change)) is not None:
                self._memory.accept(turn, state, change)

    def _know(self, turn: AgreementTurn, effective: StateId | None) -> None:
        if effective is not None and effective != NO_STATE and effective == self._memory.accepted_id:
            self._in_effect(turn, self._memory.accepted)

    def _in_effect(self, turn: AgreementTurn, state: TokenState | None) -> None:
        """A majority has it. Whoever finds its life in it counts from now on."""
        if state is None or (self.effective is not None and state_id(state) <= state_id(self.effective)):
            return
        self.effective = state
        mine = state.servers.get(self._settings.me)
        if mine is not None and mine.life == self._memory.life:
            self._memory.admit(turn)

    def _wish_now(self) -> Wish:
        """To begin it wants in whatever standing it has, if it wants that; to serve, only where it said so."""
        standing, since = self._wish
        return standing, self._since() if standing is ServerStanding.BOOTING else since

    def _since(self) -> int:
        mine = None if self.effective is None else self.effective.servers.get(self._settings.me)
        return 0 if mine is None else mine.since

    def _beat(self, turn: AgreementTurn, to: NodeName, term: int, number: int) -> None:
        wanted, since = self._wish_now()
        turn.tell(to, ServerBeat(
            self._settings.servers_hash, self._memory.generation, term, number, OwnTime(self.start, turn.now_ms),
            self._memory.accepted_id, self._memory.is_member, wanted, since,
        ))

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._memory.check()
        self._heard.check()
        self._elections.check()
        self.admission.check()
        if self._leading is not None:
            self._leading.check()
            must(self._leading.term >= self._heard.term, "who leads heard of no later leader")
        effective = self.effective
        must(effective is None or state_id(effective) <= self._memory.accepted_id,
             "what is in effect was accepted here, or it was before what was")  # fmt: skip
