"""From process start to `ready`.

Knows: the states, what each waits for, whom it may ask, and for how long nobody spoke.  Does not know how an exchange
or download is done, what is handed over (`handover`), nor the tree: it is told what happened and answers what to do
next.

Invariant: `ready` is sticky; nothing but a restart leaves it (docs/protocol, START-2).  `cut-off` is ready without
a transport, a view rather than a state of its own.  The machine is the table `TRANSITIONS`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import attrs

from distkv.core.attempts import RETRY_MS, Attempts
from distkv.core.handover import HandOver
from distkv.core.ready import CoreSettings, Rng
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.model.state import State
from distkv.model.tick_ranges import TickRanges, overlap


class Step(StrEnum):
    """What the replica shall do now."""

    SEND_INITIAL_PING = "send initial ping"
    FOUND_NETWORK = "found network"
    REFUSE_INIT = "refuse init"
    ASK_SNAPSHOT = "ask snapshot"
    ASK_MAPS = "ask maps"
    BECOME_READY = "become ready"


class StartupCause(StrEnum):
    """What moves the machine."""

    DATA_FOUND = "data found"
    """The disk holds a network and a life in it."""
    NETWORK_FOUNDED = "network founded"
    DOWNLOAD_BEGAN = "download began"
    DOWNLOAD_ENDED = "download ended"
    """It is complete."""
    DOWNLOAD_FAILED = "download failed"
    NOTHING_AWAITED = "nothing awaited"
    """All is here that readiness waits for, or nobody is there who could send it."""


TRANSITIONS: Final[dict[tuple[State, StartupCause], State]] = {
    (State.PASSIVE, StartupCause.DATA_FOUND): State.RECOVERING,
    (State.PASSIVE, StartupCause.NETWORK_FOUNDED): State.READY,
    (State.PASSIVE, StartupCause.DOWNLOAD_BEGAN): State.DOWNLOADING,
    (State.DOWNLOADING, StartupCause.DOWNLOAD_ENDED): State.RECOVERING,
    (State.DOWNLOADING, StartupCause.DOWNLOAD_FAILED): State.PASSIVE,
    (State.RECOVERING, StartupCause.DOWNLOAD_BEGAN): State.DOWNLOADING,
    (State.RECOVERING, StartupCause.NOTHING_AWAITED): State.READY,
}
"""(state, cause) -> next state. What is not listed does not happen, or leaves the state as it is."""

WAITS_FOR_EVENTS: Final = "events that are missing"
WAITS_FOR_ANSWER: Final = "an answer from a node with data"


@attrs.frozen(slots=True)
class Awaited:
    """What must come before the node is ready."""

    ticks: TickRanges
    is_of_others: bool
    """Whether it is what others hold and this node lacks, or only what its own disk told."""

    def is_here(self, missing: TickRanges) -> bool:
        """Whether all of it came, when this is missing still."""
        return not overlap(self.ticks, missing)


class Startup:
    """The machine. All times are monotonic milliseconds."""

    def __init__(self, settings: CoreSettings, rng: Rng) -> None:
        self._settings, self._rng = settings, rng
        self.state = State.PASSIVE
        self.waits_for = "start"
        """What readiness waits for, in words for people; empty when it is there."""
        self._hearing = Hearing(settings.clock_ms)
        self._attempts = Attempts()
        self._awaited = Awaited({}, False)
        self._hand_over = HandOver(settings.clock_ms)

    # -- what is told

    @property
    def is_up(self) -> bool:
        """Whether the transport carries messages."""
        return self._hearing.is_up

    @property
    def has_data(self) -> bool:
        """Whether a download, or a disk, is complete here."""
        return self.state in (State.RECOVERING, State.READY)

    @property
    def hands_over(self) -> bool:
        """Whether what is here must first be taken over by others, because a download will replace it."""
        return self._hand_over.is_under_way

    def is_taken_over(self, held: TickRanges) -> bool:
        """Whether one that holds this has all that is to be handed over."""
        return self._hand_over.is_taken_over(held)

    def wake_ms(self) -> int | None:
        """When `woken` wants to be called again."""
        if self.state is State.READY or (self.state is not State.RECOVERING and not self.is_up):
            return None
        return self._attempts.due_ms

    # -- the process, time and the transport

    def begin(self, now_ms: int, held: TickRanges, missing: TickRanges, *, has_data: bool) -> list[Step]:
        """The process starts; its disk was read, and what is held and missing there is known."""
        self._hearing.begin(now_ms)
        self._hand_over.remember(held)
        self._awaited = Awaited(missing, False)
        is_alone = self._settings.alone
        if has_data:
            self._move(StartupCause.DATA_FOUND)
            self.waits_for = "word from another node"
            if is_alone:
                return self._become_ready(StartupCause.NOTHING_AWAITED)
            self._attempts.plan(now_ms + self._settings.clock_ms)
            return []
        if self._is_founding and is_alone:
            return self._become_ready(StartupCause.NETWORK_FOUNDED)
        self.waits_for = WAITS_FOR_ANSWER
        self._attempts.plan(now_ms + (self._first_delay_ms() if not self._is_founding else 0))
        return []

    def transport_changed(self, is_up: bool, now_ms: int) -> None:
        """Messages flow, or do not."""
        if self._hearing.transport_changed(is_up, now_ms) and self._is_founding:
            self._attempts.plan(now_ms)

    def woken(self, now_ms: int, missing: TickRanges, *, is_waiting: bool = False) -> list[Step]:
        """Time passed, or the ledger changed, so that this is missing. `is_waiting`: readiness must wait, whatever is
        here."""
        if self.state is State.READY:
            return []
        if self._hand_over.woken(now_ms):  # a node with data serves it, another one does without
            self.waits_for = WAITS_FOR_EVENTS if self.has_data else WAITS_FOR_ANSWER
        if self.state is State.RECOVERING:
            return self._recovering(now_ms, not is_waiting and self._awaited.is_here(missing))
        if not self.is_up or not self._attempts.is_due(now_ms):
            return []
        return self._founding(now_ms) if self._is_founding else self._joining(now_ms)

    # -- whom to ask

    def found_source(self, name: NodeName, addr: str) -> list[Step]:
        """A node that may have data is at this address."""
        if self.state is State.READY or name == self._settings.node or not addr:
            return []
        is_new = self._attempts.sources.add(name, addr)
        if not is_new or self.hands_over:  # else every exchange would lead to the next one
            return []
        return self._next_attempt()

    def heard_data(self, name: NodeName, addr: str) -> list[Step]:
        """A node that has data spoke."""
        if self._is_founding and not self.has_data:
            return [Step.REFUSE_INIT]
        self._hearing.heard()
        return self.found_source(name, addr)

    def source(self) -> tuple[NodeName, str] | None:
        """Whom to ask next: the sources take turns."""
        return self._attempts.sources.next()

    def asked(self) -> None:
        """An attempt is under way."""
        self._attempts.began()

    def attempt_ended(self) -> None:
        """A peer has answered with its maps."""
        if self.state is not State.DOWNLOADING:
            self._attempts.over()

    def attempt_postponed(self, now_ms: int, name: NodeName) -> None:
        """A peer wants to be asked again, or somebody else."""
        self._attempts.postpone(name, now_ms)

    def attempt_failed(self, now_ms: int, name: NodeName, *, is_empty: bool = False) -> list[Step]:
        """A peer could not be asked, broke off, or (`is_empty`) has no data itself, as others that join just now."""
        attempts, hearing = self._attempts, self._hearing
        attempts.over()
        if not self.hands_over:  # then the others are few, and time is short
            attempts.sources.drop(name)
        if not self.has_data:
            self.waits_for = WAITS_FOR_ANSWER
        elif hearing.has_heard and not attempts.sources and not self._awaited.is_of_others:
            hearing.heard_in_vain(now_ms)
        if self._is_founding or (is_empty and attempts.sources and not self.has_data):
            return self._next_attempt()  # our time runs, or the answer took none: the next one is asked at once
        # Without data and with nobody else to ask, what comes next is an initial ping; all hear it: not so soon.
        attempts.plan(now_ms + (RETRY_MS if self.has_data or attempts.sources else self._settings.clock_ms))
        return []

    # -- what came

    def map_arrived(self, missing: TickRanges) -> None:
        """A member's tick map is here. If it is the first, what is missing now must come before we are ready."""
        self._attempts.over()
        self._hearing.heard()
        if self.state is State.RECOVERING and not self._awaited.is_of_others:
            self._await(missing)

    def begin_hand_over(self, now_ms: int, held: TickRanges | None = None) -> None:
        """What is here is old, or a part only: a download replaces it as soon as others have what it alone holds.

        `held`: what is here; None: what the disk held at the start.
        """
        if held is not None:
            self._hand_over.remember(held)
        if self._hand_over.begin(now_ms):
            self._attempts.plan(now_ms)
            self.waits_for = "another node to take over what only this one holds"

    def end_hand_over(self) -> None:
        """Others hold just what is here."""
        self._hand_over.agreed()
        if self.state is State.RECOVERING:
            self.waits_for = WAITS_FOR_EVENTS

    def download_began(self) -> None:
        """A sponsor has taken us, and what was here is void."""
        if self._move(StartupCause.DOWNLOAD_BEGAN):
            self._attempts.sources.taken()
            self.waits_for = "the download"
            self._hand_over.download_began()

    def download_failed(self) -> None:
        """What came of it is a part only."""
        if self._move(StartupCause.DOWNLOAD_FAILED):
            self.waits_for = WAITS_FOR_ANSWER

    def download_ended(self, missing: TickRanges) -> None:
        """Everything the sponsor had is here; what is missing still must come."""
        self._attempts.over()
        if self._move(StartupCause.DOWNLOAD_ENDED):
            self._hearing.heard()
            self._await(missing)

    # -- inside

    @property
    def _is_founding(self) -> bool:
        """Whether `--init` was given."""
        return self._settings.beginning.init_value is not None

    def _first_delay_ms(self) -> int:
        """'The first message shall be delayed by a random interval between clock/2 and clock seconds.'"""
        return int(self._settings.clock_ms * (0.5 + 0.5 * self._rng.random()))

    def _await(self, missing: TickRanges) -> None:
        """Others have told what they hold."""
        self._awaited = Awaited(missing, True)
        self.waits_for = WAITS_FOR_EVENTS

    def _founding(self, now_ms: int) -> list[Step]:
        """Without data, and nobody else is to have any."""
        if self._hearing.left_ms(now_ms) <= 0:
            return self._become_ready(StartupCause.NETWORK_FOUNDED)
        self._attempts.plan(now_ms + self._settings.clock_ms // 2)
        return [Step.SEND_INITIAL_PING]

    def _joining(self, now_ms: int) -> list[Step]:
        """Without data, or while it comes."""
        self._attempts.plan(now_ms + (RETRY_MS if self.hands_over else self._settings.clock_ms))
        if self._attempts.may_begin:
            return self._next_attempt()
        return [Step.SEND_INITIAL_PING] if self.state is State.PASSIVE else []

    def _recovering(self, now_ms: int, is_whole: bool) -> list[Step]:
        """With data, but perhaps not all of it."""
        hearing = self._hearing
        if self._awaited.is_of_others and is_whole and not self.hands_over:
            return self._become_ready(StartupCause.NOTHING_AWAITED)
        if not self._attempts.is_due(now_ms):
            return []
        if hearing.is_cut_off(now_ms):
            return self._become_ready(StartupCause.NOTHING_AWAITED)  # serve what there is
        left_ms = hearing.left_ms(now_ms)
        if hearing.is_up and not hearing.has_heard and is_whole and left_ms <= 0:
            return self._become_ready(StartupCause.NOTHING_AWAITED)
        self._attempts.plan(now_ms + (min(left_ms, RETRY_MS) if left_ms > 0 else RETRY_MS))
        return self._next_attempt()

    def _next_attempt(self) -> list[Step]:
        if not self._attempts.may_begin:
            return []
        if self.hands_over:
            return [Step.ASK_MAPS]
        if self.state is State.PASSIVE:
            return [Step.ASK_MAPS if self._is_founding else Step.ASK_SNAPSHOT]
        if self.state is State.RECOVERING and not self._awaited.is_of_others:
            return [Step.ASK_MAPS]
        return []

    def _become_ready(self, cause: StartupCause) -> list[Step]:
        if not self._move(cause):
            return []
        self._hand_over.became_ready()
        self.waits_for = ""
        return [Step.FOUND_NETWORK, Step.BECOME_READY] if cause is StartupCause.NETWORK_FOUNDED else [Step.BECOME_READY]

    def _move(self, cause: StartupCause) -> bool:
        """Whether that is listed."""
        after = TRANSITIONS.get((self.state, cause))
        if after is None:
            return False
        self.state = after
        return True

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._attempts.check()
        self._hearing.check()
        self._hand_over.check()
        is_ready = self.state is State.READY
        must(is_ready == (not self.waits_for), "who is ready waits for nothing, and others say for what")
        must(not is_ready or not self.hands_over, "who serves hands nothing over")


@attrs.define(slots=True)
class Hearing:
    """What a node that starts hears of others, and after how long it is alone. All times are monotonic milliseconds.

    Invariant: only time in which somebody could be heard counts as silence (docs/protocol, START-5, START-8)."""

    clock_ms: int
    is_up: bool = False
    """Whether the transport carries messages."""
    has_heard: bool = False
    """Whether somebody with data spoke who can be asked, as far as is known."""
    _began_ms: int = 0
    _listens_ms: int = 0

    def begin(self, now_ms: int) -> None:
        """The process starts."""
        self._began_ms = self._listens_ms = now_ms

    def transport_changed(self, is_up: bool, now_ms: int) -> bool:
        """Messages flow, or do not. Whether they do from now on, and did not before."""
        begins = is_up and not self.is_up
        if begins:
            self._listens_ms = now_ms
        self.is_up = is_up
        return begins

    def heard(self) -> None:
        """Somebody with data spoke."""
        self.has_heard = True

    def heard_in_vain(self, now_ms: int) -> None:
        """Whoever was heard cannot be asked: it died, or its words were old. Silence counts anew from here."""
        self.has_heard = False
        self._listens_ms = now_ms

    def left_ms(self, now_ms: int) -> int:
        """How much of the clock is left in which somebody may yet speak; not above 0 when it is over."""
        return self._listens_ms + self.clock_ms - now_ms

    def is_cut_off(self, now_ms: int) -> bool:
        """Whether the transport is away, and two clocks are over (START-9)."""
        return not self.is_up and now_ms >= self._began_ms + 2 * self.clock_ms

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(self._began_ms <= self._listens_ms, "nobody is heard before the start")
