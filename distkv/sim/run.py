"""One run of one scenario: the fleet grows, suffers faults and clients, and when all is well it must come to rest.

Knows: the phases and their deadlines.  Does not know faults (`stage`) or rules (`rules`).

Invariant: a run passes only if it saw enough traffic, part of it before the first fault; the same scenario gives the
same outcome, digest included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import Final

import attrs

from distkv.core.ready import HeardMessage, Input, PeerAnswered
from distkv.errors import DistkvError, DuplicateNameError
from distkv.sim.fleet import Fleet
from distkv.sim.host import Host
from distkv.sim.reached import Reached
from distkv.sim.rule import BrokenRuleError, Observer
from distkv.sim.rules import always
from distkv.sim.rules.alike import is_at_rest, not_at_rest
from distkv.sim.rules.apart import StaysApart
from distkv.sim.rules.contents import OneContent
from distkv.sim.rules.covered import SupersededIsCovered
from distkv.sim.rules.ring import RingStays
from distkv.sim.rules.ticks import TicksRise
from distkv.sim.rules.writes import AcknowledgedStay
from distkv.sim.scenario import FAULT_OF, Action, Scenario
from distkv.sim.stage import Stage
from distkv.sim.strangers import namesake_of
from distkv.sim.trace import StepTrace
from distkv.sim.watching import SlowWatchers
from distkv.sim.watching import draw as draw_watchers
from distkv.wire.message import EventBatch, Update

GROW_MS: Final = 60_000
"""Twelve clocks for the first hosts to become ready."""
REST_MS: Final = 60_000
"""Twelve clocks to come to rest: a ping that shows a difference takes up to three, what nobody has is given up after
three more."""
DELIVERIES_MIN: Final = 2000
BEFORE_FAULTS_MIN: Final = 100
WRITES_MIN: Final = 50
STALLS: Final = 0.01
"""So many of the commits take up to some seconds."""
OWN_EVERY: Final = 4
"""Of so many messages a node hears one of its own again."""

BUGS: Final = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError, DistkvError
)  # fmt: skip
"""What the core may raise, and never must."""


class Verdict(StrEnum):
    """What became of a run."""

    PASSED = "passed"
    REJECTED = "rejected"
    """It proves nothing: too little happened."""
    FAILED = "failed"


@attrs.frozen
class Outcome:
    """The result of one run."""

    seed: int
    verdict: Verdict
    rule: str
    """Which one was broken, or why it was rejected."""
    what: str
    digest: str
    deliveries: int
    reached: dict[str, int]
    """How often each sign was seen (`reached.SIGNS`)."""
    virtual_ms: int


class _Traffic(Observer):
    """Counts what arrives from other hosts, and what clients were told."""

    def __init__(self) -> None:
        self.deliveries = 0

    def delivered(self, host: Host, what: Input) -> None:  # noqa: ARG002
        events = 1
        if isinstance(what, HeardMessage) and isinstance(what.message, Update):
            events = len(what.message.events)
        elif isinstance(what, PeerAnswered) and isinstance(what.answer, EventBatch):
            events = len(what.answer.events)
        self.deliveries += events


class Run:
    """A scenario under way."""

    def __init__(
        self, scenario: Scenario, write: Callable[[str], object] | None = None, observers: Sequence[Observer] = ()
    ) -> None:
        self._scenario = scenario
        self._trace, self._reached, self._traffic = StepTrace(write), Reached(), _Traffic()
        self._writes = AcknowledgedStay()
        rules = [*always(), OneContent(), SupersededIsCovered(), TicksRise(), self._writes, RingStays(), StaysApart()]
        habits, limits = draw_watchers(scenario.seed)
        slow = [SlowWatchers(scenario.seed, habits, limits)] if habits else []
        seen = [*observers, *slow, self._trace, self._reached, self._traffic, *rules]
        self._fleet = Fleet(scenario.seed, members_seen=True, observers=seen)
        self._fleet.own_every = OWN_EVERY
        self._stage = Stage(self._fleet, scenario)
        self._before_faults: int | None = None

    def outcome(self) -> Outcome:
        """Run it to its end."""
        try:
            rule, what = self._phases()
            verdict = Verdict.REJECTED if rule else Verdict.PASSED
        except BrokenRuleError as error:
            verdict, rule, what = Verdict.FAILED, error.rule, str(error)
        except BUGS as error:
            verdict, rule, what = Verdict.FAILED, f"no {type(error).__name__}", _place(error)
        return Outcome(
            seed=self._scenario.seed,
            verdict=verdict,
            rule=rule,
            what=what,
            digest=self._trace.digest,
            deliveries=self._traffic.deliveries,
            reached=dict(sorted(self._reached.signs.items())),
            virtual_ms=self._fleet.now_ms,
        )

    # -- inside

    def _phases(self) -> tuple[str, str]:
        """Grow, suffer, rest; why the run does not count, if it does not."""
        fleet, scenario = self._fleet, self._scenario
        self._stage.grow()
        first = scenario.host_count - scenario.late_count
        if not fleet.run_until(lambda: self._serving() >= first, GROW_MS):
            raise BrokenRuleError("the fleet grows", f"only {self._serving()} of {first} are ready")
        fleet.network.faults = scenario.network
        fleet.commit_ms, fleet.stalls = scenario.commit_ms, STALLS
        for action in scenario.actions:
            fleet.later(action.at_ms, partial(self._do, action))
        fleet.run(scenario.length_ms)
        self._check_fatal()
        self._stage.all_is_well()
        rested = fleet.run_until(lambda: is_at_rest(fleet), REST_MS)
        self._check_fatal()
        if not rested:
            raise not_at_rest(fleet, REST_MS)
        for tell in fleet.told.settled:
            tell(fleet)
        return self._too_little()

    def _do(self, action: Action) -> None:
        if action.verb in FAULT_OF and self._before_faults is None:
            self._before_faults = self._traffic.deliveries
        self._stage.do(action)

    def _serving(self) -> int:
        return sum(host.live.is_serving for host in self._fleet.ours())

    def _check_fatal(self) -> None:
        hosts = self._fleet.hosts
        for host in hosts.values():
            if isinstance(host.fatal, DuplicateNameError) and (namesake_of(host.name) in hosts or not host.is_ours):
                continue  # of two servers with one name the one that started later ends (NAME-1, NAME-2)
            if host.fatal is not None:
                raise BrokenRuleError("no server ends by itself", f"{host.name}: {host.fatal}")

    def _too_little(self) -> tuple[str, str]:
        deliveries, before, writes = self._traffic.deliveries, self._before_faults, self._writes.count
        if before is not None and before < BEFORE_FAULTS_MIN:
            return "too little traffic before the first fault", f"{before} deliveries"
        if deliveries < DELIVERIES_MIN:
            return "too little traffic", f"{deliveries} deliveries"
        if writes < WRITES_MIN:
            return "too few writes", f"{writes} were acknowledged"
        return "", ""


def run(
    scenario: Scenario, write: Callable[[str], object] | None = None, observers: Sequence[Observer] = ()
) -> Outcome:
    """Run a scenario; `write` gets the lines of its trace, and `observers` see it, too."""
    return Run(scenario, write, observers).outcome()


def _place(error: BaseException) -> str:
    """What was raised, and where: the innermost line of ours."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}" if frame is not None else ""
    return f"{type(error).__name__}: {error} ({where})"
