"""When messages of topics go: rounds of all nodes, what is kept for those that are away, and limits.

Knows: what each node believes, which a test says.  Does not know how copies are compared, nor how entries come to be.
"""

from __future__ import annotations

from distkv.model.event import NodeName
from tests.unit.core.topic_copies import put
from tests.unit.core.topic_keepers import Entry, Keepers

A, B, C = NodeName("a"), NodeName("b"), NodeName("c")


def fleet(*names: str) -> Keepers:
    """Nodes of which `a` owns the topic, and the copies are equal."""
    found = Keepers(*names)
    for name in names:
        found[name].topic()
    found.publish(Entry(followers=tuple(NodeName(name) for name in names if name != "a")))
    found.clean()
    found.settle()
    return found


def came(found: Keepers, *counters: int) -> None:
    """Messages come to the owner."""
    put(found["a"].topic(), "p", *counters)
    found["a"].keep()


def left(found: Keepers) -> int:
    return len(found["a"].topic())


def test_message_that_nobody_is_owed_goes_when_all_nodes_have_said_so() -> None:
    found = fleet("a", "b", "c")
    came(found, 1, 2)
    found.pass_time(1000)
    found.deliver("b")
    found.pass_time(100)
    assert left(found) == 2
    found.deliver("c")
    found.pass_time(100)
    assert left(found) == 0


def test_message_that_a_known_subscriber_is_owed_stays() -> None:
    found = fleet("a", "b")
    found["a"].topic().subscribe("s", 1, None, 1.0)
    came(found, 1, 2)
    found["a"].topic().add_done("s", [("p", 1)])
    found["a"].keep()
    found.settle()
    assert left(found) == 1


def test_message_that_came_after_the_question_stays() -> None:
    found = fleet("a", "b")
    came(found, 1)
    found.pass_time(1000)
    came(found, 2)
    found.deliver()
    found["a"].pass_time(100)
    assert left(found) == 1


def test_node_alone_lets_go_what_nobody_is_owed() -> None:
    found = fleet("a")
    came(found, 1)
    found.settle()
    assert left(found) == 0
