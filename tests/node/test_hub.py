"""The hub: who is told of a change, found by the prefixes of its path.

Knows: watchers and changes.  Does not know nodes, frames or tasks.
"""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from distkv.config import Limits
from distkv.core.ready import PathChange
from distkv.engine.feeds import ChangeBatch, SharedChange, SharedMissed, Watcher, open_losers
from distkv.engine.hub import Hub, wait
from distkv.engine.shared_queue import BATCH_BYTES, TURN
from distkv.model.entry import Entry
from distkv.model.event import Chain, Event, Kind, NodeName, Tick, Tock
from distkv.model.path import NAMES_MAX, Path
from distkv.model.ranges import Ranges
from distkv.model.tree import Tree
from distkv.wire.message import EventRecord, KnownRecord
from distkv.wire.values import pack_value

LIMITS = Limits(watch_changes=4, watch_bytes=100_000)


def event(
    path: str, tick: int = 1, node: str = "a", tock: int | None = None, chain: Chain = (), value: object = None
) -> Event:
    """Each node writes another value, if nothing is said about it."""
    link, raw = (NodeName(node), Tick(tick)), pack_value(value or node)
    return Event(Path.parse(path), Kind.SET, raw, (link, *chain), Tock(tick if tock is None else tock), 1.0)


def seen(path: str, position: int = 1) -> SharedChange:
    return SharedChange(position, position, event(path, position), True, None)


def never(_: ChangeBatch) -> bool:
    """A watcher whose connection takes nothing."""
    return False


def watch(hub: Hub, path: str, begin: int = 0, min_depth: int = 0, max_depth: int = NAMES_MAX) -> Watcher:
    return hub.add(Path.parse(path), min_depth, max_depth, begin, never)


def deliver(hub: Hub, *changes: SharedChange) -> None:
    for change in changes:
        hub.hold(change)
    hub.deliver(changes[-1].position)


def positions(watcher: Watcher) -> list[int]:
    """Of all that it has not been told."""
    found: list[int] = []
    while taken := watcher.take().items:
        found += [one.position for one in taken]
    return found


@pytest.mark.parametrize("watched", [":", "a", "a.b", "a.b.c"])
def test_change_is_offered_at_each_prefix_of_its_path(watched: str) -> None:
    hub = Hub(LIMITS)
    watcher = watch(hub, watched)
    deliver(hub, seen("a.b.c"))
    assert positions(watcher) == [1]


@pytest.mark.parametrize("watched", ["b", "a.c", "a.b.c.d"])
def test_watchers_of_other_paths_are_offered_nothing(watched: str) -> None:
    hub = Hub(LIMITS)
    watcher = watch(hub, watched)
    deliver(hub, seen("a.b.c"))
    assert positions(watcher) == []


def test_watchers_of_one_path_and_other_depths_are_told_each_their_own() -> None:
    hub = Hub(LIMITS)
    near, far = watch(hub, "a", max_depth=1), watch(hub, "a", min_depth=2)
    deliver(hub, seen("a.b", 1), seen("a.b.c", 2))
    assert (positions(near), positions(far)) == ([1], [2])


def test_what_was_missed_is_told_to_all_in_its_place_among_the_changes() -> None:
    hub = Hub(LIMITS)
    watchers = [watch(hub, "a"), watch(hub, "b"), watch(hub, "b", min_depth=1)]
    first, second = event("a", 3), event("b", 4)
    records = [EventRecord(first, 0.0), KnownRecord({NodeName("c"): Ranges([(1, 3)])}), EventRecord(second, 0.0)]
    changes = [PathChange(one, True, ()) for one in (first, second)]
    hub.note(records, changes, 3, Tree())
    hub.deliver(3)
    told = [[one.counts if isinstance(one, SharedMissed) else one.event for one in w.take().items] for w in watchers]
    assert told == [[first, {"c": 2}], [{"c": 2}, second], [{"c": 2}]]


def test_loser_that_is_closed_was_not_missed() -> None:
    hub = Hub(LIMITS)
    watcher, loser = watch(hub, "a"), event("a", 3)
    records = [KnownRecord({NodeName("a"): Ranges([(3, 4)])}), KnownRecord({NodeName("a"): Ranges([(5, 6)])})]
    hub.note(records, [PathChange(loser, False, (loser,))], 2, Tree())
    hub.deliver(2)
    missed = [item.counts for item in watcher.take().items if isinstance(item, SharedMissed)]
    assert missed == [{"a": 1}]


