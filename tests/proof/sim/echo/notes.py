"""What must be true of the notes of the echo, wherever they are asked for.

Knows: what was asked, what nodes wrote down, and what watches were told.  Does not know what happens to the hosts.
"""

from __future__ import annotations

from collections import Counter

import attrs

from distkv.core.ready import Input, Ready, ServiceAsked, ServiceResult, ServiceWithdrawn
from distkv.errors import NotReadyError, RequestError, UnknownOutcomeError
from distkv.sim.host import Process
from distkv.sim.rule import Observed, Observer
from distkv.wire.message import SlotRecord
from tests.proof.core.echo.machine import ECHO, Echo
from tests.proof.core.echo.noting import read_note
from tests.proof.wire.echo import EchoAway, EchoList, EchoListed, EchoNews, EchoNote, EchoNoted, EchoNotes


@attrs.define
class SeenNotes:
    """What one watch was told."""

    texts: dict[str, str] = attrs.field(factory=dict)
    away: tuple[str, ...] = ()
    is_complete: bool = False


class NotesAreKept(Observer):
    """Each request is answered; an answer says that the keeper wrote it down. What must not be repeated is written down
    once at the most; what has effects is not written down when it was refused, unless that says that it may be, or that
    the node which was asked serves no more. In the end each watch knows just what is kept, and names the nodes that do
    not run: of theirs it knows what they told last."""

    rule = "a note is written down by its keeper"

    def __init__(self) -> None:
        self.listed: list[EchoListed] = []
        self.refused: list[RequestError] = []
        self.noted: list[EchoNoted] = []
        self.watches: dict[tuple[Process, int], SeenNotes] = {}
        self.written = Counter[str]()
        """How often each text was."""
        self.known_count = 0
        """How many notes watches knew in the end."""
        self._open: dict[tuple[Process, int], EchoNote | EchoList] = {}
        self._once: set[str] = set()
        self._never: set[str] = set()
        """Whose clients were told that they were not written down."""

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:
        if isinstance(what, ServiceAsked):
            if isinstance(what.request, EchoNote | EchoList):
                self._open[process, what.id] = what.request
            elif isinstance(what.request, EchoNotes):
                self.watches[process, what.id] = SeenNotes()
            if isinstance(what.request, EchoNote) and what.request.is_once:
                self._once.add(what.request.text)
        elif isinstance(what, ServiceWithdrawn):
            self._open.pop((process, what.id), None)
        for record in ready.records:
            if isinstance(record, SlotRecord) and record.key.startswith("note ") and record.value is not None:
                self._wrote(read_note(record.value))
        for answer in ready.answers:
            self._answered(process, answer.id, answer.result)

    def ended(self, process: Process) -> None:
        for table in (self._open, self.watches):
            for key in [key for key in table if key[0] is process]:
                del table[key]

    def settled(self, fleet: Observed) -> None:
        if self._open:
            raise self.broken(f"nobody answered {[*self._open.values()]}")
        self._look_at_watches(fleet)

    # -- inside

    def _look_at_watches(self, fleet: Observed) -> None:
        hosts = {host.node: host for host in fleet.ours() if host.live.is_serving}
        machines = [host.live.services.get(ECHO) for host in hosts.values()]
        notes = [one.notes for one in machines if isinstance(one, Echo) and one.notes is not None]
        kept = {name: text for one in notes for name, text in one.kept.items()}
        for (process, _), seen in self.watches.items():
            if not process.is_running:
                continue
            away = tuple(sorted(process.replica.registry.nodes.keys() - hosts.keys()))
            known = {name: text for name, text in seen.texts.items() if not away or name in kept}
            if (known, seen.away, seen.is_complete) != (kept, away, True):
                raise self.broken(f"{process.host.name} was told {seen}, and kept is {kept}, away are {away}")
            self.known_count += len(seen.texts)

    def _wrote(self, note: EchoNoted) -> None:
        assert note.text is not None
        self.written[note.text] += 1
        if note.text in self._once and self.written[note.text] > 1:
            raise self.broken(f"{note.text} is written down twice")
        self._look_at_never(note.text)

    def _look_at_never(self, text: str) -> None:
        if text in self._never and self.written[text]:
            raise self.broken(f"{text} was refused, and is written down")

    def _answered(self, process: Process, id: int, result: ServiceResult) -> None:
        if (process, id) in self.watches:
            if isinstance(result, EchoNews):
                self._watched(self.watches[process, id], result)
            else:  # it is refused
                del self.watches[process, id]
            return
        asked = self._open.pop((process, id), None)
        if isinstance(result, EchoListed):
            self.listed.append(result)
        elif isinstance(asked, EchoNote) and isinstance(result, RequestError):
            self.refused.append(result)
            serves_no_more = isinstance(result, NotReadyError) and str(result).startswith(f"{process.host.node} is ")
            if asked.has_effects and not (serves_no_more or isinstance(result, UnknownOutcomeError)):
                self._never.add(asked.text)
                self._look_at_never(asked.text)
        elif isinstance(asked, EchoNote) and isinstance(result, EchoNoted):
            self.noted.append(result)
            if (result.name, result.text) != (asked.name, asked.text) or not self.written[asked.text]:
                raise self.broken(f"{process.host.name} was answered {result} for {asked}")

    def _watched(self, seen: SeenNotes, news: EchoNews) -> None:
        seen.is_complete |= news.is_complete
        for item in news.items:
            if isinstance(item, EchoAway):
                seen.away = item.nodes
            elif item.text is None:
                seen.texts.pop(item.name, None)
            else:
                seen.texts[item.name] = item.text
