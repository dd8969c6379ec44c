"""Topics that are dropped, and copies that no entry names.

Knows: what each node believes, which a test says.  Does not know how entries come to be.
"""

from __future__ import annotations

import pytest

from distkv.core.topics.orphans import LATE_MS
from distkv.errors import NotFoundError
from distkv.model.event import NodeName
from distkv.wire.topic_errors import AwayError
from tests.unit.core.topic_copies import IDS, NAME, put
from tests.unit.core.topic_keepers import Entry, Keepers

A, B, C = NodeName("a"), NodeName("b"), NodeName("c")
OTHER = ("00000000000000bb",)


def fleet(*names: str) -> Keepers:
    """Nodes with a copy each; `a` owns the topic, the others follow."""
    found = Keepers(*names)
    found.publish(Entry(followers=tuple(NodeName(name) for name in names if name != "a")))
    for node in found.nodes.values():
        put(node.topic(), "p", 1)
        node.keep()
    return found


def copies(found: Keepers) -> list[int]:
    """How many copies each node has."""
    return [len(node.disk.topics.of(NAME)) for node in found.nodes.values()]


def orphans(found: Keepers) -> list[list[str]]:
    return [node.forgetting.orphans() for node in found.nodes.values()]


# -- dropping


def test_topic_that_is_dropped_is_thrown_away_by_all_and_then_its_entry_goes() -> None:
    found = fleet("a", "b")
    found["a"].drop_topic()
    found.publish_dropped(NAME, frozenset(IDS))
    assert copies(found) == [0, 0]
    assert len(found["a"].disk.data) == 0
    found.settle()
    assert [node.gone for node in found.nodes.values()] == [{}, {}]


def test_topic_that_is_not_there_cannot_be_dropped() -> None:
    with pytest.raises(NotFoundError):
        fleet("a")["a"].drop_topic("nothing")


def test_topic_is_not_dropped_while_a_follower_is_away() -> None:
    found = fleet("a", "b")
    found.up.discard(B)
    found.know_each_other()
    with pytest.raises(AwayError, match="b may have messages"):
        found["a"].drop_topic()
    assert not found["a"].gone


def test_topic_is_not_dropped_while_its_owner_lacks_what_another_has() -> None:
    found = fleet("a", "b", "c")
    found.publish(Entry(followers=(B,), lacking=(C,)))
    with pytest.raises(AwayError, match="c may have messages"):
        found["a"].drop_topic()


def test_topic_is_dropped_with_force_and_that_is_counted() -> None:
    found = fleet("a", "b")
    found.up.discard(B)
    found.know_each_other()
    found["a"].drop_topic(force=True)
    assert found["a"].gone == {NAME: frozenset(IDS)}
    assert "topic_dropped_unseen" in found["a"].notes


def test_entry_stays_until_a_node_that_is_away_has_thrown_its_copy_away() -> None:
    found = fleet("a", "b", "c")
    found.up.discard(C)
    found.know_each_other()
    found["a"].drop_topic(force=True)
    found.publish_dropped(NAME, frozenset(IDS))
    found.settle()
    assert found["a"].gone
    found.up.add(C)
    found.know_each_other()
    found.settle()
    assert not found["a"].gone


def test_entry_stays_until_a_node_knows_it_although_that_has_no_copy() -> None:
    found = fleet("a", "b")
    topics = found["b"].disk.topics
    topics.throw(topics.of(NAME)[0])
    found["b"].keep()
    found["a"].drop_topic()
    found["a"].entry_changed()
    found.settle()
    assert found["a"].gone == {NAME: frozenset(IDS)}


def test_copy_that_came_with_another_topic_of_the_name_stays() -> None:
    found = fleet("a", "b")
    topics = found["a"].disk.topics
    topics.add_ids(found["a"].topic(), OTHER)
    found["a"].keep()
    found.publish_dropped(NAME, frozenset(IDS))
    assert copies(found) == [1, 0]


def test_topic_that_somebody_kept_on_with_is_not_thrown_away() -> None:
    found = fleet("a", "b")
    for node in found.nodes.values():
        node.gone[NAME] = frozenset(IDS)
        node.entry_changed()
    assert copies(found) == [1, 1]


def test_copy_that_comes_after_the_drop_is_thrown_away_too() -> None:
    found = fleet("a", "b")
    found["a"].drop_topic()
    found.publish_dropped(NAME, frozenset(IDS))
    put(found["b"].topic(), "p", 2)
    found["b"].keep()
    found.settle()
    assert copies(found) == [0, 0]
    assert not found["a"].gone


def test_new_topic_of_the_name_stays_when_the_old_one_is_thrown_away() -> None:
    found = fleet("a", "b")
    found["a"].drop_topic()
    found.publish_dropped(NAME, frozenset(IDS))
    for node in found.nodes.values():
        node.topic(NAME, OTHER)
        node.entries[NAME] = Entry(ids=frozenset(OTHER), followers=(B,))
        node.keep()
        node.entry_changed()
    found.settle()
    assert copies(found) == [1, 1]
    assert not found["a"].gone


# -- orphans


def orphaned() -> Keepers:
    """A node has a copy that no entry names."""
    found = fleet("a", "b", "c")
    for node in found.nodes.values():
        del node.entries[NAME]
        node.entry_changed()
    for name in ("b", "c"):
        topics = found[name].disk.topics
        topics.throw(topics.of(NAME)[0])
        found[name].keep()
        found[name].entry_changed()
    return found


def test_copy_without_an_entry_is_shown_and_thrown_away_when_all_say_that_they_know_none() -> None:
    found = orphaned()
    found.settle(LATE_MS - 1000)
    assert orphans(found) == [[NAME], [], []]
    assert copies(found) == [1, 0, 0]
    found.settle(5000)
    assert orphans(found) == [[], [], []]
    assert copies(found) == [0, 0, 0]
    assert "topic_orphan_thrown" in found["a"].notes


def test_copy_stays_when_one_node_knows_an_entry_of_it() -> None:
    found = orphaned()
    found["c"].entries[NAME] = Entry()
    found.settle(3 * LATE_MS)
    assert copies(found) == [1, 0, 0]
    found["a"].entries[NAME] = Entry()
    found["a"].entry_changed()
    assert orphans(found) == [[], [], []]


def test_copy_stays_while_a_node_is_away_that_may_know_its_entry() -> None:
    found = orphaned()
    found.up.discard(C)
    found.know_each_other()
    found.settle(3 * LATE_MS)
    assert copies(found) == [1, 0, 0]
    assert found["a"].forgetting.wake_ms() is None


def test_copy_stays_when_there_is_nobody_to_ask() -> None:
    found = fleet("a")
    del found["a"].entries[NAME]
    found["a"].entry_changed()
    found.settle(3 * LATE_MS)
    assert orphans(found) == [[NAME]]
    assert copies(found) == [1]


def test_copy_whose_entry_cannot_be_read_is_no_orphan() -> None:
    found = fleet("a", "b")
    for node in found.nodes.values():
        del node.entries[NAME]
        node.unreadable.add(NAME)
        node.entry_changed()
    found.settle(3 * LATE_MS)
    assert orphans(found) == [[], []]
    assert copies(found) == [1, 1]


def test_copies_that_were_there_at_the_start_are_looked_at() -> None:
    found = orphaned()
    found["a"].restart()
    assert orphans(found) == [[NAME], [], []]
    found.settle(2 * LATE_MS)
    assert copies(found) == [0, 0, 0]
