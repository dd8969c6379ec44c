"""What nodes said and kept before bodies were declared is read as the same values, and has the same form today.

Knows: one example of each kind of message, question, answer, slot and item; `bodies_of_before.txt` has the bytes that
the code before wrote.  Does not know how they are read.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from distkv.errors import DecodeError, NotFoundError
from distkv.model.event import NodeName
from distkv.model.fence import FENCE_MAX
from distkv.model.standing import ServerStanding
from distkv.wire import packing
from distkv.wire.calls import CallAnswered, CallAsked, CallsCancelled, CallsChecked, CallsDropped, CallsSeen
from distkv.wire.declared import pack, pack_sorted
from distkv.wire.edges import (
    EdgeItem,
    FramesAcked,
    FramesHeld,
    Join,
    ParentOffer,
    ParentRefusal,
    ServerInfo,
    SignOfLife,
    SubtreeHeight,
    SubtreeTold,
    TreeFrame,
    TreeFrames,
    edge_fields,
    read_edge,
)
from distkv.wire.fields import read_map
from distkv.wire.held_tokens import HeldToken, TokenHolder
from distkv.wire.token_bodies import decode_body, decode_identity, encode_body
from distkv.wire.token_errors import HeldError
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
from distkv.wire.token_requests import TokenAcquire
from distkv.wire.token_slots import (
    GainedPart,
    QueuedSession,
    ServedPart,
    TokenRecord,
    decode_part,
    decode_token,
)
from distkv.wire.token_states import (
    NO_STATE,
    NUMBER_MAX,
    Founding,
    FoundingTold,
    LeaderRound,
    OwnTime,
    ServerBeat,
    StateChange,
    StateHead,
    StateId,
    StateVote,
    TokenHello,
    TokenServer,
    VoteAsked,
    VoteGiven,
    decode_founding,
    decode_head,
    decode_number,
    decode_vote,
)

N1, N2 = NodeName("n1"), NodeName("n-2.x_y")
HASH = b"\x00\xff 8 byt"
FOUNDING = Founding({N1: 5, N2: 0}, 3, 2)
SERVERS = {N1: TokenServer(ServerStanding.READY, 7, 3), N2: TokenServer(ServerStanding.BOOTING, 1 << 50, 4)}
PLAIN = StateHead(4, 9, N1, SERVERS, 8)
LISTED = StateHead(4, 9, N1, SERVERS, 8, (N1,), (N2,))
DATA = b"\x81\xa1a\x91\x01"
HELD = (HeldToken("t", 1, 2, False), HeldToken("ü", 3, FENCE_MAX, True, DATA, 6, True))
HOLDER = TokenHolder("1-a", False, 1, 2, 5.5)
KEEPER = TokenHolder("12-Zz9", True, 3, 4, 1.75e9, 7)
ITEM = TokenItem("ü", N1, (HOLDER.shown,), 3, DATA, True)
RECORD = TokenRecord("t", (KEEPER,), b"\x01", (QueuedSession("2-b", 1, 9, True),), 70, (HOLDER,), True)
SERVED = {N1: TokenServer(ServerStanding.READY, 7, 3), N2: TokenServer(ServerStanding.DOWN, 8, 4)}
MAP = TokenMap(1, 9, 8, N1, SERVED, 12, is_sure=True)
MAP_LISTED = TokenMap(1, 9, 8, N1, SERVED, 12, False, (N1,), (N2,))
PART = ServedPart(
    9, {N1: 3}, 8, 1025, (GainedPart(7, frozenset({N1}), frozenset({N1, N2}), N2),), 4, (N2,), False,
    {N2: (5, True, False)},
)
FRAME = TreeFrame(N1, 1 << 40, 2, "tokens", b"\x00\xff")
PAST = FramesHeld({N1: (1 << 40, 2)}, 99)

SAID: Final = {
    "hello": TokenHello(HASH, 2, 1),
    "founding told": FoundingTold(HASH, 2, FOUNDING),
    "vote asked": VoteAsked(HASH, 2, 5, True, StateId(4, 9), {N1: 5}),
    "vote given": VoteGiven(HASH, 2, 5, False, True, 4),
    "round": LeaderRound(HASH, 2, 5, 7, 6, StateId(4, 9), OwnTime(1 << 40, 77), None),
    "first round": LeaderRound(HASH, 2, 5, 1, 0, None, None, StateChange(LISTED, None, {"1-a": 15000})),
    "round with a change": LeaderRound(
        HASH, 2, 5, 7, 6, NO_STATE, None, StateChange(LISTED, StateId(4, 8), {"2-b": 1}, ("1-a",))
    ),
    "beat": ServerBeat(HASH, 2, 5, 7, OwnTime(NUMBER_MAX, 0), StateId(4, 9), True, ServerStanding.LEAVING, 3),
    "call asked": CallAsked(1 << 40, 2, 1, b"x"),
    "call answered": CallAnswered(1 << 40, 2, b""),
    "calls checked": CallsChecked(1, (2, 3)),
    "calls seen": CallsSeen(1, (2,), (3,)),
    "calls cancelled": CallsCancelled(1, (2,)),
    "calls dropped": CallsDropped(1, ()),
}
QUESTIONS: Final = {
    "acquire": AboutToken(TokenAcquire(0, "1-a", "t", True, 4.0, DATA, (3, 4), (1, 2), True), 5),
    "open": OpenSession("abc1", 15_000),
    "end": EndSession("1-a"),
    "keep": KeepSession("1-a", 7, ("t", "u"), 5000),
    "keep in turn": KeepSession("1-a", 7, ("t", "u"), 5000, 8, 6),
    "release all": ReleaseAll("1-a"),
    "claim": ClaimTokens("1-a", 7, HELD),
    "list": ListTokens("p", 7, "q"),
    "watch": WatchTokens("p", 7, 3),
    "where": WhereTokens(),
    "take": TakeTokens(7, 1, (RECORD,), True, False),
    "loss": TellLoss("1-a", (1, 2, "t")),
    "holding": AskHolding("1-a", (1, 2, "t")),
    "servers": ChangeServers((N1, N2, NodeName("c")), 5000),
}
ANSWERS: Final = {
    "opened": SessionOpened("1-a", 15_000, 3),
    "closed": SessionClosed("1-a"),
    "kept": SessionKept(3, 15_000, ("t",)),
    "granted": TokenGranted("t", 1, 2, 3, True, DATA),
    "done": TokenDone(),
    "item": ITEM,
    "listed": TokensListed((ITEM,), True),
    "listed in part": TokensListed((), partial=True),
    "changed": TokensChanged((ITEM,)),
    "changed, all": TokensChanged((), is_complete=True),
    "servers": TokenServersShown({N1: ("ready", 3)}, ServersAgreed(N1, 1, 2, 3, (N1,), (N2,))),
    "map": MAP,
    "map with lists": MAP_LISTED,
    "elsewhere": AskElsewhere(MAP, "3.4"),
    "elsewhere without a ticket": AskElsewhere(MAP_LISTED),
    "watched": WatchedTokens((ITEM,), 9),
    "watched, first": WatchedTokens((), 9, is_first=True, is_last=False),
}
EDGE_ITEMS: Final = {
    "offer": ParentOffer((N1, N2), 3),
    "refusal": ParentRefusal("full", (N2,)),
    "join": Join(2, *PAST),
    "info": ServerInfo((N1,), 3, 4),
    "first info": ServerInfo((), 3, 4, *PAST),
    "height": SubtreeHeight(2),
    "told": SubtreeTold(4),
    "frames": TreeFrames((FRAME, FRAME)),
    "acked": FramesAcked(7),
    "ping": SignOfLife(),
}


def _pack_edge(item: EdgeItem) -> bytes:
    return pack(edge_fields(item))


def _edge(data: bytes) -> object:
    return read_edge(read_map(packing.unpack_whole(data), "item"))


EXAMPLES: Final[dict[str, tuple[Any, Callable[[Any], bytes], Callable[[bytes], Any]]]] = {
    **{name: ((7, said), lambda pair: encode_body(*pair), decode_body) for name, said in SAID.items()},
    **{f"question: {name}": (asked, encode_question, decode_question) for name, asked in QUESTIONS.items()},
    **{f"answer: {name}": ((a, 5), lambda pair: encode_answer(*pair), decode_answer) for name, a in ANSWERS.items()},
    **{f"edge: {name}": (item, _pack_edge, _edge) for name, item in EDGE_ITEMS.items()},
    "slot: identity": ((3, 1 << 40), pack, decode_identity),
    "slot: state": (PLAIN, pack, decode_head),
    "slot: state with lists": (LISTED, pack, decode_head),
    "slot: founding": (FOUNDING, pack, decode_founding),
    "slot: vote": (StateVote(5, N2), pack, decode_vote),
    "slot: no vote": (StateVote(0, None), pack, decode_vote),
    "slot: number": (NUMBER_MAX, pack, decode_number),
    "slot: token": (RECORD, pack, decode_token),
    "slot: part": (PART, pack_sorted, decode_part),
}

ONLY_READ: Final = {"slot: state", "answer: map", "answer: elsewhere"}
"""A list of all servers is no longer left out."""
WRITTEN: Final = Path(__file__).with_name("bodies_of_before.txt")


def before(name: str) -> bytes:
    """What the code before wrote for an example."""
    lines = dict(line.split(" = ") for line in WRITTEN.read_text(encoding="utf-8").splitlines())
    return bytes.fromhex(lines[name])


@pytest.mark.parametrize("name", EXAMPLES)
def test_bytes_of_the_code_before_are_read_as_the_same_value(name: str) -> None:
    value, _, read = EXAMPLES[name]
    assert read(before(name)) == value


@pytest.mark.parametrize("name", sorted(EXAMPLES.keys() - ONLY_READ))
def test_what_is_written_has_the_form_that_the_code_before_reads(name: str) -> None:
    value, write, _ = EXAMPLES[name]
    assert packing.unpack_whole(write(value)) == packing.unpack_whole(before(name))


@pytest.mark.parametrize("name", EXAMPLES)
def test_bytes_that_are_cut_short_are_refused(name: str) -> None:
    whole = before(name)
    for size in range(len(whole)):
        with pytest.raises(DecodeError):
            EXAMPLES[name][2](whole[:size])


@pytest.mark.parametrize("name", EXAMPLES)
def test_bytes_with_one_changed_are_read_or_refused(name: str) -> None:
    whole = before(name)
    for at in range(len(whole)):
        for byte in (0x00, 0x7F, 0x80, 0xC0, 0xC1, 0xCB, 0xCF, 0xDD, 0xDF, 0xFF):
            try:
                EXAMPLES[name][2](whole[:at] + bytes((byte,)) + whole[at + 1 :])
            except DecodeError as error:
                assert error.reason  # noqa: PT017  either way is right, any other error is not


@pytest.mark.parametrize("error", [HeldError("it is held").with_ticket("3.4"), NotFoundError("none")], ids=repr)
def test_refusal_of_the_code_before_is_read(error: HeldError | NotFoundError) -> None:
    body = before(f"answer: {error.code}")
    found, changed = decode_answer(body)
    assert (type(found), str(found), changed) == (type(error), str(error), 5)
    assert getattr(found, "ticket", None) == getattr(error, "ticket", None)
    assert packing.unpack_whole(encode_answer(error, 5)) == packing.unpack_whole(body)
