"""The client's side of the protocol without a socket: bytes in, answers out, and what may be asked twice.

Knows: `client.protocol`.  Does not know the shells around it.
"""

from __future__ import annotations

import attrs
import pytest

from distkv.client import node_questions, questions
from distkv.client.protocol import Answered, Backoff, Call, ClientProtocol
from distkv.client.questions import Question
from distkv.errors import (
    BusyError,
    ChainMismatchError,
    ConnectionLostError,
    DistkvError,
    NotReadyError,
    PeerError,
    TooLargeError,
    UnreachableError,
)
from distkv.model.event import NodeName, Tick
from distkv.wire.frames import decode_request
from distkv.wire.node_requests import PingRequest
from distkv.wire.replies import encode_end, encode_error, encode_hello, encode_reply, encode_start
from distkv.wire.values import pack_value
from tests.unit.client.scripted_server import HELLO

A, B = NodeName("a"), NodeName("b")
BROKEN = UnreachableError("the server at h:1 closed the connection")
PING = node_questions.ping()
WRITE = questions.set_value("a", pack_value(1))
GUARDED = questions.set_value("a", pack_value(1), head=(A, Tick(1)))
TREE = questions.get_tree("a")


def greeted() -> ClientProtocol[str]:
    found: ClientProtocol[str] = ClientProtocol("h:1")
    assert found.feed(encode_hello(HELLO)) == []
    return found


# -- greeting -----------------------------------------------------------------------------------------------------


def test_greeting_is_kept() -> None:
    assert greeted().hello == HELLO


def test_half_a_greeting_is_none_yet() -> None:
    conversation: ClientProtocol[str] = ClientProtocol("h:1")
    conversation.feed(encode_hello(HELLO)[:-1])
    assert (conversation.hello, conversation.failure) == (None, None)


def test_refusal_instead_of_a_greeting_is_the_failure() -> None:
    conversation: ClientProtocol[str] = ClientProtocol("h:1")
    conversation.feed(encode_error(0, BusyError("full")))
    assert type(conversation.failure) is BusyError


@pytest.mark.parametrize("data", [b"HTTP/1.1 400", b"\xc1", encode_reply(0, {}), encode_reply(1, {})])
def test_what_is_no_greeting_is_no_server(data: bytes) -> None:
    conversation: ClientProtocol[str] = ClientProtocol("h:1")
    conversation.feed(data)
    assert "h:1 is no distkv server" in str(conversation.failure)


@pytest.mark.parametrize(("major", "fits"), [(0, True), (1, True), (2, False)])
def test_only_neighbouring_releases_are_greeted(major: int, fits: bool) -> None:
    conversation: ClientProtocol[str] = ClientProtocol("h:1")
    conversation.feed(encode_hello(attrs.evolve(HELLO, version=(major, 0, 0))))
    assert (conversation.failure is None) is fits


def test_question_before_the_greeting_is_our_mistake() -> None:
    with pytest.raises(RuntimeError, match="before the greeting"):
        ClientProtocol("h:1").ask(PING, "me")


# -- replies ------------------------------------------------------------------------------------------------------


def test_questions_are_numbered_from_one() -> None:
    conversation = greeted()
    assert [decode_request(conversation.ask(PING, "me")) for _ in range(2)] == [PingRequest(1), PingRequest(2)]


def test_each_reply_goes_to_its_asker_whatever_the_order() -> None:
    conversation = greeted()
    conversation.ask(PING, "first")
    conversation.ask(PING, "second")
    found = conversation.feed(encode_reply(2, {"x": 1}) + encode_reply(1, {}))
    assert found == [Answered("second", {"seq": 2, "x": 1}), Answered("first", {"seq": 1})]


def test_refusal_goes_to_its_asker_and_the_conversation_goes_on() -> None:
    conversation = greeted()
    conversation.ask(PING, "me")
    (found,) = conversation.feed(encode_error(1, NotReadyError("not yet")))
    assert (found.asker, type(found.answer), str(found.answer)) == ("me", NotReadyError, "not yet")
    assert conversation.failure is None


