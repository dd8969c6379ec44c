"""Fleets of bare membership machines for tests, and machines that are spoken to by hand.

Knows: how a fleet forms, and what its nodes see.  Does not know what a test wants of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import attrs

from distkv.sim.swim.net import BareNode, SwimNet
from distkv.swim.inputs import Datagrams, MemberChanged, Seeds, SwimInput, SwimReport, SwimSettings, SwimStep, Woke
from distkv.swim.keyring import Keyring
from distkv.swim.machine import SwimMachine
from distkv.swim.seal import PlainSeal
from distkv.wire.swim_frames import Frame, decode_frame, encode_frame
from distkv.wire.swim_records import Address, MemberState, NodeRecord

INTERVAL_MS = 500


def place(number: int) -> Address:
    """Where the node of this number is."""
    return f"10.0.{number // 250}.{number % 250 + 1}", 7000


def fleet(
    number: int, seed: int = 1, *, loss: float = 0.0, is_sealed: bool = True, interval_ms: int = INTERVAL_MS,
    keyring: Keyring | None = None,
) -> SwimNet:  # fmt: skip
    """Nodes n0, n1, ... that all know each other, with nothing left to tell."""
    net = SwimNet(seed, is_sealed=is_sealed, interval_ms=interval_ms, keyring=keyring)
    for one in range(number):
        net.add(f"n{one}", place(one), [place(0)])
        net.run(60)
    assert net.run_until(lambda: is_whole(net), 120 * interval_ms) is not None
    net.run(10 * interval_ms)
    net.loss = loss
    return net


def is_whole(net: SwimNet, but: Iterable[str] = ()) -> bool:
    """Whether all that run believe all of them alive, and nobody else; `but`: whoever does not count."""
    some = [node for node in net.running() if node.label not in {*but}]
    names = {node.machine.name for node in some}
    return all(node.live() == names for node in some)


def check(net: SwimNet) -> None:
    """All machines keep what they promise."""
    for node in net.running():
        node.machine.check()


def told_dead(net: SwimNet) -> int:
    """How often a node that ran heard that it was dead."""
    return sum(node.machine.counts.told_dead for node in net.running())


def seen_as(net: SwimNet, name: str, state: MemberState) -> list[str]:
    """Whoever has ever seen this node so."""

    def is_that(report: SwimReport) -> bool:
        return isinstance(report, MemberChanged) and (report.member.node, report.member.state) == (name, state)

    return [node.label for node in net.nodes.values() if any(is_that(one) for _, one in node.reports)]


def said(node: BareNode, kind: type[SwimReport]) -> list[SwimReport]:
    """What a node reported of one kind."""
    return [report for _, report in node.reports if isinstance(report, kind)]


def record_of(name: str, number: int, generation: int = 1 << 20) -> NodeRecord:
    """What a node says of itself whose place has this number."""
    host, port = place(number)
    return NodeRecord(name, generation, name.encode().ljust(8, b"."), (f"{host}:{port}",))


@attrs.define
class Spoken:
    """A machine without a secret, to which a test speaks in the place of others."""

    machine: SwimMachine
    now_ms: int = 1_000

    def step(self, item: SwimInput) -> SwimStep:
        return self.machine.step(self.now_ms, item)

    def hear(self, number: int, *frames: Frame) -> list[tuple[Address, Frame]]:
        """Frames from the node of this number; what is sent to whom then."""
        return self.hear_bytes(number, *map(encode_frame, frames))

    def hear_bytes(self, number: int, *datagrams: bytes) -> list[tuple[Address, Frame]]:
        items = tuple([(place(number), data) for data in datagrams])
        return sent(self.step(Datagrams(items)))

    def wait(self, ms: int) -> list[tuple[Address, Frame]]:
        """So much time passes, in which the machine wakes when it wants to; what is sent."""
        end_ms, found = self.now_ms + ms, list[tuple[Address, Frame]]()
        while True:
            step = self.step(Woke())
            found += sent(step)
            if step.wake_ms > end_ms:
                self.now_ms = end_ms
                return found
            self.now_ms = max(step.wake_ms, self.now_ms + 1)

    def sees(self, name: str) -> MemberState | None:
        return next((one.state for one in self.machine.members() if one.node == name), None)


def sent(step: SwimStep) -> list[tuple[Address, Frame]]:
    return [(one.address, decode_frame(one.data)) for one in step.datagrams]


def spoken(name: str = "lamp", *, settings: SwimSettings | None = None, seeds: Iterable[Address] = ()) -> Spoken:
    """A machine of its own, at place 0."""
    own = record_of(name, 0)
    machine = SwimMachine(own, settings or SwimSettings("fleet"), PlainSeal(), Random(1), bytes(32))
    found = Spoken(machine)
    found.step(Seeds(tuple(seeds)))
    found.step(Woke())
    return found
