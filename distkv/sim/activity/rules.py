"""What must be true of the activity network.

Knows: what clients sent, heard and were told, and what befell the nodes.  Does not know how the nodes do it.

Invariant: a rule says what is promised, and no more: who was cut off from others is promised less.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

from distkv.sim.activity.crowd import loads_are_alike, loads_of
from distkv.sim.activity.moments import (
    ActivityEchoed,
    ActivityHeard,
    ActivityWritten,
    ChatBegun,
    ClientArrived,
    ClientSentOn,
    GapHeard,
)
from distkv.sim.activity.nodes import activity_nodes
from distkv.sim.fleet import Fleet
from distkv.sim.host import Process
from distkv.sim.rule import Observed, Observer

_APART: Final = ("split ", "cut ", "foreign", "is cut off", "agent stops", "gets a namesake", "stops for", "pauses")

KEPT_MS: Final = 56_000
"""So long each activity is kept, by a clock that runs up to 5 % fast."""
STAYS_MS: Final = 55_000
"""So long who came from another node is not sent on: a minute by such a clock, and of whole seconds."""


class ActivityTroubles(Observer):
    """It breaks nothing; rules ask it whether nodes may have been apart."""

    def __init__(self) -> None:
        self.were_apart = False
        self.deaths: list[int] = []
        """When processes ended."""

    def befell(self, at_ms: int, name: str, what: str) -> None:  # noqa: ARG002
        if what.startswith(_APART):
            self.were_apart = True

    def ended(self, process: Process) -> None:
        self.deaths.append(process.now_ms)


class OnceAndInOrder(Observer):
    """Each client hears each activity once at the most, and of each sender in the order in which it sent."""

    rule = "an activity is heard once, and in order"

    def __init__(self, troubles: ActivityTroubles) -> None:
        self._troubles: Final = troubles
        self._heard: Final = defaultdict[str, set[str]](set)
        self._last: Final = dict[tuple[str, str], int]()

    def moment(self, at_ms: int, what: object) -> None:  # noqa: ARG002
        if not isinstance(what, ActivityHeard):
            return
        if what.text in self._heard[what.client]:
            raise self.broken(f"{what.client} hears {what.text} again")
        self._heard[what.client].add(what.text)
        sender, _, number = what.text.rpartition("-")
        last = self._last.get((what.client, sender), 0)
        if int(number) < last and not self._troubles.were_apart:
            raise self.broken(f"{what.client} hears {what.text} after {sender}-{last}")
        self._last[what.client, sender] = max(last, int(number))


class EchoedIsHeard(Observer):
    """What was echoed is heard by everybody who had come before, or it was gone, and he is told so."""

    rule = "what was echoed is heard by everybody"

    def __init__(self, troubles: ActivityTroubles) -> None:
        self._troubles: Final = troubles
        self._begun: Final = dict[str, int]()
        self._written: Final = dict[str, int]()
        self._echoed: Final = set[str]()
        self._heard: Final = defaultdict[str, set[str]](set)
        self._places: Final = dict[str, tuple[str, int]]()
        self._gaps: Final = defaultdict[str, list[tuple[int, GapHeard]]](list)

    def moment(self, at_ms: int, what: object) -> None:
        if isinstance(what, ChatBegun):
            self._begun[what.client] = at_ms
        elif isinstance(what, ActivityWritten):
            self._written[what.text] = at_ms
        elif isinstance(what, ActivityEchoed):
            self._echoed.add(what.text)
        elif isinstance(what, ActivityHeard):
            self._heard[what.client].add(what.text)
            self._places[what.text] = what.origin, what.number
        elif isinstance(what, GapHeard):
            self._gaps[what.client].append((at_ms, what))

    def settled(self, fleet: Observed) -> None:
        if activity_nodes(fleet.services) is None or self._troubles.were_apart:
            return
        for client, begun_ms in sorted(self._begun.items()):
            for text in sorted(self._echoed - self._heard[client]):
                if self._written[text] >= begun_ms and not self._is_told(client, text):
                    raise self.broken(f"{client} does not hear {text}, which was echoed")

    def _is_told(self, client: str, text: str) -> bool:
        origin, number = self._places[text]
        return any(gap.origin == origin and gap.first <= number <= gap.last and self._may_be_gone(text, at_ms)
                   for at_ms, gap in self._gaps[client])  # fmt: skip

    def _may_be_gone(self, text: str, at_ms: int) -> bool:
        """Whether nobody may have had it any more: it is too old, or those who had it may have died."""
        since_ms = self._written[text]
        return at_ms - since_ms >= KEPT_MS or any(since_ms <= death_ms <= at_ms for death_ms in self._troubles.deaths)


class SeldomSentOn(Observer):
    """No client is sent on within a minute after it came from another node, or another start of it."""

    rule = "no client is moved twice within a minute"

    def __init__(self) -> None:
        self._have_jumped = False
        """Whether a wall clock did: a client that connects again to its node says by it when it came."""
        self._ends: Final = Counter[str]()
        self._places: Final = dict[str, tuple[str, int]]()
        self._came_ms: Final = dict[str, int]()

    def befell(self, at_ms: int, name: str, what: str) -> None:  # noqa: ARG002
        if what.startswith("wall clock jumps"):
            self._have_jumped = True

    def ended(self, process: Process) -> None:
        self._ends[process.host.name] += 1

    def moment(self, at_ms: int, what: object) -> None:
        if isinstance(what, ClientArrived):
            place = what.node, self._ends[what.node]
            if self._places.get(what.client, place) != place:
                self._came_ms[what.client] = at_ms
            self._places[what.client] = place
        elif isinstance(what, ClientSentOn):
            came_ms = self._came_ms.get(what.client)
            if came_ms is not None and at_ms - came_ms < STAYS_MS and not self._have_jumped:
                raise self.broken(f"{what.client} is sent on {at_ms - came_ms} ms after it came")


class LoadsAreAlike(Observer):
    """When all is well, no node has many more clients than another one."""

    rule = "clients are spread evenly"

    def settled(self, fleet: Observed) -> None:
        nodes = activity_nodes(fleet.services)
        if nodes is not None and isinstance(fleet, Fleet) and not loads_are_alike(fleet, nodes):
            raise self.broken(f"{loads_of(fleet, nodes)}")
