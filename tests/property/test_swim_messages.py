"""A message reaches all, whatever order datagrams take; what was lost is heard later, or told as missed."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.swim.heard_messages import HOLE_MS
from distkv.swim.messages import UserMessages
from distkv.wire.swim_records import UserMessage

pytestmark = pytest.mark.slow


class _House:
    """Nodes that send each other what leaves, over a network that loses some and mixes up the rest."""

    def __init__(self, size: int, seed: int, loss: float) -> None:
        self.rng = Random(seed)
        self.loss = loss
        self.nodes = {f"n{number}": UserMessages(f"n{number}", b"12345678", 1 << 20) for number in range(size)}
        self.heard = {name: list[tuple[str, int]]() for name in self.nodes}
        self._flying: list[tuple[str, str, UserMessage]] = []

    def run(self, now_ms: int) -> None:
        self._send(now_ms)
        while self._flying:
            self.rng.shuffle(self._flying)
            source, target, message = self._flying.pop()
            if self.nodes[target].hear(now_ms, message, source):
                self.heard[target].append((message.origin, message.sequence))
            self._send(now_ms)

    def tick(self, now_ms: int) -> None:
        """All that ride go to somebody."""
        for name in self.nodes:
            for message in self.nodes[name].take_riding(now_ms, 1000):
                self._fly(name, self.rng.choice(self._others(name)), message)
        self.run(now_ms)

    def _others(self, name: str) -> list[str]:
        return [other for other in self.nodes if other != name]

    def _send(self, now_ms: int) -> None:
        for name, node in self.nodes.items():
            for peer, messages in node.take_leaving(now_ms, self._others(name), self.rng).items():
                for message in messages:
                    self._fly(name, peer, message)
            node.check()

    def _fly(self, source: str, target: str, message: UserMessage) -> None:
        if self.rng.random() >= self.loss:
            self._flying.append((source, target, message))


@given(st.integers(2, 40), st.integers(0, 2**32), st.lists(st.integers(0, 39), min_size=1, max_size=5))
def test_messages_reach_nearly_all_once(size: int, seed: int, sayers: list[int]) -> None:
    house = _House(size, seed, 0)
    for sayer in sayers:
        house.nodes[f"n{sayer % size}"].say(1, b"body")
        house.run(0)
    for _ in range(10):
        house.tick(0)
    expected = sum(f"n{sayer % size}" != name for sayer in sayers for name in house.nodes)
    found = [one for name in house.nodes for one in house.heard[name]]
    assert all(len(heard) == len({*heard}) for heard in house.heard.values())
    assert len(found) == expected if size <= 17 else len(found) >= 0.95 * expected


@given(st.integers(2, 30), st.integers(0, 2**32))
def test_lost_message_is_told_where_a_later_one_was_heard(size: int, seed: int) -> None:
    house = _House(size, seed, 0)
    for is_lost in (False, True, False):
        house.loss = float(is_lost)
        house.nodes["n0"].say(1, b"body")
        house.run(0)
    whole = [name for name in house.nodes if {("n0", 1), ("n0", 3)} <= {*house.heard[name]}]
    for name in whole:
        assert house.nodes[name].take_missed(HOLE_MS) == (("n0", 2) not in house.heard[name])
