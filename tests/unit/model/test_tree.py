"""The tree: conflicts, duplicates, hearsay and memory, one situation each."""

from __future__ import annotations

from hashlib import blake2b

from distkv.model.entry import LOSERS_MAX
from distkv.model.event import Event, Kind, Link, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.model.tree import Tree

HERE = Path(("p",))
LIFE = 1 << 32


def link(node: str, tick: int) -> Link:
    return NodeName(node), Tick(tick)


def event(
    *links: Link, tock: int, kind: Kind = Kind.SET, path: Path = HERE, value: bytes = b"\x01", time: float = 0.0
) -> Event:
    return Event(path, kind, value if kind is Kind.SET else b"", links, Tock(tock), time)


def tree_of(*events: Event) -> Tree:
    tree = Tree()
    for one in events:
        tree.apply(one)
    return tree


def ranges(*links: Link) -> dict[NodeName, Ranges]:
    found: dict[NodeName, Ranges] = {}
    for node, tick in links:
        found.setdefault(node, Ranges()).add(tick)
    return found


def kept(tree: Tree, path: Path = HERE) -> tuple[Event, ...]:
    entry = tree.get(path)
    assert entry is not None
    return (entry.head, *entry.losers)


A = event(link("a", 1), tock=1)
B = event(link("b", 1), tock=1, value=b"\x02")
"""Concurrent with A, and below it."""


def test_first_event_of_a_path_wins() -> None:
    tree = Tree()
    applied = tree.apply(A)
    assert (applied.won, applied.changed, applied.closed) == (True, True, ())
    assert kept(tree) == (A,)
    assert (len(tree), tree.live_count) == (1, 1)


def test_path_never_written_has_no_entry() -> None:
    assert Tree().get(HERE) is None


def test_write_that_knew_the_winner_supersedes_it() -> None:
    tree = tree_of(A)
    new = event(link("b", 1), link("a", 1), tock=2)
    applied = tree.apply(new)
    assert (kept(tree), applied.closed) == ((new,), (A,))
    assert {node: list(ticks) for node, ticks in tree.superseded().items()} == {"a": [1]}


def test_wall_clock_that_stands_long_before_the_others_changes_nothing() -> None:
    """It is for people, and no rule looks at it (docs/protocol, CHAIN-4)."""
    first, later = event(link("a", 1), tock=1, time=1e9), event(link("b", 1), link("a", 2), tock=2, time=5.0)
    blind = event(link("c", 1), tock=1, time=2e9)
    assert kept(tree_of(first, later, blind)) == kept(tree_of(blind, later, first)) == (later, blind)


def test_concurrent_write_stays_as_open_loser() -> None:
    tree = tree_of(A)
    applied = tree.apply(B)
    assert kept(tree) == (A, B)
    assert (applied.won, applied.changed, list(tree.open_losers())) == (False, True, [B])


def test_open_loser_counts_as_present_and_not_as_superseded() -> None:
    """A tick that is held is one or the other (docs/protocol, LEDGER-1)."""
    tree = tree_of(A, B)
    assert tree.event(B.link) is B
    assert list(tree.present(ranges(A.link, B.link))) == [A, B]
    assert tree.superseded() == {}


def test_open_loser_changes_the_digest() -> None:
    assert tree_of(A, B).digest not in (tree_of(A).digest, 0)


def test_digest_is_made_of_the_same_bytes_in_every_release() -> None:
    """Nodes compare it, and the archive keeps it."""
    path = Path(("a.b", 1))
    said = b"a:.b.:1\nn\xc3\xb6de\n4294967297\n7\n0\n\xa1x"
    expected = int.from_bytes(blake2b(said, digest_size=8, person=b"live").digest(), "big")
    assert tree_of(event(link("nöde", LIFE + 1), tock=7, path=path, value=b"\xa1x")).digest == expected


def test_open_loser_and_winner_of_the_same_content_weigh_differently() -> None:
    assert tree_of(A).digest != tree_of(A, B).digest ^ tree_of(B).digest


