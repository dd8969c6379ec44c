"""What clients do to a node: single writes, conditional ones, many at once, and a ring whose links are swapped.

Knows: how an action becomes a request, and when a client takes its write for done.  Does not know what must become of
it: the rules do.

The ring is FoundationDB's cycle: each of its paths names another one, and a swap of three links keeps it one ring. Only
its owner writes it, each swap in one batch, so that it is whole on the owner after every step and every crash, and in
the end on all.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from distkv.core.ready import BatchDone, LocalBatch, LocalDecision, LocalSet, Reply, WriteDone
from distkv.model.event import Kind
from distkv.model.path import Path
from distkv.model.tree import Tree
from distkv.sim.fleet import Fleet
from distkv.sim.host import OUTBOX_MAX, Process
from distkv.sim.scenario import Action, Scenario, Verb
from distkv.wire.request import Dismiss, Restore, SetValue
from distkv.wire.values import pack_value, unpack_value

RING_LENGTH: Final = 8
RING: Final = tuple(Path(["ring", str(number)]) for number in range(RING_LENGTH))
OWNER: Final = "n0"
"""The only host that writes the ring."""
BULK: Final = 20
"""How many entries one bulk write has."""
BURST: Final = OUTBOX_MAX + 40
TTLS_S: Final = (0.5, 3.0, 12.0, 40.0)
WRITE_BYTES: Final = 4096
"""More than a client's request takes in the log."""


class Workload:
    """The clients of one run."""

    def __init__(self, fleet: Fleet, scenario: Scenario) -> None:
        self._fleet = fleet
        self._paths = [Path(["p", str(number)]) for number in range(scenario.path_count)]
        self._count = 0
        self.ring_is_over = False
        """Its owner's disk was lost: what comes back may be seen in part, and a swap of that would make two rings."""

    def do(self, process: Process, action: Action) -> None:
        """Send one request to a running process; it may refuse."""
        if not process.replica.is_serving or not process.host.disk.has_room(WRITE_BYTES):
            return
        path = self._paths[action.number % len(self._paths)]
        self._count += 1
        value = pack_value(self._count)
        match action.verb:
            case Verb.SET:
                self._set(process, SetValue(1, path, value))
            case Verb.DELETE:
                self._set(process, SetValue(1, path, None))
            case Verb.CHECKED:
                self._set(process, self._checked(process.replica.tree, path, value, action.number))
            case Verb.BULK:
                first = action.number % 1000
                self._batch(process, [(Path(["bulk", str(first + n)]), self._count + n) for n in range(BULK)])
            case Verb.BURST:
                self._burst(process, action.number)
            case Verb.SET_TTL:
                self._set(process, SetValue(1, path, value, ttl=TTLS_S[action.number % len(TTLS_S)]))
            case Verb.SWAP:
                self._swap(process, action.number)
            case Verb.RESTORE | Verb.DISMISS:
                self._decide(process, action)

    # -- inside

    def _set(self, process: Process, request: SetValue) -> None:
        self._replied(process, process.step(LocalSet(request)).reply)

    def _batch(self, process: Process, values: list[tuple[Path, object]]) -> None:
        ops = tuple(SetValue(1, path, pack_value(value)) for path, value in values)
        self._replied(process, process.step(LocalBatch(ops)).reply)

    def _burst(self, process: Process, number: int) -> None:
        """More at once than the outbox holds, or the disk."""
        for n in range(BURST):
            if process.is_running and process.host.disk.has_room(WRITE_BYTES):
                path = self._paths[(number + n) % len(self._paths)]
                self._set(process, SetValue(1, path, pack_value(self._count + n)))

    def _decide(self, process: Process, action: Action) -> None:
        """About one of the open losers that this node shows; every second time only if its winner is still there.

        Those of the ring, which wait for events that are on their way, are left to its owner.
        """
        contested = process.replica.tree.conflicted()
        entries = [entry for entry in contested if not entry.head.path.is_reserved and entry.head.path not in RING]
        found = [(entry.head.link, loser.link) for entry in entries for loser in entry.conflicts()]
        if found:
            head, loser = found[action.number % len(found)]
            what = Restore if action.verb is Verb.RESTORE else Dismiss
            decision = LocalDecision(what(1, loser, head if action.number >> 16 & 1 else None))
            self._replied(process, process.step(decision).reply)

    def _replied(self, process: Process, reply: Reply | None) -> None:
        """The answer leaves when what it says is durable."""
        results = reply.results if isinstance(reply, BatchDone) else (reply,)
        for result in results:
            if isinstance(result, WriteDone) and result.event is not None and process.is_running:
                process.when_durable(partial(self._fleet.acknowledge, process, result.event))

    @staticmethod
    def _checked(tree: Tree, path: Path, value: bytes, number: int) -> SetValue:
        """A write on a condition that holds, as a client who has just read would make it."""
        entry = tree.get(path)
        if entry is None or not entry.is_live:
            return SetValue(1, path, value, new=True)
        if number % 3 == 0:
            return SetValue(1, path, value, chain=entry.head.chain[:1])
        if number % 3 == 1:
            return SetValue(1, path, value, prev=entry.head.value)
        return SetValue(1, path, entry.head.value, idem=True)

    def _swap(self, process: Process, number: int) -> None:
        if self.ring_is_over:
            return
        links = ring_links(process.replica.tree)
        if not links:
            self._batch(process, [(path, (at + 1) % RING_LENGTH) for at, path in enumerate(RING)])
            return
        first = number % RING_LENGTH
        second = links[first]
        third = links[second]
        fourth = links[third]
        self._batch(process, [(RING[first], third), (RING[third], second), (RING[second], fourth)])


def ring_links(tree: Tree) -> list[int]:
    """Where each path of the ring leads, as this node sees it; empty before there is a ring."""
    links = []
    for path in RING:
        entry = tree.get(path)
        if entry is None or entry.head.kind is not Kind.SET:
            return []
        links.append(int(str(unpack_value(entry.head.value))))
    return links
