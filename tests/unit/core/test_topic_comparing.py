"""Copies are compared with those of their owners, until they are equal; who is not named gives what it has."""

from __future__ import annotations

import random

import pytest

from distkv.core.ground.calls import CallKey
from distkv.core.ground.node_calls import Replied
from distkv.core.ground.turn import AnsweredNode
from distkv.core.topics.compared_copy import PAGE_BYTES, page_of
from distkv.core.topics.comparing import AGAIN_MS
from distkv.core.topics.late_pages import KEYS_MAX
from distkv.model.event import NodeName
from distkv.wire.topic_entries import AS_OWNER
from distkv.wire.topic_messages import COMPARE_REPLIES, HAD_MAX, Compare
from tests.topic_copies import ID, SETTINGS, A, B, C, CopyNode, Fleet, RowsCopy

T = "news"
SOON_MS = 3000


def _fleet(*rows: tuple[NodeName, str]) -> Fleet:
    """Nodes that have these rows on their disks, before anybody is named."""
    fleet = Fleet(random.Random(1))
    for me in (A, B, C):
        fleet.add(me)
    for me, key in rows:
        node = fleet.nodes[me]
        node.disk[f"m\x1f{T}\x1f{key}"] = key.encode()
        node.crash()
        node.start()
    return fleet


def _rows(node: CopyNode) -> set[str]:
    return {*node.copies[T].rows} if T in node.copies else set()


def _late_page() -> tuple[Fleet, list[tuple[int, int, NodeName, NodeName, bytes]]]:
    """A follower has asked its owner for a page; and what is under way to it, which has a row."""
    fleet = _fleet((A, "one"))
    fleet.name(T, A, B)
    late = list[tuple[int, int, NodeName, NodeName, bytes]]()
    while not late:
        fleet.pass_time(1)
        late = [word for word in fleet.under_way if word[3] == B and b"one" in word[4]]
    fleet.under_way = [word for word in fleet.under_way if word not in late]
    return fleet, late


def test_follower_and_owner_get_what_they_lack() -> None:
    """COPY-6."""
    fleet = _fleet((A, "one"), (B, "two"))
    fleet.name(T, A, B)
    fleet.pass_time(SOON_MS)
    assert _rows(fleet.nodes[A]) == _rows(fleet.nodes[B]) == {"one", "two"}
    assert fleet.nodes[B].comparing.whole(T)


def test_rows_of_one_follower_come_to_the_others() -> None:
    fleet = _fleet((A, "one"), (B, "two"), (C, "three"))
    fleet.name(T, A, B, C)
    fleet.pass_time(SOON_MS)
    assert all(_rows(node) == {"one", "two", "three"} for node in fleet.nodes.values())