def test_former_winner_that_nobody_contained_becomes_open_loser() -> None:
    assert kept(tree_of(B, A)) == (A, B)


def test_write_that_names_both_closes_the_conflict() -> None:
    closing = event(link("c", 1), A.link, B.link, tock=2)
    tree = tree_of(A, B)
    applied = tree.apply(closing)
    assert (kept(tree), set(applied.closed)) == ((closing,), {A, B})
    assert tree.conflicted() == []


def test_former_winner_with_a_later_tick_than_its_writer_s_new_one_becomes_open_loser() -> None:
    """Only a fault makes such events; every node must make the same of them."""
    former, new = event(link("a", 5), tock=1), event(link("a", 4), tock=2)
    assert kept(tree_of(former, new)) == kept(tree_of(new, former)) == (new, former)


def test_event_that_arrives_after_what_superseded_it_is_not_applied() -> None:
    new = event(link("b", 1), link("a", 1), tock=2)
    tree = tree_of(new)
    applied = tree.apply(A)
    assert (kept(tree), applied.changed) == ((new,), False)


def test_event_that_a_later_tick_of_its_writer_contains_is_closed_at_once() -> None:
    new = event(link("a", 3), tock=2)
    tree = tree_of(new)
    applied = tree.apply(A)
    assert (kept(tree), applied.won, applied.changed) == ((new,), False, True)
    assert tree.event(A.link) is None


def test_another_life_of_a_writer_is_another_writer() -> None:
    young = event(link("a", LIFE + 1), tock=2)
    assert kept(tree_of(young, A)) == (young, A)


def test_expiry_that_loses_is_closed() -> None:
    expiry = event(link("b", 2), link("c", 1), tock=2, kind=Kind.EXPIRE)
    renewal = event(link("a", 1), tock=2)
    assert kept(tree_of(renewal, expiry)) == kept(tree_of(expiry, renewal)) == (renewal,)


def test_delete_leaves_a_tombstone_that_is_neither_live_nor_in_the_digest() -> None:
    """A deletion is an event that stays, and does not count (docs/protocol, APPLY-2, DIGEST-1)."""
    tree = tree_of(A, event(link("b", 1), A.link, tock=2, kind=Kind.DELETE))
    assert (len(tree), tree.live_count, tree.digest) == (1, 0, 0)


def test_value_written_over_a_tombstone_is_live_again() -> None:
    tree = tree_of(A, event(link("b", 1), A.link, tock=2, kind=Kind.DELETE), event(link("a", 2), link("b", 1), tock=3))
    assert (len(tree), tree.live_count) == (1, 1)


def test_delete_that_lost_to_a_delete_is_kept_unlisted_and_undigested() -> None:
    one = event(link("a", 1), tock=1, kind=Kind.DELETE)
    two = event(link("b", 1), tock=1, kind=Kind.DELETE)
    tree = tree_of(one, two)
    entry = tree.get(HERE)
    assert entry is not None
    assert (entry.losers, entry.conflicts(), entry.sources(), tree.digest) == ((two,), (), [one, two], 0)


def test_delete_that_lost_to_a_value_is_listed() -> None:
    gone = event(link("b", 1), tock=1, kind=Kind.DELETE)
    entry = tree_of(A, gone).get(HERE)
    assert entry is not None
    assert (entry.conflicts(), entry.sources()) == ((gone,), [A])


def test_value_that_lost_to_a_delete_is_listed() -> None:
    gone = event(link("a", 1), tock=1, kind=Kind.DELETE)
    entry = tree_of(gone, B).get(HERE)
    assert entry is not None
    assert entry.conflicts() == (B,)


def _crowd(path: Path) -> list[Event]:
    return [event(link(f"n{i:02}", 1), tock=1, path=path) for i in range(LOSERS_MAX + 4)]


def test_more_losers_than_the_cap_become_superseded_from_the_lowest_up() -> None:
    """These are the first writes that are not kept for ever (docs/protocol, OPEN-3, KEEP-2)."""
    crowd = _crowd(HERE)
    tree = tree_of(*reversed(crowd))
    assert kept(tree) == tuple(crowd[: LOSERS_MAX + 1])
    assert set(tree.superseded()) == {one.node for one in crowd[LOSERS_MAX + 1 :]}


