"""Calls between two nodes, over messages that get lost, come twice or late.

Knows: both sides.  Does not know what is asked.
"""

from __future__ import annotations

from distkv.core.ground.calls import (
    ANSWER_BYTES_MAX,
    ANSWERS_MAX,
    CHECK_MS,
    PEERS_MAX,
    SILENT_MS,
    AnswerCame,
    CallEvent,
    CallKey,
    Calls,
    QuestionCame,
    QuestionGone,
)
from distkv.model.event import NodeName
from distkv.wire.calls import (
    NUMBERS_MAX,
    CallAnswered,
    CallAsked,
    CallMessage,
    CallsCancelled,
    CallsChecked,
    CallsDropped,
    CallsSeen,
)

A, B = NodeName("a"), NodeName("b")


class End:
    """One node."""

    def __init__(self, name: NodeName, boot: int = 1) -> None:
        self.name = name
        self.calls = Calls(boot, self)
        self.under_way = list[CallMessage]()
        self.notes = list[str]()

    def say(self, peer: NodeName, message: CallMessage, *, waits: bool = True) -> None:  # noqa: ARG002
        self.under_way.append(message)

    def call_note(self, id: str, **fields: object) -> None:  # noqa: ARG002
        self.notes.append(id)

    def said(self) -> list[CallMessage]:
        """What it has said since."""
        found, self.under_way = self.under_way, []
        return found


def pass_on(sender: End, receiver: End, now_ms: int = 0) -> list[CallEvent]:
    """All that one has said reaches the other one."""
    return [event for message in sender.said() for event in receiver.calls.told(sender.name, message, now_ms)]


def test_question_and_answer_arrive() -> None:
    a, b = End(A), End(B)
    number = a.calls.ask(B, b"what", 0)
    assert pass_on(a, b) == [QuestionCame(CallKey(A, 1, number), b"what")]
    b.calls.answer(CallKey(A, 1, number), b"this")
    assert pass_on(b, a) == [AnswerCame(number, B, b"this")]
    assert a.calls.wake_ms() is None


def test_lost_question_is_asked_again_when_the_check_shows_it() -> None:
    a, b = End(A), End(B)
    number = a.calls.ask(B, b"what", 0)
    a.said()
    a.calls.woken(CHECK_MS)
    assert pass_on(a, b) == []
    assert pass_on(b, a) == []
    assert pass_on(a, b) == [QuestionCame(CallKey(A, 1, number), b"what")]


def test_lost_answer_is_sent_again_and_the_question_not_told_again() -> None:
    a, b = End(A), End(B)
    number = a.calls.ask(B, b"what", 0)
    pass_on(a, b)
    b.calls.answer(CallKey(A, 1, number), b"this")
    b.said()
    a.calls.woken(CHECK_MS)
    assert pass_on(a, b) == []
    assert pass_on(b, a) == [AnswerCame(number, B, b"this")]


def test_answer_that_comes_twice_is_told_once() -> None:
    a, b = End(A), End(B)
    number = a.calls.ask(B, b"what", 0)
    pass_on(a, b)
    b.calls.answer(CallKey(A, 1, number), b"this")
    (answer,) = b.said()
    assert a.calls.told(B, answer, 0)
    assert a.calls.told(B, answer, 0) == []


def test_late_copy_of_a_question_that_is_over_is_not_told() -> None:
    a, b = End(A), End(B)
    number = a.calls.ask(B, b"first", 0)
    (late,) = a.said()
    b.calls.told(A, late, 0)
    b.calls.answer(CallKey(A, 1, number), b"this")
    pass_on(b, a)
    for _ in range(ANSWERS_MAX + 1):
        other = a.calls.ask(B, b"other", 0)
        pass_on(a, b)
        b.calls.answer(CallKey(A, 1, other), b"this")
        pass_on(b, a)
    assert b.calls.told(A, late, 0) == []


def test_cancelled_question_is_not_told_if_it_comes_later() -> None:
    a, b = End(A), End(B)
    number = a.calls.ask(B, b"what", 0)
    (question,) = a.said()
    a.calls.cancel(B, number)
    assert pass_on(a, b) == [QuestionGone(CallKey(A, 1, number))]
    assert b.calls.told(A, question, 0) == []


def test_cancelling_is_repeated_until_it_was_heard() -> None:
    a, b = End(A), End(B)
    number = a.calls.ask(B, b"what", 0)
    pass_on(a, b)
    a.calls.cancel(B, number)
    a.said()
    a.calls.woken(CHECK_MS)
    assert pass_on(a, b) == [QuestionGone(CallKey(A, 1, number))]
    pass_on(b, a)
    assert a.calls.wake_ms() is None


def test_restarted_peer_is_asked_again() -> None:
    a, b = End(A), End(B)
    number = a.calls.ask(B, b"what", 0)
    pass_on(a, b)
    b = End(B, 2)
    a.calls.woken(CHECK_MS)
    pass_on(a, b)
    pass_on(b, a)
    assert pass_on(a, b) == [QuestionCame(CallKey(A, 1, number), b"what")]