def test_long_copies_are_exchanged_in_pages() -> None:
    fleet = _fleet()
    a, b = fleet.nodes[A], fleet.nodes[B]
    for at in range(30):
        for node in (a, b):
            node.disk[f"m\x1f{T}\x1f{node.me}{at}"] = bytes(PAGE_BYTES // 3)
    for node in (a, b):
        node.crash()
        node.start()
    fleet.name(T, A, B)
    fleet.pass_time(SOON_MS)
    assert a.copies[T].digest == b.copies[T].digest
    assert len(_rows(a)) == 60


def test_page_ends_before_it_is_too_long_and_the_next_goes_on_behind_it() -> None:
    copy = RowsCopy(rows={f"k{at}": bytes(PAGE_BYTES // 2) for at in range(2000)})
    bucket = next(at for at in range(256) if len([*copy.rows_of(at)]) > 2)
    keys, after, more = list[str](), "", True
    while more:
        rows, more = page_of(copy, bucket, after)
        assert len(rows) == 1
        keys, after = [*keys, rows[0].key], rows[-1].key
    assert keys == [key for key, _ in copy.rows_of(bucket)]


def test_node_that_is_not_named_gives_what_it_has_and_lets_it_go() -> None:
    """COPY-7."""
    fleet = _fleet((A, "one"), (C, "two"))
    fleet.name(T, A, B)
    fleet.pass_time(SOON_MS)
    assert _rows(fleet.nodes[A]) == _rows(fleet.nodes[B]) == {"one", "two"}
    assert _rows(fleet.nodes[C]) == set()


def test_node_that_is_not_named_keeps_what_it_has_until_the_followers_have_it() -> None:
    fleet = _fleet((A, "one"), (C, "two"))
    fleet.disk_ms = 400
    fleet.nodes[B].is_paused = True
    fleet.name(T, A, B)
    fleet.pass_time(SOON_MS)
    assert _rows(fleet.nodes[C]) == {"two"}
    assert not fleet.nodes[C].comparing.is_clean(T, A, fleet.nodes[A].comparing.start)
    fleet.nodes[B].is_paused = False

    def see() -> None:
        if not _rows(fleet.nodes[C]):
            assert fleet.nodes[B].on_disk(T, "two") is not None

    fleet.pass_time(20 * SOON_MS, see)
    assert _rows(fleet.nodes[C]) == set()


def test_owner_is_told_who_is_joined_and_that_it_was_the_owner() -> None:
    """COPY-9."""
    fleet = _fleet((A, "one"), (C, "two"))
    fleet.name(T, C)
    fleet.pass_time(SOON_MS)
    fleet.name(T, A)
    fleet.pass_time(SOON_MS)
    assert (T, C, (AS_OWNER,)) in fleet.nodes[A].joins


def test_owner_is_told_by_which_namings_a_follower_was_whole() -> None:
    """COPY-9."""
    fleet = _fleet((A, "one"), (B, "one"), (C, "one"))
    fleet.name(T, A, B)
    fleet.pass_time(SOON_MS)
    first = fleet.entries[T].namings[B]
    fleet.name(T, C)
    fleet.name(T, C, B)
    fleet.pass_time(SOON_MS)
    second = fleet.entries[T].namings[B]
    assert {had for _, node, had in fleet.nodes[C].joins if node == B} == {(first,)}
    assert fleet.nodes[B].comparing.had(T) == {first, second}


def test_only_the_last_namings_are_told() -> None:
    fleet = _fleet((A, "one"), (B, "one"))
    fleet.name(T, B)
    for _ in range(HAD_MAX + 1):
        fleet.name(T, A, B)
        fleet.pass_time(SOON_MS)
        fleet.name(T, A)
    last = fleet.nodes[B].comparing.had(T)
    assert len(last) == HAD_MAX - 1
    assert AS_OWNER not in last


def test_copy_that_was_never_whole_is_joined_as_a_part() -> None:
    fleet = _fleet((A, "one"), (C, "two"))
    fleet.name(T, A)
    fleet.pass_time(SOON_MS)
    assert {had for _, node, had in fleet.nodes[A].joins if node == C} == {()}


def test_node_without_a_copy_says_so_when_the_owner_may_lack_one() -> None:
    """TOPIC-5."""
    fleet = _fleet((A, "one"))
    fleet.name(T, A, lacking={C})
    fleet.pass_time(SOON_MS)
    assert (T, C, ()) in fleet.nodes[A].joins
    assert T not in fleet.nodes[C].copies


def test_former_owner_whose_copy_is_gone_says_that_it_has_nothing() -> None:
    fleet = _fleet((C, "two"))
    fleet.name(T, C)
    fleet.pass_time(SOON_MS)
    c = fleet.nodes[C]
    c.crash()
    del c.disk[f"m\x1f{T}\x1ftwo"]
    fleet.name(T, A, lacking={C})
    c.start()
    fleet.pass_time(SOON_MS)
    assert {had for _, node, had in fleet.nodes[A].joins if node == C} == {()}


@pytest.mark.parametrize("rows", [(), ((C, "two"),)])
def test_node_compares_until_the_entry_says_no_more_that_the_owner_lacks_something(
    rows: tuple[tuple[NodeName, str], ...],
) -> None:
    """COPY-6."""
    fleet = _fleet((A, "one"), *rows)
    joins = fleet.nodes[A].joins
    fleet.name(T, A, lacking={C})
    fleet.pass_time(SOON_MS)
    before = len(joins)
    fleet.pass_time(SOON_MS)
    assert len(joins) > before
    fleet.name(T, A)
    fleet.pass_time(SOON_MS)
    before = len(joins)
    fleet.pass_time(AGAIN_MS // 2)
    assert len(joins) == before


def test_node_that_let_go_compares_when_the_owner_lacks_something_again() -> None:
    fleet = _fleet((A, "one"), (C, "two"))
    fleet.name(T, A)
    fleet.pass_time(SOON_MS)
    joins = fleet.nodes[A].joins
    joins.clear()
    fleet.name(T, A, lacking={C})
    fleet.pass_time(SOON_MS)
    assert (T, C, ()) in joins


def test_copy_is_clean_towards_the_start_that_has_its_rows() -> None:
    fleet = _fleet((A, "one"), (B, "two"))
    fleet.name(T, A, B)
    a, b = fleet.nodes[A], fleet.nodes[B]
    assert not b.comparing.is_clean(T, A, a.comparing.start)
    fleet.pass_time(SOON_MS)
    assert b.comparing.is_clean(T, A, a.comparing.start)
    assert not b.comparing.is_clean(T, A, a.comparing.start + 1)


def test_copy_that_another_node_sent_to_is_clean_when_it_was_compared_again() -> None:
    fleet = _fleet((A, "one"), (B, "two"))
    fleet.name(T, A, B)
    fleet.pass_time(SOON_MS)
    a, b = fleet.nodes[A], fleet.nodes[B]
    b.receive(T, [("three", b"3")], C)
    assert not b.comparing.is_clean(T, A, a.comparing.start)
    fleet.pass_time(SOON_MS)
    assert b.comparing.is_clean(T, A, a.comparing.start)
    assert "three" in _rows(a)


def test_copy_is_not_clean_towards_an_owner_who_was_another_meanwhile() -> None:
    fleet = _fleet((A, "one"), (B, "two"))
    fleet.name(T, A, B)
    fleet.pass_time(SOON_MS)
    a, b = fleet.nodes[A], fleet.nodes[B]
    fleet.name(T, B, A)
    fleet.name(T, A, B)
    assert not b.comparing.is_clean(T, A, a.comparing.start)
    fleet.pass_time(SOON_MS)
    assert b.comparing.is_clean(T, A, a.comparing.start)


def test_disk_that_was_set_back_unnoticed_is_found_within_a_minute() -> None:
    """COPY-6."""
    fleet = _fleet((A, "one"), (B, "one"))
    fleet.name(T, A, B)
    fleet.pass_time(SOON_MS)
    a, b = fleet.nodes[A], fleet.nodes[B]
    b.copies[T].rows.clear()
    fleet.pass_time(AGAIN_MS + SOON_MS)
    assert _rows(a) == _rows(b) == {"one"}


def test_follower_that_started_anew_is_not_whole_before_it_compared() -> None:
    """COPY-8."""
    fleet = _fleet((A, "one"), (B, "one"))
    fleet.name(T, A, B)
    fleet.pass_time(SOON_MS)
    a, b = fleet.nodes[A], fleet.nodes[B]
    assert b.comparing.whole(T)
    b.crash()
    a.is_paused = True
    b.start()
    assert not b.comparing.whole(T)
    a.is_paused = False
    fleet.pass_time(SOON_MS)
    assert b.comparing.whole(T)


def test_follower_that_slept_is_not_whole_before_it_compared() -> None:
    """COPY-8."""
    fleet = _fleet((A, "one"), (B, "one"))
    fleet.name(T, A, B)
    fleet.pass_time(SOON_MS)
    a, b = fleet.nodes[A], fleet.nodes[B]
    b.is_paused = True
    fleet.pass_time(SETTINGS.long_ms)
    a.crash()
    b.is_paused = False
    fleet.pass_time(SOON_MS)
    assert not b.comparing.whole(T)
    a.start()
    b.look(T)
    fleet.pass_time(SOON_MS)
    assert b.comparing.whole(T)


def test_owner_compares_with_a_follower_when_both_see_the_same_naming() -> None:
    """COPY-8."""
    fleet = _fleet((A, "one"), (B, "one"))
    fleet.name(T, A, B)
    fleet.pass_time(SOON_MS)
    a = fleet.nodes[A]
    naming, answers = fleet.entries[T].namings[B], list[str]()
    for said in (naming, naming + 1, None):
        turn = a.turn()
        a.comparing.asked(turn, CallKey(B, 1, 1), Compare(T, (ID,), a.copies[T].digest, 1, naming=said))
        replies = [COMPARE_REPLIES.read(one.body) for one in turn.effects if isinstance(one, AnsweredNode)]
        answers += [type(one).__name__ for one in replies]
    assert answers == ["CompareEqual", "NotCompared", "NotCompared"]


@pytest.mark.parametrize("mark", [(), ("\0old",)])
def test_former_owner_knows_after_a_restart_that_it_had_all_but_not_on_an_old_disk(mark: tuple[str, ...]) -> None:
    """COPY-9."""
    fleet = _fleet((A, "one"), (C, "two"))
    fleet.name(T, C)
    fleet.pass_time(SOON_MS)
    c = fleet.nodes[C]
    c.crash()
    c.disk.update(dict.fromkeys(mark, b""))
    fleet.name(T, A)
    c.start()
    fleet.pass_time(SOON_MS)
    assert (T, C, () if mark else (AS_OWNER,)) in fleet.nodes[A].joins


def test_follower_that_its_owner_left_out_and_named_again_does_not_say_that_it_had_all_since() -> None:
    """COPY-9."""
    fleet = _fleet((A, "one"), (B, "one"), (C, "one"))
    fleet.name(T, A, B)
    first = fleet.entries[T].namings[B]
    fleet.pass_time(SOON_MS)
    fleet.name(T, A)
    fleet.name(T, A, B)
    fleet.name(T, C)
    fleet.pass_time(SOON_MS)
    assert (T, B, (first,)) in fleet.nodes[C].joins


def test_node_that_is_left_out_and_named_again_is_not_whole_before_it_compared() -> None:
    fleet = _fleet((A, "one"), (B, "one"))
    fleet.name(T, A, B)
    fleet.pass_time(SOON_MS)
    b = fleet.nodes[B]
    fleet.name(T, A, C)
    assert not b.comparing.whole(T)
    fleet.name(T, A, B)
    assert not b.comparing.whole(T)
    fleet.pass_time(SOON_MS)
    assert b.comparing.whole(T)


def test_owner_that_started_anew_is_compared_with_again() -> None:
    fleet = _fleet((A, "one"), (B, "one"))
    fleet.name(T, A, B)
    fleet.pass_time(SOON_MS)
    a, b = fleet.nodes[A], fleet.nodes[B]
    a.crash()
    b.look(T)
    a.start()
    b.look(T)
    assert not b.comparing.is_clean(T, A, a.comparing.start)
    fleet.pass_time(SOON_MS)
    assert b.comparing.is_clean(T, A, a.comparing.start)


def test_owner_that_asks_after_it_started_anew_unseen_is_compared_with_at_once() -> None:
    """COPY-6."""
    fleet = _fleet((A, "one"), (B, "one"))
    fleet.name(T, A, B)
    fleet.pass_time(SOON_MS)
    a, b = fleet.nodes[A], fleet.nodes[B]
    a.crash()
    a.start()
    fleet.pass_time(SOON_MS)
    assert not b.comparing.is_clean(T, A, a.comparing.start)
    b.met(T, a)
    fleet.pass_time(SOON_MS)
    assert b.comparing.is_clean(T, A, a.comparing.start)


def test_many_copies_are_compared_a_few_at_a_time() -> None:
    fleet = _fleet()
    a, b = fleet.nodes[A], fleet.nodes[B]
    names = [f"t{at}" for at in range(50)]
    for name in names:
        a.disk[f"m\x1f{name}\x1fk"] = b"1"
        b.disk[f"m\x1f{name}\x1fl"] = b"1"
    for node in (a, b):
        node.crash()
        node.start()
    for name in names:
        fleet.name(name, A, B)
    fleet.pass_time(10 * SOON_MS)
    assert all(a.copies[name].digest == b.copies[name].digest for name in names)


def test_follower_that_slept_while_it_was_left_out_and_named_again_is_not_whole() -> None:
    fleet = _fleet((A, "one"), (B, "one"))
    fleet.name(T, A, B)
    fleet.pass_time(SOON_MS)
    b = fleet.nodes[B]
    b.is_paused = True
    fleet.name(T, A, C)
    fleet.name(T, A, B)
    assert not b.comparing.whole(T)


def test_follower_stays_whole_when_another_one_becomes_the_owner() -> None:
    fleet = _fleet((A, "one"), (B, "one"), (C, "one"))
    fleet.name(T, A, B, C)
    fleet.pass_time(SOON_MS)
    fleet.nodes[B].is_paused = True
    fleet.name(T, B, C)
    assert fleet.nodes[C].comparing.whole(T)


def test_owner_that_became_a_follower_is_not_whole_before_it_compared() -> None:
    fleet = _fleet((A, "one"), (B, "one"))
    fleet.name(T, A, B)
    fleet.pass_time(SOON_MS)
    a = fleet.nodes[A]
    fleet.nodes[B].is_paused = True
    fleet.name(T, B, A)
    assert not a.comparing.whole(T)
    fleet.nodes[B].is_paused = False
    fleet.nodes[B].look(T)
    fleet.pass_time(SOON_MS)
    assert a.comparing.whole(T)
    assert (T, A, (AS_OWNER,)) in fleet.nodes[B].joins


def test_follower_without_a_copy_gets_one_although_nothing_new_comes() -> None:
    fleet = _fleet((A, "one"))
    fleet.name(T, A, B)
    fleet.pass_time(SOON_MS)
    assert _rows(fleet.nodes[B]) == {"one"}
    assert fleet.nodes[B].comparing.whole(T)


def test_follower_that_is_left_out_lets_go_what_it_has() -> None:
    fleet = _fleet((A, "one"), (B, "one"))
    fleet.name(T, A, B)
    fleet.pass_time(SOON_MS)
    fleet.name(T, A, C)
    fleet.pass_time(SOON_MS)
    assert _rows(fleet.nodes[B]) == set()
    assert _rows(fleet.nodes[C]) == {"one"}


def test_rows_that_come_while_a_copy_is_given_are_given_too() -> None:
    fleet = _fleet((A, "one"), (C, "two"))
    fleet.name(T, A)
    a, c = fleet.nodes[A], fleet.nodes[C]
    while not a.joins:
        fleet.pass_time(1)
    assert _rows(c) == {"two"}
    c.receive(T, [("late", b"3")], B)
    fleet.pass_time(SOON_MS)
    assert _rows(a) == {"one", "two", "late"}
    assert _rows(c) == set()


def test_page_that_comes_late_does_not_bring_back_what_the_owner_forgot_since() -> None:
    """COPY-11."""
    fleet, late = _late_page()
    a, b = fleet.nodes[A], fleet.nodes[B]
    a.put(T, "one", None)
    fleet.pass_time(100)
    fleet.under_way += late
    fleet.pass_time(SOON_MS)
    assert _rows(a) == _rows(b) == set()


def test_what_came_back_after_it_went_is_not_lost_by_a_page_that_comes_late() -> None:
    fleet, late = _late_page()
    a, b = fleet.nodes[A], fleet.nodes[B]
    a.put(T, "one", None)
    a.put(T, "one", b"one")
    fleet.pass_time(100)
    fleet.under_way += late
    fleet.pass_time(SOON_MS)
    assert _rows(a) == _rows(b) == {"one"}


def test_follower_asks_again_when_more_rows_went_than_it_remembers() -> None:
    fleet, late = _late_page()
    b = fleet.nodes[B]
    b.receive(T, [(f"k{at}", None) for at in range(KEYS_MAX)], A)
    b.receive(T, [("one", None)], A)
    fleet.under_way += late
    fleet.pass_time(100)
    assert _rows(b) == set()
    fleet.pass_time(SOON_MS)
    assert _rows(b) == {"one"}


def test_follower_is_compared_with_once_a_second_at_the_most_when_it_lacks_something() -> None:
    fleet = _fleet((A, "one"), (B, "one"))
    fleet.name(T, A, B)
    a, b = fleet.nodes[A], fleet.nodes[B]
    fleet.pass_time(SOON_MS)
    b.rows_max = 1
    before = len(b.notes)
    a.put(T, "two", b"2")
    fleet.pass_time(10_000)
    assert 2 <= len([note for note in b.notes[before:] if note.id == "topic_copy_refused"]) <= 12


def test_follower_without_room_for_what_is_there_is_to_be_replaced() -> None:
    """TOPIC-9."""
    fleet = _fleet((A, "one"), (A, "two"))
    a, b = fleet.nodes[A], fleet.nodes[B]
    b.rows_max = 0
    fleet.name(T, A, B)
    fleet.pass_time(SOON_MS)
    assert {*a.replaced} == {(T, B)}
    fleet.name(T, A)
    before = len(a.replaced)
    fleet.pass_time(SOON_MS)
    assert len(a.replaced) == before, "who follows no more has nothing to refuse"


def test_follower_with_as_many_topics_as_it_may_have_is_to_be_replaced_though_nothing_new_comes() -> None:
    """TOPIC-9."""
    fleet = _fleet()
    a, b = fleet.nodes[A], fleet.nodes[B]
    b.copies_max = 0
    fleet.name(T, A, B)
    fleet.pass_time(SOON_MS)
    assert {*a.replaced} == {(T, B)}
    assert not b.comparing.whole(T)
    fleet.name(T, A)
    before = len(a.replaced)
    fleet.pass_time(SOON_MS)
    assert len(a.replaced) == before, "who follows no more has nothing to refuse"


def test_follower_that_has_room_again_makes_a_copy() -> None:
    fleet = _fleet((A, "one"))
    b = fleet.nodes[B]
    b.copies_max = 0
    fleet.name(T, A, B)
    fleet.pass_time(SOON_MS)
    b.copies_max = 1
    fleet.pass_time(SOON_MS)
    assert b.comparing.whole(T)


def test_answer_that_cannot_be_read_is_asked_for_again() -> None:
    fleet = _fleet((A, "one"), (B, "two"))
    fleet.nodes[A].is_paused = True
    fleet.name(T, A, B)
    b = fleet.nodes[B]
    turn = b.turn()
    asked = b.comparing.asking()
    assert [purpose.name for purpose in asked] == [T]
    assert b.comparing.step(turn, Replied(asked[0], b"nonsense"))
    fleet.nodes[A].is_paused = False
    fleet.pass_time(SOON_MS)
    assert b.comparing.whole(T)
