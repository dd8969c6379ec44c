"""Who is connected where, as one node says it."""

from __future__ import annotations

from distkv.core.ground.node_calls import Replied
from distkv.model.event import NodeName
from distkv.wire.activity import ActivityPeople, ActivityWho
from distkv.wire.declared import pack
from distkv.wire.routed import REPLIES, NodeItem, NodePage, PageAsked
from tests.one_activity_node import A, B, C, OneNode


def _says_who(node: OneNode, other: NodeName, *users: str, more: bool = False) -> None:
    """A node that was asked answers."""
    (purpose,) = [purpose for name, what, purpose in node.asked if name == other and isinstance(what, PageAsked)]
    items = tuple([NodeItem(f"{other} {user}", b"") for user in users])
    node.step(Replied(purpose, pack(NodePage(items, more))))


def _people(node: OneNode, id: int) -> ActivityPeople:
    (found,) = node.answers[id]
    assert isinstance(found, ActivityPeople)
    return found


def test_users_of_all_nodes_are_named() -> None:
    node = OneNode(B, C).ready()
    id = node.ask(ActivityWho(1, names=True))
    _says_who(node, A, "ann")
    _says_who(node, B, "ann", "bob")
    assert id not in node.answers
    _says_who(node, C)
    found = _people(node, id)
    assert (found.names, found.more, found.away) == ({"a": ("ann",), "b": ("ann", "bob")}, False, ())


def test_node_that_does_not_name_its_users_is_named() -> None:
    node = OneNode(B, C).ready()
    id = node.ask(ActivityWho(1, names=True))
    _says_who(node, A, "ann")
    _says_who(node, C, "cem")
    node.pass_ms(1000)
    found = _people(node, id)
    assert (found.names, found.away) == ({"a": ("ann",), "c": ("cem",)}, ("b",))


def test_more_users_than_go_into_an_answer_come_in_pages() -> None:
    node = OneNode(B).ready()
    id = node.ask(ActivityWho(1, names=True, limit=2))
    _says_who(node, A, "ann")
    _says_who(node, B, "bob", "cem", more=True)
    found = _people(node, id)
    assert (found.names, found.more) == ({"a": ("ann",), "b": ("bob",)}, True)


def test_node_names_its_users_behind_the_one_that_was_named_last() -> None:
    node = OneNode(B).ready()
    for user in ("eva", "ann", "dan", "ann"):
        node.login(user=user)
    page = REPLIES.read(node.asks(B, PageAsked("", "a ann", 1)))
    assert page == NodePage((NodeItem("a dan", b""),), more=True)


def test_counts_are_said_without_asking_anybody() -> None:
    node = OneNode(B).ready()
    node.login()
    found = _people(node, node.ask(ActivityWho(1)))
    assert ([(item.node, item.clients) for item in found.nodes], found.names) == ([("a", 1), ("b", 100)], None)