def test_reserved_paths_keep_every_loser() -> None:
    """None is cut where the system keeps its own (docs/protocol, OPEN-3)."""
    crowd = _crowd(Path((None, "x")))
    assert kept(tree_of(*crowd), Path((None, "x"))) == tuple(crowd)


# -- duplicates ---------------------------------------------------------------------------------------------------


def test_duplicate_changes_nothing() -> None:
    tree = tree_of(A)
    before = tree.digest, tree.ledger.hash()
    applied = tree.apply(event(link("a", 1), tock=1))
    assert (applied.changed, applied.won, applied.two_contents) == (False, False, False)
    assert (kept(tree), tree.digest, tree.ledger.hash()) == ((A,), *before)


def test_another_content_of_a_tick_is_reported_and_not_taken() -> None:
    """An event never changes (docs/protocol, EVENT-1)."""
    tree = tree_of(A)
    applied = tree.apply(event(link("a", 1), tock=9, value=b"\x07"))
    assert (applied.two_contents, applied.changed, kept(tree)) == (True, False, (A,))


def test_chain_of_another_content_is_heard_of() -> None:
    tree = tree_of(A)
    tree.apply(event(link("a", 1), link("b", 2), tock=9, value=b"\x07"))
    assert tree.ledger.missing() == ranges(link("b", 1), link("b", 2))


def test_purged_value_stays_dead() -> None:
    tree = Tree()
    tree.close(ranges(A.link))
    applied = tree.apply(A)
    assert (applied.changed, tree.get(HERE)) == (False, None)


def test_chain_of_a_duplicate_that_is_held_by_hearsay_closes_losers() -> None:
    middle = event(link("c", 1), B.link, tock=2)
    tree = tree_of(A, B)
    tree.close(ranges(middle.link))
    applied = tree.apply(middle)
    assert (kept(tree), applied.changed, applied.closed) == ((A,), True, (B,))


def test_chain_of_a_duplicate_for_an_unknown_path_is_held() -> None:
    tree = Tree()
    tree.close(ranges(link("c", 1)))
    applied = tree.apply(event(link("c", 1), link("d", 4), tock=2))
    assert (applied.changed, tree.ledger.has(link("d", 4)), tree.get(HERE)) == (True, True, None)


def test_chain_of_a_duplicate_never_takes_a_winner() -> None:
    """What a chain says of a winner leaves it where it is (docs/protocol, APPLY-5)."""
    tree = tree_of(A)
    tree.close(ranges(link("c", 1)))
    applied = tree.apply(event(link("c", 1), A.link, tock=2))
    assert (kept(tree), applied.won, applied.closed) == ((A,), False, ())
    assert tree.superseded() == ranges(link("c", 1))


def test_winner_named_by_a_duplicate_is_no_open_loser_once_it_loses() -> None:
    """The duplicate was seen on this path and contains it, although the new winner's short chain does not say so."""
    tree = tree_of(A)
    tree.close(ranges(link("c", 1)))
    tree.apply(event(link("c", 1), A.link, tock=2))
    new = event(link("d", 1), link("c", 1), tock=3)
    tree.apply(new)
    assert kept(tree) == (new,)


def test_duplicate_that_only_adds_to_the_memory_has_changed_the_state() -> None:
    """Otherwise no record would be written, and a restart would open a loser that is closed before it."""
    middle = event(link("b", 2), link("a", 5), tock=2)
    tree = tree_of(event(link("c", 1), link("b", 2), tock=3))
    tree.close(ranges(link("a", 5)))
    assert tree.apply(middle).changed
    assert not tree.apply(middle).changed


# -- memory -------------------------------------------------------------------------------------------------------


def test_truncated_chain_does_not_reopen_what_a_gone_event_contained() -> None:
    late = event(link("a", 1), tock=1)
    middle = event(link("b", 1), link("a", 3), tock=4)
    new = event(link("c", 1), link("b", 1), tock=5)
    tree = tree_of(middle, new)
    applied = tree.apply(late)
    assert (kept(tree), applied.changed) == ((new,), True)


