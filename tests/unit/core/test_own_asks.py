"""One service asks another one of its node, as a client of it would; and has slow work done.

Knows: a replica with two services that do what a test says.  Does not know disks, sockets or other nodes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import pytest

from distkv.core.ground.machine import ServiceGround, ServiceInput
from distkv.core.ground.node_calls import Replied
from distkv.core.ground.requests import ASKS_MAX, WORKS_MAX
from distkv.core.ground.services import STEPS_MAX
from distkv.core.ground.turn import ServiceTurn
from distkv.core.ready import (
    Answer,
    Ready,
    ServiceAsked,
    ServiceContinued,
    ServiceTell,
    ServiceWithdrawn,
    Wake,
    WorkDone,
)
from distkv.core.replica import Replica
from distkv.errors import BusyError, DistkvError, InternalError, NotFoundError, RequestError
from distkv.sim.told import core_settings
from distkv.wire.message import Record, ResetRecord, SlotRecord, Start
from tests.proof.core.echo.machine import Echo
from tests.unit.core.test_services import WALL, A, B, step

ASKER, ASKED = "asker", "asked"
REQUEST = {"what": "is it"}


class Scripted(Echo):
    """Does what a test says."""

    def __init__(
        self, does: Callable[[ServiceTurn, ServiceInput], None], starts: Callable[[ServiceTurn], None]
    ) -> None:
        super().__init__()
        self.does, self.starts = does, starts

    def begin(self, turn: ServiceTurn, ground: ServiceGround) -> None:
        super().begin(turn, ground)
        self.starts(turn)

    def step(self, turn: ServiceTurn, what: ServiceInput) -> None:
        self.inputs.append((turn.boot_ms, what))
        self.does(turn, what)

    @property
    def told(self) -> list[ServiceInput]:
        return [what for _, what in self.inputs]


def nothing(*_: object) -> None:
    pass


class Asking:
    """A node with the services `asker` and `asked`, and what they do."""

    def __init__(self) -> None:
        self.asker, self.asked = Scripted(nothing, nothing), Scripted(nothing, nothing)

    def start(self, records: Iterable[Record] = (), **more: bool) -> Ready:
        settings = core_settings(
            node=A, addr="a:1", start=Start(WALL, 1), alone=True, network_id=b"12345678", init_value=b"\xc0", **more
        )
        self.replica = Replica(settings, random.Random(1), {ASKER: self.asker, ASKED: self.asked})
        for record in records:
            self.replica.store.replay(record)
        return self.replica.begin(0, WALL)

    def ask(self, id: int = 1) -> Ready:
        ready = step(self.replica, ServiceAsked(ASKER, id, {}))
        self.replica.check()
        return ready

    def wake(self, now_ms: int) -> Ready:
        return step(self.replica, Wake(), now_ms)

    @property
    def number(self) -> int:
        """Of the last request that the second one heard."""
        return [what.id for what in self.asked.told if isinstance(what, ServiceAsked)][-1]

    @property
    def replies(self) -> list[Replied]:
        return [what for what in self.asker.told if isinstance(what, Replied)]


@pytest.fixture
def both() -> Asking:
    """The first asks the second, whenever a client asks it."""
    found = Asking()

    def does(turn: ServiceTurn, what: ServiceInput) -> None:
        if isinstance(what, ServiceAsked):
            turn.ask(ASKED, REQUEST, ("for", what.id))

    found.asker.does = does
    found.start()
    return found


def answering(*results: dict[str, object] | DistkvError) -> Callable[[ServiceTurn, ServiceInput], None]:
    """Answers a request with the first, and each time that more is wanted with the next."""
    rest = list(results)

    def does(turn: ServiceTurn, what: ServiceInput) -> None:
        if isinstance(what, ServiceAsked | ServiceContinued):
            result = rest.pop(0)
            turn.answer(what.id, result, is_last=not rest)

    return does


def test_service_asks_another_of_its_node_and_is_replied_for_its_purpose(both: Asking) -> None:
    both.asked.does = answering({"yes": True})
    assert both.ask().answers == []
    (heard,) = both.asked.told
    assert isinstance(heard, ServiceAsked)
    assert (heard.request, heard.service) == (REQUEST, ASKED)
    assert both.replies == [Replied(("for", 1), {"yes": True})]


def test_reply_of_a_later_step_comes_in_that_step(both: Asking) -> None:
    both.ask()
    number = both.number
    assert both.replies == []
    both.asked.does = lambda turn, _: turn.answer(number, {"yes": True})
    step(both.replica, ServiceAsked(ASKED, 7, {}))
    assert both.replies == [Replied(("for", 1), {"yes": True})]


def test_what_both_keep_is_in_the_records_before_what_depends_on_it_leaves(both: Asking) -> None:
    def asks(turn: ServiceTurn, what: ServiceInput) -> None:
        if isinstance(what, ServiceAsked):
            turn.keep("mine", b"1")
            turn.ask(ASKED, REQUEST, what.id)
        elif isinstance(what, Replied):
            assert isinstance(what.purpose, int)
            turn.answer(what.purpose, {"done": True}, waits=False)

    def answers(turn: ServiceTurn, what: ServiceInput) -> None:
        if isinstance(what, ServiceAsked):
            turn.keep("theirs", b"2")
            turn.tell(B, b"word", waits=False)
            turn.answer(what.id, {"yes": True}, waits=False)

    both.asker.does, both.asked.does = asks, answers
    ready = both.ask()
    assert ready.records == [SlotRecord(ASKER, "mine", b"1"), SlotRecord(ASKED, "theirs", b"2")]
    assert ready.tells == [ServiceTell(B, ASKED, b"word", waits=True)]
    assert ready.answers == [Answer(1, {"done": True}, waits=True)]


def test_further_answers_come_when_they_are_wanted(both: Asking) -> None:
    both.asked.does = answering({"part": 1}, {"part": 2})
    both.ask()
    assert both.replies == [Replied(("for", 1), {"part": 1}, is_last=False)]
    both.asker.does = lambda turn, _: turn.go_on(("for", 1))
    both.ask(2)
    assert both.replies[1:] == [Replied(("for", 1), {"part": 2})]
    both.ask(3)
    assert len(both.replies) == 2, "nobody is asked to go on with what is over"


def test_what_is_withdrawn_is_answered_no_more(both: Asking) -> None:
    both.ask()
    number = both.number
    both.asker.does = lambda turn, _: turn.withdraw(("for", 1))
    both.ask(2)
    assert both.asked.told[-1] == ServiceWithdrawn(ASKED, number)
    both.asked.does = lambda turn, _: turn.answer(number, {"yes": True})
    step(both.replica, ServiceAsked(ASKED, 7, {}))
    assert both.replies == []


@pytest.mark.parametrize("is_answered", [False, True])
def test_what_is_withdrawn_at_once_leaves_nothing(both: Asking, is_answered: bool) -> None:
    """Before the other one heard of it, or when its answer is on its way."""

    def does(turn: ServiceTurn, what: ServiceInput) -> None:
        if isinstance(what, ServiceAsked):
            turn.ask(ASKED, REQUEST, "one")
            turn.ask(ASKED, REQUEST, "two")
            if not is_answered:
                turn.withdraw("two")
        elif isinstance(what, Replied) and what.purpose == "one":
            turn.withdraw("two")

    both.asker.does = does
    both.asked.does = lambda turn, what: turn.answer(what.id, {}) if isinstance(what, ServiceAsked) else None
    both.ask()
    assert [reply.purpose for reply in both.replies] == ["one"]
    asked = [what for what in both.asked.told if isinstance(what, ServiceAsked)]
    assert len(asked) == (2 if is_answered else 1)


def test_service_that_is_absent_replies_with_an_error(both: Asking) -> None:
    both.asker.does = lambda turn, what: turn.ask("none", {}, "p") if isinstance(what, ServiceAsked) else None
    both.ask()
    (reply,) = both.replies
    assert isinstance(reply.reply, RequestError)
    assert "has no service none" in str(reply.reply)


def test_refusal_is_the_reply(both: Asking) -> None:
    both.asked.does = answering(NotFoundError("there is none"))
    both.ask()
    assert isinstance(both.replies[0].reply, NotFoundError)


def test_service_that_fails_replies_with_an_error_before_and_after(both: Asking) -> None:
    def fails(_: ServiceTurn, what: ServiceInput) -> None:
        if isinstance(what, ServiceAsked) and len(both.asked.told) == 2:
            raise KeyError("nobody foresaw this")

    both.asked.does = fails
    for id in (1, 2, 3):
        both.ask(id)
    assert [type(reply.reply) for reply in both.replies] == [InternalError] * 3
    assert {reply.purpose for reply in both.replies} == {("for", 1), ("for", 2), ("for", 3)}


def test_service_that_fails_waits_for_nothing_any_more(both: Asking) -> None:
    both.ask()
    number = both.number

    def fails(_: ServiceTurn, __: ServiceInput) -> None:
        raise KeyError("nobody foresaw this")

    both.asker.does = fails
    both.ask(2)
    assert both.asked.told[-1] == ServiceWithdrawn(ASKED, number)
    both.replica.check()


def test_service_asks_when_it_begins_and_the_other_one_has_begun(both: Asking) -> None:
    both = Asking()
    both.asker.starts = lambda turn: turn.ask(ASKED, REQUEST, "begin")
    both.asked.does = answering({"yes": True})
    both.start()
    assert [type(what) for what in both.asked.told] == [ServiceAsked], "its begin would have forgotten it"
    assert both.replies == [Replied("begin", {"yes": True})]


def test_what_was_asked_before_both_began_anew_is_replied_to_nobody(both: Asking) -> None:
    both.ask()
    number = both.number
    both.replica.store.replay(ResetRecord())
    both.wake(2000)
    assert len(both.asker.restored) == 2
    both.asked.does = lambda turn, _: turn.answer(number, {"late": True})
    step(both.replica, ServiceAsked(ASKED, 7, {}))
    assert both.replies == []


def test_services_that_ask_each_other_in_a_circle_come_to_an_end(both: Asking) -> None:
    def circles(other: str) -> Callable[[ServiceTurn, ServiceInput], None]:
        def does(turn: ServiceTurn, what: ServiceInput) -> None:
            if isinstance(what, ServiceAsked):
                turn.ask(other, {}, what.id)
            elif isinstance(what, Replied):
                assert isinstance(what.purpose, int)
                turn.answer(what.purpose, what.reply if not isinstance(what.reply, bytes) else {})

        return does

    both.asker.does, both.asked.does = circles(ASKED), circles(ASKER)
    answers = both.ask().answers
    for now_ms in range(2000, 2010):
        answers += both.wake(now_ms).answers
    assert [type(answer.result) for answer in answers] == [BusyError]
    assert sum(isinstance(what, ServiceAsked) for what in both.asker.told) <= ASKS_MAX + 1
    both.replica.check()


def test_service_that_asks_again_for_ever_leaves_room_for_others(both: Asking) -> None:
    both.asker.does = lambda turn, _: turn.ask("none", {}, "again")
    ready = both.ask()
    assert len(both.replies) == STEPS_MAX // 2, "the other half were its questions"
    assert [note.id for note in ready.notes] == ["service_steps_put_off"]
    assert both.replica.wake_ms() == 1001
    count = len(both.replies)
    both.wake(1000)
    assert len(both.replies) == count
    both.wake(1001)
    assert len(both.replies) == count + STEPS_MAX // 2


# -- work


def working(*purposes: object) -> Callable[[ServiceTurn, ServiceInput], None]:
    def does(turn: ServiceTurn, what: ServiceInput) -> None:
        if isinstance(what, ServiceAsked):
            for purpose in purposes:
                turn.work(lambda: 7, purpose)

    return does


def test_work_is_replied_to_with_its_purpose_when_it_is_done(both: Asking) -> None:
    both.asker.does = working("seven")
    (work,) = both.ask().works
    assert (work.service, work.job(), both.replies) == (ASKER, 7, [])
    step(both.replica, WorkDone(ASKER, work.id, 7))
    assert both.replies == [Replied("seven", 7)]
    step(both.replica, WorkDone(ASKER, work.id, 7))
    assert len(both.replies) == 1


def test_works_of_a_service_have_a_bound_wanted_or_not(both: Asking) -> None:
    both.asker.does = working(*range(WORKS_MAX + 1))
    works = both.ask().works
    assert len(works) == WORKS_MAX
    assert [(reply.purpose, type(reply.reply)) for reply in both.replies] == [(WORKS_MAX, BusyError)]
    both.asker.does = lambda turn, what: turn.withdraw(0) if isinstance(what, ServiceAsked) else None
    both.ask(2)
    both.asker.does = working("more")
    assert both.ask(3).works == [], "a thread is busy with what nobody wants"
    step(both.replica, WorkDone(ASKER, works[0].id, 7))
    assert [reply.purpose for reply in both.replies] == [WORKS_MAX, "more"], "and its result is told to nobody"
    assert len(both.ask(4).works) == 1


def test_work_of_a_machine_that_began_anew_or_is_off_is_told_to_nobody(both: Asking) -> None:
    both.asker.does = working("seven")
    (work,) = both.ask().works
    both.replica.store.replay(ResetRecord())
    both.wake(2000)
    step(both.replica, WorkDone(ASKER, work.id, 7))
    assert both.replies == []
    (work,) = both.ask().works

    def fails(_: ServiceTurn, __: ServiceInput) -> None:
        raise KeyError("nobody foresaw this")

    both.asker.does = fails
    both.ask(2)
    step(both.replica, WorkDone(ASKER, work.id, 7))
    assert both.replica.failed_services == {ASKER}
