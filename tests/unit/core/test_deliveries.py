"""What a node counts of the events that come to it, and that none needs to come twice.

Knows: the counters.  Does not know when nodes compare.
"""

from __future__ import annotations

import attrs

from distkv.core.ready import HeardMessage, PeerOffered
from distkv.wire.message import Update
from tests.fleet import Fleet, grown

CLOCK_MS = 5000


def _since(fleet: Fleet, name: str, before: dict[str, int]) -> dict[str, int]:
    """The counters of a node that have risen."""
    after = attrs.asdict(fleet[name].deliveries)
    return {counter: after[counter] - before[counter] for counter in after if after[counter] > before[counter]}


def _counters(fleet: Fleet, name: str) -> dict[str, int]:
    return attrs.asdict(fleet[name].deliveries)


def _split(count: int) -> Fleet:
    """Two nodes apart, each of which has written so many paths that the other has written, too."""
    fleet = grown("a", "b")
    fleet.partition(["a"], ["b"])
    for number in range(count):
        fleet.set("a", f"x.{number}", "of a")
        fleet.set("b", f"x.{number}", "of b")
    fleet.run(1000)
    return fleet


def test_event_that_comes_by_gossip_is_counted() -> None:
    fleet = grown("a", "b")
    before = _counters(fleet, "b")
    fleet.set("a", "x", 1)
    fleet.run(1000)
    assert _since(fleet, "b", before) == {"events_gossiped": 1}


def test_event_that_comes_again_by_gossip_is_counted_as_such() -> None:
    fleet = grown("a", "b")
    fleet.set("a", "x", 1)
    fleet.run(1000)
    before = _counters(fleet, "b")
    update = [message for _, _, message in fleet.sent if isinstance(message, Update)][-1]
    fleet.step("b", HeardMessage(update))
    assert _since(fleet, "b", before) == {"events_gossiped": 1, "events_gossiped_again": 1}


def test_own_event_that_comes_back_is_none_from_others() -> None:
    fleet = grown("a", "b")
    before = _counters(fleet, "a")
    fleet.set("a", "x", 1)
    fleet.run(1000)
    assert _since(fleet, "a", before) == {}


def test_events_that_are_pulled_after_a_split_come_once() -> None:
    fleet = _split(20)
    before = _counters(fleet, "a")
    fleet.heal()
    assert fleet.run_until(fleet.is_converged, 4 * CLOCK_MS)
    assert _since(fleet, "a", before) == {"events_pulled": 20}


def test_open_losers_are_not_sent_again_when_nodes_compare() -> None:
    # Every exchange once pulled all of them anew, for as long as the conflicts stayed open.
    fleet = _split(20)
    fleet.heal()
    assert fleet.run_until(fleet.is_converged, 4 * CLOCK_MS)
    fleet.run(1000)  # until the last answer is complete
    before = {name: _counters(fleet, name) for name in "ab"}
    asked = len(fleet.asked)
    for name, other in ("ab", "ba"):
        fleet.step(name, PeerOffered(attrs.evolve(fleet[other].maps(), digest=0)))
    fleet.run(1000)
    assert len(fleet.asked) == asked + 2, "both ask what became of them"
    assert [_since(fleet, name, before[name]) for name in "ab"] == [{}, {}]
