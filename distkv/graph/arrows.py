"""Who told whom: from the moments of a trace to arrows between them.

Knows: how a message is known again where it arrives.  Does not know how an arrow is drawn.

Invariant: every message that a moment heard from another node is the end of an arrow; one that a moment said to all
has, for every other node that was there, an arrow that arrives or one that is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import attrs

from distkv.graph.trace import GONE, Moment, Said, StepKind
from distkv.wire.gossip import GossipKind

GOSSIP: Final = frozenset(GossipKind)
_COUNT: Final = re.compile(r"[0-9]{1,19}")
UNDER_WAY_MS: Final = 1000
"""What was said so shortly before the end of a trace and did not arrive is not called lost."""
TICKS_MAX: Final = 256
"""Of so many ticks of an update it is looked up where each was sent; packing puts some into one message."""


@attrs.frozen
class Arrow:
    """One message on its way to one node."""

    said: Said
    source: str
    target: str
    """Empty: to nobody at all, though others were there."""
    start: int | None
    """The number of the moment that sent it; None: no step of the source shows that."""
    end: int | None
    """The number of the moment that heard it; None: it was lost, or no step of the target shows it."""
    is_lost: bool = False

    @property
    def row(self) -> int:
        """The moment by which it is found; one end there always is."""
        return (self.end if self.start is None else self.start) or 0

    @property
    def is_gossip(self) -> bool:
        """Whether it went through the agents; else it was a part of a conversation over TCP."""
        return self.said.kind in GOSSIP


def arrows(moments: Sequence[Moment]) -> list[Arrow]:
    """The arrows of a trace, by the moment where each begins, or can first be seen."""
    linker = _Linker(running_before(moments))
    for number, moment in enumerate(moments):
        linker.take(number, moment)
    end_ms = moments[-1].at_ms - UNDER_WAY_MS if moments else 0
    found = [*linker.found, *linker.lost(end_ms), *linker.unanswered()]
    return sorted(found, key=lambda arrow: arrow.row)


def running_before(moments: Iterable[Moment]) -> frozenset[str]:
    """The nodes that ran when the trace began: the first that one sees of them is not their start."""
    first: dict[str, str] = {}
    for moment in moments:
        if moment.node:
            first.setdefault(moment.node, moment.kind)
    return frozenset(node for node, kind in first.items() if kind != StepKind.STARTED)


def single_ticks(text: str) -> Iterator[str]:
    """The ticks of a text of ranges one by one: `a:1-2 b:350.1` gives a:1, a:2 and b:350.1."""
    for word in text.split():
        node, _, rest = word.rpartition(":")
        life, dot, counts = rest.rpartition(".")
        for part in counts.split(","):
            first, _, last = part.partition("-")
            if _COUNT.fullmatch(first) and _COUNT.fullmatch(last or first):
                for count in range(int(first), int(last or first) + 1):
                    yield f"{node}:{life}{dot}{count}"


# -- inside -------------------------------------------------------------------------------------------------------


@attrs.define
class _Spoken:
    """Something that was said to all, and whom it reached."""

    number: int
    at_ms: int
    node: str
    said: Said
    there: frozenset[str]
    reached: set[str] = attrs.field(factory=set)


@attrs.define
class _TracedRequest:
    """A request over TCP that a moment made."""

    number: int
    said: Said
    is_linked: bool = False
    """Whether a step of the peer shows that it arrived."""
    is_answered: bool = False
    has_failed: bool = False


class _Linker:
    """Reads moments in their order."""

    def __init__(self, there: frozenset[str]) -> None:
        self.found: list[Arrow] = []
        self._there = there
        self._spoken: list[_Spoken] = []
        self._by_key: dict[str, _Spoken] = {}
        self._by_tick: dict[tuple[str, str], _Spoken] = {}
        self._asked: dict[str, _TracedRequest] = {}
        self._latest: dict[tuple[str, str, str], _TracedRequest] = {}
        """By kind, asker and peer."""
        self._held: dict[tuple[str, str], int] = {}
        """A node and a tick -> the first moment in which it had the event."""
        self._answers: dict[str, int] = {}
        """The key of an answer to a peer -> the moment that gave it."""

    def take(self, number: int, moment: Moment) -> None:
        if moment.kind in GONE:
            self._there -= {moment.node}
        elif moment.state and moment.node not in self._there:
            self._there |= {moment.node}
        if moment.heard is not None:
            self._hear(number, moment, moment.heard)
        for said in moment.sent:
            self._say(number, moment, said)
        for event in moment.events:
            self._held.setdefault((moment.node, event.tick), number)

    def lost(self, end_ms: int) -> Iterator[Arrow]:
        """What was said to all and did not reach everybody."""
        for spoken in self._spoken:
            missed = spoken.there - spoken.reached - {spoken.node}
            if not missed or spoken.at_ms > end_ms:
                continue
            targets = [""] if len(missed) > 1 and not spoken.reached else sorted(missed)
            for target in targets:
                yield Arrow(spoken.said, spoken.node, target, spoken.number, None, is_lost=True)

    def unanswered(self) -> Iterator[Arrow]:
        """Requests that no step of the peer shows: pulls never do."""
        for asked in self._asked.values():
            if not asked.is_linked:
                is_lost = asked.has_failed and not asked.is_answered
                yield Arrow(asked.said, asked.said.sender, asked.said.to, asked.number, None, is_lost)

    # -- inside

    def _say(self, number: int, moment: Moment, said: Said) -> None:
        if said.kind.startswith("ask"):
            self._asked[said.key] = self._latest[said.kind, said.sender, said.to] = _TracedRequest(number, said)
        elif said.kind not in GOSSIP:
            self._answers[said.key] = number
        else:
            spoken = _Spoken(number, moment.at_ms, moment.node, said, self._there)
            self._spoken.append(spoken)
            self._by_key[said.key] = spoken
            if said.kind == GossipKind.UPDATE:
                for _, tick in zip(range(TICKS_MAX), single_ticks(said.ticks), strict=False):
                    self._by_tick[moment.node, tick] = spoken

    def _hear(self, number: int, moment: Moment, heard: Said) -> None:
        if moment.kind != StepKind.DONE and heard.sender in ("", moment.node):
            return  # what nobody said, or the node itself
        match moment.kind:
            case kind if kind in GOSSIP:
                self._hear_gossip(number, moment, heard)
            case StepKind.OFFERED:
                self._hear_request(number, moment, heard, "ask maps")
            case StepKind.JOINER:
                self._hear_request(number, moment, heard, "ask snapshot")
            case StepKind.DONE:
                self._done(heard)
            case StepKind.LINKED:
                ticks = dict(zip(range(TICKS_MAX), single_ticks(heard.ticks), strict=False)).values()
                for start in {self._held.get((heard.sender, tick)): None for tick in ticks} or (None,):
                    self.found.append(Arrow(heard, heard.sender, moment.node, start, number))
            case StepKind.TOLD:
                self.found.append(Arrow(heard, heard.sender, moment.node, None, number))
            case StepKind.MAPS | StepKind.EVENTS | StepKind.KNOWN | StepKind.SNAPSHOT | StepKind.PAGES:
                if heard.ask in self._asked:
                    self._asked[heard.ask].is_answered = True
                start = self._answers.get(heard.key)
                self.found.append(Arrow(heard, heard.sender, moment.node, start, number))

    def _hear_gossip(self, number: int, moment: Moment, heard: Said) -> None:
        sources: dict[int, _Spoken] = {}
        ticks = single_ticks(heard.ticks) if heard.kind == GossipKind.UPDATE else ()
        for _, tick in zip(range(TICKS_MAX), ticks, strict=False):
            spoken = self._by_tick.get((heard.sender, tick))
            if spoken is not None:
                sources[spoken.number] = spoken
        by_key = self._by_key.get(heard.key)
        if by_key is not None and not sources:
            sources[by_key.number] = by_key
        for spoken in sources.values():
            spoken.reached.add(moment.node)
        for start in sources or (None,):
            self.found.append(Arrow(heard, heard.sender, moment.node, start, number))

    def _hear_request(self, number: int, moment: Moment, heard: Said, kind: str) -> None:
        """A request has no key of its own where it arrives: it is the latest one of its kind on this way."""
        said, start = heard, None
        asked = self._latest.get((kind, heard.sender, moment.node))
        if asked is not None and not asked.is_linked:
            asked.is_linked = True
            said, start = asked.said, asked.number
        self.found.append(Arrow(said, heard.sender, moment.node, start, number))

    def _done(self, heard: Said) -> None:
        asked = self._asked.get(heard.ask)
        if asked is not None and heard.about:
            asked.has_failed = True