def test_what_was_missed_falls_behind_like_a_change() -> None:
    hub = Hub(LIMITS)
    watcher = watch(hub, "a")
    for position in range(1, 6):
        hub.note([KnownRecord({NodeName("a"): Ranges([(position, position + 1)])})], [], position, Tree())
    hub.deliver(5)
    assert watcher.is_lost


def test_changes_come_in_order_and_only_up_to_what_is_durable() -> None:
    hub = Hub(LIMITS)
    watcher = watch(hub, "a")
    for position in (1, 2, 2, 3):
        hub.hold(seen("a", position))
    hub.deliver(2)
    assert positions(watcher) == [1, 2, 2]
    hub.deliver(3)
    assert positions(watcher) == [3]


def test_change_before_a_watcher_began_is_for_others_only() -> None:
    hub = Hub(LIMITS)
    early, late = watch(hub, "a"), watch(hub, "a", begin=2)
    deliver(hub, seen("a", 1), seen("a", 2), seen("a", 3))
    assert (positions(early), positions(late)) == ([1, 2, 3], [3])


def test_watcher_that_comes_is_not_told_what_others_still_have_to_be() -> None:
    hub = Hub(LIMITS)
    early = watch(hub, "a")
    deliver(hub, seen("a", 1))
    late = watch(hub, "a", begin=1)
    deliver(hub, seen("a", 2))
    assert (positions(early), positions(late)) == ([1, 2], [2])


def test_watcher_that_falls_behind_the_bounds_is_lost_and_no_other() -> None:
    hub = Hub(LIMITS)
    slow, quick = watch(hub, "a"), watch(hub, "a")
    for position in range(1, 7):
        deliver(hub, seen("a", position))
        assert positions(quick) == [position]
    assert slow.is_lost
    assert not quick.is_lost
    assert positions(slow) == []


def test_watcher_that_stalls_keeps_what_it_was_not_told_and_no_more() -> None:
    hub = Hub(LIMITS)
    slow, quick = watch(hub, "a"), watch(hub, "a")
    deliver(hub, seen("a", 1))
    assert positions(slow) == [1]
    deliver(hub, seen("a", 2), seen("a", 3))
    assert positions(quick) == [1, 2, 3]
    assert (slow.feed.first, slow.feed.end) == (1, 3)
    hub.remove(Path.parse("a"), slow)
    assert quick.feed.first == quick.feed.end


def test_watcher_that_begins_again_is_told_of_what_comes_then() -> None:
    hub = Hub(LIMITS)
    watcher = watch(hub, "a")
    watcher.lose()
    deliver(hub, seen("a", 1))
    watcher.begin_again()
    deliver(hub, seen("a", 2))
    assert positions(watcher) == [2]


def test_removed_watcher_is_counted_no_more() -> None:
    hub = Hub(LIMITS)
    gone, other = watch(hub, "a"), watch(hub, "a")
    hub.remove(Path.parse("a"), gone)
    hub.remove(Path.parse("a"), gone)
    deliver(hub, seen("a"))
    assert hub.count == 1
    assert positions(other) == [1]


def test_tree_that_was_emptied_loses_all_watchers() -> None:
    hub = Hub(LIMITS)
    watchers = [watch(hub, ":"), watch(hub, "a")]
    hub.hold(seen("a"))
    hub.lose_all()
    hub.deliver(1)
    assert all(watcher.is_lost for watcher in watchers)
    assert [positions(watcher) for watcher in watchers] == [[], []]


# -- telling those who wait ---------------------------------------------------------------------------------------


class Taker:
    """A watcher that waits, and takes what is pushed, or refuses."""

    def __init__(self, hub: Hub, nursery: trio.Nursery, path: str = "a") -> None:
        self.batches: list[ChangeBatch] = []
        self.takes = True
        self.has_woken = False
        self.watcher = hub.add(Path.parse(path), 0, NAMES_MAX, 0, self._push)
        nursery.start_soon(self._wait)

    @property
    def positions(self) -> list[int]:
        return [change.position for batch in self.batches for change in batch.items]

    def _push(self, batch: ChangeBatch) -> bool:
        if self.takes:
            self.batches.append(batch)
        return self.takes

    async def _wait(self) -> None:
        await wait(self.watcher)
        self.has_woken = True


