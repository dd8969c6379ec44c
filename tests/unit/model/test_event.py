"""Events: the order's steps one by one, containment, the chain of a write, ticks as text."""

from __future__ import annotations

import pytest

from distkv.model.event import (
    Chain,
    Event,
    Kind,
    Link,
    NodeName,
    Tick,
    Tock,
    contains,
    first_tick,
    is_above,
    life_of,
    next_chain,
    order,
    read_tick_text,
    same,
    tick_text,
)
from distkv.model.path import Path

LIFE = 1 << 32


def link(node: str, tick: int) -> Link:
    return NodeName(node), Tick(tick)


def event(*links: Link, tock: int = 1, kind: Kind = Kind.SET, value: bytes = b"\x01", truncated: bool = False) -> Event:
    return Event(Path(("p",)), kind, value if kind is Kind.SET else b"", links, Tock(tock), 0.0, truncated)


@pytest.mark.parametrize(
    ("above", "below"),
    [
        (event(link("b", 1), tock=2), event(link("a", 9), tock=1)),
        (event(link("b", 1), kind=Kind.DELETE), event(link("a", 9), kind=Kind.EXPIRE)),
        (event(link("b", 2)), event(link("a", 1))),
        (event(link("a", LIFE + 1)), event(link("a", 9))),
        (event(link("a", 1)), event(link("b", 1))),
        (event(link("a", 1)), event(link("ab", 1))),
        (event(link("B", 1)), event(link("a", 1))),
        (event(link("z", 1)), event(link("é", 1))),
    ],
    ids=["tock", "not an expiry", "tick", "life", "lower name", "prefix of a name", "bytes, not letters", "utf-8"],
)
def test_of_two_events_the_first_difference_decides(above: Event, below: Event) -> None:
    """The tock, that it is no expiry, the tick, and then the bytes of the name (docs/protocol, ORDER-2, ORDER-3)."""
    assert is_above(above, below)
    assert not is_above(below, above)
    assert order(above) > order(below)


def test_two_contents_of_one_tick_are_ordered_by_their_hash() -> None:
    """All agree, where no node of that name can tell any more (docs/protocol, ORDER-4)."""
    one, two = event(link("a", 1), value=b"\x01"), event(link("a", 1), value=b"\x02")
    assert is_above(one, two) != is_above(two, one)
    assert not same(one, two)


def test_a_delete_and_an_empty_value_of_one_tick_are_ordered() -> None:
    one, two = event(link("a", 1), value=b""), event(link("a", 1), kind=Kind.DELETE)
    assert is_above(one, two) != is_above(two, one)


def test_no_event_is_above_itself() -> None:
    one = event(link("a", 1))
    assert not is_above(one, one)
    assert not contains(one, one)


def test_the_same_change_in_two_objects_is_the_same() -> None:
    assert same(event(link("a", 1)), event(link("a", 1)))


@pytest.mark.parametrize(
    ("chain", "is_contained"),
    [
        ((link("a", 1), link("b", 5)), True),
        ((link("a", 1), link("b", 6)), True),
        ((link("a", 1), link("b", 4)), False),
        ((link("a", 1), link("c", 9)), False),
        ((link("a", 1), link("b", LIFE + 9)), False),
        ((link("b", 6),), True),
    ],
    ids=["named", "a later one named", "an earlier one named", "another named", "another life", "its own next"],
)
def test_a_chain_speaks_for_its_writers_up_to_the_tick(chain: Chain, is_contained: bool) -> None:
    """It contains what it names, and what the same writers made before (docs/protocol, CONTAIN-1)."""
    assert contains(event(*chain, tock=2), event(link("b", 5), tock=1)) is is_contained


def test_an_event_that_is_below_contains_nothing_whatever_its_chain_says() -> None:
    """Only an event that is above contains another one (docs/protocol, CONTAIN-1)."""
    assert not contains(event(link("a", 1), link("b", 5), tock=1), event(link("b", 5), tock=2))


