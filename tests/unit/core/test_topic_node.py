"""The parts of topics on one node, put together: what each is told first."""

from __future__ import annotations

import random
from typing import Final

import pytest

from distkv.core.ground.calls import CallKey
from distkv.core.ground.data import Data
from distkv.core.ground.machine import NodesChanged, ServiceGround, ServiceInput, ServiceWoken
from distkv.core.ground.node_calls import NodeAsked, Replied
from distkv.core.ground.turn import AskedOfNode, DataKept, EntryWritten, ServiceTurn
from distkv.core.ready import ServiceAsked
from distkv.core.topics.leases import LeasePurpose
from distkv.core.topics.machine import TopicMachine
from distkv.core.topics.settings import TOPICS, TopicSettings
from distkv.errors import PeerError
from distkv.wire.declared import pack
from distkv.wire.topic_entries import Holder, TopicEntry, topic_key
from distkv.wire.topic_messages import CopiedRow, CopiedTopic, CopyBatch, LeaseAsked
from distkv.wire.topic_requests import TopicPut
from distkv.wire.topic_rows import MessageRow, message_key
from tests.service_steps import LIFE, WALL, KnownEntries, KnownFields, KnownNodes
from tests.topic_nodes import A, B, C

ID = "00" * 8
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
        written = self.step(ServiceAsked(TOPICS, 1, TopicPut(0, "log", b"\x01", "p", 2)))
        return topic_key("log") in [one.key for one in written if isinstance(one, EntryWritten)]


@pytest.mark.parametrize(("slept_ms", "expected"), [(0, True), (5000, False)])
def test_follower_that_slept_asks_a_silent_owner_anew_before_it_takes_its_place(slept_ms: int, expected: bool) -> None:
    """COPY-5."""
    follower = Follower()
    follower.now_ms += slept_ms
    assert follower.puts() is expected
