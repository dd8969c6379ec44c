"""The parts of topics on one node, put together: what each is told first."""

from __future__ import annotations

import random
from typing import Final

import pytest

from distkv.core.ground.calls import CallKey
from distkv.core.ground.data import Data
from distkv.core.ground.machine import EntryChanged, NodesChanged, ServiceGround, ServiceInput, ServiceWoken
from distkv.core.ground.node_calls import NodeAsked, Replied
from distkv.core.ground.routes import Attempt
from distkv.core.ground.turn import AnsweredNode, AskedOfNode, DataKept, EntryWritten, ServiceTurn
from distkv.core.ready import Answer, ServiceAsked
from distkv.core.topics.leases import LeasePurpose
from distkv.core.topics.machine import TopicMachine
from distkv.core.topics.settings import TOPICS, TopicSettings
from distkv.errors import PeerError, UnknownOutcomeError
from distkv.model.event import NodeName
from distkv.wire.declared import pack
from distkv.wire.routed import AnswerAsked, AnsweredElsewhere, RoutedRefusal
from distkv.wire.topic_entries import Holder, TopicEntry, topic_key
from distkv.wire.topic_messages import CopiedRow, CopiedTopic, CopyBatch, LeaseAsked
from distkv.wire.topic_requests import TopicPut, pack_request
from distkv.wire.topic_rows import MessageRow, message_key
from tests.service_steps import LIFE, WALL, KnownEntries, KnownFields, KnownNodes
from tests.topic_nodes import A, B, C

ID = "00" * 8
PUT = TopicPut(0, "log", b"\x01", "p", 2)
ROW = CopiedRow(message_key("p", 1), pack(MessageRow(b"\x01", WALL, 1, None)))


class Follower:
    """Node `a`, which follows `b`, and has found that `b` is silent; nobody has wanted the topic yet."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.machine: Final = TopicMachine(TopicSettings(), random.Random(1))
        self.data: Final = Data()
        self.nodes: Final = KnownNodes(frozenset((A, B, C)), frozenset((B, C)))
        entry = TopicEntry((ID,), Holder(B, LIFE), followers=(Holder(A, LIFE),), namings=(1,))
        entries = KnownEntries({topic_key("log"): (pack(entry),)})
        self.ground = ServiceGround(A, LIFE, 1.0, {}, self.data.of(TOPICS), entries, self.nodes, KnownFields())
        self.machine.begin(ServiceTurn(TOPICS, 0, WALL, self.data), self.ground)
        self.step(NodeAsked(CallKey(B, 1, 1), pack(CopyBatch((CopiedTopic("log", (ID,), (ROW,)),)))))
        self.step(NodeAsked(CallKey(B, 1, 2), pack(LeaseAsked())))
        self.nodes.alive = frozenset({C})
        self.step(NodesChanged())
        asked = list[AskedOfNode]()
        for _ in range(100):
            self.now_ms += 100
            asked += [one for one in self.step(ServiceWoken()) if isinstance(one, AskedOfNode)]
        probes = [one.purpose for one in asked if isinstance(one.purpose, LeasePurpose) and one.purpose.is_probe]
        for probe in probes:
            self.step(Replied(probe, PeerError("silent")))

    def step(self, what: ServiceInput) -> list[object]:
        turn = ServiceTurn(TOPICS, self.now_ms, WALL, self.data)
        self.machine.step(turn, what)
        for effect in turn.effects:
            if isinstance(effect, DataKept):
                self.data.keep(TOPICS, effect.key, effect.value)
        return [*turn.effects]

    def puts(self) -> bool:
        """Whether a put of a client of this node makes it the owner at once."""
        written = self.step(ServiceAsked(TOPICS, 1, PUT))
        return topic_key("log") in [one.key for one in written if isinstance(one, EntryWritten)]


@pytest.mark.parametrize(("slept_ms", "expected"), [(0, True), (5000, False)])
def test_follower_that_slept_asks_a_silent_owner_anew_before_it_takes_its_place(slept_ms: int, expected: bool) -> None:
    """COPY-5."""
    follower = Follower()
    follower.now_ms += slept_ms
    assert follower.puts() is expected


class Owner:
    """Node `a`, which owns a topic that `b` follows, and is asked to put something."""

    def __init__(self) -> None:
        self.machine: Final = TopicMachine(TopicSettings(), random.Random(1))
        self.data: Final = Data()
        self.entries: Final = KnownEntries()
        self.says(A, B)
        nodes = KnownNodes(frozenset((A, B, C)), frozenset((B, C)))
        ground = ServiceGround(A, LIFE, 1.0, {}, self.data.of(TOPICS), self.entries, nodes, KnownFields())
        self.machine.begin(ServiceTurn(TOPICS, 0, WALL, self.data), ground)

    def says(self, owner: NodeName, follower: NodeName) -> EntryChanged:
        """So the entry is from now on."""
        entry = TopicEntry((ID,), Holder(owner, LIFE), followers=(Holder(follower, LIFE),), namings=(1,))
        self.entries.found[topic_key("log")] = (pack(entry),)
        return EntryChanged(topic_key("log"))

    def step(self, what: ServiceInput) -> list[object]:
        turn = ServiceTurn(TOPICS, 100, WALL, self.data)
        self.machine.step(turn, what)
        return [*turn.effects]


def test_put_that_is_here_when_the_owner_is_another_may_be_done() -> None:
    """ROUTE-2."""
    owner = Owner()
    owner.step(NodeAsked(CallKey(C, 1, 1), pack(AnswerAsked(pack_request(PUT)))))
    effects = owner.step(owner.says(B, A))
    assert AnsweredNode(CallKey(C, 1, 1), pack(AnsweredElsewhere(B, may_be_done=True))) in effects


def test_put_of_an_own_client_that_is_here_when_the_owner_is_another_may_be_done() -> None:
    """ROUTE-3."""
    owner = Owner()
    owner.step(ServiceAsked(TOPICS, 1, PUT))
    effects = owner.step(owner.says(B, A))
    (asked,) = (one for one in effects if isinstance(one, AskedOfNode) and isinstance(one.purpose, Attempt))
    effects = owner.step(Replied(asked.purpose, pack(RoutedRefusal("no_space", "the disk is full"))))
    (answer,) = (one for one in effects if isinstance(one, Answer))
    assert isinstance(answer.result, UnknownOutcomeError)
