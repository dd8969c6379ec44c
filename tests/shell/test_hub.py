"""The hub: who is told of a change, found by the prefixes of its path.

Knows: watchers and changes.  Does not know nodes, frames or tasks.
"""

from __future__ import annotations

import pytest

from distkv.config import Limits
from distkv.core.ready import Change
from distkv.engine.hub import Hub, Seen, Watcher, open_losers
from distkv.model.entry import Entry
from distkv.model.event import Chain, Event, Kind, NodeName, Tick, Tock
from distkv.model.path import NAMES_MAX, Path

LIMITS = Limits(watch_changes=4, watch_bytes=100_000)
ALL = 1 << 30


class Counting(Watcher):
    """Counts how often the hub looked at it."""

    def __init__(self, path: str, begin: int = 0) -> None:
        super().__init__(Path.parse(path), 0, NAMES_MAX, begin, LIMITS)
        self.looks = 0

    def offer(self, seen: Seen) -> None:
        self.looks += 1
        super().offer(seen)


def event(path: str, tick: int = 1, node: str = "a", tock: int | None = None, chain: Chain = ()) -> Event:
    link = (NodeName(node), Tick(tick))
    return Event(Path.parse(path), Kind.SET, b"\x01", (link, *chain), Tock(tick if tock is None else tock), 1.0)


def seen(path: str, position: int = 1) -> Seen:
    return Seen(position, position, event(path, position), True, None)


def hub_of(*watchers: Watcher) -> Hub:
    hub = Hub()
    for watcher in watchers:
        hub.add(watcher)
    return hub


def positions(watcher: Watcher) -> list[int]:
    return [one.position for one in watcher.take(ALL)]


@pytest.mark.parametrize("watched", [":", "a", "a.b", "a.b.c"])
def test_change_is_offered_at_each_prefix_of_its_path(watched: str) -> None:
    watcher = Counting(watched)
    hub = hub_of(watcher)
    hub.hold(seen("a.b.c"))
    hub.deliver(1)
    assert positions(watcher) == [1]


def test_watchers_of_other_paths_are_not_even_looked_at() -> None:
    others = [Counting(path) for path in ("b", "a.c", "a.b.c.d", *(f"n{number}" for number in range(1000)))]
    hub = hub_of(Counting("a.b"), *others)
    hub.hold(seen("a.b.c"))
    hub.deliver(1)
    assert sum(other.looks for other in others) == 0


def test_changes_come_in_order_and_only_up_to_what_is_durable() -> None:
    watcher = Counting("a")
    hub = hub_of(watcher)
    for position in (1, 2, 2, 3):
        hub.hold(seen("a", position))
    hub.deliver(2)
    assert positions(watcher) == [1, 2, 2]
    hub.deliver(3)
    assert positions(watcher) == [3]


def test_change_before_a_watcher_began_is_not_for_it() -> None:
    watcher = Counting("a", begin=2)
    hub = hub_of(watcher)
    for position in (1, 2, 3):
        hub.hold(seen("a", position))
    hub.deliver(3)
    assert positions(watcher) == [3]


def test_queue_that_overflows_is_emptied_and_the_watcher_is_lost() -> None:
    slow, quick = Counting("a"), Counting("a")
    hub = hub_of(slow, quick)
    for position in range(1, 7):
        hub.hold(seen("a", position))
        hub.deliver(position)
        assert positions(quick) == [position]
    assert slow.is_lost
    assert positions(slow) == []


def test_watcher_that_begins_again_is_told_of_what_comes_then() -> None:
    watcher = Counting("a")
    hub = hub_of(watcher)
    watcher.lose()
    hub.hold(seen("a", 1))
    hub.deliver(1)
    watcher.begin_again()
    hub.hold(seen("a", 2))
    hub.deliver(2)
    assert positions(watcher) == [2]


def test_removed_watcher_is_told_of_nothing_more() -> None:
    gone, other = Counting("a"), Counting("a")
    hub = hub_of(gone, other)
    hub.hold(seen("a"))
    hub.remove(gone)
    hub.remove(gone)
    hub.deliver(1)
    assert hub.count == 1
    assert (positions(gone), positions(other)) == ([], [1])


def test_tree_that_was_emptied_loses_all_watchers() -> None:
    watchers = [Counting(":"), Counting("a")]
    hub = hub_of(*watchers)
    hub.hold(seen("a"))
    hub.lose_all()
    hub.deliver(1)
    assert all(watcher.is_lost for watcher in watchers)
    assert [positions(watcher) for watcher in watchers] == [[], []]


# -- conflicts ----------------------------------------------------------------------------------------------------


def applied(*events: Event) -> list[tuple[Event, ...] | None]:
    """What watchers are told of the conflicts of one path after each event but the first."""
    found: list[tuple[Event, ...] | None] = []
    entry = Entry(events[0])
    for new in events[1:]:
        gone = entry.settle(new, new.chain[1:])
        change = Change(new, entry.head is new, tuple(one for one in gone if one is not new))
        found.append(open_losers(change, entry))
    return found


def test_write_that_knew_the_winner_says_nothing_of_conflicts() -> None:
    first = event("p", 1)
    assert applied(first, event("p", 1, "b", tock=2, chain=(first.link,))) == [None]


@pytest.mark.parametrize("tock", [1, 3])
def test_write_that_did_not_know_the_winner_opens_a_conflict(tock: int) -> None:
    first, second = event("p", 1, tock=2), event("p", 1, "b", tock=tock)
    assert applied(first, second) == [(min(first, second, key=lambda one: one.tock),)]


def test_write_beside_an_open_conflict_says_nothing_of_it() -> None:
    first, second = event("p", 1, tock=1), event("p", 1, "b", tock=2)
    third = event("p", 2, "b", tock=3, chain=())
    assert applied(first, second, third)[1] is None


def test_write_that_names_the_loser_closes_the_conflict() -> None:
    first, second = event("p", 1, tock=1), event("p", 1, "b", tock=2)
    third = event("p", 1, "c", tock=3, chain=(second.link, first.link))
    assert applied(first, second, third)[1] == ()
