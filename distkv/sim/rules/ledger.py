"""The ledger and the tree of one node agree: what is present is held, what is held is not missing, digests are true.

Knows: docs/protocol, 'Ledger', 'Conflict' and DIGEST-1, computed anew from the entries.  A whole look costs as much as
the tree is large, so it is taken at starts, at ends, and now and then; what a step changed is looked at each time.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from distkv.core.ready import Input, Ready
from distkv.model.entry import Entry
from distkv.model.event import COUNT_BITS, Event, Kind, is_above, tick_text
from distkv.model.fence import NO_FENCE
from distkv.model.path import Path
from distkv.model.tree import Tree
from distkv.sim.host import Process
from distkv.sim.rule import Observed, Observer
from distkv.wire.message import EventRecord, PurgeRecord

WHOLE_EVERY: Final = 2000
"""After so many steps the whole tree is looked at."""


class LedgerPartition(Observer):
    """Present, superseded and missing make up every writer's ticks, and no two of them overlap."""

    rule = "ledger and tree agree"

    def __init__(self) -> None:
        self._steps = 0

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:  # noqa: ARG002
        tree, name = process.replica.tree, process.host.name
        if ready.records:
            written = dict.fromkeys(record.event.path for record in ready.records if isinstance(record, EventRecord))
            purged = [record.path for record in ready.records if isinstance(record, PurgeRecord)]
            for path in written:
                if path not in purged:  # a step may forget what it brought
                    self._check_path(name, tree, path)
        self._steps += 1
        if self._steps % WHOLE_EVERY == 0:
            self._check_whole(name, tree)

    def ended(self, process: Process) -> None:
        self._check_whole(process.host.name, process.replica.tree)

    def settled(self, fleet: Observed) -> None:
        for host in fleet.running():
            self._check_whole(host.name, host.live.tree)

    def _check_path(self, name: str, tree: Tree, path: Path) -> None:
        entry = tree.get(path)
        if entry is None:
            raise self.broken(f"{name} wrote down an event of {path} and has no entry there")
        for event in (entry.head, *entry.losers):
            link = event.link
            if not tree.ledger.has(link) or tree.event(link) is not event:
                raise self.broken(f"{name} shows {tick_text(*link)} at {path} and does not hold it")
        for loser in entry.losers:
            if not is_above(entry.head, loser):
                raise self.broken(f"{name}: the loser {loser} is above the winner {entry.head}")
            if any(_knows(other, loser) for other in (entry.head, *entry.losers) if other is not loser):
                raise self.broken(f"{name}: the open loser {loser} is contained in what is here")

    def _check_whole(self, name: str, tree: Tree) -> None:
        digest, links = 0, 0
        for entry in tree.entries():
            self._check_path(name, tree, entry.head.path)
            digest ^= _share(entry)
            links += 1 + len(entry.losers)
        if digest != tree.digest:
            raise self.broken(f"{name} says digest {tree.digest:016x}, its entries make {digest:016x}")
        present = sum(1 for _ in tree.present(tree.ledger.held()))
        if present != links:
            raise self.broken(f"{name} has {present} events present, its entries show {links}")
        for writer, book in tree.ledger.writers():
            ticks = book.last + 1 - book.first
            if len(book.held) + len(book.missing) != ticks or book.held & book.missing or book.lost - book.missing:
                raise self.broken(f"{name}: the book of {writer} does not add up: {book}")


def _knows(event: Event, other: Event) -> bool:
    """Whether an event contains another one (CONTAIN-1); not by the function that the product has for it."""
    for node, tick in event.chain:
        if node == other.node and tick >> COUNT_BITS == other.tick >> COUNT_BITS and tick >= other.tick:
            return is_above(event, other)
    return False


def _share(entry: Entry) -> int:
    """An entry's share of the state digest."""
    share = 0
    if entry.head.kind is Kind.SET:
        share ^= _hash(b"live", entry.head)
    for loser in entry.losers:
        if loser.kind is Kind.SET or entry.head.kind is Kind.SET:
            share ^= _hash(b"open", loser)
    return share


def _hash(tag: bytes, event: Event) -> int:
    place, node = str(event.path).encode(), event.node.encode()
    said = b"%b\n%b\n%d\n%d\n%d\n%b" % (place, node, event.tick, event.tock, event.kind, event.value)
    if event.fence != NO_FENCE:
        said = " ".join(map(str, event.fence)).encode() + b"\n" + said
    return int.from_bytes(blake2b(said, digest_size=8, person=tag).digest(), "big")
