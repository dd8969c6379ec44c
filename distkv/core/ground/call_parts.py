"""How a long question or answer goes between nodes in parts, each of which finds room beside other words.

Knows: the forms of parts, which parts of questions have come, and which answers are fetched.  Does not know how a part
travels (`calls`), nor what is said.

A question goes in parts one after another, each of which is answered when it came; the last one is answered by the
answer. Of a long answer the first part says how many there are, and who asked asks for the others. A side that knows
nothing of the parts before, because it began anew, says so, and all of it is said again.

Invariant: what is kept here has a bound for all nodes together, and is forgotten a minute after the last word about it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from struct import Struct
from typing import Final, TypeAlias

import attrs

from distkv.core.ground.calls import CallKey
from distkv.model.event import NodeName
from distkv.model.invariant import must

PART_BYTES: Final = 64 << 10
BODY_BYTES_MAX: Final = 4 << 20
"""Of a question or an answer."""
KEPT_BYTES_MAX: Final = 16 << 20
"""Of parts that wait for others, and of answers that wait to be fetched; the oldest are forgotten first."""
KEPT_MS: Final = 60_000

WHOLE: Final = b"\x00"
"""Before a whole question or answer, and before a further part of an answer."""
PART: Final = b"\x01"
"""Before a part of a question, and before the first part of an answer."""
FETCH: Final = b"\x02"
"""Asks for a part of an answer."""
CAME: Final = b"\x02"
"""Answers a part of a question: it came."""
GONE: Final = b"\x03"
"""Answers that nothing is known of the parts before."""

_OF_QUESTION: Final = Struct(">QII")
"""The number of the long question, that of this part from 0, and how many there are."""
_OF_ANSWER: Final = Struct(">I")
"""How many parts there are."""
_FETCHED: Final = Struct(">QI")
"""The number of the call that was answered, and that of the part."""


def question_frames(number: int, body: bytes) -> deque[bytes]:
    """A question as what is to be asked one after another."""
    if len(body) <= PART_BYTES:
        return deque([WHOLE + body])
    chunks = _cut(body)
    return deque(PART + _OF_QUESTION.pack(number, index, len(chunks)) + chunk for index, chunk in enumerate(chunks))


def fetch_frame(call: int, index: int) -> bytes:
    """What asks for a part of the answer to a call."""
    return FETCH + _FETCHED.pack(call, index)


@attrs.define(slots=True)
class HeardParts:
    """What came so far of one answer."""

    call: int = 0
    """The number of the call that the first part answered."""
    count: int = 1
    chunks: list[bytes] = attrs.field(factory=list)

    def take(self, call: int, body: bytes) -> bool:
        """Take what answered a call; False: it cannot be meant."""
        if body.startswith(WHOLE):
            self.chunks.append(body[1:])
            return len(self.chunks) <= self.count
        begin = 1 + _OF_ANSWER.size
        if not body.startswith(PART) or len(body) < begin or self.chunks:
            return False
        (self.count,) = _OF_ANSWER.unpack(body[1:begin])
        self.call = call
        self.chunks.append(body[begin:])
        return 1 < self.count <= -(-BODY_BYTES_MAX // PART_BYTES)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing."""
        return len(self.chunks) >= self.count

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self.chunks) <= self.count, "no more parts come than were said")


_Key: TypeAlias = tuple[NodeName, int, int]


@attrs.define(slots=True)
class _KeptBody:
    chunks: list[bytes]
    until_ms: int
    size: int


