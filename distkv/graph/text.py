"""A trace as lines of text, for people; expected traces in scenario files are written so.

Knows: how a moment is said in words.  Does not know which moments are wanted, nor where they come from.

Invariant: a line says what of a node's state changed since the line before of that node, and nothing else of it; so the
same moments give the same lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from distkv.graph.trace import EVENTS_SHOWN, EventShown, Moment, Said, StepKind
from distkv.wire.gossip import GossipKind

SILENT_NOTES: Final = frozenset({"ready", "peer_failed", "peer_empty"})
"""Notes that say nothing which the line does not say anyway."""


@attrs.define
class _Known:
    """What lines have said of a node."""

    state: str = ""
    missing: str = ""
    lost: str = ""


class TextWriter:
    """Writes moments in their order. `names` are the nodes, so that columns are as wide as the longest; one that is
    longer widens them from there on."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._width = max(map(len, names), default=1)
        self._known: dict[str, _Known] = {}

    def line(self, moment: Moment) -> str:
        """One line, without its end."""
        self._width = max(self._width, len(moment.node))
        return f"{moment.at_ms / 1000:9.3f} {moment.node or '*':<{self._width}} {self.words(moment)}".rstrip()

    def skip(self, moment: Moment) -> None:
        """What this one says is known from elsewhere."""
        self.words(moment)

    def words(self, moment: Moment) -> str:
        """The line without time and node; pictures show those in other ways."""
        parts = [_cause(moment), *_consequences(moment), *self._changes(moment)]
        return "; ".join(filter(None, parts))

    def _changes(self, moment: Moment) -> Iterator[str]:
        """What is other than the last line of this node said."""
        known = self._known.setdefault(moment.node, _Known())
        if not moment.state:
            known.state = ""  # it happened from outside, and what comes next may be another process
            return
        if moment.state != known.state:
            yield f"is {moment.state}"
        if moment.missing != known.missing:
            yield f"misses {moment.missing}" if moment.missing else "misses nothing"
        if moment.lost != known.lost and moment.lost:
            yield f"gives up {moment.lost}"
        known.state, known.missing, known.lost = moment.state, moment.missing, moment.lost


def _cause(moment: Moment) -> str:
    """What set the step off."""
    match moment.kind:
        case StepKind.STARTED:
            return "starts"
        case StepKind.SET | StepKind.DELETE | StepKind.BATCH | StepKind.REQUEST:
            return "" if moment.ticks else f"gets a {moment.kind}"
        case StepKind.UP | StepKind.DOWN:
            return f"transport {moment.kind}"
        case StepKind.GAP:
            return "transport lost something"
        case StepKind.WAKE | StepKind.ANNOUNCE | StepKind.SEEN:
            return ""
    if moment.heard is None:
        return moment.kind
    return _heard(moment.heard, moment, _events(moment, [event for event in moment.events if event.fate != "made"]))


def _heard(heard: Said, moment: Moment, events: str) -> str:
    match moment.kind:
        case GossipKind.UPDATE:
            return f"hears {heard.sender}: {events or heard.ticks}"
        case GossipKind.PING:
            kept = f", keeps [{moment.chain}]" if moment.chain not in ("", heard.chain) and not heard.about else ""
            return f"hears {_gossip(heard)} of {heard.sender}{kept}"
        case StepKind.OFFERED | StepKind.MAPS:
            return f"gets the {'hash' if heard.about == 'hash' else 'maps'} of {heard.sender}"
        case StepKind.JOINER:
            return f"is asked for a download by {heard.sender}"
        case StepKind.EVENTS:
            return f"gets from {heard.sender}: {events}"
        case StepKind.LINKED:
            return f"gets by the link to {heard.sender}: {events or heard.about}"
        case StepKind.TOLD:
            return f"is told by {heard.sender}, for the service {heard.about}"
        case StepKind.KNOWN:
            said = [f"knows {heard.ticks}"] if heard.ticks else []
            return f"hears that {heard.sender} {' and '.join([*said, heard.about or 'has no more'])}"
        case StepKind.PAGES:
            return f"gets of {heard.sender} {heard.about}"
        case StepKind.SNAPSHOT:
            return f"begins a download from {heard.sender} ({heard.about})" + (f": {events}" if events else "")
        case StepKind.DONE:
            return f"fails to ask {heard.sender}: {heard.about}" if heard.about else f"is done with {heard.sender}"
        case StepKind.MEMBERS:
            return f"sees {heard.about}"
        case kind if kind in {*GossipKind}:
            return f"hears {_gossip(heard)} of {heard.sender}"
    return moment.kind


def _consequences(moment: Moment) -> Iterator[str]:
    made = [event for event in moment.events if event.fate == "made"]
    if made:
        yield f"writes {_events(moment, made)}"
    if moment.closed:
        yield f"closes {moment.closed}"
    yield from (_note(note, moment) for note in moment.notes if note.partition(" ")[0] not in SILENT_NOTES)
    ticks = {event.tick for event in made}
    for said in moment.sent:
        if said.kind != GossipKind.UPDATE or said.ticks not in ticks:  # that a write is told to all goes without saying
            yield _sent(said)


def _note(note: str, moment: Moment) -> str:
    is_said = moment.heard is not None and moment.heard.about and note.endswith(moment.heard.about)
    return note.partition(" ")[0] if is_said else note


def _sent(said: Said) -> str:
    match said.kind:
        case "ask maps":
            return f"asks {said.to} for its {said.about or 'maps'}"
        case "ask events":
            wanted = f"for {said.ticks}" if said.ticks else ""
            return f"asks {said.to} {' and '.join(filter(None, [wanted, said.about]))}"
        case "ask pages":
            return f"asks {said.to} for {said.about}"
        case "ask snapshot":
            return f"asks {said.to} for a download"
        case "maps" if said.about == "hash":
            return "answers with its hash"
        case "maps" | "snapshot":
            return f"answers with its {said.kind}"
        case GossipKind.UPDATE:
            return f"sends {said.ticks}"
    return f"sends {_gossip(said)}"


def _gossip(said: Said) -> str:
    if said.kind == GossipKind.PING:
        return f"initial ping [{said.chain}]" if said.about else f"ping [{said.chain}]"
    if said.about:
        return f"{said.kind} ({said.ticks}) with {said.about} [{said.chain}]"
    return f"{said.kind} ({said.ticks})"


def _events(moment: Moment, events: list[EventShown]) -> str:
    if len(moment.events) < EVENTS_SHOWN or not events:
        return ", ".join(map(_event, events))
    return f"{_event(events[-1])} and others of {moment.ticks}"


def _event(event: EventShown) -> str:
    what = " deleted" if event.value is None else "" if _is_reserved(event.path) else f" = {event.value}"
    fate = "" if event.fate in ("made", "won") else f" ({event.fate})"
    return f"{event.tick} {event.path}{what}{fate}"


def _is_reserved(path: str) -> bool:
    """Whether the path is the system's own: what it holds there is drawn by chance, or a time."""
    return path == ":n" or path.startswith(":n.")
