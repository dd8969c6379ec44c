"""Values with a ttl go when their time is over, and not before (docs/protocol, TTL-1 to TTL-5).

Knows: since when each process shows each value, who must end it, and since when he can, by his own clock.  Does not
know whether anybody has a turn: that pings come is another rule's (`timing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from distkv.core.ready import Input, Ready, Wake
from distkv.model.event import Event, Kind, tick_text
from distkv.model.path import Path
from distkv.model.state import State
from distkv.sim.host import Process
from distkv.sim.rule import Observed, Observer
from distkv.wire.message import EventRecord, Record, ResetRecord

ROUNDING_MS: Final = 10
"""Clocks that run fast skip a millisecond now and then."""


@attrs.define
class _WatchedExpiry:
    """One process. All times are by its own clock."""

    process: Process
    shown: dict[Path, tuple[Event, int]] = attrs.field(factory=dict)
    """The winner of each path, and since when."""
    fleeting: dict[Path, None] = attrs.field(factory=dict)
    """Those of them that have a ttl."""
    able_ms: int | None = None
    """Since when it can end values, or when it tries again; it does not serve yet, if it is None."""
    turn_ms: int | None = None
    """Since when it must also end what others wrote."""

    def sees(self, path: Path) -> None:
        """Its winner may be another one now."""
        head = self.process.replica.tree.head(path)
        if head is None:
            self.shown.pop(path, None)
        elif path not in self.shown or self.shown[path][0] is not head:
            self.shown[path] = head, self.now_ms
        if head is not None and head.ttl is not None:
            self.fleeting[path] = None
        else:
            self.fleeting.pop(path, None)

    def is_writer(self, event: Event) -> bool:
        """By its name, which a second server of one name shares (TTL-3)."""
        return event.node == self.process.host.node

    def over_ms(self, event: Event, since_ms: int) -> int:
        """From when on it may end a value."""
        return since_ms + int((event.ttl or 0) * (1 if self.is_writer(event) else 2) * 1000)

    @property
    def now_ms(self) -> int:
        return self.process.host.clock.monotonic_ms(self.process.now_ms)


class TtlEnds(Observer):
    """No process ends a value before its ttl has passed there, and who must end it does not wait.

    A writer that serves and has room ends it at once. Who sent the latest ping, or has no transport, looks once in a
    clock: where that is so for longer, the value is gone.
    """

    rule = "values with a ttl end"

    def __init__(self) -> None:
        self._watches: dict[str, _WatchedExpiry] = {}

    def started(self, process: Process, records: Sequence[Record]) -> None:  # noqa: ARG002
        watch = self._watches[process.host.name] = _WatchedExpiry(process)
        for entry in process.replica.tree.entries():
            watch.sees(entry.head.path)

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:
        watch = self._watches[process.host.name]
        for record in ready.records:
            if isinstance(record, EventRecord):
                if record.event.kind is Kind.EXPIRE and isinstance(what, Wake):  # it is made here, and did not come
                    self._check_expiry(watch, record.event)
                watch.sees(record.event.path)
            elif isinstance(record, ResetRecord):
                watch.shown.clear()
                watch.fleeting.clear()
        _note_turn(watch, what)

    def second(self, fleet: Observed) -> None:
        for watch in self._watches.values():
            process = watch.process
            if not process.is_running:
                continue
            if process.host.is_paused:
                watch.able_ms = watch.now_ms
            elif process.wake_at_ms != fleet.now_ms:  # else it is about to look
                self._check_all(watch)

    # -- inside

    def _check_expiry(self, watch: _WatchedExpiry, expiry: Event) -> None:
        """What a process ends is what it has shown for so long."""
        ended, since_ms = watch.shown.get(expiry.path, (None, 0))
        where = f"{watch.process.host.name} ends {expiry.path} by {tick_text(*expiry.link)}"
        if ended is None or ended.ttl is None:
            raise self.broken(f"{where}, which shows {ended!r}: that has no ttl")
        if expiry.tock != ended.tock + 1:
            raise self.broken(f"{where} with the tock {expiry.tock}, and {ended!r} has {ended.tock}")
        if watch.now_ms < watch.over_ms(ended, since_ms):
            raise self.broken(f"{where} after {watch.now_ms - since_ms} ms, and its ttl is {ended.ttl} s")

    def _check_all(self, watch: _WatchedExpiry) -> None:
        """What a process should have ended is gone."""
        if watch.able_ms is None:
            return
        now_ms, clock_ms = watch.now_ms - ROUNDING_MS, watch.process.replica.settings.clock_ms
        for path in watch.fleeting:
            event, since_ms = watch.shown[path]
            due_ms = max(watch.over_ms(event, since_ms), watch.able_ms)
            if not watch.is_writer(event):
                if watch.turn_ms is None:
                    continue
                due_ms = max(due_ms, watch.turn_ms) + clock_ms
            if now_ms > due_ms:
                late_ms = watch.now_ms - due_ms
                raise self.broken(f"{watch.process.host.name} still shows {event!r}, {late_ms} ms too late")


def _note_turn(watch: _WatchedExpiry, what: Input | None) -> None:
    """A step may have changed who must end what."""
    replica = watch.process.replica
    if not replica.is_serving:
        watch.able_ms = None
    elif isinstance(what, Wake) and not what.has_room:
        watch.able_ms = watch.now_ms + replica.settings.clock_ms  # it looks again then (TTL-5)
    elif watch.able_ms is None:
        watch.able_ms = watch.now_ms
    chain = replica.ping_chain
    if replica.state is not State.CUT_OFF and not (chain and chain[0].node == replica.name):
        watch.turn_ms = None
    elif watch.turn_ms is None:
        watch.turn_ms = watch.now_ms
