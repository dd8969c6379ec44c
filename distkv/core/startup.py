"""From process start to `ready`.

Knows: the states, what each waits for, and whom it may ask.  Does not know how an exchange or download is done, what is
handed over (`handover`), nor the tree: it is told what happened and answers what to do next.

Invariant: `ready` is sticky; nothing but a restart leaves it (docs/protocol, START-2).  `cut-off` is ready without
a transport, a view rather than a state of its own.  The machine is the table `TRANSITIONS`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import attrs

from distkv.core.handover import HandOver
from distkv.core.ready import Rng
from distkv.core.sources import Sources
from distkv.model.event import NodeName
from distkv.model.tick_ranges import TickRanges, overlap
from distkv.wire.message import State


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

RETRY_MS: Final = 500
"""How long after a failed attempt the next peer is asked."""
WAITS_FOR_EVENTS: Final = "events that are missing"
WAITS_FOR_ANSWER: Final = "an answer from a node with data"


@attrs.define(slots=True)
class Startup:
    """The machine. All times are monotonic milliseconds."""

    me: NodeName
    clock_ms: int
    rng: Rng
    founding: bool
    """Whether `--init` was given."""
    alone: bool
    """Whether there is no transport by configuration (solo)."""
    state: State = State.PASSIVE
    waits_for: str = "start"
    """What readiness waits for, in words for people; empty when it is there."""
    hand_over: HandOver = attrs.field(init=False)
    _sources: Sources = attrs.field(factory=Sources)
    _awaited: TickRanges = attrs.field(factory=dict)
    """What was missing when readiness began to wait for it."""
    _began_ms: int = 0
    _listens_ms: int = 0
    """Since when others could be heard: no other time counts as their silence."""
    _next_ms: int | None = None
    """When an attempt, or an initial ping, is due."""
    is_up: bool = False
    """Whether the transport carries messages."""
    _has_heard: bool = False
    """Whether somebody with data spoke who can be asked, as far as is known."""
    _is_asking: bool = False
    """Whether an attempt is under way."""
    _has_map: bool = False
    """Whether it is known what others hold, so that what is missing here is, too."""

    @hand_over.default
    def _nothing_to_hand_over(self) -> HandOver:
        return HandOver(self.clock_ms)

    # -- inputs

    def begin(self, now_ms: int, missing: TickRanges, *, has_data: bool) -> list[Step]:
        """The process starts; its disk was read, and what is missing there is known."""
        self._began_ms = self._listens_ms = now_ms
        self._awaited = missing
        if has_data:
            self._move(StartupCause.DATA_FOUND)
            self.waits_for = "word from another node"
            if self.alone:
                return self._become_ready(StartupCause.NOTHING_AWAITED)
            self._next_ms = now_ms + self.clock_ms
            return []
        if self.founding and self.alone:
            return self._become_ready(StartupCause.NETWORK_FOUNDED)
        self.waits_for = WAITS_FOR_ANSWER
        self._next_ms = now_ms + (self._first_delay_ms() if not self.founding else 0)
        return []

    def transport_changed(self, is_up: bool, now_ms: int) -> None:
        """Messages flow, or do not."""
        if is_up and not self.is_up:
            self._listens_ms = now_ms  # only time in which somebody could answer counts
            if self.founding:
                self._next_ms = now_ms
        self.is_up = is_up

    def found_source(self, name: NodeName, addr: str) -> list[Step]:
        """A node that may have data is at this address."""
        if self.state is State.READY or name == self.me or not addr:
            return []
        if not self._sources.add(name, addr) or self.hands_over:  # else every exchange would lead to the next one
            return []
        return self._next_attempt()

    def heard_data(self, name: NodeName, addr: str) -> list[Step]:
        """A node that has data spoke."""
        if self.founding and not self.has_data and self.state is not State.READY:
            return [Step.REFUSE_INIT]
        self._has_heard = True
        return self.found_source(name, addr)

    def source(self) -> tuple[NodeName, str] | None:
        """Whom to ask next: the sources take turns."""
        return self._sources.next()

    def asked(self) -> None:
        """An attempt is under way."""
        self._is_asking = True

    def attempt_ended(self) -> None:
        """A peer has answered with its maps."""
        self._is_asking = self.state is State.DOWNLOADING

    def attempt_postponed(self, now_ms: int, name: NodeName) -> None:
        """A peer wants to be asked again, or somebody else."""
        self._is_asking = False
        self._next_ms = now_ms + RETRY_MS
        self._sources.postpone(name)

    def attempt_failed(self, now_ms: int, name: NodeName, *, is_empty: bool = False) -> list[Step]:
        """A peer could not be asked, broke off, or (`is_empty`) has no data itself, as others that join just now."""
        self._is_asking = False
        if not self.hands_over:  # then the others are few, and time is short
            self._sources.drop(name)
        if not self.has_data:
            self.waits_for = WAITS_FOR_ANSWER
        if self.has_data and self._has_heard and not self._sources and not self._has_map:
            # Whoever was heard cannot be asked: it died, or its words were old. Silence counts anew from here.
            self._has_heard = False
            self._listens_ms = now_ms
        if self.founding or (is_empty and self._sources and not self.has_data):
            return self._next_attempt()  # our time runs, or the answer took none: the next one is asked at once
        # Without data and with nobody else to ask, what comes next is an initial ping; all hear it: not so soon.
        self._next_ms = now_ms + (RETRY_MS if self.has_data or self._sources else self.clock_ms)
        return []

    @property
    def hands_over(self) -> bool:
        """Whether what is here must first be taken over by others, because a download will replace it."""
        return self.hand_over.is_under_way

    @property
    def has_data(self) -> bool:
        """Whether a download, or a disk, is complete here."""
        return self.state in (State.RECOVERING, State.READY)

    def must_hand_over(self, now_ms: int) -> None:
        """What is here is old, or a part only: a download replaces it as soon as others have what it alone holds."""
        if self.hand_over.begin(now_ms):
            self._next_ms = now_ms
            self.waits_for = "another node to take over what only this one holds"

    def need_not_hand_over(self) -> None:
        """Others hold just what is here."""
        self.hand_over.agreed()
        if self.state is State.RECOVERING:
            self.waits_for = WAITS_FOR_EVENTS

    def download_began(self) -> None:
        """A sponsor has taken us, and what was here is void."""
        if self._move(StartupCause.DOWNLOAD_BEGAN):
            self._sources.taken()
            self.waits_for = "the download"
            self.hand_over.download_began()

    def download_failed(self) -> None:
        """What came of it is a part only."""
        if self._move(StartupCause.DOWNLOAD_FAILED):
            self.waits_for = WAITS_FOR_ANSWER

    def download_ended(self, missing: TickRanges) -> None:
        """Everything the sponsor had is here; what is missing still must come."""
        self._is_asking = False
        if self._move(StartupCause.DOWNLOAD_ENDED):
            self._has_heard = True
            self._has_map, self._awaited = True, missing
            self.waits_for = WAITS_FOR_EVENTS

    def map_arrived(self, missing: TickRanges) -> None:
        """A member's tick map is here. If it is the first, what is missing now must come before we are ready."""
        self._is_asking = False
        self._has_heard = True
        if self.state is State.RECOVERING and not self._has_map:
            self._has_map, self._awaited = True, missing
            self.waits_for = WAITS_FOR_EVENTS

    def woken(self, now_ms: int, missing: TickRanges, *, is_waiting: bool = False) -> list[Step]:
        """Time passed, or the ledger changed, so that this is missing. `is_waiting`: readiness must wait, whatever is
        here."""
        if self.state is State.READY:
            return []
        if self.hand_over.woken(now_ms):  # a node with data serves it, another one does without
            self.waits_for = WAITS_FOR_EVENTS if self.has_data else WAITS_FOR_ANSWER
        if self.state is State.RECOVERING:
            return self._recovering(now_ms, not is_waiting and not overlap(self._awaited, missing))
        if self._next_ms is None or now_ms < self._next_ms or not self.is_up:
            return []
        if self.founding and now_ms >= self._listens_ms + self.clock_ms:
            return self._become_ready(StartupCause.NETWORK_FOUNDED)
        interval_ms = self.clock_ms // 2 if self.founding else self.clock_ms
        self._next_ms = now_ms + (RETRY_MS if self.hands_over else interval_ms)
        if self._sources and not self._is_asking and not self.founding:
            return self._next_attempt()
        return [Step.SEND_INITIAL_PING] if self.state is State.PASSIVE else []

    # -- outputs

    def wake_ms(self) -> int | None:
        """When `woken` wants to be called again."""
        if self.state is State.READY or (self.state is not State.RECOVERING and not self.is_up):
            return None
        return self._next_ms

    # -- inside

    def _first_delay_ms(self) -> int:
        """'The first message shall be delayed by a random interval between clock/2 and clock seconds.'"""
        return int(self.clock_ms * (0.5 + 0.5 * self.rng.random()))

    def _next_attempt(self) -> list[Step]:
        if self._is_asking or not self._sources:
            return []
        if self.hands_over:
            return [Step.ASK_MAPS]
        if self.state is State.PASSIVE:
            return [Step.ASK_MAPS if self.founding else Step.ASK_SNAPSHOT]
        if self.state is State.RECOVERING and not self._has_map:
            return [Step.ASK_MAPS]
        return []

    def _recovering(self, now_ms: int, is_whole: bool) -> list[Step]:
        if self._has_map and is_whole and not self.hands_over:
            return self._become_ready(StartupCause.NOTHING_AWAITED)
        if self._next_ms is not None and now_ms < self._next_ms:
            return []
        if not self.is_up and now_ms >= self._began_ms + 2 * self.clock_ms:
            return self._become_ready(StartupCause.NOTHING_AWAITED)  # cut off: serve what there is
        left_ms = self._listens_ms + self.clock_ms - now_ms
        if self.is_up and not self._has_heard and is_whole and left_ms <= 0:
            return self._become_ready(StartupCause.NOTHING_AWAITED)
        self._next_ms = now_ms + (min(left_ms, RETRY_MS) if left_ms > 0 else RETRY_MS)
        return self._next_attempt()

    def _become_ready(self, cause: StartupCause) -> list[Step]:
        if not self._move(cause):
            return []
        self.hand_over.became_ready()
        self.waits_for = ""
        return [Step.FOUND_NETWORK, Step.BECOME_READY] if cause is StartupCause.NETWORK_FOUNDED else [Step.BECOME_READY]

    def _move(self, cause: StartupCause) -> bool:
        """Whether that is listed."""
        after = TRANSITIONS.get((self.state, cause))
        if after is None:
            return False
        self.state = after
        return True
