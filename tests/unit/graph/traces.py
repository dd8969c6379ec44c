"""Small traces for the tests of pictures.

Knows: the form of moments.  Does not know what is drawn of them.
"""

from __future__ import annotations

import attrs

from distkv.core.client_writes import LocalSet
from distkv.graph.trace import ENDED, EventShown, Moment, Said
from distkv.model.path import Path
from distkv.sim.recording import Recording
from distkv.wire.value_requests import SetValue
from tests.fleet import Fleet

SAME, OTHER = "a" * 16, "b" * 16


def there(node: str, at_ms: int = 0, **more: object) -> Moment:
    """A node that runs."""
    return attrs.evolve(Moment(at_ms, node, "started", state="ready", digest=SAME), **more)


def write(node: str, number: int, at_ms: int = 10) -> Moment:
    """A write of tick `number`, which is told to all."""
    tick = f"{node}:{number}"
    event, said = EventShown(tick, "k", "1", "made"), Said("update", f"{node}@{number}", node, ticks=tick)
    found = Moment(at_ms, node, "set", sent=(said,), events=(event,), ticks=tick, state="ready", digest=OTHER)
    return attrs.evolve(found, tick=tick, tock=number)


def heard(node: str, sent: Moment, at_ms: int = 20, **more: object) -> Moment:
    """The first of what a moment sent arrives."""
    said = sent.sent[0]
    events = tuple(attrs.evolve(event, fate="won") for event in sent.events)
    found = Moment(at_ms, node, said.kind, said, ticks=sent.ticks, events=events, state="ready", digest=OTHER)
    return attrs.evolve(found, **more)


def ended(node: str, at_ms: int = 30) -> Moment:
    return Moment(at_ms, node, ENDED)


def split_and_heal() -> list[Moment]:
    """The trace of a real fleet: two nodes write on both sides of a split, and find together."""
    moments: list[Moment] = []
    fleet = Fleet(observers=[Recording(moments.append)])
    fleet.start("a", init="root")
    fleet.run(5100)
    fleet.start("b")
    assert fleet.run_until(fleet.is_converged, 20_000)
    fleet.partition("a", "b")
    for name in ("a", "b"):
        fleet.step(name, LocalSet(SetValue(1, Path(["k"]), b"\x01")))
    fleet.run(20_000)
    fleet.heal()
    assert fleet.run_until(fleet.is_converged, 60_000)
    fleet.run(20_000)
    return moments
