"""What becomes of one Ready after another, whatever the disk does meanwhile.

Knows: a log that lands when the test says so.  Does not know who drives the executor (the engine, the simulator).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.core.edges import Close, Dial, Say
from distkv.core.ready import Answer, Ask, AskSnapshot, FollowFrom, LendTo, Note, Ready, ServiceTell, Work
from distkv.engine.executor import Executor, Outlets
from distkv.errors import DistkvError, DuplicateNameError, StaleError
from distkv.model.event import NodeName
from distkv.wire.edges import SignOfLife
from distkv.wire.message import ResetRecord

OUTBOX_MAX = 3


@attrs.define(slots=False)
class World:
    """A log, and all that left, each with how much was durable and how much had been appended."""

    appended: int = 0
    durable: int = 0
    left: list[tuple[str, Any]] = attrs.field(factory=list)
    durable_at: dict[int, int] = attrs.field(factory=dict)
    """By the number of a message or ask: how much was durable when it left."""
    executor: Executor = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        names = [f"_{one.name}" for one in attrs.fields(Outlets)]
        self.executor = Executor(self, Outlets(*(getattr(self, name) for name in names)), OUTBOX_MAX)

    @property
    def _edges(self) -> World:
        return self

    def dial(self, what: Dial) -> None:
        self.left.append(("edge", what))

    def say(self, what: Say) -> None:
        self.left.append(("edge", what))

    def close(self, what: Close) -> None:
        self.left.append(("edge", what))

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.left]

    def of(self, *kinds: str) -> list[Any]:
        return [what for kind, what in self.left if kind in kinds]

    def land(self, count: int) -> None:
        self.durable = min(self.appended, self.durable + count)
        self.executor.landed()

    def _write(self, ready: Ready, is_awaited: bool) -> None:
        self.appended += len(ready.records)
        self.left.append(("write", (len(ready.records), is_awaited)))

    def _send(self, message: Any) -> None:
        self.durable_at[message] = self.durable
        self.left.append(("send", message))

    def _ask(self, ask: Ask) -> None:
        self.durable_at[ask.id] = self.durable
        self.left.append(("ask", ask.id))

    def _follow(self, follow: FollowFrom) -> None:
        self.left.append(("follow", follow))

    def _work(self, work: Work) -> None:
        self.left.append(("work", work))

    def _lend(self, lend: LendTo) -> None:
        self.left.append(("lend", lend))

    def _say(self, tells: Sequence[ServiceTell]) -> None:
        self.left.append(("say", [tell.body for tell in tells]))

    def _answer(self, answer: Answer) -> None:
        self.left.append(("answer", answer.id))

    def _tell(self, ready: Ready) -> None:
        self.left.append(("tell", ready))

    def _end(self, error: DistkvError) -> None:
        self.left.append(("end", error))

    def _note(self, note: Note) -> None:
        self.left.append(("note", note.id))

    def _announce(self) -> None:
        self.left.append(("announce", None))


def ready(records: int = 0, *messages: Any, fatal: DistkvError | None = None, notes: str = "") -> Ready:
    return Ready([ResetRecord()] * records, list(messages), fatal=fatal, notes=[Note(id, {}) for id in notes])


def ask(number: int) -> Ask:
    return Ask(number, "x:1", AskSnapshot())


steps = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 3), st.lists(st.booleans(), max_size=4)),  # a Ready; True: an ask
        st.integers(1, 4),  # so many records land
    ),
    max_size=30,
)


@given(steps)
def test_whatever_leaves_is_durable_in_order_and_dropped_only_by_a_full_outbox(
    steps: list[tuple[int, list[bool]] | int],
) -> None:
    world, emitted, needs, asks, number = World(), list[int](), dict[int, int](), set[int](), 0
    for step in steps:
        if isinstance(step, int):
            world.land(step)
            continue
        records, kinds = step
        told = []
        for is_ask in kinds:
            number += 1
            told.append(ask(number) if is_ask else number)
            asks |= {number} if is_ask else set()
            emitted.append(number)
            needs[number] = world.appended + records
        world.executor.carry_out(ready(records, *told))
    world.land(world.appended)
    left = world.of("send", "ask")
    dropped = set(emitted) - set(left)
    assert left == [one for one in emitted if one not in dropped]
    assert all(world.durable_at[one] >= needs[one] for one in left)
    assert world.kinds().count("note") == len(dropped)
    assert not dropped & asks
    assert ("announce" in world.kinds()) == bool(dropped)


def test_parts_of_one_ready_are_carried_out_in_their_order() -> None:
    world = World()
    world.executor.carry_out(ready(0, 1, ask(2), fatal=DuplicateNameError("x"), notes="n"))
    assert world.kinds() == ["send", "ask", "tell", "end", "note"]


def test_records_are_written_before_anything_else_and_say_who_waits() -> None:
    world = World()
    world.executor.carry_out(ready(2, 1, notes="n"), is_awaited=True)
    assert world.kinds() == ["write", "tell", "note"]
    assert world.of("write") == [(2, True)]
    world.land(1)
    assert "send" not in world.kinds()
    world.land(1)
    assert world.kinds()[-1] == "send"


def test_what_a_full_outbox_drops_is_announced_once_all_else_has_left() -> None:
    world = World()
    world.executor.carry_out(ready(1, 1, 2, 3, 4, 5, ask(6)))
    assert world.of("note") == ["outbox_full", "outbox_full"]
    world.executor.carry_out(ready(1, ask(7)))
    world.land(1)
    assert world.kinds()[-4:] == ["send", "send", "send", "ask"]
    world.land(1)
    assert world.kinds()[-2:] == ["ask", "announce"]
    world.land(1)
    assert world.kinds().count("announce") == 1


def test_mark_of_an_old_disk_is_durable_before_the_node_ends() -> None:
    world = World()
    world.executor.carry_out(ready(1, fatal=StaleError("old")))
    assert "end" not in world.kinds()
    world.land(1)
    assert world.kinds()[-1] == "end"


def test_waiting_work_is_done_in_its_order_behind_messages() -> None:
    world, done = World(), list[str]()
    world.executor.when_durable(lambda: done.append("at once"))
    world.executor.carry_out(ready(1, 1))
    world.executor.when_durable(lambda: done.append(f"first, behind {world.of('send')}"))
    world.executor.carry_out(ready(1))
    world.executor.when_durable(lambda: done.append("second"))
    world.land(1)
    assert done == ["at once", "first, behind [1]"]
    world.land(1)
    assert done[-1] == "second"


@pytest.mark.parametrize("count", [0, 4])
def test_nothing_leaves_a_node_that_has_ended(count: int) -> None:
    world, done = World(), list[str]()
    world.executor.carry_out(ready(1, *range(1, count + 2)))
    world.executor.when_durable(lambda: done.append("late"))
    before = list(world.left)
    world.executor.stop()
    world.land(1)
    assert (world.left, done) == (before, [])


def test_node_that_ends_while_its_messages_leave_sends_no_more() -> None:
    world = World()
    world.executor.carry_out(ready(1, ask(1), ask(2)))
    world.executor.when_durable(world.executor.stop)
    world.executor.when_durable(lambda: world.left.append(("late", None)))
    world.land(1)
    assert world.kinds()[-2:] == ["ask", "ask"]


def tells(*bodies: bytes, records: int = 0, answers: Sequence[int] = ()) -> Ready:
    told = [ServiceTell(NodeName("b"), "s", body) for body in bodies]
    return Ready([ResetRecord()] * records, tells=told, answers=[Answer(id, {}) for id in answers])


def test_what_is_told_leaves_in_one_go_when_all_of_it_is_durable() -> None:
    world = World()
    world.executor.carry_out(tells(b"1", b"2", records=1))
    world.executor.carry_out(tells(b"3"))
    world.executor.carry_out(tells(b"4", records=1))
    assert world.of("say") == []
    world.land(1)
    assert world.of("say") == [[b"1", b"2", b"3"][:OUTBOX_MAX]]
    world.land(1)
    assert world.of("say", "note") == ["tell_dropped", [b"1", b"2", b"3"]]


def test_what_is_told_when_nothing_waits_leaves_at_once() -> None:
    world = World()
    world.executor.carry_out(tells(b"1", b"2"))
    world.executor.carry_out(tells(b"3"))
    assert world.of("say") == [[b"1", b"2"], [b"3"]]


def test_what_does_not_wait_leaves_before_what_was_decided_earlier_is_durable() -> None:
    world = World()
    world.executor.carry_out(tells(b"1", records=1, answers=[1]))
    early = Ready([ResetRecord()], tells=[ServiceTell(NodeName("b"), "s", b"2", waits=False)])
    early.answers = [Answer(2, {}, waits=False), Answer(3, {})]
    world.executor.carry_out(early)
    assert (world.of("say"), world.of("answer")) == ([[b"2"]], [2])
    world.land(2)
    assert (world.of("say"), world.of("answer")) == ([[b"2"], [b"1"]], [2, 1, 3])


def test_what_is_told_and_dropped_is_not_announced() -> None:
    world = World()
    world.executor.carry_out(tells(*[b"x"] * (OUTBOX_MAX + 1), records=1))
    world.land(1)
    assert world.of("note") == ["tell_dropped"]
    assert "announce" not in world.kinds()


def test_answer_leaves_when_the_records_of_its_step_and_of_all_before_are_durable() -> None:
    world = World()
    world.executor.carry_out(ready(1))
    world.executor.carry_out(tells(answers=[1]))
    world.executor.carry_out(tells(records=1, answers=[3, 2]))
    assert world.of("answer") == []
    world.land(1)
    assert world.of("answer") == [1]
    world.land(1)
    assert world.of("answer") == [1, 3, 2]


def test_answer_leaves_behind_the_messages_of_its_step() -> None:
    world = World()
    world.executor.carry_out(tells(b"x", records=1, answers=[1]))
    world.land(1)
    assert world.kinds() == ["write", "tell", "say", "answer"]


class EndsWhenAsked(World):
    def _ask(self, ask: Ask) -> None:
        super()._ask(ask)
        self.executor.stop()


def test_node_that_ends_while_its_messages_leave_tells_no_other_node_more() -> None:
    world = EndsWhenAsked()
    world.executor.carry_out(tells(b"x", records=1))
    world.executor.carry_out(ready(0, ask(1)))
    world.land(1)
    assert world.kinds()[-1] == "ask"


def test_what_fails_when_it_leaves_holds_up_nothing_behind_it() -> None:
    world, failures = World(), list[str]()

    def fail() -> None:
        raise KeyError("x")

    outlets = Outlets(*(getattr(world, f"_{one.name}") for one in attrs.fields(Outlets)))
    executor = Executor(world, outlets, OUTBOX_MAX, lambda error, where: failures.append(f"{error!r} {where}"))
    executor.carry_out(Ready(records=[ResetRecord()]))
    executor.when_durable(fail)
    executor.when_durable(lambda: world.left.append(("answer", 5)))
    world.durable = world.appended
    executor.landed()
    assert world.of("answer") == [5]
    assert failures == ["KeyError('x') what waited for the disk"]


def test_what_is_done_with_edges_waits_for_nothing_and_keeps_its_order() -> None:
    world = World()
    effects = [Say(1, SignOfLife()), Dial(-1, NodeName("b"), "b:1"), Close(1)]
    world.executor.carry_out(Ready(records=[ResetRecord()], edges=effects))
    assert world.of("edge") == effects
    assert world.durable < world.appended
