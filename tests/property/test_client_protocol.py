"""Whatever the order and the pieces in which a server's words arrive, each asker gets exactly what is his.

Knows: `client.protocol` as one end of a stream, and a server that answers in any order as the other.
"""

from __future__ import annotations

import random

import attrs
from hypothesis import given
from hypothesis import strategies as st

from distkv.client import node_questions, questions
from distkv.client.protocol import ClientProtocol
from distkv.errors import BusyError, DistkvError
from distkv.wire.frames import decode_request
from distkv.wire.framing import FrameReader
from distkv.wire.replies import encode_end, encode_error, encode_hello, encode_reply, encode_start
from distkv.wire.subtrees import GetTree
from tests.unit.client.scripted_server import HELLO

KINDS = ("reply", "refusal", "items")
"""How a question is answered."""


@attrs.frozen
class Asked:
    """A question and what its asker must get, item by item."""

    kind: str
    items: int


asked_lists = st.lists(st.builds(Asked, st.sampled_from(KINDS), st.integers(0, 3)), max_size=12)


def conversation_of(asked: list[Asked]) -> tuple[ClientProtocol[int], list[bytes]]:
    """A conversation in which this was asked, and the frames; the askers are numbers from 1."""
    conversation: ClientProtocol[int] = ClientProtocol("h:1")
    conversation.feed(encode_hello(HELLO))
    frames = []
    for seq, one in enumerate(asked, 1):
        if one.kind == "items":
            frames.append(conversation.ask(questions.get_tree("a"), seq, is_long=True))
        else:
            frames.append(conversation.ask(node_questions.ping(), seq))
    return conversation, frames


def server_words(frames: list[bytes], asked: list[Asked], chance: random.Random) -> bytes:
    """The answers, interleaved by chance."""
    scripts: list[list[bytes]] = []
    reader = FrameReader()
    for frame, one in zip(frames, asked, strict=True):
        reader.feed(frame)
        (whole,) = reader
        request = decode_request(whole)
        seq = request.seq
        if one.kind == "items":
            assert isinstance(request, GetTree)
            middle = [encode_reply(seq, {"item": at, "of": seq}) for at in range(one.items)]
            scripts.append([encode_start(seq), *middle, encode_end(seq)])
        elif one.kind == "refusal":
            scripts.append([encode_error(seq, BusyError(f"of {seq}"))])
        else:
            scripts.append([encode_reply(seq, {"of": seq})])
    words: list[bytes] = []
    while scripts := [script for script in scripts if script]:
        words.append(chance.choice(scripts).pop(0))
    return b"".join(words)


def pieces(data: bytes, chance: random.Random) -> list[bytes]:
    cuts = sorted(chance.choices(range(len(data) + 1), k=min(len(data), 20)))
    return [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@given(asked_lists, st.randoms(use_true_random=False))
def test_each_asker_gets_exactly_his_answers(asked: list[Asked], chance: random.Random) -> None:
    conversation, frames = conversation_of(asked)
    got: dict[int, list[object]] = {seq: [] for seq in range(1, len(asked) + 1)}
    lasts: list[int] = []
    for piece in pieces(server_words(frames, asked, chance), chance):
        for answered in conversation.feed(piece):
            got[answered.asker].append(_shown(answered.answer))
            lasts += [answered.asker] * answered.is_last
    assert conversation.failure is None
    assert got == {seq: _due(seq, one) for seq, one in enumerate(asked, 1)}
    assert sorted(lasts) == list(got)
    assert conversation.lose() == []


@given(asked_lists, st.randoms(use_true_random=False), st.integers(0, 400))
def test_who_got_no_end_is_named_when_the_connection_is_lost(
    asked: list[Asked], chance: random.Random, length: int
) -> None:
    conversation, frames = conversation_of(asked)
    heard = conversation.feed(server_words(frames, asked, chance)[:length])
    ended = [answered.asker for answered in heard if answered.is_last]
    assert sorted([*ended, *conversation.lose()]) == list(range(1, len(asked) + 1))


@given(st.binary(max_size=300), st.randoms(use_true_random=False))
def test_no_bytes_make_the_conversation_raise(data: bytes, chance: random.Random) -> None:
    conversation: ClientProtocol[int] = ClientProtocol("h:1")
    conversation.feed(encode_hello(HELLO))
    conversation.ask(node_questions.ping(), 1)
    answers = [answered for piece in pieces(data, chance) for answered in conversation.feed(piece)]
    assert len(answers) + len(conversation.lose()) == 1


def _shown(answer: object) -> object:
    if isinstance(answer, DistkvError):
        return str(answer)
    return answer if answer is None else {name: value for name, value in dict(answer).items() if name != "seq"}  # type: ignore[call-overload]


def _due(seq: int, one: Asked) -> list[object]:
    if one.kind == "items":
        return [*({"item": at, "of": seq} for at in range(one.items)), None]
    return [f"of {seq}" if one.kind == "refusal" else {"of": seq}]