def test_writer_s_next_change_with_a_shorter_chain_does_not_reopen_what_its_former_one_contained() -> None:
    former, new = event(link("a", 1), link("b", 3), tock=4), event(link("a", 2), tock=5)
    late = event(link("b", 1), tock=1)
    assert kept(tree_of(former, new, late)) == (new,)


def test_memory_speaks_only_for_what_is_below_the_event_that_named_it() -> None:
    middle = event(link("b", 1), link("a", 3), tock=4)
    new = event(link("c", 1), link("b", 1), tock=9)
    apart = event(link("a", 2), tock=6)
    tree = tree_of(middle, new, apart)
    assert kept(tree) == (new, apart)


def test_usual_writes_leave_no_memory() -> None:
    tree = tree_of(A, event(link("b", 1), link("a", 1), tock=2), event(link("a", 2), link("b", 1), tock=3))
    entry = tree.get(HERE)
    assert entry is not None
    assert entry.memory is None


# -- known --------------------------------------------------------------------------------------------------------


def test_known_closes_an_open_loser() -> None:
    tree = tree_of(A, B)
    new, closed = tree.close(ranges(B.link))
    assert (new, closed, kept(tree), tree.digest) == ({}, (B,), (A,), tree_of(A).digest)
    assert tree.superseded() == ranges(B.link)


def test_known_leaves_a_winner() -> None:
    """No statement of a node deletes a winner (docs/protocol, APPLY-5)."""
    tree = tree_of(A)
    assert tree.close(ranges(A.link)) == ({}, ())
    assert (kept(tree), tree.superseded()) == ((A,), {})


def test_known_says_what_was_new_to_the_ledger() -> None:
    tree = tree_of(A)
    node = NodeName("a")
    assert tree.close({node: Ranges([(1, 3), (LIFE + 1, LIFE + 4)])}) == (
        {node: Ranges([(2, 3), (LIFE + 1, LIFE + 4)])},
        (),
    )


def test_known_again_is_nothing_new() -> None:
    tree = tree_of(A, B)
    tree.close(ranges(B.link, link("z", 3)))
    assert tree.close(ranges(B.link, link("z", 3))) == ({}, ())


# -- reading ------------------------------------------------------------------------------------------------------


def test_present_looks_at_few_events_of_a_wide_range_and_few_ticks_of_a_narrow_one() -> None:
    many = [event(link("a", tick), tock=tick, path=Path((tick,))) for tick in (2, 5, 3)]
    tree = tree_of(*many)
    wide = tree.present({NodeName("a"): Ranges([(1, 1 << 31)]), NodeName("nobody"): Ranges([(1, 9)])})
    narrow = tree.present({NodeName("a"): Ranges([(3, 4)])})
    assert ([one.tick for one in wide], [one.tick for one in narrow]) == ([2, 3, 5], [3])


def test_present_leaves_out_what_went_while_the_caller_paused() -> None:
    tree = tree_of(A, event(link("a", 2), tock=1, path=Path(("q",))))
    going = tree.present({NodeName("a"): Ranges([(1, 3)])})
    assert next(going) is A
    tree.apply(event(link("b", 9), link("a", 2), tock=5, path=Path(("q",))))
    assert list(going) == []


def test_entries_come_in_the_order_of_their_paths_appearance() -> None:
    paths = [Path(("z",)), Path(("a",)), Path((1,))]
    tree = tree_of(*(event(link("a", i + 1), tock=1, path=path) for i, path in enumerate(paths)))
    assert [entry.head.path for entry in tree.entries()] == paths


def test_chain_links_are_heard_of() -> None:
    """The node knows from then on that these ticks exist (docs/protocol, LEDGER-3)."""
    tree = tree_of(event(link("a", 1), link("b", 4), tock=2))
    assert {node: list(ticks) for node, ticks in tree.ledger.missing().items()} == {"b": [1, 2, 3]}
