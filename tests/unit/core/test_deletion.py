"""Which tombstones may be forgotten (docs/protocol.rst, PURGE-2 to PURGE-5).

Knows: the machine, a tree that holds what each test says, and words of other nodes.
"""

from __future__ import annotations

import random

import pytest

from distkv.core.deletion import BATCH, LOOKED_AT, Deletion, outlives
from distkv.model.event import Event, Kind, Link, NodeName, Tick, Tock, new_event
from distkv.model.fence import NO_FENCE, Fence
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.model.state import State
from distkv.model.tick_ranges import TickRanges
from distkv.model.tree import Tree
from distkv.wire.message import Header, TickMaps, Tombstone

A, B, C = NodeName("a"), NodeName("b"), NodeName("c")
HERE = Path(("p",))
CLOCK_MS, DAY_MS = 1000, 86_400_000
LIFE = 7
OTHERS = {B: LIFE}


def event(node: str, tick: int, tock: int, *older: Link, kind: Kind = Kind.DELETE, path: Path = HERE) -> Event:
    value = b"\x01" if kind is Kind.SET else b""
    return Event(path, kind, value, ((NodeName(node), Tick(tick)), *older), Tock(tock), 0.0)


def link(node: str, tick: int) -> Link:
    return NodeName(node), Tick(tick)


def tree_of(*events: Event) -> Tree:
    tree = Tree()
    for one in events:
        tree.apply(one)
    return tree


def machine(tree: Tree, retention_ms: int = DAY_MS) -> Deletion:
    """A node that was started just now with this tree, and knows its tombstones."""
    found = Deletion(CLOCK_MS, retention_ms, random.Random(1))
    for entry in list(tree.entries()):
        if not entry.is_live:
            found.came(entry.head, tree, 0)
    return found


def maps(tree: Tree, asked: tuple[Tombstone, ...], life: int = LIFE, more: TickRanges | None = None) -> TickMaps:
    """What a node with this tree says."""
    header = Header(B, Tick(1), Tock(1), life, bytes(8), None)
    held = tree.ledger.held() | (more or {})
    return TickMaps(header, "b:1", State.READY, {}, held, {}, 0, outlived=tuple(outlives(tree, asked)))


def forgotten(mine: Tree, theirs: Tree, *, life: int = LIFE, now_ms: int = DAY_MS) -> list[Path]:
    """What node a forgets in a round in which b is asked."""
    deletion = machine(mine)
    deletion.begin_round(mine, now_ms)
    question = deletion.next_to_ask(OTHERS)
    if question is None:
        return []
    name, asked = question
    assert name == B
    deletion.reported(maps(theirs, asked, life), mine)
    deletion.asked(B, now_ms)
    return [stone.path for stone in deletion.decide(mine, OTHERS, now_ms)]


VALUE = event("b", 1, 1, kind=Kind.SET)
STONE = event("a", 1, 2, link("b", 1))


def test_tombstone_that_all_have_is_forgotten() -> None:
    assert forgotten(tree_of(VALUE, STONE), tree_of(VALUE, STONE)) == [HERE]


def test_young_tombstone_is_not_asked_for() -> None:
    assert forgotten(tree_of(STONE), tree_of(STONE), now_ms=DAY_MS - 1) == []


def test_tombstone_that_somebody_does_not_know_stays() -> None:
    assert forgotten(tree_of(VALUE, STONE), tree_of(VALUE)) == []


def test_tombstone_that_somebody_knows_by_hearsay_and_shows_a_value_below_it_stays() -> None:
    theirs = tree_of(VALUE)
    theirs.ledger.hold(STONE.link)
    assert forgotten(tree_of(VALUE, STONE), theirs) == []


def test_tombstone_is_forgotten_when_others_have_forgotten_it() -> None:
    theirs = tree_of(VALUE, STONE)
    theirs.purge(HERE)
    assert forgotten(tree_of(VALUE, STONE), theirs) == [HERE]


def test_tombstone_waits_for_what_the_other_one_held_besides() -> None:
    mine, deletion = tree_of(VALUE, STONE), machine(tree_of(VALUE, STONE))
    theirs = tree_of(VALUE, STONE, event("b", 2, 5, kind=Kind.SET, path=Path(("q",))))
    deletion = machine(mine)
    deletion.begin_round(mine, DAY_MS)
    _, asked = deletion.next_to_ask(OTHERS) or (B, ())
    deletion.reported(maps(theirs, asked), mine)
    deletion.asked(B, DAY_MS)
    assert deletion.decide(mine, OTHERS, DAY_MS) == []
    mine.apply(event("b", 2, 5, kind=Kind.SET, path=Path(("q",))))
    assert [stone.path for stone in deletion.decide(mine, OTHERS, DAY_MS + 500)] == [HERE]