def test_the_chain_of_a_first_write_is_its_own_link() -> None:
    """The head of a chain is the event itself (docs/protocol, CHAIN-1)."""
    assert next_chain(link("a", 1), [], 5) == ((link("a", 1),), False)


def test_the_next_chain_leaves_out_the_writer_itself() -> None:
    """The newest is first, and each writer is there once (docs/protocol, CHAIN-1, CHAIN-2)."""
    source = event(link("b", 2), link("a", 1))
    assert next_chain(link("a", 2), [source], 5) == ((link("a", 2), link("b", 2)), False)


def test_the_next_chain_keeps_the_former_life_of_the_writer() -> None:
    """Another life of a node is another writer (docs/protocol, CHAIN-2)."""
    source = event(link("a", 7))
    assert next_chain(link("a", LIFE + 1), [source], 5) == ((link("a", LIFE + 1), link("a", 7)), False)


def test_a_chain_that_is_too_long_is_cut_at_its_end_and_says_so() -> None:
    source = event(link("b", 1), link("c", 1), link("d", 1))
    assert next_chain(link("a", 1), [source], 3) == ((link("a", 1), link("b", 1), link("c", 1)), True)


def test_a_chain_after_a_cut_one_says_that_it_is_cut() -> None:
    source = event(link("b", 1), truncated=True)
    assert next_chain(link("a", 1), [source], 5) == ((link("a", 1), link("b", 1)), True)


def test_a_chain_of_one_link_after_a_cut_one_says_that_it_is_cut() -> None:
    assert next_chain(link("a", 2), [event(link("a", 1), truncated=True)], 5) == ((link("a", 2),), True)


def test_what_a_write_closes_is_named_whatever_the_length() -> None:
    sources = [event(link(name, 1), link("z", 1)) for name in "bcd"]
    chain, truncated = next_chain(link("a", 1), sources, 2)
    assert (chain, truncated) == ((link("a", 1), link("b", 1), link("c", 1), link("d", 1)), True)


def test_of_two_links_of_one_writer_the_higher_tick_is_kept() -> None:
    sources = [event(link("b", 1), link("c", 2)), event(link("d", 1), link("c", 5), link("b", 3))]
    chain, _ = next_chain(link("a", 1), sources, 9)
    assert chain == (link("a", 1), link("b", 3), link("d", 1), link("c", 5))


@pytest.mark.parametrize(
    ("tick", "text"), [(1, "n:1"), (LIFE - 1, "n:4294967295"), (LIFE + 1, "n:1.1"), ((7 << 32) + 12, "n:7.12")]
)
def test_tick_text_leaves_out_the_first_life(tick: int, text: str) -> None:
    """Ticks look so wherever people read them (docs/protocol, TICK-6)."""
    assert tick_text("n", tick) == text


def test_every_life_counts_from_one() -> None:
    """The upper bits of a tick are the life, the lower ones count (docs/protocol, TICK-2)."""
    assert [first_tick(life) for life in (0, 1, 5)] == [1, LIFE + 1, 5 * LIFE + 1]
    assert [life_of(first_tick(life)) for life in (0, 1, 5)] == [0, 1, 5]


@pytest.mark.parametrize("tick", [1, 12, (1 << 32) + 1, (7 << 32) + 12, 2**63 - 1])
def test_tick_text_is_read_again(tick: int) -> None:
    assert read_tick_text(tick_text("n.1", tick)) == ("n.1", tick)
    assert read_tick_text(f"n.1:{tick}") == ("n.1", tick)


@pytest.mark.parametrize(
    "text", ["", "n", "n:", ":1", "n:0", "n:1.0", "n:-1", "n:1.2.3", "n:2147483648.1", "ä:1", "n:1 "]
)
def test_text_that_names_no_change_is_none(text: str) -> None:
    assert read_tick_text(text) is None
