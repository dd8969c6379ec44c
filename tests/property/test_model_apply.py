"""The algebra of `Tree.apply` (docs/protocol, 'Proof'): any events in any order, repeated, give what the text says."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.model.event import (
    Event,
    Kind,
    Link,
    Tick,
    Tock,
    contains,
    is_above,
    is_within,
    next_chain,
    order,
    same,
    sort_down,
)
from distkv.model.fence import NO_FENCE, Fence
from distkv.model.path import Path
from distkv.model.tree import Tree
from tests.profiles import examples
from tests.property.histories import (
    NAMES,
    PATHS,
    History,
    assert_consistent,
    chain_of,
    compare,
    digest_of,
    histories,
    names,
    outcome,
    outcomes,
    picture,
    tree_of,
)
from tests.property.strategies import events

pytestmark = pytest.mark.slow

few = examples(25)


def _some(events: list[Event], chance: random.Random) -> list[Event]:
    """Some of the events, shuffled, a few of them twice."""
    some = [event for event in events if chance.random() < 0.8]
    some += [event for event in some if chance.random() < 0.3]
    chance.shuffle(some)
    return some


def _conflicts_of(tree: Tree) -> dict[Path, tuple[Event, tuple[Event, ...]]]:
    return {entry.head.path: (entry.head, entry.losers) for entry in tree.entries()}


@few
@given(histories(), st.randoms(use_true_random=False))
def test_any_order_and_repetition_gives_winner_and_losers_of_the_text(history: History, chance: random.Random) -> None:
    """The highest of all that were seen wins, however they came (docs/protocol, APPLY-1)."""
    events = _some(history.events, chance)
    expected = {path: (found.winner, found.losers) for path, found in outcomes(events).items()}
    assert _conflicts_of(tree_of(events)) == expected


@few
@given(histories(), st.randoms(use_true_random=False))
def test_any_order_and_repetition_gives_the_digest_computed_from_scratch(
    history: History, chance: random.Random
) -> None:
    """It depends on winners and open losers only (docs/protocol, DIGEST-1)."""
    events = _some(history.events, chance)
    assert tree_of(events).digest == digest_of(outcomes(events).values())


@few
@given(histories(), st.randoms(use_true_random=False))
def test_ledger_holds_exactly_what_the_chains_name(history: History, chance: random.Random) -> None:
    events = _some(history.events, chance)
    tree = tree_of(events)
    named = {link for event in events for link in event.chain}
    assert {(node, tick) for node, ranges in tree.ledger.held().items() for tick in ranges} == named


@few
@given(histories(), st.randoms(use_true_random=False))
def test_indexes_agree_with_the_entries_after_every_event(history: History, chance: random.Random) -> None:
    tree = Tree()
    for event in _some(history.events, chance):
        tree.apply(event)
        assert_consistent(tree)


@few
@given(histories(), st.randoms(use_true_random=False))
def test_apply_is_commutative(history: History, chance: random.Random) -> None:
    events = _some(history.events, chance)
    shuffled = chance.sample(events, len(events))
    assert picture(tree_of(events)) == picture(tree_of(shuffled))


@few
@given(histories(), st.randoms(use_true_random=False))
def test_apply_is_idempotent(history: History, chance: random.Random) -> None:
    events = _some(history.events, chance)
    tree = tree_of(events)
    before = picture(tree)
    again = [tree.apply(event) for event in chance.sample(events, len(events))]
    assert (picture(tree), [applied for applied in again if applied.changed or applied.won]) == (before, [])


@few
@given(histories(), st.randoms(use_true_random=False))
def test_what_apply_reports_is_what_changed(history: History, chance: random.Random) -> None:
    tree = Tree()
    for event in _some(history.events, chance):
        before = _conflicts_of(tree).get(event.path)
        had_tick = tree.ledger.has(event.link)
        applied = tree.apply(event)
        head, losers = _conflicts_of(tree).get(event.path, (None, ()))
        kept = {e.link for e in (head, *losers) if e is not None}
        was = {before[0].link, *(e.link for e in before[1])} if before else set()
        assert applied.event is event
        assert applied.won == (head is event and (before is None or before[0] is not event))
        assert {e.link for e in applied.closed} == was - kept
        assert applied.changed or had_tick


def _exchange(to: Tree, source: Tree) -> bool:
    """One direction of a tick-map exchange with its pull. True when something changed."""
    before = to.ledger.hash(), to.digest, [e.link for e in to.open_losers()]
    for node, ticks in source.ledger.ticks().items():
        for tick in ticks:
            to.ledger.hear((node, tick))
    to.close(source.superseded())
    for event in list(source.present(to.ledger.missing())):
        to.apply(event)
    return before != (to.ledger.hash(), to.digest, [e.link for e in to.open_losers()])


@few
@given(histories(), st.randoms(use_true_random=False))
def test_exchanges_in_any_grouping_give_every_node_the_state_of_all_events(
    history: History, chance: random.Random
) -> None:
    trees = [tree_of(events) for events in history.seen_by.values()]
    pairs = [(a, b) for a in trees for b in trees if a is not b]
    for _ in range(10):
        changed = [_exchange(a, b) for a, b in chance.sample(pairs, len(pairs))]
        if not any(changed):
            break
    expected = {path: (found.winner, found.losers) for path, found in outcomes(history.events).items()}
    assert [_conflicts_of(tree) for tree in trees] == [expected] * len(trees)
    assert len({(tree.ledger.hash(), tree.digest) for tree in trees}) == 1
    assert all(tree.ledger.is_whole for tree in trees)


@few
@given(histories(), st.randoms(use_true_random=False))
def test_hearsay_never_takes_the_highest_event_of_a_path(history: History, chance: random.Random) -> None:
    """What anybody knows as superseded, learned at any time, leaves every path its winner."""
    whole, tree = tree_of(history.events), Tree()
    for event in chance.sample(history.events, len(history.events)):
        if chance.random() < 0.2:
            tree.close(whole.superseded())
        tree.apply(event)
        assert_consistent(tree)
    assert _conflicts_of(tree) == _conflicts_of(whole)


@few
@given(histories(), st.integers(2, 6), st.randoms(use_true_random=False))
def test_next_chain_is_the_one_of_the_text(history: History, length: int, chance: random.Random) -> None:
    for path in PATHS:
        here = [event for event in history.events if event.path == path]
        sources = chance.sample(here, min(len(here), chance.randrange(4)))
        me = (chance.choice(NAMES), Tick(chance.randrange(3) * 2**32 + 99))
        assert next_chain(me, sources, length) == chain_of(me, sources, length)


# -- order and containment ----------------------------------------------------------------------------------------


@few
@given(histories(size=40))
def test_order_is_total_and_the_one_of_the_text(history: History) -> None:
    for a in history.events:
        for b in history.events:
            assert is_above(a, b) == (order(a) > order(b)) == (compare(a, b) > 0)
            assert [is_above(a, b), is_above(b, a), same(a, b)].count(True) == 1


crowded_events = events(
    path=st.just(PATHS[0]),
    chain=st.tuples(st.tuples(st.sampled_from(NAMES), st.integers(1, 3).map(Tick))),
    value=st.sampled_from([b"\x01", b"\x02"]),
    tock=st.integers(1, 3).map(Tock),
    fence=st.builds(Fence, st.integers(0, 1), st.integers(0, 1), st.integers(0, 1), st.sampled_from("tu"))
    | st.just(NO_FENCE),
)


@examples(500)
@given(crowded_events, crowded_events, crowded_events)
def test_order_of_any_three_events_goes_in_no_circle(a: Event, b: Event, c: Event) -> None:
    """'The fence before the tock among events of one token' would be no order: this test shows the circle."""
    assert not (is_above(a, b) and is_above(b, c) and is_above(c, a))
    assert [is_above(a, b), is_above(b, a), order(a) == order(b)].count(True) == 1


@examples(125)
@given(st.lists(crowded_events, max_size=8))
def test_sorted_events_are_in_the_order_of_their_keys(found: list[Event]) -> None:
    expected = sorted(map(order, found), reverse=True)
    sort_down(found)
    assert list(map(order, found)) == expected


@few
@given(crowded_events, crowded_events)
def test_an_order_is_within_an_event_as_the_keys_say(a: Event, b: Event) -> None:
    assert is_within(order(a), b) == (order(a) <= order(b))


@few
@given(histories())
def test_order_agrees_with_causality(history: History) -> None:
    by_link = history.by_link
    for later, past in history.past.items():
        assert all(is_above(by_link[later], by_link[earlier]) for earlier in past)


@few
@given(histories())
def test_containment_never_claims_what_a_vector_clock_would_not(history: History) -> None:
    for a in history.events:
        for b in history.events:
            same_path = a is not b and a.path == b.path
            if same_path and contains(a, b):
                assert b.link in history.past[a.link]
            if same_path:
                assert contains(a, b) == (compare(a, b) > 0 and names(a, b))


@few
@given(histories(lengths=(2, 3)), st.randoms(use_true_random=False))
def test_short_chains_leave_the_losers_that_unbounded_vector_clocks_would(
    history: History, chance: random.Random
) -> None:
    """For sets of events that lack no cause: truncation never makes the question undecidable."""
    by_link, past = history.by_link, history.past
    tops = [event for event in history.events if chance.random() < 0.5]
    links = {event.link for event in tops}.union(*(past[event.link] for event in tops))
    tree = tree_of(by_link[link] for link in chance.sample(sorted(links), len(links)))
    for path, (head, losers) in _conflicts_of(tree).items():
        here = [link for link in links if by_link[link].path == path]
        assert head is outcome(by_link[link] for link in here).winner
        assert {e.link for e in losers} == _open_by_vector_clock(head, here, history)


def _open_by_vector_clock(head: Event, here: list[Link], history: History) -> set[Link]:
    contained = set().union(*(history.past[link] for link in here))
    by_link = history.by_link
    lost = {link for link in here if link != head.link and by_link[link].kind is not Kind.EXPIRE}
    return lost - contained