def test_tombstone_stays_when_what_the_other_one_held_does_not_come() -> None:
    mine, theirs = tree_of(VALUE, STONE), tree_of(VALUE, STONE, event("b", 2, 5, path=Path(("q",))))
    deletion = machine(mine)
    deletion.begin_round(mine, DAY_MS)
    _, asked = deletion.next_to_ask(OTHERS) or (B, ())
    deletion.reported(maps(theirs, asked), mine)
    deletion.asked(B, DAY_MS)
    assert deletion.decide(mine, OTHERS, DAY_MS + 3 * CLOCK_MS) == []
    assert (deletion.due_count, deletion.is_due(DAY_MS + 3 * CLOCK_MS)) == (1, False)


def test_word_of_another_life_does_not_count() -> None:
    assert forgotten(tree_of(VALUE, STONE), tree_of(VALUE, STONE), life=LIFE + 1) == []


def test_node_that_was_registered_meanwhile_is_asked_too() -> None:
    mine = tree_of(VALUE, STONE)
    deletion = machine(mine)
    deletion.begin_round(mine, DAY_MS)
    _, asked = deletion.next_to_ask(OTHERS) or (B, ())
    deletion.reported(maps(mine, asked), mine)
    deletion.asked(B, DAY_MS)
    more = {**OTHERS, C: 1}
    question = deletion.next_to_ask(more)
    assert question is not None
    assert question[0] == C
    assert deletion.decide(mine, more, DAY_MS) == []


def test_node_that_does_not_answer_ends_the_round() -> None:
    mine = tree_of(VALUE, STONE)
    deletion = machine(mine)
    deletion.begin_round(mine, DAY_MS)
    deletion.next_to_ask(OTHERS)
    assert deletion.wake_ms() is None
    deletion.asked(B, DAY_MS)
    assert deletion.decide(mine, OTHERS, DAY_MS) == []
    wake_ms = deletion.wake_ms()
    assert wake_ms is not None
    assert 2 * CLOCK_MS <= wake_ms - DAY_MS <= 3 * CLOCK_MS


# -- what stands at the path --------------------------------------------------------------------------------------


def test_open_loser_that_is_a_value_keeps_the_tombstone() -> None:
    lost = event("c", 1, 1, kind=Kind.SET)
    mine = tree_of(VALUE, STONE, lost)
    assert mine.conflicted()
    assert forgotten(mine, mine) == []


def test_deletions_that_lost_go_with_the_tombstone() -> None:
    mine = tree_of(VALUE, STONE, event("c", 1, 2, link("b", 1)))
    assert len(list(mine.open_losers())) == 1
    assert forgotten(mine, mine) == [HERE]


def test_deletion_that_lost_and_that_somebody_does_not_know_keeps_the_tombstone() -> None:
    other = event("c", 1, 1)
    assert forgotten(tree_of(VALUE, STONE, other), tree_of(VALUE, STONE)) == []


def test_deletion_that_came_after_the_question_keeps_the_tombstone() -> None:
    mine = tree_of(VALUE, STONE)
    deletion = machine(mine)
    deletion.begin_round(mine, DAY_MS)
    _, asked = deletion.next_to_ask(OTHERS) or (B, ())
    deletion.reported(maps(mine, asked), mine)
    deletion.asked(B, DAY_MS)
    mine.apply(event("c", 1, 1))
    assert deletion.decide(mine, OTHERS, DAY_MS) == []


def test_path_that_has_a_value_again_is_left_alone() -> None:
    mine = tree_of(VALUE, STONE)
    deletion = machine(mine)
    mine.apply(event("b", 2, 3, STONE.link, kind=Kind.SET))
    deletion.begin_round(mine, DAY_MS)
    assert (deletion.next_to_ask(OTHERS), deletion.due_count) == (None, 0)


@pytest.mark.parametrize("is_lost", [False, True])
def test_tick_that_the_deletion_knew_of_and_that_is_missing_keeps_the_tombstone(is_lost: bool) -> None:
    mine = tree_of(event("b", 3, 1, kind=Kind.SET), event("a", 1, 2, link("b", 3)))
    if is_lost:
        mine.ledger.mark_lost({B: Ranges([(1, 3)])})
    assert forgotten(mine, mine) == []


def test_tick_that_the_deletion_could_not_know_of_does_not_keep_the_tombstone() -> None:
    mine = tree_of(VALUE, STONE)
    mine.ledger.hear(link("b", 9))
    assert forgotten(mine, mine) == [HERE]


def test_tick_that_only_the_memory_of_the_entry_knew_of_keeps_the_tombstone() -> None:
    cut = event("a", 1, 3, link("b", 2))
    mine = tree_of(event("b", 1, 1, kind=Kind.SET), event("b", 2, 2, link("c", 5), kind=Kind.SET), cut)
    entry = mine.get(HERE)
    assert entry is not None
    assert entry.memory
    assert forgotten(mine, mine) == []


# -- what a node says of itself -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "is_fine"),
    [
        ((VALUE, STONE), True),
        ((VALUE,), False),
        ((), False),
        ((VALUE, STONE, event("b", 2, 3, STONE.link, kind=Kind.SET)), True),
        ((event("b", 2, 3, STONE.link, kind=Kind.SET),), True),
    ],
)
def test_tombstone_is_outlived_where_it_or_what_is_above_it_stands(events: tuple[Event, ...], is_fine: bool) -> None:
    stone = Tombstone(HERE, (STONE.link,), STONE.tock)
    assert list(outlives(tree_of(*events), [stone])) == ([STONE.link] if is_fine else [])


