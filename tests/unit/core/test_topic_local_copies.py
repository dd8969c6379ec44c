"""What a node sends of its copies, and which topics are its own: what the entries say."""

from __future__ import annotations

import random

import pytest

from distkv.core.ground.calls import CallKey
from distkv.core.ground.data import Data
from distkv.core.ground.machine import ServiceGround, ServiceWoken
from distkv.core.ground.node_calls import NodeAsked, Replied
from distkv.core.ground.turn import AskedOfNode, DataKept, EntryWritten, ServiceTurn
from distkv.core.ready import ServiceAsked
from distkv.core.topics.machine import TopicMachine
from distkv.core.topics.settings import TOPICS, TopicSettings
from distkv.errors import NoSpaceError
from distkv.wire.declared import pack
from distkv.wire.topic_entries import Holder, TopicEntry, topic_key
from distkv.wire.topic_messages import Compare, CompareWanted, CopiedRow, CopiedTopic, CopyBatch
from distkv.wire.topic_questions import NODE_QUESTIONS
from distkv.wire.topic_requests import TopicPut
from distkv.wire.topic_rows import MessageRow, message_key
from tests.service_steps import LIFE, WALL, KnownEntries, KnownFields, KnownNodes
from tests.topic_nodes import A, B, C

NAMED, UNNAMED = "00" * 8, "11" * 8
ROW = CopiedRow(message_key("p", 1), pack(MessageRow(b"\x01", WALL, 1, None)))


@pytest.mark.parametrize(("id", "expected"), [(NAMED, [B]), (UNNAMED, [])])
def test_rows_of_a_copy_go_to_the_followers_when_the_entry_names_it(id: str, expected: list[str]) -> None:
    machine, data = TopicMachine(TopicSettings(), random.Random(1)), Data()
    entry = TopicEntry((NAMED,), Holder(A, LIFE), followers=(Holder(B, LIFE),), namings=(1,))
    entries = KnownEntries({topic_key("log"): (pack(entry),)})
    nodes, fields = KnownNodes(frozenset((A, B, C)), frozenset((B, C))), KnownFields()
    machine.begin(
        ServiceTurn(TOPICS, 0, WALL, data), ServiceGround(A, LIFE, 1.0, {}, data.of(TOPICS), entries, nodes, fields)
    )
    turn = ServiceTurn(TOPICS, 0, WALL, data)
    machine.step(turn, NodeAsked(CallKey(C, 1, 1), pack(CopyBatch((CopiedTopic("log", (id,), (ROW,)),)))))
    asked = [effect for effect in turn.effects if isinstance(effect, AskedOfNode)]
    assert [one.node for one in asked if isinstance(NODE_QUESTIONS.read(one.body), CopyBatch)] == expected
    machine.step(ServiceTurn(TOPICS, 1000, WALL, data), ServiceWoken())
    assert machine.statistics()["unnamed"] == ([] if expected else ["log"]), "people are shown the other"


def test_owner_that_starts_asks_its_followers_to_compare() -> None:
    data = Data()
    entry = TopicEntry((NAMED,), Holder(A, LIFE), followers=(Holder(B, LIFE),), namings=(1,))
    entries = KnownEntries({topic_key("log"): (pack(entry),)})
    nodes, turn = KnownNodes(frozenset((A, B, C)), frozenset((B, C))), ServiceTurn(TOPICS, 0, WALL, data)
    ground = ServiceGround(A, LIFE, 1.0, {}, data.of(TOPICS), entries, nodes, KnownFields())
    TopicMachine(TopicSettings(), random.Random(1)).begin(turn, ground)
    asked = [(one.node, NODE_QUESTIONS.read(one.body)) for one in turn.effects if isinstance(one, AskedOfNode)]
    assert (B, CompareWanted(("log",))) in asked


def test_follower_with_as_many_topics_as_it_may_have_tells_the_owner() -> None:
    data, turn = Data(), ServiceTurn(TOPICS, 0, WALL, Data())
    named = TopicEntry((NAMED,), Holder(A, LIFE), followers=(Holder(B, LIFE),), namings=(1,))
    entries = KnownEntries({topic_key("log"): (pack(named),)})
    nodes = KnownNodes(frozenset((A, B)), frozenset((A,)))
    machine = TopicMachine(TopicSettings(topics_max=0), random.Random(1))
    machine.begin(turn, ServiceGround(B, LIFE, 1.0, {}, data.of(TOPICS), entries, nodes, KnownFields()))
    asked = [NODE_QUESTIONS.read(one.body) for one in turn.effects if isinstance(one, AskedOfNode) and one.node == A]
    assert [one.is_refused for one in asked if isinstance(one, Compare)] == [True]


def test_owner_whose_entry_has_no_room_owns_the_topic_no_more_when_another_one_took_it() -> None:
    machine, data, entries = TopicMachine(TopicSettings(), random.Random(1)), Data(), KnownEntries()
    nodes, fields = KnownNodes(frozenset((A, B))), KnownFields()
    ground = ServiceGround(B, LIFE, 1.0, {}, data.of(TOPICS), entries, nodes, fields)
    machine.begin(ServiceTurn(TOPICS, 0, WALL, data), ground)
    turn = ServiceTurn(TOPICS, 0, WALL, data)
    machine.step(turn, ServiceAsked(TOPICS, 1, TopicPut(1, "log", b"\x01")))
    (written,) = [one for one in turn.effects if isinstance(one, EntryWritten) and one.key == topic_key("log")]
    for row in [one for one in turn.effects if isinstance(one, DataKept)]:
        data.keep(TOPICS, row.key, row.value)
    entries.found[topic_key("log")] = (pack(TopicEntry((NAMED,), Holder(A, LIFE))),)
    machine.step(ServiceTurn(TOPICS, 0, WALL, data), Replied(written.purpose, NoSpaceError("the disk is full")))
    assert machine.node is not None
    assert not machine.node.owners.is_mine("log")
    machine.check(is_whole=False)
