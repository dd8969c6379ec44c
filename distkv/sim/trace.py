"""The trace of a run: one line per step, and a digest over all of them.

Knows: how a step is written.  Does not know what it means.

Invariant: equal runs have equal digests; the digest covers the state of the node after each of its steps.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

from distkv.core.ready import HeardMessage, Input, PeerAnswered, PeerDone, Ready
from distkv.sim.host import Process
from distkv.sim.rule import Observer


class StepTrace(Observer):
    """Writes down every step; `write` gets the lines, if somebody wants them."""

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
