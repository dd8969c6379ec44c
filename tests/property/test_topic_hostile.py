"""Whatever other nodes, entries and clients say, the machine of topics goes on, and keeps what it promises.

Knows: the forms of all that one node may be told about topics.  Does not judge what it answers.
"""

from __future__ import annotations

import random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.core.ground.calls import CallKey
from distkv.core.ground.data import Data
from distkv.core.ground.machine import EntryChanged, NodesChanged, ServiceGround, ServiceInput, ServiceWoken
from distkv.core.ground.node_calls import NodeAsked, NodeGaveUp, Replied
from distkv.core.ground.turn import AskedOfNode, DataKept, EntryWritten, ServiceTurn
from distkv.core.ready import NodeTold, ServiceAsked
from distkv.core.topics.machine import TopicMachine
from distkv.core.topics.settings import TOPICS, TopicSettings
from distkv.errors import BusyError, PeerError
from distkv.model.event import NodeName
from distkv.model.service_paths import entry_key
from distkv.wire.declared import Declared, pack
from distkv.wire.routed import AnswerAsked, NewsAsked, PageAsked
from distkv.wire.topic_entries import Holder, TopicEntry
from distkv.wire.topic_messages import (
    BUCKETS,
    Compare,
    CompareDiffers,
    CompareEqual,
    CompareWanted,
    Copied,
    CopiedRow,
    CopiedTopic,
    CopyBatch,
    Exchange,
    Exchanged,
    LeaseAsked,
    LeaseGiven,
    LeaseProbe,
    NotCompared,
)
from distkv.wire.topic_requests import pack_request
from distkv.wire.topic_rounds import NamedCopy, RoundAsked, RoundSaid
from distkv.wire.values import pack_value
from tests.profiles import examples
from tests.property.strategies import mutated, odd_objects, topic_request_kinds
from tests.service_steps import LIFE, WALL, KnownEntries, KnownFields, KnownNodes

pytestmark = pytest.mark.slow

A, B, C = (NodeName(name) for name in "abc")
IDS: Final = ("00" * 8,)
NAMES: Final = ("log", "bills")
MINE: Final = TopicEntry(IDS, Holder(A, LIFE), (Holder(B, LIFE),), (1,))
THEIRS: Final = TopicEntry(IDS, Holder(B, LIFE), (Holder(A, LIFE),), (2,))
LACKING: Final = TopicEntry(IDS, Holder(A, LIFE), lacks=((Holder(C, LIFE),),))
ENTRIES: Final = (MINE, THEIRS, LACKING, TopicEntry(dropped=IDS))
ROW: Final = CopiedRow("m\x1f0000000000000000\x1fp\x1f0000000000000001", b"\x94\x01")
DIGEST: Final = bytes(16)
QUESTIONS: Final[tuple[Declared, ...]] = (
    CopyBatch((CopiedTopic("log", IDS, (ROW,)),)),
    LeaseAsked(("log",), ("bills",)),
    LeaseProbe(),
    Compare("log", IDS, DIGEST, 1),
    Exchange("log", IDS, 3, (ROW,), None),
    CompareWanted(NAMES),
    RoundAsked(1, bytes(8), NAMES, (NamedCopy("log", IDS),), (NamedCopy("bills", IDS),)),
    PageAsked("", "", 5),
    NewsAsked("", 0),
    AnswerAsked(b"\x80"),
)
ANSWERS: Final[tuple[Declared, ...]] = (
    Copied(("log",)),
    LeaseGiven(("log",), True),
    CompareEqual(1),
    CompareDiffers(1, (DIGEST,) * BUCKETS),
    Exchanged(1, (ROW,), False),
    NotCompared("no"),
    RoundSaid(bytes(8), ("log",)),
)