def test_question_that_cannot_be_encoded_leaves_no_trace() -> None:
    def refuse(_: int) -> bytes:
        raise ValueError

    conversation = greeted()
    with pytest.raises(ValueError):  # noqa: PT011  # any will do
        conversation.ask(Question(refuse, dict, questions.Repeat.NEVER), "me")
    assert decode_request(conversation.ask(PING, "me")) == PingRequest(1)
    assert conversation.open_count == 1


def test_second_reply_to_one_question_is_nonsense() -> None:
    conversation = greeted()
    conversation.ask(PING, "me")
    assert len(conversation.feed(encode_reply(1, {}) * 2)) == 1
    assert "what was not asked" in str(conversation.failure)


@pytest.mark.parametrize("data", [b"\xc1", encode_reply(7, {}), encode_hello(HELLO), b"\x81\xa3seq\xa1x"])
def test_answers_before_nonsense_still_count(data: bytes) -> None:
    conversation = greeted()
    conversation.ask(PING, "me")
    assert conversation.feed(encode_reply(1, {}) + data) == [Answered("me", {"seq": 1})]
    assert isinstance(conversation.failure, PeerError)


@pytest.mark.parametrize("cut", range(1, len(encode_reply(1, {"a": 1}))))
def test_only_reply_in_two_pieces_is_read_whole(cut: int) -> None:
    """A short reply to the only question is read without being measured, if it is whole."""
    conversation, data = greeted(), encode_reply(1, {"a": 1})
    conversation.ask(PING, "me")
    assert conversation.feed(data[:cut]) == []
    assert conversation.feed(data[cut:]) == [Answered("me", {"seq": 1, "a": 1})]
    conversation.ask(PING, "again")
    assert conversation.feed(encode_reply(2, {})) == [Answered("again", {"seq": 2})]


@pytest.mark.parametrize(
    "data",
    [
        encode_reply(2, {}),
        b"\xc0",
        b"\x80",
        pack_value({"seq": True}),
        b"\x82" + pack_value("seq") + pack_value(1) + pack_value(5) + pack_value(6),
    ],
    ids=["another seq", "no map", "no seq", "seq is a flag", "a name is a number"],
)
def test_only_reply_that_is_nonsense_is_refused(data: bytes) -> None:
    conversation = greeted()
    conversation.ask(PING, "me")
    assert conversation.feed(data) == []
    assert isinstance(conversation.failure, PeerError)


def test_nothing_is_heard_after_nonsense() -> None:
    conversation = greeted()
    conversation.ask(PING, "me")
    conversation.feed(b"\xc1")
    assert conversation.feed(encode_reply(1, {})) == []
    assert conversation.lose() == ["me"]


def test_refusal_of_the_stream_is_that_of_the_oldest_question() -> None:
    conversation = greeted()
    conversation.ask(WRITE, "first")
    conversation.ask(WRITE, "second")
    (found,) = conversation.feed(encode_error(0, TooLargeError("too much")))
    assert (found.asker, str(found.answer)) == ("first", "too much")
    assert conversation.lose() == ["second"]


def test_refusal_of_the_stream_ends_it() -> None:
    conversation = greeted()
    conversation.feed(encode_error(0, TooLargeError("too much")))
    assert type(conversation.failure) is TooLargeError
    with pytest.raises(RuntimeError, match="after the end"):
        conversation.ask(PING, "me")


def test_lost_conversation_names_who_waits_in_their_order() -> None:
    conversation = greeted()
    for asker in ("a", "b", "c"):
        conversation.ask(PING, asker)
    conversation.feed(encode_reply(2, {}))
    assert conversation.lose() == ["a", "c"]
    assert conversation.lose() == []


# -- long results -------------------------------------------------------------------------------------------------


def test_items_come_between_other_replies() -> None:
    conversation = greeted()
    conversation.ask(TREE, "tree", is_long=True)
    conversation.ask(PING, "ping")
    data = encode_start(1) + encode_reply(1, {"x": 1}) + encode_reply(2, {}) + encode_reply(1, {"x": 2}) + encode_end(1)
    assert conversation.feed(data) == [
        Answered("tree", {"seq": 1, "x": 1}, is_last=False),
        Answered("ping", {"seq": 2}),
        Answered("tree", {"seq": 1, "x": 2}, is_last=False),
        Answered("tree", None),
    ]
    assert conversation.open_count == 0


