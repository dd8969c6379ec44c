"""However the answer to 'whom to ask' changes: a request waits there, nowhere else, and is answered once.

Knows: requests of a few clients, and a service that names other nodes now and then.  Does not know what is asked.
"""

from __future__ import annotations

import random

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.core.ground.routes import AGAIN_MS, Attempt, RoutedRequest, Routes
from distkv.errors import BusyError
from distkv.model.event import NodeName
from tests.profiles import examples

NODES = tuple(map(NodeName, "abcd"))
PATIENCE_MS = 1000
ROOM = 6
DOINGS = ("ask", "ask", "leave", "move", "move", "answer", "answer", "elsewhere", "stale", "time")


@attrs.define
class Asking:
    """A service, and what is under way by its own account."""

    chance: random.Random
    now_ms: int = 0
    count: int = 0
    named: dict[int, tuple[NodeName, ...]] = attrs.field(factory=dict)
    asked: list[Attempt] = attrs.field(factory=list)
    """The questions that are neither answered nor withdrawn."""
    withdrawn: list[Attempt] = attrs.field(factory=list)
    routes: Routes[RoutedRequest] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.routes = Routes(self, ROOM, PATIENCE_MS)

    # -- Asker

    def nodes_for(self, waits: RoutedRequest) -> tuple[NodeName, ...]:
        return self.named[waits.id]

    def ask_node(self, waits: RoutedRequest, attempt: Attempt, now_ms: int) -> None:  # noqa: ARG002
        self.asked.append(attempt)

    def withdraw(self, attempt: Attempt) -> None:
        self.asked.remove(attempt)
        self.withdrawn.append(attempt)

    # -- what happens

    def some(self) -> tuple[NodeName, ...]:
        return tuple(self.chance.sample(NODES, self.chance.choice((0, 1, 1, 1, 3))))

    def do(self, what: str) -> None:
        open_ones = list(self.routes.waiting.values())
        if what == "ask":
            self.count += 1
            self.named[self.count] = self.some()
            waits = RoutedRequest(self.count, self.now_ms, wait_ms=self.chance.choice((0, 0, PATIENCE_MS)))
            if len(open_ones) == ROOM:
                with pytest.raises(BusyError):
                    self.routes.add(waits)
                return
            self.routes.add(waits)
            self.routes.send(waits, self.now_ms)
        elif what == "leave" and open_ones:
            self.routes.end(self.chance.choice(open_ones))
        elif what == "move" and open_ones:
            waits = self.chance.choice(open_ones)
            self.named[waits.id] = self.some()
            self.routes.send(waits, self.now_ms)
        elif what in ("answer", "elsewhere") and self.asked:
            attempt = self.chance.choice(self.asked)
            self.asked.remove(attempt)
            found = self.routes.answered(attempt)
            assert found is not None, "whoever was asked and not told otherwise may answer"
            if what == "answer":
                self.routes.end(found)
            else:
                self.routes.send_again(found, self.now_ms)
        elif what == "stale":
            assert not any(self.routes.answered(attempt) for attempt in self.withdrawn)
        elif what == "time":
            self.pass_time()

    def pass_time(self) -> None:
        due_ms = self.routes.wake_ms(0)
        assert (due_ms is None) == (not self.routes.waiting)
        self.now_ms += self.chance.choice((1, AGAIN_MS, PATIENCE_MS))
        for waits in self.routes.take_again(self.now_ms):
            self.routes.send(waits, self.now_ms)
        late = self.routes.late(self.now_ms, 0)
        assert not late or due_ms is None or due_ms <= self.now_ms
        for waits in late:
            self.routes.end(waits)
        left = self.routes.waiting.values()
        assert all(waits.asked_ms + waits.wait_ms + PATIENCE_MS > self.now_ms for waits in left)
        assert all(waits.asked_ms + waits.wait_ms + PATIENCE_MS <= self.now_ms for waits in late)

    def check(self) -> None:
        self.routes.check()
        at = {id(attempt) for waits in self.routes.waiting.values() for attempt in waits.at.values()}
        assert at == {id(attempt) for attempt in self.asked}, "what is asked is what is waited for"
        for waits in self.routes.waiting.values():
            assert waits.at.keys() <= set(self.named[waits.id])


@examples(200)
@given(st.randoms(use_true_random=False), st.lists(st.sampled_from(DOINGS), max_size=60))
def test_request_waits_where_it_is_named_and_is_answered_once(chance: random.Random, doings: list[str]) -> None:
    asking = Asking(chance)
    for what in doings:
        asking.do(what)
        asking.check()


def test_patience_counts_from_when_somebody_was_heard_who_can_answer() -> None:
    asking = Asking(random.Random(1))
    asking.do("ask")
    (waits,) = asking.routes.waiting.values()
    heard_ms = 10
    assert asking.routes.wake_ms(heard_ms) == heard_ms + PATIENCE_MS
    assert asking.routes.late(heard_ms + PATIENCE_MS - 1, heard_ms) == []
    assert asking.routes.late(heard_ms + PATIENCE_MS, heard_ms) == [waits]


def test_request_that_could_not_be_answered_yet_is_sent_again_in_a_moment() -> None:
    asking = Asking(random.Random(1), named={1: (NODES[0],)})
    waits = RoutedRequest(1, 0)
    asking.routes.add(waits)
    asking.routes.send(waits, 0)
    assert asking.routes.answered(asking.asked.pop()) is waits
    asking.routes.send_again(waits, 0)
    assert asking.routes.wake_ms(0) == AGAIN_MS
    assert asking.routes.take_again(AGAIN_MS - 1) == []
    assert asking.routes.take_again(AGAIN_MS) == [waits]