class KeptParts:
    """What the answering side keeps. All times are milliseconds."""

    def __init__(self) -> None:
        self._questions: Final = dict[_Key, _KeptBody]()
        """By the node, its start, and the number of the long question; the parts that came, in their order."""
        self._answers: Final = dict[_Key, _KeptBody]()
        """By the node, its start, and the number of the call; all parts."""
        self._size = 0

    def answer_frame(self, call: CallKey, body: bytes, now_ms: int) -> bytes:
        """What answers a question, or begins to."""
        if len(body) <= PART_BYTES:
            return WHOLE + body
        chunks = _cut(body)
        self._keep(self._answers, (call.peer, call.boot, call.number), _KeptBody(chunks, now_ms + KEPT_MS, len(body)))
        return PART + _OF_ANSWER.pack(len(chunks)) + chunks[0]

    def fetched(self, call: CallKey, frame: bytes, now_ms: int) -> bytes:
        """What answers `frame`, with which `call` asks for a part of an answer."""
        if len(frame) != 1 + _FETCHED.size:
            return GONE
        number, index = _FETCHED.unpack(frame[1:])
        kept = self._answers.get((call.peer, call.boot, number))
        if kept is None or index >= len(kept.chunks):
            return GONE
        kept.until_ms = now_ms + KEPT_MS
        chunk: bytes = kept.chunks[index]
        return WHOLE + chunk

    def asked(self, call: CallKey, frame: bytes, now_ms: int) -> bytes | None:
        """A part of a question came: what answers it; None: it was the last, and `question` has all of it."""
        begin = 1 + _OF_QUESTION.size
        if not begin < len(frame) <= begin + PART_BYTES:
            return GONE
        number, index, count = _OF_QUESTION.unpack(frame[1:begin])
        if index >= count or count > -(-BODY_BYTES_MAX // PART_BYTES):
            return GONE
        key = call.peer, call.boot, number
        kept = self._questions.get(key)
        if index == 0:
            self._drop(self._questions, key)
            kept = _KeptBody([], 0, 0)
            self._keep(self._questions, key, kept)
        if kept is None or index > len(kept.chunks):
            return GONE
        kept.until_ms = now_ms + KEPT_MS
        if index == len(kept.chunks):
            kept.chunks.append(frame[begin:])
            kept.size += len(frame) - begin
            self._size += len(frame) - begin
            self._make_room()
        return None if index == count - 1 else CAME

    def question(self, call: CallKey, frame: bytes) -> bytes:
        """The whole of a question whose last part is `frame`."""
        number, _, _ = _OF_QUESTION.unpack(frame[1 : 1 + _OF_QUESTION.size])
        kept = self._drop(self._questions, (call.peer, call.boot, number))
        return b"" if kept is None else b"".join(kept.chunks)

    def wake_ms(self) -> int | None:
        """When `woken` has something to do."""
        return min((kept.until_ms for kept in self._all()), default=None)

    def woken(self, now_ms: int) -> None:
        """Time passed: what nobody asked about for long is forgotten."""
        for table in (self._questions, self._answers):
            for key in [key for key, kept in table.items() if kept.until_ms <= now_ms]:
                self._drop(table, key)

    # -- inside

    def _all(self) -> Iterator[_KeptBody]:
        yield from self._questions.values()
        yield from self._answers.values()

    def _keep(self, table: dict[_Key, _KeptBody], key: _Key, kept: _KeptBody) -> None:
        self._drop(table, key)
        table[key] = kept
        self._size += kept.size
        self._make_room()

    def _drop(self, table: dict[_Key, _KeptBody], key: _Key) -> _KeptBody | None:
        kept = table.pop(key, None)
        self._size -= 0 if kept is None else kept.size
        return kept

    def _make_room(self) -> None:
        while self._size > KEPT_BYTES_MAX:
            tables = [table for table in (self._questions, self._answers) if table]
            table = min(tables, key=lambda one: min(kept.until_ms for kept in one.values()))
            self._drop(table, min(table, key=lambda key: table[key].until_ms))

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(self._size == sum(kept.size for kept in self._all()), "it is known how much is kept")
        must(self._size <= KEPT_BYTES_MAX, "not too much is kept")


def _cut(body: bytes) -> list[bytes]:
    return [body[begin : begin + PART_BYTES] for begin in range(0, len(body), PART_BYTES)]