topic_requests = st.one_of(*topic_request_kinds)
passed_on = topic_requests.map(lambda request: AnswerAsked(pack_request(request)))
questions = (st.sampled_from(QUESTIONS) | passed_on).map(pack)
answers = st.sampled_from(ANSWERS).map(pack)
bodies = questions | mutated(questions) | st.binary(max_size=40)
entries = st.sampled_from(ENTRIES).map(pack)
values = entries | mutated(entries) | odd_objects.map(pack_value)
steps: st.SearchStrategy[tuple[str, object]] = st.one_of(
    st.tuples(st.just("asked"), bodies),
    st.tuples(st.just("told"), bodies),
    st.tuples(st.just("answered"), answers | mutated(answers) | st.sampled_from([PeerError("no"), BusyError("no")])),
    st.tuples(st.just("entry"), st.tuples(st.sampled_from(NAMES), st.lists(values, max_size=3))),
    st.tuples(st.just("client"), topic_requests),
    st.tuples(st.just("alive"), st.frozensets(st.sampled_from([B, C]))),
    st.tuples(st.just("time"), st.integers(1, 20_000)),
)


class OneNode:
    """The machine of node `a`, which knows `b` and `c`, and whose disk keeps what it is given at once."""

    def __init__(self) -> None:
        self.data, self.entries, self.nodes = (
            Data(),
            KnownEntries(),
            KnownNodes(frozenset((A, B, C)), frozenset((B, C))),
        )
        self.machine: Final = TopicMachine(TopicSettings(), random.Random(1))
        self.now_ms = self.number = 0
        self.open = list[object]()
        """The purposes of what it has asked."""
        fields = KnownFields({name: {"serve": True} for name in (A, B, C)})
        ground = ServiceGround(A, LIFE, 1.0, {}, self.data.of(TOPICS), self.entries, self.nodes, fields)
        turn = ServiceTurn(TOPICS, 0, WALL, self.data)
        self.machine.begin(turn, ground)
        self._take(turn)

    def step(self, what: ServiceInput) -> None:
        """One input, and then all that the store says of what was written."""
        inputs = [what]
        for one in inputs:
            turn = ServiceTurn(TOPICS, self.now_ms, WALL, self.data)
            self.machine.step(turn, one)
            inputs += [EntryChanged(key) for key in self._take(turn)]
        self.machine.check()

    def do(self, kind: str, what: object) -> None:
        self.number += 1
        match kind, what:
            case "asked", bytes(body):
                self.step(NodeAsked(CallKey(B, 1, self.number), body))
                self.step(NodeGaveUp(CallKey(B, 1, self.number - 1)))
            case "told", bytes(body):
                self.step(NodeTold(TOPICS, B, LIFE, body))
            case "answered", reply:
                if self.open:
                    self.step(Replied(self.open.pop(0), reply))
            case "entry", (str(name), list(versions)):
                key = entry_key("topic", name)
                self.entries.found[key] = tuple(versions)
                self.step(EntryChanged(key))
            case "client", request:
                self.step(ServiceAsked(TOPICS, self.number, request))  # type: ignore[arg-type]
            case "alive", frozenset() as alive:
                self.nodes.alive = alive
                self.step(NodesChanged())
            case "time", int(passed_ms):
                self.now_ms += passed_ms
                self.step(ServiceWoken())

    def _take(self, turn: ServiceTurn) -> list[str]:
        """What it wanted done; the entries that it has written."""
        written = list[str]()
        for effect in turn.effects:
            if isinstance(effect, DataKept):
                self.data.keep(TOPICS, effect.key, effect.value)
            elif isinstance(effect, AskedOfNode):
                self.open.append(effect.purpose)
            elif isinstance(effect, EntryWritten):
                self.entries.found[effect.key] = () if effect.value is None else (effect.value,)
                written.append(effect.key)
        return written


@examples(60)
@given(st.lists(steps, min_size=8, max_size=40))
def test_machine_goes_on_whatever_it_is_told(told: list[tuple[str, object]]) -> None:
    node = OneNode()
    for kind, what in told:
        node.do(kind, what)
    assert node.machine.statistics().keys() >= {"topics", "owned", "messages", "few_copies", "waits_for"}