def test_expiry_at_the_tock_of_a_value_is_below_it() -> None:
    value, stone = event("b", 1, 2, kind=Kind.SET), Tombstone(HERE, (link("a", 9),), Tock(2), expired=True)
    tree = tree_of(value)
    tree.ledger.hold(link("a", 9))
    assert list(outlives(tree, [stone])) == [link("a", 9)]


# -- age and number -----------------------------------------------------------------------------------------------


def test_after_a_restart_wall_clocks_tell_the_age_and_never_more_than_all_of_it_is_waited_for() -> None:
    made = [10.0, 50.0, 1e9]
    stones = [
        Event(Path((str(at),)), Kind.DELETE, b"", ((A, Tick(tick)),), Tock(tick), at) for tick, at in enumerate(made, 1)
    ]
    deletion = Deletion(CLOCK_MS, 60_000, random.Random(1))
    deletion.begin(stones, 5000, 100.0)
    assert deletion.wake_ms() == 5000
    tree = tree_of(*stones)
    deletion.begin_round(tree, 15_000)
    assert deletion.due_count == 2
    deletion.begin_round(tree, 64_999)
    assert deletion.due_count == 2


@pytest.mark.parametrize("names", [(None, "x"), (None, "service"), (None, "service", "echo"), (None, "node", "a", "b")])
def test_system_paths_are_never_forgotten(names: tuple[str | None, ...]) -> None:
    mine = tree_of(event("a", 1, 2, path=Path(names)))
    assert machine(mine).wake_ms() is None


@pytest.mark.parametrize("fence", [NO_FENCE, Fence(0, 1, 1, "t")], ids=str)
def test_what_a_service_deleted_is_forgotten_but_under_a_fence(fence: Fence) -> None:
    """(docs/protocol, PURGE-3)"""
    plain = event("a", 1, 2, path=Path((None, "service", "echo", "x")))
    stone = new_event(plain.path, plain.kind, b"", plain.chain, plain.tock, plain.time, fence=fence)
    assert (machine(tree_of(stone)).wake_ms() is None) == (fence is not NO_FENCE)


def test_paths_that_are_deleted_over_and_over_take_no_more_and_more_room() -> None:
    mine = Tree()
    deletion = machine(mine)
    for tick in range(1, 3 * LOOKED_AT):
        stone = event("a", tick, tick)
        mine.apply(stone)
        deletion.came(stone, mine, tick)
    deletion.begin_round(mine, DAY_MS + 3 * LOOKED_AT)
    assert deletion.due_count <= 1


def test_question_holds_so_many_tombstones_and_the_others_have_their_turn() -> None:
    """(docs/protocol, PURGE-7)"""
    stones = [event("b", tick, tick, path=Path((f"p{tick}",))) for tick in range(1, BATCH + 11)]
    mine = tree_of(*stones)
    deletion = machine(mine)
    found = 0
    for now_ms in (DAY_MS, DAY_MS + 1000):
        deletion.begin_round(mine, now_ms)
        _, asked = deletion.next_to_ask(OTHERS) or (B, ())
        assert len(asked) <= BATCH
        deletion.reported(maps(mine, asked), mine)
        deletion.asked(B, now_ms)
        found += len(deletion.decide(mine, OTHERS, now_ms))
    assert found == len(stones)


def test_tombstones_that_must_stay_do_not_keep_the_others_waiting() -> None:
    kept = [event("b", 2 * tick, tick, path=Path((f"k{tick}",))) for tick in range(1, BATCH + 11)]
    mine = tree_of(*kept, event("c", 1, 9999))
    assert forgotten(mine, mine) == [HERE]


@pytest.mark.parametrize(("count", "low_ms", "high_ms"), [(1, CLOCK_MS // 2, CLOCK_MS), (BATCH + 10, 20, 120)])
def test_next_round_waits_for_half_a_clock_unless_this_one_had_no_room_for_more(
    count: int, low_ms: int, high_ms: int
) -> None:
    """(docs/protocol, PURGE-8)"""
    mine = tree_of(*[event("b", tick, tick, path=Path((f"p{tick}",))) for tick in range(1, count + 1)])
    deletion = machine(mine)
    young = event("b", count + 1, count + 1)
    mine.apply(young)
    deletion.came(young, mine, 1)
    deletion.begin_round(mine, DAY_MS)
    _, asked = deletion.next_to_ask(OTHERS) or (B, ())
    deletion.reported(maps(mine, asked), mine)
    deletion.asked(B, DAY_MS)
    assert len(deletion.decide(mine, OTHERS, DAY_MS)) == min(count, BATCH)
    wake_ms = deletion.wake_ms()
    assert wake_ms is not None
    assert low_ms <= wake_ms - DAY_MS < high_ms
