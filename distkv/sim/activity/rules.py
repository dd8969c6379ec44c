"""What must be true of the activity network.

Knows: what clients sent, heard and were told, and what befell the nodes.  Does not know how the nodes do it.

Invariant: a rule says what is promised, and no more: what no node has that could be asked is not owed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

from distkv.sim.activity.copies import ActivityCopies, Place, node_of
from distkv.sim.activity.crowd import loads_are_alike, loads_of
from distkv.sim.activity.moments import (
    ActivityEchoed,
    ActivityGivenOut,
    ActivityHeard,
    ActivityWritten,
    ChatBegun,
    ClientArrived,
    ClientSentOn,
    GapHeard,
    NodeEnded,
    NodeEnding,
    PassedOver,
)
from distkv.sim.activity.nodes import activity_nodes
from distkv.sim.activity.reach import CALM_MS, ActivityReach, NodeStart
from distkv.sim.fleet import Fleet
from distkv.sim.host import Process
from distkv.sim.rule import Observed, Observer
from distkv.wire.message import Record

STAYS_MS: Final = 55_000
"""So long who came from another node is not sent on: a minute by such a clock, and of whole seconds."""
END_MS: Final = 11_000
"""So long a node that ends in order sends clients on at the most, by a clock that runs up to 5 % slow."""


def _sender_of(text: str) -> tuple[str, int]:
    """Who sent an activity, and as which one."""
    sender, _, number = text.rpartition("-")
    return sender, int(number)


class OnceAndInOrder(Observer):
    """Each client hears each activity once at the most, and of each sender in the order in which it sent. Who changes
    sides while a network is split may hear an earlier one later: where no node can know the later one."""

    rule = "an activity is heard once, and in order"

    def __init__(self, copies: ActivityCopies) -> None:
        self._copies: Final = copies
        self._heard: Final = defaultdict[str, set[str]](set)
        self._last: Final = dict[tuple[str, str], ActivityHeard]()

    def moment(self, at_ms: int, what: object) -> None:
        if not isinstance(what, ActivityHeard):
            return
        if what.text in self._heard[what.client]:
            raise self.broken(f"{what.client} hears {what.text} again")
        self._heard[what.client].add(what.text)
        sender, number = _sender_of(what.text)
        last = self._last.setdefault((what.client, sender), what)
        if number >= _sender_of(last.text)[1]:
            self._last[what.client, sender] = what
        elif what.origin == last.origin or self._copies.could_have(what.node, (last.origin, last.number), at_ms):
            raise self.broken(f"{what.client} hears {what.text} after {last.text}")


class EchoHasCopies(Observer):
    """When an activity is echoed, as many other nodes as there must be have it, or all that there are; but those that
    ended a moment ago."""

    rule = "what is echoed has its copies"

    def __init__(self, reach: ActivityReach) -> None:
        self._reach: Final = reach
        self._ended: Final = list[tuple[int, str]]()

    def ended(self, process: Process) -> None:
        self._ended.append((process.now_ms, process.host.name))

    def moment(self, at_ms: int, what: object) -> None:
        if not isinstance(what, ActivityGivenOut) or what.node != node_of(what.origin):
            return
        since_ms = at_ms - CALM_MS
        others = [name for name in self._reach.running if name != what.node and self._reach.has_run(name, since_ms)
                  and self._reach.could_ask(what.node, name, since_ms)]  # fmt: skip
        lost = {name for ms, name in self._ended if ms >= since_ms}
        having = {*what.holders, *lost} - {what.node}
        if len(having) < min(what.copies, len(others)):
            raise self.broken(f"{what.node} echoes {what.number}: of {sorted(others)} these have it: {sorted(having)}")


class EchoedIsHeard(Observer):
    """What was echoed is heard by everybody who had come before; or no node that could be asked had it any more, and he
    is told so. Of a sender who changed sides what it sent before need not come where it could not be known, or waited
    for what could not be known, when it sent the next one."""

    rule = "what was echoed is heard by everybody"

    def __init__(self, reach: ActivityReach, copies: ActivityCopies) -> None:
        self._reach: Final = reach
        self._copies: Final = copies
        self._begun: Final = dict[str, int]()
        self._written: Final = dict[str, int]()
        self._echoed: Final = set[str]()
        self._heard: Final = defaultdict[str, set[str]](set)
        self._places: Final = dict[str, Place]()
        self._sent: Final = defaultdict[str, dict[int, str]](dict)
        """Of each sender the origin of each that it sent."""
        self._unknown: Final = defaultdict[tuple[str, str], set[str]](set)
        """What a sender had sent elsewhere, and could not be known at this origin when it sent there next."""
        self._passed: Final = dict[tuple[NodeStart, str, int], bool]()
        """What a start of a node passed over, and whether it could have had it."""
        self._gaps: Final = dict[tuple[str, str, int], str]()
        """What each client was told not to come; why it might have come."""

    def moment(self, at_ms: int, what: object) -> None:
        if isinstance(what, ChatBegun):
            self._begun[what.client] = at_ms
        elif isinstance(what, ActivityWritten):
            self._written[what.text] = at_ms
        elif isinstance(what, ActivityEchoed):
            self._echoed.add(what.text)
        elif isinstance(what, ActivityHeard):
            self._heard[what.client].add(what.text)
            if what.text not in self._places:
                self._came_first(at_ms, what)
        elif isinstance(what, PassedOver):
            start = self._reach.start_of(what.node)
            for number, holders in what.holders.items():
                could = self._copies.could_have(what.node, (what.origin, number), at_ms, holders)
                self._passed[start, what.origin, number] = could
        elif isinstance(what, GapHeard):
            self._told_of(at_ms, what)

    def settled(self, fleet: Observed) -> None:
        if activity_nodes(fleet.services) is None:
            return
        for client, begun_ms in sorted(self._begun.items()):
            for text in sorted(self._echoed - self._heard[client]):
                why = self._why_lost(client, text) if self._written[text] >= begun_ms else ""
                if why:
                    raise self.broken(f"{client} does not hear {text}, which was echoed: {why}")

    # -- inside

    def _came_first(self, at_ms: int, what: ActivityHeard) -> None:
        """Somebody hears an activity for the first time."""
        sender, number = _sender_of(what.text)
        self._places[what.text] = what.origin, what.number
        sent = self._sent[sender]
        last = max((one for one, origin in sent.items() if origin == what.origin), default=0)
        elsewhere = [f"{sender}-{one}" for one in sent if last < one < number]
        self._unknown[sender, what.origin].update(
            text for text in elsewhere if not self._copies.could_give(node_of(what.origin), self._places[text], at_ms)
        )
        sent[number] = what.origin

    def _told_of(self, at_ms: int, gap: GapHeard) -> None:
        start = self._reach.start_of(gap.node)
        for number, holders in gap.holders.items():
            could = self._passed.get((start, gap.origin, number))
            if could is None:
                could = self._copies.could_have(gap.node, (gap.origin, number), at_ms, holders)
            why = f"{gap.node} said at {at_ms} ms that it does not come" if could else ""
            self._gaps.setdefault((gap.client, gap.origin, number), why)

    def _why_lost(self, client: str, text: str) -> str:
        """Why that must not be; nothing: it may."""
        sender, number = _sender_of(text)
        later = {self._places[one][0] for one in self._heard[client]
                 if _sender_of(one)[0] == sender and _sender_of(one)[1] > number}  # fmt: skip
        if any(text in self._unknown[sender, origin] for origin in later):
            return ""
        told = self._gaps.get((client, *self._places[text]))
        if told is not None:
            return told
        return "nobody said so" if self._copies.has_spread(self._places[text]) else ""


class EndsInOrder(Observer):
    """A node that ends in order sends all its clients elsewhere, within 10 seconds, if there is another one."""

    rule = "a node that ends sends its clients on"

    def __init__(self, reach: ActivityReach) -> None:
        self._reach: Final = reach
        self._ending: Final = dict[str, int]()

    def ended(self, process: Process) -> None:
        self._ending.pop(process.host.name, None)

    def moment(self, at_ms: int, what: object) -> None:
        if isinstance(what, NodeEnding):
            self._ending[what.node] = at_ms
        elif isinstance(what, NodeEnded):
            began_ms = self._ending[what.node]
            since_ms = began_ms - CALM_MS
            others = [name for name in self._reach.running if name not in self._ending
                      and self._reach.has_run(name, since_ms) and self._reach.could_ask(what.node, name, since_ms)]
            if not self._reach.has_run(what.node, since_ms) or not self._reach.is_calm(what.node, since_ms):
                return
            if others and (what.left or not what.is_done):
                raise self.broken(f"{what.node} leaves {what.left} clients to themselves")
            if at_ms - began_ms > END_MS:
                raise self.broken(f"{what.node} takes {at_ms - began_ms} ms")


class SeldomSentOn(Observer):
    """No client is sent on within a minute after it came from another node, or another start of it, but by a node that
    ends."""

    rule = "no client is moved twice within a minute"

    def __init__(self) -> None:
        self._have_jumped = False
        """Whether a wall clock did: a client that connects again to its node says by it when it came."""
        self._ends: Final = Counter[str]()
        self._ending: Final = set[str]()
        self._places: Final = dict[str, tuple[str, int]]()
        self._came_ms: Final = dict[str, int]()

    def befell(self, at_ms: int, name: str, what: str) -> None:  # noqa: ARG002
        if what.startswith("wall clock jumps"):
            self._have_jumped = True

    def ended(self, process: Process) -> None:
        self._ends[process.host.name] += 1

    def started(self, process: Process, records: Sequence[Record]) -> None:  # noqa: ARG002
        self._ending.discard(process.host.name)

    def moment(self, at_ms: int, what: object) -> None:
        if isinstance(what, ClientArrived):
            place = what.node, self._ends[what.node]
            if self._places.get(what.client, place) != place:
                self._came_ms[what.client] = at_ms
            self._places[what.client] = place
        elif isinstance(what, NodeEnding):
            self._ending.add(what.node)
        elif isinstance(what, ClientSentOn):
            came_ms = self._came_ms.get(what.client)
            if self._places[what.client][0] in self._ending:
                return
            if came_ms is not None and at_ms - came_ms < STAYS_MS and not self._have_jumped:
                raise self.broken(f"{what.client} is sent on {at_ms - came_ms} ms after it came")


class LoadsAreAlike(Observer):
    """When all is well, no node has many more clients than another one."""

    rule = "clients are spread evenly"

    def settled(self, fleet: Observed) -> None:
        nodes = activity_nodes(fleet.services)
        if nodes is not None and isinstance(fleet, Fleet) and not loads_are_alike(fleet, nodes):
            raise self.broken(f"{loads_of(fleet, nodes)}")
