"""What is said about tokens goes to bytes and back (docs: client protocol).

Knows: all requests, questions, answers and slots of the token service.  Does not know who says them.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.errors import DecodeError, DistkvError, RequestError
from distkv.model.event import NodeName
from distkv.model.fence import FENCE_MAX
from distkv.model.standing import ServerStanding
from distkv.wire import packing
from distkv.wire.calls import (
    CALLS,
    CallAnswered,
    CallAsked,
    CallMessage,
    CallsCancelled,
    CallsChecked,
    CallsDropped,
    CallsSeen,
)
from distkv.wire.declared import evolve, pack, pack_sorted
from distkv.wire.held_tokens import HeldToken, TokenHolder
from distkv.wire.token_errors import HeldError
from distkv.wire.token_fields import DATA_BYTES_MAX, Ticket, read_ticket, ticket_text
from distkv.wire.token_messages import (
    AboutToken,
    AskElsewhere,
    AskHolding,
    ChangeServers,
    ClaimTokens,
    EndSession,
    KeepSession,
    ListTokens,
    OpenSession,
    ReleaseAll,
    TakeTokens,
    TellLoss,
    TokenMap,
    WatchedTokens,
    WatchTokens,
    WhereTokens,
    decode_answer,
    decode_question,
    encode_answer,
    encode_question,
)
from distkv.wire.token_replies import (
    ServersAgreed,
    SessionClosed,
    SessionKept,
    SessionOpened,
    TokenDone,
    TokenGranted,
    TokenItem,
    TokensChanged,
    TokenServersShown,
    TokensListed,
)
from distkv.wire.token_requests import (
    TOKEN_ROWS,
    TokenAcquire,
    TokenBreak,
    TokenClose,
    TokenData,
    TokenKeep,
    TokenList,
    TokenOpen,
    TokenRelease,
    TokenRequest,
    TokenReset,
    TokenServers,
    TokenSetServers,
    TokenShow,
    TokenWatch,
)
from distkv.wire.token_slots import (
    GainedPart,
    QueuedSession,
    ServedPart,
    TokenRecord,
    decode_part,
    decode_token,
)
from distkv.wire.token_states import TokenServer
from distkv.wire.values import pack_value

N1, N2 = NodeName("n1"), NodeName("n2")
HELD = (
    HeldToken("t", 1, 2, is_shared=False),
    HeldToken("ü", 3, 4, is_shared=True, data=pack_value({"a": [1]}), change=6),
)
HOLDER = TokenHolder("1-a", False, 1, 2, 5.5)
ITEM = TokenItem("t", N1, (HOLDER.shown,), 3, pack_value("x"))
KEEPER = evolve(HOLDER, change=7)
RECORD = TokenRecord("t", (KEEPER,), b"\x01", (QueuedSession("2-b", 1, 9, True),), 70, (HOLDER,))
SERVED = {N1: TokenServer(ServerStanding.READY, 7, 3), N2: TokenServer(ServerStanding.DOWN, 8, 4)}
MAP = TokenMap(1, 9, 8, N1, SERVED, 12, is_sure=True)

REQUESTS: list[TokenRequest] = [
    TokenOpen(1),
    TokenOpen(1, 20.0),
    TokenOpen(1, None, 1.5),
    TokenClose(1, "1-a"),
    TokenKeep(1, "1-a", 7, HELD, 5.0),
    TokenKeep(1, "1-a", 7),
    TokenKeep(1, "1-a", 7, HELD, 5.0, 8, 6),
    TokenAcquire(1, "1-a", "t"),
    TokenAcquire(1, "1-a", "t", True, 4.0, pack_value([1, 2]), (3, 4)),
    TokenRelease(1, "1-a", "t"),
    TokenRelease(1, "1-a", "t", (3, 4)),
    TokenData(1, "1-a", "t", pack_value("v")),
    TokenData(1, "1-a", "t", None),
    TokenData(1, "1-a", "t", pack_value("v"), (3, 4), 5),
    TokenShow(1, "t"),
    TokenList(1, "p", 7, "q"),
    TokenWatch(1, "p"),
    TokenBreak(1, "t"),
    TokenBreak(1, "t", (3, 4)),
    TokenServers(1),
    TokenSetServers(1, (N1,)),
    TokenSetServers(1, (N1, N2, NodeName("c")), 5.0),
    TokenReset(1),
    TokenReset(1, (N1, N2, NodeName("c"))),
]
QUESTIONS = [
    AboutToken(TokenAcquire(0, "1-a", "t", before=(3, 4)), 5),
    AboutToken(TokenAcquire(0, "1-a", "t", True, 4.0, pack_value([1, 2]), (3, 4)), 5),
    AboutToken(TokenRelease(0, "1-a", "t")),
    OpenSession("abc1", 15_000),
    EndSession("1-a"),
    KeepSession("1-a", 7, ("t", "u"), 5000),
    KeepSession("1-a", 7, ("t", "u"), 5000, 8, 6),
    ReleaseAll("1-a"),
    ClaimTokens("1-a", 7, HELD),
    ListTokens("p", 7, "q"),
    WatchTokens("p", 7, 3),
    WhereTokens(),
    TakeTokens(7, 1, (RECORD,), True, False),
    TellLoss("1-a", (1, 2, "t")),
    AskHolding("1-a", (1, 2, "t")),
    ChangeServers((N1, N2, NodeName("c")), 5000),
]
ANSWERS = [
    SessionOpened("1-a", 15_000, 3),
    SessionClosed("1-a"),
    SessionKept(3, 15_000, ("t",)),
    TokenGranted("t", 1, 2, 3, True, pack_value("x")),
    TokenDone(),
    ITEM,
    TokensListed((ITEM,), True),
    TokensListed((), partial=True),
    TokensChanged((ITEM,)),
    TokensChanged((), is_complete=True),
    TokenServersShown({N1: ("ready", 3)}, ServersAgreed(N1, 1, 2, 3, (N1,), (N2,))),
    MAP,
    evolve(MAP, list=(N1,), next=(N2,)),
    AskElsewhere(MAP, "3.4"),
    AskElsewhere(MAP),
    WatchedTokens((ITEM,), 9),
    WatchedTokens((), 9, is_first=True, is_last=False),
]
SAID: list[CallMessage] = [
    CallAsked(1, 2, 1, b"x"),
    CallAnswered(1, 2, b""),
    CallsChecked(1, (2, 3)),
    CallsSeen(1, (2,), (3,)),
    CallsCancelled(1, (2,)),
    CallsDropped(1, (2,)),
]


def frame_of(request: TokenRequest) -> tuple[dict[str, object], bytes]:
    row = next(row for row in TOKEN_ROWS if row.type is type(request))
    fields: dict[str, object] = {"seq": request.seq, "action": row.action}
    raw: dict[str, bytes] = {}
    assert row.write is not None
    row.write(request, fields, raw)
    frame = packing.pack_map(fields, raw)
    found = packing.unpack(frame)
    assert type(found) is dict
    return found, frame


@pytest.mark.parametrize("request_", REQUESTS, ids=str)
def test_request_is_read_as_it_was_written(request_: TokenRequest) -> None:
    fields, frame = frame_of(request_)
    row = next(row for row in TOKEN_ROWS if row.type is type(request_))
    assert row.read(1, fields, frame) == request_


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_question_is_read_as_it_was_written(question: WhereTokens) -> None:
    assert decode_question(encode_question(question)) == question


@pytest.mark.parametrize("answer", ANSWERS, ids=str)
def test_answer_is_read_as_it_was_written(answer: TokenDone) -> None:
    assert decode_answer(encode_answer(answer, 5)) == (answer, 5)


def test_error_keeps_its_class_text_and_ticket() -> None:
    found, _ = decode_answer(encode_answer(HeldError("it is held").with_ticket("3.4"), 5))
    assert isinstance(found, HeldError)
    assert (str(found), found.ticket) == ("it is held", "3.4")


@pytest.mark.parametrize("message", SAID, ids=str)
def test_call_is_read_as_it_was_written(message: CallMessage) -> None:
    assert CALLS.read(pack(message)) == message


def test_slots_are_read_as_they_were_written() -> None:
    gain = GainedPart(7, frozenset({N1}), frozenset({N1, N2}))
    part = ServedPart(9, {N1: 3}, 8, 1025, (gain,), 4, (N2,), False, {N2: (5, True, False)})
    assert decode_part(pack_sorted(part)) == part
    assert decode_token(pack(RECORD)) == RECORD


@given(st.tuples(st.integers(0, FENCE_MAX), st.integers(0, FENCE_MAX)))
def test_ticket_is_read_as_it_was_written(ticket: Ticket) -> None:
    assert read_ticket(ticket_text(ticket)) == ticket


@pytest.mark.parametrize("text", ["", "1", "1.", ".1", "1.x", "-1.2", "1.2.3", f"{FENCE_MAX + 1}.0", 7, None])
def test_ticket_of_another_shape_is_refused(text: object) -> None:
    with pytest.raises(DecodeError):
        read_ticket(text)


@pytest.mark.parametrize(
    ("action", "fields"),
    [
        ("token_acquire", {"session": "1-a", "token": ""}),
        ("token_acquire", {"session": "1-a", "token": "a\n"}),
        ("token_acquire", {"session": "a", "token": "t"}),
        ("token_acquire", {"session": "1-a", "token": "t", "wait": -1}),
        ("token_acquire", {"session": "1-a", "token": "t", "shared": 1}),
        ("token_acquire", {"session": "1-a", "token": "t", "data": "x" * DATA_BYTES_MAX}),
        ("token_keep", {"session": "1-a", "version": 1, "held": [1]}),
        ("token_keep", {"session": "1-a", "version": 1, "held": [{"token": "t", "epoch": 2**62, "counter": 1}]}),
        ("token_keep", {"session": "1-a", "version": -1, "held": []}),
        ("token_release", {"session": "1-a", "token": "t", "epoch": 1}),
        ("token_data", {"session": "1-a", "token": "t"}),
        ("token_list", {"limit": 0}),
        ("token_reset", {}),
    ],
)
def test_request_of_another_shape_is_refused(action: str, fields: dict[str, object]) -> None:
    row = next(row for row in TOKEN_ROWS if row.action == action)
    frame = packing.pack({"seq": 1, "action": action, **fields})
    with pytest.raises((DecodeError, RequestError)):
        row.read(1, {"seq": 1, "action": action, **fields}, frame)


@given(st.binary(max_size=60))
def test_bytes_of_any_kind_are_read_or_refused(data: bytes) -> None:
    for read in (decode_question, decode_answer, decode_part, decode_token):
        try:
            found = read(data)
        except DistkvError:
            continue
        assert found is not None
