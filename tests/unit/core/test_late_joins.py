"""Who joined by a node whose life was over, and when that is doubted no more (docs/protocol, NAME-11)."""

from __future__ import annotations

from distkv.core.late_joins import LateJoins
from distkv.core.registry import Registration, node_path, retired_path
from distkv.core.turn import Turn
from distkv.core.update import Store
from distkv.model.event import Event, Kind, NodeName, Tick, Tock, first_tick
from distkv.model.path import Path
from distkv.wire.message import SlotRecord
from distkv.wire.values import pack_value

A, B, C, D = (NodeName(name) for name in "abcd")


class Seen:
    """A store of `a`, which knows `b` in life 5."""

    def __init__(self) -> None:
        self.store = Store(A, 5)
        self.late = LateJoins(self.store)
        self.turn = Turn(0, 0.0, 0)
        self._tock = 0
        self.saw(A, 1, B, 5)

    def saw(self, by: NodeName, life: int, name: NodeName, given: int) -> list[NodeName]:
        """A node registers another one."""
        return self._saw(by, life, node_path(name), Registration(given, f"{name}:1", 1.0).packed())

    def start_again(self) -> None:
        """With what its disk has: the records so far."""
        self.store.kept.reset()
        for record in self.turn.ready.records:
            assert isinstance(record, SlotRecord)
            self.store.kept.replay(record)
        self.late = LateJoins(self.store)

    def retire(self, name: NodeName, life: int) -> None:
        assert self._saw(A, 1, retired_path(name, life), pack_value({"since": 1.0})) == []

    def _saw(self, by: NodeName, life: int, path: Path, value: bytes) -> list[NodeName]:
        self._tock += 1
        tick = Tick(first_tick(life) + self._tock)
        event = Event(path, Kind.SET, value, ((by, tick),), Tock(self._tock), 0.0)
        self.store.remote(event)
        return self.late.saw(event, self.turn)


def test_node_that_joined_by_the_registered_life_is_not_doubted() -> None:
    seen = Seen()
    assert seen.saw(B, 5, C, 7) == []
    assert not seen.late.is_doubted(C, 7)


def test_node_that_joined_by_a_life_that_was_replaced_is_doubted() -> None:
    seen = Seen()
    assert seen.saw(B, 4, C, 7) == [C]
    assert seen.late.is_doubted(C, 7)
    assert not seen.late.is_doubted(C, 6)


def test_node_that_joined_by_a_life_that_was_retired_is_doubted() -> None:
    seen = Seen()
    seen.retire(B, 5)
    assert seen.saw(B, 5, C, 7) == [C]


def test_those_that_joined_by_it_are_doubted_in_any_order() -> None:
    first, last = Seen(), Seen()
    assert [first.saw(B, 4, C, 7), first.saw(C, 7, D, 9)] == [[C], [D]]
    assert [last.saw(C, 7, D, 9), last.saw(B, 4, C, 7)] == [[], [C, D]]


def test_doubt_goes_on_in_a_later_life_and_ends_when_it_is_sponsored_anew() -> None:
    seen = Seen()
    seen.saw(B, 4, C, 7)
    assert seen.saw(C, 8, C, 8) == []
    assert seen.late.is_doubted(C, 8)
    seen.saw(A, 1, C, 10)
    assert not seen.late.is_doubted(C, 8)
    assert not seen.late.is_doubted(C, 10)


def test_registration_that_counts_for_nothing_doubts_nobody() -> None:
    seen = Seen()
    seen.saw(A, 1, C, 8)
    assert seen.saw(B, 4, C, 7) == []
    assert seen.saw(B, 4, A, 3) == []


def test_doubt_goes_on_after_a_start() -> None:
    seen = Seen()
    seen.saw(B, 4, C, 7)
    seen.start_again()
    assert seen.late.is_doubted(C, 7)
    assert seen.saw(C, 8, C, 8) == []
    seen.start_again()
    assert seen.late.is_doubted(C, 8)


def test_doubt_that_ended_does_not_come_back_with_a_start() -> None:
    seen = Seen()
    seen.saw(B, 4, C, 7)
    seen.saw(A, 1, C, 10)
    seen.start_again()
    assert not seen.late.is_doubted(C, 7)