def test_questions_of_an_earlier_start_are_over() -> None:
    b = End(B)
    old = CallAsked(1, 5, 5, b"old")
    b.calls.told(A, old, 0)
    assert b.calls.told(A, CallAsked(2, 1, 1, b"new"), 0) == [
        QuestionGone(CallKey(A, 1, 5)),
        QuestionCame(CallKey(A, 2, 1), b"new"),
    ]
    assert b.calls.told(A, CallAsked(1, 6, 5, b"late"), 0) == []


def test_answer_to_an_earlier_start_is_not_told() -> None:
    b, a = End(B), End(A, 2)
    b.calls.told(A, CallAsked(1, 1, 1, b"old"), 0)
    b.calls.answer(CallKey(A, 1, 1), b"this")
    a.calls.ask(B, b"new", 0)
    assert pass_on(b, a) == []


def test_peer_that_asks_nothing_any_more_is_gone() -> None:
    b = End(B)
    b.calls.told(A, CallAsked(1, 1, 1, b"what"), 0)
    assert b.calls.woken(SILENT_MS) == []
    assert b.calls.woken(SILENT_MS + 1) == [QuestionGone(CallKey(A, 1, 1))]


def test_withdrawn_answer_is_asked_anew() -> None:
    a, b = End(A), End(B)
    number = a.calls.ask(B, b"what", 0)
    pass_on(a, b)
    b.calls.answer(CallKey(A, 1, number), b"this")
    b.said()
    b.calls.withdraw(CallKey(A, 1, number))
    a.calls.woken(CHECK_MS)
    pass_on(a, b)
    assert pass_on(b, a) == []
    assert pass_on(a, b) == [QuestionCame(CallKey(A, 1, number), b"what")]


def test_check_names_what_waits() -> None:
    a, b = End(A), End(B)
    number = a.calls.ask(B, b"what", 0)
    pass_on(a, b)
    a.calls.woken(CHECK_MS)
    pass_on(a, b)
    assert b.said() == [CallsSeen(1, (number,), ())]


def test_answers_that_are_kept_have_a_size() -> None:
    b = End(B)
    for number in (1, 2):
        b.calls.told(A, CallAsked(1, number, 1, b"what"), 0)
        b.calls.answer(CallKey(A, 1, number), bytes(ANSWER_BYTES_MAX // 2 + 1))
    b.said()
    b.calls.told(A, CallsChecked(1, (1, 2)), 0)
    answered, seen = b.said()
    assert isinstance(answered, CallAnswered)
    assert (answered.number, seen) == (2, CallsSeen(1, (), (1,)))


def test_cancelled_questions_of_which_the_peer_says_nothing_have_a_number() -> None:
    a = End(A)
    numbers = [a.calls.ask(B, b"what", 0) for _ in range(NUMBERS_MAX + 1)]
    for number in numbers:
        a.calls.cancel(B, number)
    a.said()
    a.calls.woken(CHECK_MS)
    assert a.said() == [CallsCancelled(1, tuple(numbers[1:]))]


def test_what_an_earlier_start_checks_or_cancels_is_answered_with_the_later_one() -> None:
    b = End(B)
    b.calls.told(A, CallAsked(2, 1, 1, b"new"), 0)
    later = CallsSeen(2, (), ())
    assert b.calls.told(A, CallsChecked(1, (1,)), 0) == []
    assert b.said() == [later]
    assert b.calls.told(A, CallsCancelled(1, (1,)), 0) == []
    assert b.said() == [later, CallsDropped(1, (1,))]
    assert b.calls.is_waiting(CallKey(A, 2, 1))


def test_answer_to_a_question_that_is_over_is_sent_to_nobody() -> None:
    b = End(B)
    b.calls.told(A, CallAsked(1, 1, 1, b"what"), 0)
    b.calls.told(A, CallsCancelled(1, (1,)), 0)
    b.said()
    b.calls.answer(CallKey(A, 1, 1), b"this")
    assert b.said() == []


def test_silent_peers_without_questions_make_room_for_another_one() -> None:
    b = End(B)
    for number in range(PEERS_MAX):
        b.calls.told(NodeName(f"n{number}"), CallsChecked(1, ()), 0)
    assert b.calls.told(A, CallAsked(1, 1, 1, b"what"), SILENT_MS + 1) == [QuestionCame(CallKey(A, 1, 1), b"what")]
    assert b.calls.wake_ms() == 2 * SILENT_MS + 2


def test_questions_of_the_peer_that_makes_room_are_over_and_can_be_asked_again() -> None:
    b = End(B)
    names = [NodeName(f"n{number}") for number in range(PEERS_MAX)]
    for name in names:
        b.calls.told(name, CallAsked(1, 1, 1, b"what"), 0)
    first = CallKey(names[0], 1, 1)
    assert b.calls.told(A, CallAsked(1, 1, 1, b"what"), 0) == [
        QuestionGone(first),
        QuestionCame(CallKey(A, 1, 1), b"what"),
    ]
    assert QuestionCame(first, b"what") in b.calls.told(names[0], CallAsked(1, 1, 1, b"what"), 0)
