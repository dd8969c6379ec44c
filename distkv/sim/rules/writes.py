"""Acknowledged writes stay: each is a winner, an open loser, or was known to whoever replaced it, or it was purged.

Knows: every event that any disk kept, and with it who knew whom: a reference that forgets nothing, beside the bounded
chains of the product.  Does not look at ledgers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from distkv.core.client_writes import BatchDone, LocalDecision, WriteDone
from distkv.core.ready import Input, Ready
from distkv.model.entry import LOSERS_MAX
from distkv.model.event import Event, Link, order, tick_text
from distkv.model.path import Path
from distkv.model.sameness import says_same
from distkv.sim.host import Host, Process
from distkv.sim.rule import Observed, Observer
from distkv.sim.rules.covered import covered_by
from distkv.wire.message import EventRecord, PurgeRecord, Record, ResetRecord


class WritesWin(Observer):
    """A write is what its own node shows as soon as it is made: it orders above all that it replaced (TOCK-1)."""

    rule = "writes win where they are made"

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:  # noqa: ARG002
        reply = ready.reply
        for result in reply.results if isinstance(reply, BatchDone) else (reply,):
            if isinstance(result, WriteDone) and result.event is not None:
                entry = process.replica.tree.get(result.event.path)
                if entry is None or entry.head is not result.event:
                    raise self.broken(f"{process.host.name} wrote {result.event!r}, and shows {entry}")


class DecisionsCloseOne(Observer):
    """A decision closes the open loser that it is about, and no other that people are told of (OPEN-6, OPEN-7)."""

    rule = "decisions close one"

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:
        reply = ready.reply
        if isinstance(what, LocalDecision) and isinstance(reply, WriteDone) and reply.event is not None:
            decision, decided = reply.event, what.request.loser
            if process.replica.tree.event(decided) is not None:
                raise self.broken(f"{decision!r} leaves {tick_text(*decided)} open")
            before, *closed = sorted(_closed(ready, decision), key=order, reverse=True)  # the first one won before
            # Of what says the same as the winner nobody is told: any write closes it (OPEN-4).
            more = [e for e in closed if e.link != decided and not says_same(e, before)]
            if more:
                raise self.broken(f"{decision!r} is about {tick_text(*decided)}, and closes {more}, too")


def _closed(ready: Ready, event: Event) -> Iterable[Event]:
    """What a write replaced."""
    return (gone for change in ready.changes if change.event is event for gone in change.closed)


class AcknowledgedStay(Observer):
    """No client is told that a write is done which is nowhere in the end.

    Excepted is what a disk took along that burned: the writes that no other disk held then.
    """

    rule = "acknowledged writes stay"

    def __init__(self) -> None:
        self.count = 0
        self._acknowledged: dict[str, list[Event]] = {}
        self._copied: list[Event] = []
        self._voided: dict[str, dict[Link, Event]] = {}
        """Per host what a download made it forget that has not come again."""
        self._here: dict[str, set[Link]] = {}
        """Per host what its disk has, as far as it landed there."""
        self._seen: dict[Path, dict[Link, Event]] = {}
        self._purged: dict[Path, set[Link]] = {}

    def acknowledged(self, process: Process, event: Event) -> None:
        self.count += 1
        self._acknowledged.setdefault(process.host.name, []).append(event)

    def lost_disk(self, host: Host, *, is_copied: bool) -> None:
        self._copied += [*self._acknowledged.pop(host.name, []), *self._voided.pop(host.name, {}).values()]
        self._here.pop(host.name, None)
        if not is_copied:  # the promise was that disk's, or that of a copy
            left = set().union(*self._here.values())
            self._copied = [event for event in self._copied if event.link in left]
            for name, events in self._voided.items():
                self._voided[name] = {link: event for link, event in events.items() if link in left}

    def started(self, process: Process, records: Sequence[Record]) -> None:
        self._here.pop(process.host.name, None)
        self.landed(process, records)

    def landed(self, process: Process, records: Sequence[Record]) -> None:
        host = process.host
        voided = self._voided.setdefault(host.name, {})
        here = self._here.setdefault(host.name, set())
        for record in records if host.is_ours else ():
            if isinstance(record, EventRecord):
                event = record.event
                here.add(event.link)
                self._seen.setdefault(event.path, {}).setdefault(event.link, event)
                if event.link in voided:
                    self._acknowledged.setdefault(host.name, []).append(voided.pop(event.link))
            elif isinstance(record, ResetRecord):  # others have all that was here, and a download begins (LIFE-8)
                here.clear()
                voided |= {event.link: event for event in self._acknowledged.pop(host.name, [])}
            elif isinstance(record, PurgeRecord):
                self._purged.setdefault(record.path, set()).update(record.links)

    def settled(self, fleet: Observed) -> None:
        tree = next(fleet.ours()).live.tree
        kept: dict[Path, set[Link]] = {}
        for path, events in self._seen.items():
            entry = tree.get(path)
            if entry is not None and len(entry.losers) >= LOSERS_MAX:
                continue  # what does not fit among the losers is in local histories only (OPEN-3)
            kept[path] = covered_by(entry, events.values(), self._purged.get(path, set()))
        voided = (events.values() for events in self._voided.values())
        for event in chain(*voided, *self._acknowledged.values(), self._copied):
            if event.path in kept and event.link not in kept[event.path]:
                raise self.broken(f"{event!r} was acknowledged, and nothing at {event.path} knows it")
