"""Which moments of a script's run are shown, as lines.

Knows: what a moment may be shown for.  Does not know how moments come about, nor how they are worded.

Invariant: what is hidden leaves no line, and what it said of a node's state is said by the next line that is shown;
only what happened before the trace began is never told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from distkv.graph.text import SILENT_NOTES, TextWriter
from distkv.graph.trace import ENDED, Moment, StepKind
from distkv.sim.verbs import ALL


class Screen:
    """Everything is shown at first."""

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
