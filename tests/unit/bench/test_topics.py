"""What is asked of whom for topics, and what the times from node to node are told as.

Knows: `topics` of the benchmark.  Starts no server.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from bench import topics
from bench.load import Load
from bench.tokens import Group
from bench.topics import ALONE_CELLS, COPIED_CELLS, JETSTREAM, SETS, STREAMS, Told, run_told, run_topics, told_table

from tests.unit.bench.test_tokens import FakeServer

GOOD = Load(100, 1.0, 10, 20, 100, 0, 0, 0, 0.1, "")


@attrs.define
class FakeGenerator:
    asked: list[tuple[str, int, str, dict[str, Any]]] = attrs.field(factory=list)

    def run(self, protocol: str, port: int, verb: str, **words: Any) -> Load:
        self.asked.append((protocol, port, verb, words))
        return GOOD

    put = run

    def fan_out(self, protocol: str, port: int, **words: Any) -> Load:
        self.asked.append((protocol, port, "watch", words))
        return attrs.evolve(GOOD, p50_us=5)


@pytest.fixture
def generator(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(topics, "wait_rest", lambda _: None)
    return FakeGenerator()


def _run(generator: Any, groups: dict[str, Any], cells: tuple[topics.TopicCell, ...], rounds: int = 1) -> list[Any]:
    return run_topics(groups, generator, cells, rounds=rounds, seconds=0.5, messages=7, say=lambda _: None)


def test_streams_take_part_only_where_something_is_aimed_at(generator: Any) -> None:
    node: Any = FakeServer(1)
    stream: Any = FakeServer(2, "redis")
    samples = _run(generator, topics.groups_of(node, stream), ALONE_CELLS)
    assert [sample.cell for sample in samples if sample.server == STREAMS] == ["put 1x1"]
    assert [sample.cell for sample in samples if sample.server == SETS] == [cell.name for cell in ALONE_CELLS]


def test_sets_beside_copied_messages_are_held_by_as_many(generator: Any) -> None:
    node: Any = FakeServer(1)
    leader: Any = FakeServer(2, "nats")
    _run(generator, topics.groups_of(node) | {JETSTREAM: Group(leader)}, COPIED_CELLS)
    assert {(protocol, verb) for protocol, _, verb, _ in generator.asked} == {
        ("distkv", "put"), ("held2", "set"), ("nats", "put"),
    }  # fmt: skip


def test_no_run_uses_the_topic_of_another_one(generator: Any) -> None:
    node: Any = FakeServer(1)
    _run(generator, topics.groups_of(node), ALONE_CELLS, rounds=3)
    tags = [words["tag"] for *_, words in generator.asked]
    assert len(set(tags)) == len(tags) == 3 * 2 * len(ALONE_CELLS)


def test_put_on_one_node_is_waited_for_on_another_one(generator: Any) -> None:
    nodes: Any = [FakeServer(1), FakeServer(2), FakeServer(3)]
    found = run_told(generator, nodes, rounds=2, seconds=0.5)
    assert [(port, verb, words.get("count", words.get("watched"))) for _, port, verb, words in generator.asked] == [
        (1, "tell", 2), (1, "watch", [2]), (1, "tell", 2), (1, "watch", [2]),
    ]  # fmt: skip
    assert [one.failure for one in found] == ["", ""]


@pytest.mark.parametrize(("p50_us", "verdict"), [(20, "met"), (21, "missed")])
def test_times_are_told_with_the_aim(p50_us: int, verdict: str) -> None:
    told = Told(attrs.evolve(GOOD, p50_us=p50_us), attrs.evolve(GOOD, p50_us=5))
    assert told_table([told]).endswith(f"<= 4 x: {verdict}")