def test_error_ends_a_long_result_at_any_place() -> None:
    conversation = greeted()
    conversation.ask(TREE, "tree", is_long=True)
    found = conversation.feed(encode_start(1) + encode_reply(1, {}) + encode_error(1, NotReadyError("no more")))
    assert [type(one.answer) for one in found] == [dict, NotReadyError]
    assert [one.is_last for one in found] == [False, True]


def test_state_of_a_node_is_not_taken_for_the_start_of_items() -> None:
    conversation = greeted()
    conversation.ask(node_questions.get_state(), "me")
    assert conversation.feed(encode_reply(1, {"state": "end"})) == [Answered("me", {"seq": 1, "state": "end"})]


# -- asking again -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("node", [A, B])
def test_read_is_asked_again_anywhere(node: NodeName) -> None:
    call = Call(PING)
    call.begin(A)
    call.lose(BROKEN)
    call.begin(node)
    assert call.conclude({"seq": 1}) is None


def test_write_is_not_asked_again() -> None:
    call = Call(WRITE)
    call.begin(A)
    with pytest.raises(ConnectionLostError, match="closed the connection; whether the write took place is unknown"):
        call.lose(BROKEN)


def test_write_that_was_never_sent_may_still_be() -> None:
    call = Call(WRITE)
    call.lose(BROKEN)
    call.begin(A)
    assert call.conclude({"seq": 1, "changed": True}).changed


def test_guarded_write_is_asked_again_on_the_same_node() -> None:
    call = Call(GUARDED)
    call.begin(A)
    call.lose(BROKEN)
    call.begin(A)
    assert call.conclude({"seq": 1, "changed": True}).changed


def test_guarded_write_is_not_asked_again_on_another_node() -> None:
    call = Call(GUARDED)
    call.begin(A)
    call.lose(BROKEN)
    with pytest.raises(ConnectionLostError, match="connection to a broke, and now b answers"):
        call.begin(B)


@pytest.mark.parametrize("refusal", [ChainMismatchError("changed"), NotReadyError("starting")])
def test_refusal_of_a_repeated_write_leaves_it_unknown(refusal: DistkvError) -> None:
    call = Call(GUARDED)
    call.begin(A)
    call.lose(BROKEN)
    call.begin(A)
    with pytest.raises(ConnectionLostError, match="the repeated write was refused"):
        call.conclude(refusal)


def test_refusal_of_the_first_attempt_is_raised_as_it_is() -> None:
    call = Call(GUARDED)
    call.lose(BROKEN)
    call.begin(A)
    with pytest.raises(ChainMismatchError):
        call.conclude(ChainMismatchError("changed"))


@pytest.mark.parametrize(
    ("question", "is_sent", "kind"),
    [
        (PING, True, UnreachableError),
        (WRITE, False, UnreachableError),
        (WRITE, True, ConnectionLostError),
        (GUARDED, True, ConnectionLostError),
    ],
)
def test_giving_up_says_whether_a_write_may_have_taken_place(
    question: Question[object], is_sent: bool, kind: type[UnreachableError]
) -> None:
    call = Call(question)
    if is_sent:
        call.begin(A)
    assert type(call.give_up(BROKEN)) is kind


def test_nonsense_in_a_reply_names_the_node() -> None:
    call = Call(WRITE)
    call.begin(A)
    with pytest.raises(PeerError, match=r"^a answers nonsense .*changed"):
        call.conclude({"seq": 1, "changed": 7})


# -- pauses -------------------------------------------------------------------------------------------------------


def test_pauses_grow_from_none_to_the_longest() -> None:
    backoff = Backoff(first_s=0.5, max_s=3.0)
    assert [backoff.next_s(1.0) for _ in range(6)] == [0.0, 0.5, 1.0, 2.0, 3.0, 3.0]


def test_chance_shortens_a_pause_by_half_at_most() -> None:
    backoff = Backoff(first_s=1.0)
    backoff.next_s(0.0)
    assert backoff.next_s(0.0) == 0.5


def test_pauses_begin_anew_after_an_answer() -> None:
    backoff = Backoff()
    for _ in range(3):
        backoff.next_s(1.0)
    backoff.reset()
    assert backoff.next_s(1.0) == 0.0