@pytest.mark.trio
async def test_watchers_that_wait_are_pushed_one_batch_that_they_share() -> None:
    hub = Hub(LIMITS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hub.run)
        takers = [Taker(hub, nursery) for _ in range(200)]
        await wait_all_tasks_blocked()
        deliver(hub, seen("a", 1), seen("a.b", 2))
        await wait_all_tasks_blocked()
        assert {tuple(taker.positions) for taker in takers} == {(1, 2)}
        assert len({id(taker.batches[0]) for taker in takers}) == 1
        assert not any(taker.has_woken for taker in takers)
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_watcher_that_cannot_be_pushed_to_is_woken_and_the_others_are_told() -> None:
    hub = Hub(LIMITS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hub.run)
        stalled, other = Taker(hub, nursery), Taker(hub, nursery)
        stalled.takes = False
        await wait_all_tasks_blocked()
        for position in (1, 2):
            deliver(hub, seen("a", position))
            await wait_all_tasks_blocked()
        assert stalled.has_woken
        assert not other.has_woken
        assert other.positions == [1, 2]
        assert positions(stalled.watcher) == [1, 2]
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_watcher_that_is_lost_keeps_nothing() -> None:
    hub = Hub(LIMITS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hub.run)
        stalled, other = Taker(hub, nursery), Taker(hub, nursery)
        stalled.takes = False
        for position in range(1, 7):
            await wait_all_tasks_blocked()
            deliver(hub, seen("a", position))
        await wait_all_tasks_blocked()
        feed = stalled.watcher.feed
        assert stalled.watcher.is_lost
        assert other.positions == [1, 2, 3, 4, 5, 6]
        assert feed.first == feed.end
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_much_is_pushed_in_batches_of_bounded_size() -> None:
    hub = Hub(Limits(watch_changes=10_000))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hub.run)
        taker = Taker(hub, nursery)
        await wait_all_tasks_blocked()
        deliver(hub, *(seen("a", position) for position in range(1, 2001)))
        await wait_all_tasks_blocked()
        assert taker.positions == list(range(1, 2001))
        sizes = [sum(change.size for change in batch.items) for batch in taker.batches]
        assert len(sizes) > 2
        assert max(sizes) < 2 * BATCH_BYTES
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("queues", "watchers"), [(1, 3 * TURN), (3 * TURN, 1)])
def test_others_work_while_many_watchers_are_told(queues: int, watchers: int) -> None:
    hub = Hub(LIMITS)
    for number in range(queues):
        for _ in range(watchers):
            watch(hub, f"a.n{number}").is_waiting = True
        deliver(hub, seen(f"a.n{number}", number + 1))
    assert len(list(hub.news.turns())) == 3


@pytest.mark.trio
async def test_watcher_that_waits_is_woken_when_it_is_lost() -> None:
    hub = Hub(LIMITS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hub.run)
        taker = Taker(hub, nursery)
        await wait_all_tasks_blocked()
        hub.lose_all()
        await wait_all_tasks_blocked()
        assert taker.has_woken
        assert taker.batches == []
        nursery.cancel_scope.cancel()


# -- conflicts ----------------------------------------------------------------------------------------------------


def applied(*events: Event) -> list[tuple[Event, ...] | None]:
    """What watchers are told of the conflicts of one path after each event but the first."""
    found: list[tuple[Event, ...] | None] = []
    entry = Entry(events[0])
    for new in events[1:]:
        gone = entry.settle(new, new.chain[1:])
        change = PathChange(new, entry.head is new, tuple(one for one in gone if one is not new))
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


def test_write_that_did_not_know_the_winner_and_says_the_same_opens_no_conflict() -> None:
    first, second = event("p", 1, tock=2, value="x"), event("p", 1, "b", tock=1, value="x")
    assert applied(first, second) == [None]


def test_write_of_the_value_of_a_loser_ends_the_conflict_and_another_one_opens_it_again() -> None:
    first, second = event("p", 1, tock=1, value="x"), event("p", 1, "b", tock=2, value="y")
    third = event("p", 1, "c", tock=3, chain=(second.link,), value="x")
    fourth = event("p", 1, "d", tock=4, chain=(third.link,), value="z")
    assert applied(first, second, third, fourth) == [(first,), (), (first,)]


def test_failure_in_telling_loses_all_watchers_and_goes_no_further() -> None:
    failures = list[str]()
    hub = Hub(LIMITS, lambda _, where: failures.append(where))
    watcher = watch(hub, "x")
    hub.hold(SharedChange(1, 1, None, True, None))  # type: ignore[arg-type]  # what nobody foresaw
    hub.deliver(1)
    assert failures == ["telling watchers and followers"]
    assert watcher.is_lost
