"""One run of one scenario, and what became of it.

Knows: when a run counts.  Does not know what happens in it (`scenario`), nor how it is done (`stage`) or judged
(`rules`).

Invariant: a run passes only if it saw enough traffic, part of it before the first fault; the same scenario gives the
same outcome, digest included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from hashlib import blake2b
from typing import Final

import attrs

from distkv.core.ready import FollowTold, HeardMessage, Input, PeerAnswered, PeerDone, Ready
from distkv.errors import DistkvError
from distkv.model.invariant import BrokenInvariantError
from distkv.sim.host import Host, Process
from distkv.sim.reached import Reached
from distkv.sim.rule import BrokenRuleError, Observer
from distkv.sim.rules import every
from distkv.sim.rules.writes import AcknowledgedStay
from distkv.sim.scenario import Scenario
from distkv.sim.stage import Stage
from distkv.sim.world import new_fleet
from distkv.wire.message import EventBatch, Update

DELIVERIES_MIN: Final = 2000
BEFORE_FAULTS_MIN: Final = 100
WRITES_MIN: Final = 50

BUGS: Final = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError, DistkvError,
    BrokenInvariantError,
)  # fmt: skip
"""What the core, or a client's half, may raise, and never must."""


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
    """Counts what arrives from other hosts."""

    def __init__(self) -> None:
        self.deliveries = 0
        self.before_faults: int | None = None
        """How many there were when a fault befell the fleet for the first time; None: none did."""

    def delivered(self, host: Host, what: Input) -> None:  # noqa: ARG002
        events = 1
        if isinstance(what, HeardMessage) and isinstance(what.message, Update):
            events = len(what.message.events)
        elif isinstance(what, PeerAnswered) and isinstance(what.answer, EventBatch):
            events = len(what.answer.events)
        elif isinstance(what, FollowTold):
            events = len(what.events)
        self.deliveries += events

    def befell(self, at_ms: int, name: str, what: str) -> None:  # noqa: ARG002
        if self.before_faults is None and at_ms > 0:  # clocks are set before the beginning
            self.before_faults = self.deliveries


class Run:
    """A scenario under way."""

    def __init__(
        self, scenario: Scenario, write: Callable[[str], object] | None = None, observers: Sequence[Observer] = ()
    ) -> None:
        self._scenario = scenario
        self._trace, self._reached, self._traffic = StepTrace(write), Reached(), _Traffic()
        rules = every()
        (self._writes,) = (rule for rule in rules if isinstance(rule, AcknowledgedStay))
        seen = [*observers, self._trace, self._reached, self._traffic, *rules]
        self._fleet = new_fleet(scenario.world, seen)
        self._stage = Stage(self._fleet, scenario.names)

    def outcome(self) -> Outcome:
        """Run it to its end."""
        try:
            for action in self._scenario.actions():
                self._stage.do(action)
            rule, what = self._too_little()
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

    def _too_little(self) -> tuple[str, str]:
        """Why the run does not count, if it does not."""
        deliveries, before, writes = self._traffic.deliveries, self._traffic.before_faults, self._writes.count
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


class StepTrace(Observer):
    """Writes down every step; `write` gets the lines, if somebody wants them.

    Invariant: equal runs have equal digests; the digest covers the state of the node after each of its steps."""

    def __init__(self, write: Callable[[str], object] | None = None) -> None:
        self._hash = blake2b(digest_size=16)
        self._write = write

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:
        replica = process.replica
        tree = replica.tree
        line = (
            f"{process.now_ms} {process.host.name} {_said(what)} -> {replica.tick} {replica.tock} {tree.digest:016x}"
            f" {len(ready.records)} {len(ready.messages)}"
        )
        self._hash.update(line.encode())
        if self._write is not None:
            notes = "".join(f" {note.id}" for note in ready.notes)
            self._write(f"{line} {replica.state}{notes}")

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


def _said(what: Input | None) -> str:
    if what is None:
        return "begin"
    if isinstance(what, HeardMessage):
        header = what.message.header
        return f"{type(what.message).__name__} of {header.node} {header.tick} {header.tock}"
    if isinstance(what, PeerAnswered):
        return f"{type(what.answer).__name__} for {what.ask}"
    if isinstance(what, PeerDone):
        return f"done {what.ask} {'' if what.error is None else what.error.code}"
    return type(what).__name__
