"""Plays a script on a simulated network, and gives its trace.

Knows: blocks, and what of a run is shown.  Does not know how scripts are written, what an action does (`stage`), nor
whether the trace is the expected one.

Invariant: one script is one trace, on every machine and under any hash seed; the rules that must hold in every run are
watched in this one, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from distkv.errors import DistkvError
from distkv.graph.standing import standing_lines
from distkv.graph.text import SILENT_NOTES, TextWriter
from distkv.graph.trace import ENDED, Moment, StepKind
from distkv.sim.actions import Action, Cluster, Settings, Show, ShowService, ShowState
from distkv.sim.recording import Recording
from distkv.sim.rule import BrokenRuleError
from distkv.sim.rules import every
from distkv.sim.script import Script
from distkv.sim.settings import world_defaults
from distkv.sim.stage import Stage
from distkv.sim.trees import tree_lines
from distkv.sim.verbs import ALL
from distkv.sim.world import new_fleet


class ScriptFailedError(DistkvError):
    """What a script waits for does not come, or what it wants done cannot be; or a rule is broken."""

    moments: tuple[Moment, ...] = ()
    """What happened up to there."""


@attrs.frozen
class Played:
    """What became of a script."""

    moments: tuple[Moment, ...]
    """Everything since the cluster had grown, or the start."""
    outputs: tuple[tuple[str, ...], ...]
    """What each block shows."""


def play(script: Script) -> Played:
    """Carry out a whole script.

    Raises:
        ScriptFailedError: with file, line and what went wrong there.
    """
    player = Player(script)
    outputs: list[tuple[str, ...]] = []
    for block in script.blocks:
        for command in block.commands:
            try:
                player.do(command.action)
            except (DistkvError, BrokenRuleError) as error:
                failed = ScriptFailedError(f"{script.name}, line {command.line}: {error}")
                failed.moments = tuple(player.moments)
                raise failed from error
        outputs.append(player.take_output())
    return Played(tuple(player.moments), tuple(outputs))


class Player:
    """One run of one script."""

    def __init__(self, script: Script) -> None:
        self.moments: list[Moment] = []
        self._fleet = new_fleet(script.world, [*every(), Recording(self._happened)])
        self._stage = Stage(self._fleet, script.nodes)
        self._screen = Screen(script.nodes)
        self._zero_ms = 0

    def take_output(self) -> tuple[str, ...]:
        """What was to be shown since the last call."""
        return self._screen.take()

    def do(self, action: Action) -> None:
        """Carry out one action.

        Raises:
            NotPossibleError: it cannot be.
            BrokenRuleError: the run broke a rule.
        """
        if isinstance(action, Show):
            self._screen.show(action.tags, action.nodes)
        elif isinstance(action, ShowState):
            self._screen.put(self._standing())
        elif isinstance(action, ShowService):
            self._screen.put(self._stage.shown(action))
        elif isinstance(action, Settings):
            values = {field: value for field, value in action.values.items() if field not in world_defaults()}
            self._stage.do(Settings(values))
        elif isinstance(action, Cluster):
            self._screen.is_growing = True
            self._stage.do(action)
            self._screen.is_growing = False
            self._zero_ms = self._fleet.now_ms
            self.moments.clear()
        else:
            self._stage.do(action)

    # -- what is shown

    def _standing(self) -> list[str]:
        hosts = self._fleet.hosts.items()
        lines = standing_lines({name: host.live for name, host in hosts if host.process is not None})
        lines += [f"{name}: does not run" for name, host in hosts if host.process is None]
        lines += self._stage.service_lines()
        return [*lines, *tree_lines(self._fleet.hosts.values())]

    def _happened(self, moment: Moment) -> None:
        moment = attrs.evolve(moment, at_ms=moment.at_ms - self._zero_ms)
        self.moments.append(moment)
        self._screen.happened(moment)


class Screen:
    """Which moments of a run are shown, as lines: all at first.

    Invariant: what is hidden leaves no line, and what it said of a node's state is said by the next line that is shown;
    only what happened before the trace began is never told."""

    def __init__(self, names: Iterable[str]) -> None:
        self.is_growing = False
        """Whether what happens is not part of the trace."""
        self._writer = TextWriter(names)
        self._tags = ALL
        self._nodes: frozenset[str] = frozenset()
        self._lines: list[str] = []
        self._last: dict[str, Moment] = {}

    def show(self, tags: frozenset[str], nodes: frozenset[str]) -> None:
        """Show moments that have one of these tags; of these nodes, if there are any."""
        self._tags, self._nodes = tags, nodes

    def put(self, lines: Iterable[str]) -> None:
        """Show something besides."""
        self._lines += lines

    def take(self) -> tuple[str, ...]:
        """What was shown since the last call."""
        lines, self._lines = tuple(self._lines), []
        return lines

    def happened(self, moment: Moment) -> None:
        if self.is_growing:
            self._writer.skip(moment)
        elif self._is_wanted(moment):
            self._lines.append(self._writer.line(moment))
        self._last[moment.node] = moment

    def _is_wanted(self, moment: Moment) -> bool:
        is_of_these = not self._nodes or not moment.node or moment.node in self._nodes
        return is_of_these and not self._tags.isdisjoint(self._found(moment))

    def _found(self, moment: Moment) -> Iterator[str]:
        """The tags of a moment."""
        last = self._last.get(moment.node)
        if not moment.state:
            yield from ALL  # it happened from outside: it explains whatever is shown
            return
        if moment.heard is not None:
            yield "members" if moment.kind == StepKind.MEMBERS else f"heard {moment.heard.kind.partition(' ')[0]}"
        yield from (f"sent {said.kind.partition(' ')[0]}" for said in moment.sent)
        if any(event.fate == "made" for event in moment.events):
            yield "write"
        if any(note.partition(" ")[0] not in SILENT_NOTES for note in moment.notes):
            yield "note"
        if last is None or last.state != moment.state or moment.kind in _OF_STATE:
            yield "state"
        if last is not None and (last.missing, last.lost) != (moment.missing, moment.lost):
            yield "missing"


_OF_STATE = frozenset({StepKind.STARTED, StepKind.UP, StepKind.DOWN, ENDED})
