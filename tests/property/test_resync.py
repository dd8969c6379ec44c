"""Two trees with equal ledgers, whatever each of them holds by hearsay only, come to the same by comparing pages."""

from __future__ import annotations

from random import Random

import pytest

from distkv.core.ready import AskPages
from distkv.core.resync import DigestResync
from distkv.core.update import Store
from distkv.model.event import Event, Kind, NodeName, Tick, Tock, is_above
from distkv.model.pages import pages, share_of
from distkv.model.path import ROOT, Path
from distkv.model.ranges import Ranges
from distkv.model.tree import Tree
from tests.profiles import seeds

NAMES = ["a", "b", "c"]
PLACES = [ROOT, Path((None, "node", "x")), *(Path(["p", str(number)]) for number in range(30)), Path([True, 5, b"x"])]


def history(rng: Random, count: int) -> list[Event]:
    """Writes of three nodes, each of which knows some of those before it on its path."""
    events: list[Event] = []
    ticks = dict.fromkeys(NAMES, 0)
    for _ in range(count):
        path, name = rng.choice(PLACES), rng.choice(NAMES)
        known = [event for event in events if event.path == path and rng.random() < 0.6]
        tock = max([event.tock for event in known], default=rng.randint(0, 20)) + 1
        ticks[name] += 1
        links = {event.node: event.tick for event in sorted(known, key=lambda e: e.tick) if event.node != name}
        chain = ((NodeName(name), Tick(ticks[name])), *list(links.items())[-rng.randint(1, 3) :])
        kind = Kind.DELETE if rng.random() < 0.2 else Kind.SET
        value = b"" if kind is Kind.DELETE else bytes([rng.randint(0, 127)])
        events.append(Event(path, kind, value, chain, Tock(tock), 0.0))
    return events


def store_of(rng: Random, events: list[Event]) -> Store:
    """A node that saw most of them, and was told of the others that they are superseded."""
    store = Store(NodeName("me"), 5)
    some = [event for event in events if rng.random() < 0.9]
    rng.shuffle(some)
    for event in some:
        store.remote(event)
    for event in events:
        node, tick = event.link
        if not store.tree.ledger.has(event.link):
            store.learn_known({node: Ranges([(tick, tick + 1)])})
    return store


def compare(mine: Store, theirs: Store) -> int:
    """One comparison, as `Peers` leads it; how many events were taken."""
    machine, taken = DigestResync(5000), 0
    ask = machine.begin(NodeName("other"), 0, 0)
    while ask is not None:
        if isinstance(ask, AskPages):
            for page in pages(theirs.tree, ask.after, ask.until, min(ask.size, 4)):
                machine.page_came(page, mine.tree)
        else:
            for event in list(theirs.tree.present(ask.ranges)):
                if mine.release(event, theirs.me):
                    taken += mine.remote(event).changed
        ask = machine.next_ask()
    return taken


def close_losers(mine: Store, theirs: Store) -> None:
    """What an exchange does: the other one knows some of our open losers as superseded."""
    for event in list(mine.tree.open_losers()):
        if theirs.tree.ledger.has(event.link) and theirs.tree.event(event.link) is None:
            mine.learn_known({event.node: Ranges([(event.tick, event.tick + 1)])})


@pytest.mark.parametrize("seed", seeds(16))
def test_both_sides_end_equal(seed: int) -> None:
    rng = Random(seed)
    events = history(rng, 120)
    one, other = store_of(rng, events), store_of(rng, events)
    for _ in range(4):
        compare(one, other)
        compare(other, one)
        close_losers(one, other)
        close_losers(other, one)
    assert one.tree.digest == other.tree.digest
    assert one.tree.ledger.hash() == other.tree.ledger.hash()
    assert one.tree.digest == share_of(one.tree, None, None)


@pytest.mark.parametrize("seed", seeds(6))
def test_comparison_of_equal_trees_moves_nothing(seed: int) -> None:
    rng = Random(seed)
    events = history(rng, 120)
    one, other = Store(NodeName("one"), 5), Store(NodeName("other"), 5)
    for event in events:
        one.remote(event)
    rng.shuffle(events)
    for event in events:
        other.remote(event)
    assert compare(one, other) == 0


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("seed", seeds(2))
def test_pages_cover_the_tree_once_and_in_order(seed: int, size: int) -> None:
    tree = Tree()
    for event in history(Random(seed), 120):
        tree.apply(event)
    after, digest, count = None, 0, 0
    for page in pages(tree, None, None, size):
        assert page.digest == share_of(tree, after, page.until)
        after, digest, count = page.until, digest ^ page.digest, count + 1
    assert (digest, after, count) == (tree.digest, None, len(tree) // size + 1)


def test_pages_of_a_stretch_end_where_it_ends() -> None:
    tree = Tree()
    for number in range(9):
        tree.apply(Event(Path([str(number)]), Kind.SET, b"\x01", ((NodeName("a"), Tick(number + 1)),), Tock(1), 0.0))
    found = list(pages(tree, Path(["2"]), Path(["5"]), 1))
    assert [page.until for page in found] == [Path(["3"]), Path(["4"]), Path(["5"]), Path(["5"])]


def test_of_two_contents_of_a_tick_of_nobody_the_higher_stays_on_both_sides() -> None:
    # No node of that name belongs to the network, which could tell.
    link = NodeName("a"), Tick(1)
    one, other = Store(NodeName("one"), 5), Store(NodeName("other"), 5)
    events = [Event(Path(["x"]), Kind.SET, value, (link,), Tock(1), 0.0) for value in (b"\x01", b"\x02")]
    one.remote(events[0])
    other.remote(events[1])
    assert compare(one, other) + compare(other, one) == 1
    higher = events[0] if is_above(events[0], events[1]) else events[1]
    for store in (one, other):
        head, present = store.live(Path(["x"])), store.tree.event(link)
        assert (head, present) == (higher, higher)
        assert store.tree.digest == share_of(store.tree, None, None)
