"""What clients do to a node: single writes, conditional ones, many at once, and a ring whose links are swapped.

Knows: how an action becomes requests, and when a client takes its write for done.  Does not know what must become of
it: the rules do.

The ring is FoundationDB's cycle: each of its paths names another one, and a swap of three links keeps it one ring. Only
its owner writes it, each swap in one batch, so that it is whole on the owner after every step and every crash, and in
the end on all.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final, assert_never

from distkv.core.client_writes import BatchDone, LocalBatch, LocalDecision, LocalSet, WriteDone
from distkv.core.ready import Input
from distkv.model.event import Kind
from distkv.model.path import Path
from distkv.model.tree import Tree
from distkv.sim.actions import Condition, Decide, DecideAny, Fill, Swap, Write
from distkv.sim.fleet import Fleet
from distkv.sim.host import Process
from distkv.wire.decisions import Dismiss, Restore
from distkv.wire.value_requests import SetValue
from distkv.wire.values import pack_value, unpack_value

RING_LENGTH: Final = 8
RING: Final = tuple(Path(["ring", str(number)]) for number in range(RING_LENGTH))
OWNER: Final = "n0"
"""The only host that writes the ring."""
WRITE_BYTES: Final = 4096
"""More than a client's request takes in the log."""


class Workload:
    """The clients of one run."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._ring_is_over = False
        """Its owner's disk was lost: what comes back may be seen in part, and a swap of that would make two rings."""

    def disk_is_lost(self, name: str) -> None:
        """A disk comes back empty, or older."""
        self._ring_is_over |= name == OWNER

    def do(self, process: Process, action: Write | Fill | Swap | Decide | DecideAny, *, spares_disk: bool) -> str:
        """Send requests to a running process, which may refuse; one that pauses takes them later.

        `spares_disk`: no more than the disk has room for. Returns why nothing was sent, if that is so.
        """
        tree = process.replica.tree
        match action:
            case Write():
                self._ask(process, LocalSet(_request(tree, action)))
            case Fill(is_batch=True):
                self._ask(process, LocalBatch(tuple(_fill(action))))
            case Fill():
                for request in _fill(action):
                    if not spares_disk or (process.is_running and process.host.disk.has_room(WRITE_BYTES)):
                        self._ask(process, LocalSet(request))
            case Swap(number=number):
                self._swap(process, number)
            case Decide(path=path, loser_of=loser_of, is_restored=is_restored):
                entry = tree.get(path)
                losers = entry.conflicts() if entry is not None else ()
                links = [loser.link for loser in losers if loser.node == loser_of]
                if not links:
                    return f"{loser_of} has lost nothing at {path}, as {action.node} sees it"
                self._ask(process, LocalDecision((Restore if is_restored else Dismiss)(1, links[0])))
            case DecideAny():
                self._decide_any(process, action)
            case _:
                assert_never(action)
        return ""

    # -- inside

    def _ask(self, process: Process, what: Input) -> None:
        process.host.give(process, partial(self._offer, process, what))

    def _offer(self, process: Process, what: Input) -> None:
        """The answer leaves when what it says is durable."""
        reply = process.step(what).reply
        for result in reply.results if isinstance(reply, BatchDone) else (reply,):
            if isinstance(result, WriteDone) and result.event is not None and process.is_running:
                process.when_durable(partial(self._fleet.acknowledge, process, result.event))

    def _decide_any(self, process: Process, action: DecideAny) -> None:
        """Those of the ring, which wait for events that are on their way, are left to its owner."""
        conflicted = process.replica.tree.conflicted()
        entries = [entry for entry in conflicted if not entry.head.path.is_reserved and entry.head.path not in RING]
        found = [(entry.head.link, loser.link) for entry in entries for loser in entry.conflicts()]
        if found:
            head, loser = found[action.number % len(found)]
            what = Restore if action.is_restored else Dismiss
            self._ask(process, LocalDecision(what(1, loser, head if action.is_checked else None)))

    def _swap(self, process: Process, number: int) -> None:
        if self._ring_is_over:
            return
        links = ring_links(process.replica.tree)
        if not links:
            self._link(process, [(path, (at + 1) % RING_LENGTH) for at, path in enumerate(RING)])
            return
        first = number % RING_LENGTH
        second = links[first]
        third = links[second]
        fourth = links[third]
        self._link(process, [(RING[first], third), (RING[third], second), (RING[second], fourth)])

    def _link(self, process: Process, links: list[tuple[Path, int]]) -> None:
        self._ask(process, LocalBatch(tuple(SetValue(1, path, pack_value(to)) for path, to in links)))


def _request(tree: Tree, action: Write) -> SetValue:
    """A write, on a condition as a client makes it who has just read."""
    path, value = action.path, None if action.value is None else pack_value(action.value)
    entry = tree.get(path)
    if action.condition is None:
        return SetValue(1, path, value, ttl=action.ttl_s, fence=action.fence, refence=action.refence)
    if action.condition is Condition.NEW or entry is None or not entry.is_live:
        return SetValue(1, path, value, new=True, ttl=action.ttl_s)
    match action.condition:
        case Condition.CHAIN:
            return SetValue(1, path, value, chain=entry.head.chain[:1])
        case Condition.VALUE:
            return SetValue(1, path, value, prev=entry.head.value)
        case Condition.SAME:
            return SetValue(1, path, entry.head.value, idem=True)
    assert_never(action.condition)


def _fill(action: Fill) -> Iterator[SetValue]:
    """Each value is its place among them."""
    for at in range(action.count):
        number = action.first + at if action.over is None else (action.first + at) % action.over
        yield SetValue(1, Path((*action.path.names, str(number))), pack_value(at))


def ring_links(tree: Tree) -> list[int]:
    """Where each path of the ring leads, as this node sees it; empty before there is a ring."""
    links = []
    for path in RING:
        entry = tree.get(path)
        if entry is None or entry.head.kind is not Kind.SET:
            return []
        links.append(int(str(unpack_value(entry.head.value))))
    return links
