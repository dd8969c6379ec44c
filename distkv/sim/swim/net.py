"""A network of bare membership machines: virtual time, delays, losses, cuts, nodes that stand still or are gone.

Knows: where each machine is, what is on its way, and what each reported.  Does not know what should come of it.

Invariant: the same seed gives the same run. What can be read is handed in before time is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Final

import attrs

from distkv.sim.swim.seal import SizedSeal
from distkv.swim.inputs import DATAGRAMS_MAX, Datagrams, Dropped, Seeds, SwimInput, SwimReport, SwimSettings, Woke
from distkv.swim.keyring import Keyring
from distkv.swim.machine import SwimMachine
from distkv.swim.seal import KeyedSeal, PlainSeal, Seal
from distkv.wire.swim_records import START_BYTES, Address, MemberState, NodeRecord

DELAY_MS: Final = (1, 5)
BUFFERED_MAX: Final = 256
"""So many datagrams the kernel keeps for a node that stands still."""


@attrs.define(slots=True, eq=False)
class BareNode:
    """A machine at its place."""

    label: str
    """What this run calls it: its name, unless another one has that."""
    address: Address
    machine: SwimMachine
    reports: list[tuple[int, SwimReport]] = attrs.field(factory=list)
    is_running: bool = True
    is_frozen: bool = False
    buffered: list[tuple[Address, bytes]] = attrs.field(factory=list)
    lost: int = 0
    """Datagrams for which the kernel had no room."""
    wake_ms: int = -1

    def sees(self, name: str) -> MemberState | None:
        """What it believes of a node; None: nothing."""
        return next((one.state for one in self.machine.members() if one.node == name), None)

    def live(self) -> set[str]:
        """Those that it believes alive, also if it suspects them."""
        return {one.node for one in self.machine.members() if one.state <= MemberState.SUSPECT}


Passes = Callable[[Address, Address], bool]
Watch = Callable[[BareNode, SwimReport], None]


class SwimNet:
    """The network of one run."""

    def __init__(
        self, seed: int, *, loss: float = 0.0, interval_ms: int = 500, is_sealed: bool = True,
        keyring: Keyring | None = None,
    ) -> None:  # fmt: skip
        """`keyring`: what is sent is sealed in earnest; else `is_sealed` says whether it is as long as if it were."""
        self.now_ms = 1_000
        self.rng = Random(seed)
        self.loss = loss
        self.nodes = dict[str, BareNode]()
        self.passes: Passes | None = None
        """Whether a datagram passes from the one place to the other; None: all do."""
        self.watch: Watch | None = None
        """Sees what is reported, instead of the lists of the nodes."""
        self.sent: Callable[[Address, Address, bytes], None] | None = None
        """Sees what is sent: from where, to where, what."""
        self.maps = dict[Address, Address]()
        """Where others see a place, if that is elsewhere; what they send there arrives."""
        self._interval_ms = interval_ms
        self._is_sealed = is_sealed
        self._keyring = keyring
        self._due = list[tuple[int, int, BareNode | None, Address, Address, bytes]]()
        """A heap: when, a number, and who wakes or, for a datagram, from where, to where, what."""
        self._number = count()
        self._places = dict[Address, BareNode]()

    def add(
        self, name: str, address: Address, seeds: Iterable[Address] = (), *, generation: int | None = None,
        label: str = "", group: str = "fleet", admission: str = "accept",
    ) -> BareNode:  # fmt: skip
        """A node starts, at a place where none is running."""
        start = self.rng.randbytes(START_BYTES)
        host = f"[{address[0]}]" if ":" in address[0] else address[0]
        number = self.now_ms << 16 if generation is None else generation
        keys = () if self._keyring is None else self._keyring.ids
        record = NodeRecord(
            name, number, start, (f"{host}:{address[1]}",), interval_ms=self._interval_ms, keys=keys
        )  # fmt: skip
        settings = SwimSettings(group, self._interval_ms, admission)
        machine = SwimMachine(
            record, settings, self._seal(start, group), Random(self.rng.getrandbits(64)), self.rng.randbytes(32),
            self._keyring,
        )  # fmt: skip
        return self.start(BareNode(label or name, address, machine), seeds)

    def start(self, node: BareNode, seeds: Iterable[Address]) -> BareNode:
        """It runs from now on, at a place where none is running."""
        self.nodes[node.label] = self._places[node.address] = node
        self.hand(node, Seeds(tuple(seeds)))
        self.hand(node, Woke())
        return node

    def running(self) -> list[BareNode]:
        return [node for node in self.nodes.values() if node.is_running]

    def kill(self, label: str) -> None:
        """It is gone, and says nothing."""
        node = self.nodes[label]
        node.is_running = False
        if self._places.get(node.address) is node:
            del self._places[node.address]

    def freeze(self, label: str) -> None:
        """It stands still; what comes waits for it, as far as there is room."""
        self.nodes[label].is_frozen = True

    def thaw(self, label: str) -> None:
        """It goes on, and reads what waits first."""
        node = self.nodes[label]
        node.is_frozen = False
        waiting, lost = node.buffered, node.lost
        node.buffered, node.lost = [], 0
        for begin in range(0, len(waiting), DATAGRAMS_MAX):
            self.hand(node, Datagrams(tuple(waiting[begin : begin + DATAGRAMS_MAX])))
        if lost:
            self.hand(node, Dropped(lost))
        self.hand(node, Woke())

    def hand(self, node: BareNode, item: SwimInput) -> None:
        """A machine is told something."""
        step = node.machine.step(self.now_ms, item)
        for datagram in step.datagrams:
            self.send(node.address, datagram.address, datagram.data)
        if self.watch is None:
            node.reports += [(self.now_ms, report) for report in step.reports]
        else:
            for report in step.reports:
                self.watch(node, report)
        if step.wake_ms != node.wake_ms:
            node.wake_ms = step.wake_ms
            heappush(self._due, (step.wake_ms, next(self._number), node, node.address, node.address, b""))

    def send(self, origin: Address, to: Address, data: bytes) -> None:
        """A datagram leaves a place."""
        if self.sent is not None:
            self.sent(origin, to, data)
        if self.loss and self.rng.random() < self.loss:
            return
        if self.passes is None or self.passes(origin, to):
            arrives_ms = self.now_ms + DELAY_MS[0] + int(self.rng.random() * (DELAY_MS[1] - DELAY_MS[0] + 1))
            seen = self.maps.get(origin, origin)
            heappush(self._due, (arrives_ms, next(self._number), None, seen, to, data))

    def run(self, ms: int) -> None:
        """So much time passes."""
        self.run_until(lambda: False, ms)

    def run_until(self, is_over: Callable[[], bool], ms: int, *, each_ms: int = 100) -> int | None:
        """Time passes until something is so, which is looked at each `each_ms`, at the most so long. After how many
        milliseconds; None: it is not."""
        begin_ms, end_ms = self.now_ms, self.now_ms + ms
        while not is_over():
            if self.now_ms >= end_ms:
                return None
            self._run_to(min(self.now_ms + each_ms, end_ms) if ms > each_ms else end_ms)
        return self.now_ms - begin_ms

    def _seal(self, start: bytes, group: str) -> Seal:
        if self._keyring is not None:
            return KeyedSeal(self._keyring, group, start, self.rng.randbytes)
        return SizedSeal(start) if self._is_sealed else PlainSeal()

    def _run_to(self, end_ms: int) -> None:
        due = self._due
        while due and due[0][0] <= end_ms:
            self.now_ms, _, waker, origin, to, data = heappop(due)
            if waker is None:
                self._arrive(origin, to, data)
            elif waker.wake_ms == self.now_ms and waker.is_running and not waker.is_frozen:
                waker.wake_ms = -1
                self.hand(waker, Woke())
        self.now_ms = end_ms

    def _arrive(self, origin: Address, to: Address, data: bytes) -> None:
        node = self._places.get(to) or self._mapped(to)
        if node is None:
            return
        if not node.is_frozen:
            self.hand(node, Datagrams(((origin, data),)))
        elif len(node.buffered) < BUFFERED_MAX:
            node.buffered.append((origin, data))
        else:
            node.lost += 1

    def _mapped(self, outside: Address) -> BareNode | None:
        """Who is seen there."""
        inside = next((inside for inside, seen in self.maps.items() if seen == outside), None)
        return None if inside is None else self._places.get(inside)
