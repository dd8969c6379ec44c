"""What a fleet of bare machines is measured by: how soon a death is known, how often that is wrong, what rest costs.

Knows: how each figure is taken from a network.  Does not know how a table of them looks (`table`).

Invariant: a figure is of a fleet that was whole before, and only what is measured happens to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs

from distkv.sim.swim.net import BareNode, SwimNet
from distkv.swim.inputs import MemberChanged, MessageHeard, SayMessage, SwimReport
from distkv.wire.swim_records import Address, MemberState

WHOLE_MS_MAX: Final = 300_000
SETTLE_MS: Final = 10_000
HEARD_MS: Final = 5_000
"""What was not heard after so long was not heard."""
STEP_MS: Final = 50
"""How exactly times are taken."""


class Views:
    """Who believes whom alive, kept from what machines report: nobody looks at whole tables."""

    def __init__(self, net: SwimNet) -> None:
        self.told: Callable[[BareNode, SwimReport], None] | None = None
        """Sees what is reported, too."""
        self.deaths_told = 0
        """How often a node came to believe a running one dead."""
        self._net = net
        self._seen = dict[str, set[str]]()
        """Whom each node believes alive, itself included."""
        net.watch = self._watch

    def are_whole(self) -> bool:
        running = self._net.running()
        return all(len(self._seen.get(node.label, ())) == len(running) for node in running)

    def forget(self, label: str) -> None:
        """A node starts anew."""
        self._seen[label] = {label}

    def _watch(self, node: BareNode, report: SwimReport) -> None:
        seen = self._seen.setdefault(node.label, {node.machine.name})
        if isinstance(report, MemberChanged):
            member = report.member
            if member.state <= MemberState.SUSPECT:
                seen.add(member.node)
            elif member.node in seen:
                seen.remove(member.node)
                one = self._net.nodes.get(member.node)
                self.deaths_told += member.state is MemberState.DEAD and one is not None and one.is_running
        if self.told is not None:
            self.told(node, report)


@attrs.define
class Formed:
    """A fleet in which all know all."""

    net: SwimNet
    views: Views
    names: list[str]

    def place(self, name: str) -> Address:
        return self.net.nodes[name].address


def place(number: int) -> Address:
    """Where the node of this number is."""
    return f"10.{number // 62_500}.{number // 250 % 250}.{number % 250 + 1}", 7000


def formed(size: int, loss: float, seed: int, *, is_sealed: bool = True) -> Formed:
    """A fleet forms, each node by one that is there, and comes to rest.

    Raises:
        TimeoutError: it does not.
    """
    net = SwimNet(seed, is_sealed=is_sealed)
    views = Views(net)
    names = [f"n{number}" for number in range(size)]
    for number, name in enumerate(names):
        seeds = [place(int(net.rng.random() * number))] if number else []
        net.add(name, place(number), seeds)
        net.run(30)
    if net.run_until(views.are_whole, WHOLE_MS_MAX) is None:
        raise TimeoutError(f"{size} nodes do not find each other in {WHOLE_MS_MAX // 1000} s")
    net.run(SETTLE_MS)
    net.loss = loss
    return Formed(net, views, names)


def _await_whole(fleet: Formed) -> int:
    """
    Raises:
        TimeoutError: it takes too long.
    """
    found = fleet.net.run_until(fleet.views.are_whole, WHOLE_MS_MAX, each_ms=STEP_MS)
    if found is None:
        raise TimeoutError(f"views are not whole after {WHOLE_MS_MAX // 1000} s")
    return found


def _restart(fleet: Formed, names: Sequence[str]) -> None:
    others = [node.label for node in fleet.net.running()]
    for name in names:
        seed = others[int(fleet.net.rng.random() * len(others))]
        fleet.views.forget(name)
        fleet.net.add(name, fleet.place(name), [fleet.place(seed)])


def deaths_ms(fleet: Formed, times: int, at_once: int = 1) -> list[int]:
    """How long until all that live know that some are dead, so many times; after each the dead come back."""
    found = []
    for _ in range(times):
        dead = [fleet.names[int(fleet.net.rng.random() * len(fleet.names))]]
        while len(dead) < at_once:
            name = fleet.names[int(fleet.net.rng.random() * len(fleet.names))]
            dead += [name] if name not in dead else []
        for name in dead:
            fleet.net.kill(name)
        found.append(_await_whole(fleet))
        _restart(fleet, dead)
        _await_whole(fleet)
        fleet.net.run(2_000 + int(fleet.net.rng.random() * 1_000))
    return found


def joins_ms(fleet: Formed, times: int) -> list[int]:
    """How long until all know a node that came back; that it was dead they knew."""
    found = []
    for _ in range(times):
        name = fleet.names[int(fleet.net.rng.random() * len(fleet.names))]
        fleet.net.kill(name)
        _await_whole(fleet)
        _restart(fleet, [name])
        found.append(_await_whole(fleet))
        fleet.net.run(2_000)
    return found


def rest_bytes_per_s(fleet: Formed, ms: int) -> float:
    """What one node sends in a second, while nothing happens."""
    before = _sent_bytes(fleet)
    fleet.net.run(ms)
    return (_sent_bytes(fleet) - before) * 1000 / ms / len(fleet.names)


def false_deaths(fleet: Formed, ms: int) -> int:
    """How often a live node was told that it is dead, while nothing happened."""
    before = _told_dead(fleet)
    fleet.net.run(ms)
    return _told_dead(fleet) - before


def hearings_ms(fleet: Formed, times: int) -> list[int]:
    """How long until a node has heard a message, for each message and each node that hears it at all."""
    found, begun_ms = list[int](), 0

    def note(_: BareNode, report: SwimReport) -> None:
        if isinstance(report, MessageHeard):
            found.append(fleet.net.now_ms - begun_ms)

    fleet.views.told = note
    for _ in range(times):
        origin = fleet.net.nodes[fleet.names[int(fleet.net.rng.random() * len(fleet.names))]]
        begun_ms = fleet.net.now_ms
        fleet.net.hand(origin, SayMessage(1, b"m" * 100))
        fleet.net.run(HEARD_MS)
    fleet.views.told = None
    return found


def heal_ms(fleet: Formed, cut_ms: int) -> int:
    """A fleet is cut into halves for so long; how long until all views are whole after that."""
    left = {fleet.place(name) for name in fleet.names[::2]}
    fleet.net.passes = lambda origin, to: (origin in left) is (to in left)
    fleet.net.run(cut_ms)
    fleet.net.passes = None
    return _await_whole(fleet)


def _sent_bytes(fleet: Formed) -> int:
    return sum(node.machine.counts.sent_bytes for node in fleet.net.running())


def _told_dead(fleet: Formed) -> int:
    return sum(node.machine.counts.told_dead for node in fleet.net.running())
