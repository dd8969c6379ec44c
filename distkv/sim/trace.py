"""The trace of a run: one line per step, and a digest over all of them.

Knows: how a step is written.  Does not know what it means.

Invariant: equal runs have equal digests; the digest covers the state of the node after each of its steps.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

from distkv.core.ready import HeardMessage, Input, PeerAnswered, PeerDone, Ready
from distkv.sim.process import Process
from distkv.sim.rule import Observer


class Trace(Observer):
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
    match what:
        case None:
            return "begin"
        case HeardMessage(message=message):
            header = message.header
            return f"{type(message).__name__} of {header.node} {header.tick} {header.tock}"
        case PeerAnswered(ask=ask, answer=answer):
            return f"{type(answer).__name__} for {ask}"
        case PeerDone(ask=ask, error=error):
            return f"done {ask} {'' if error is None else error.code}"
    return type(what).__name__
