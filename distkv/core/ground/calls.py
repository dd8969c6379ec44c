"""Calls between nodes: questions that are repeated until they are answered, over messages that may get lost.

Knows: which questions this node has asked and not heard the answer to, and which of others it has not answered or has
answered lately.  Does not know what is asked.

Invariant: an answer is told once to who asked. A question may be told twice to who answers: it must be safe to repeat.
But none is told after a later one of the same node showed that it is over; nor is one of an earlier start of a node
told after one of a later start. One that must not be repeated is told at most once, and whoever cannot be sure of it
says so. Who hears that somebody spoke in its name, or that what it asks is not known however
often it is asked, goes on as a later start (docs/protocol, JUMP-4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol, TypeAlias, assert_never

import attrs

from distkv.model.event import NodeName
from distkv.model.invariant import must
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

CHECK_MS: Final = 1000
"""So often it is asked what became of a call."""
SILENT_MS: Final = 5000
"""A node that waits for an answer, and asks nothing for so long, is gone."""
ANSWERS_MAX: Final = 1024
"""So many answers to one node are kept, to be sent again."""
ANSWER_BYTES_MAX: Final = 4 << 20
BOOT_JUMP: Final = 1 << 42
"""A start is no further above the one before it: there is room for all lives of a node and all starts of each."""
UNKNOWN_MAX: Final = 5
"""So often a question is asked again that the peer does not know; then somebody spoke in the name of this node."""
PEERS_MAX: Final = 4096
"""Of so many nodes it is known what they asked. One from which nothing came for long, and that waits for nothing, is
forgotten first."""


class CallKey(NamedTuple):
    """A question of another node."""

    peer: NodeName
    boot: int
    number: int


@attrs.frozen(slots=True)
class QuestionCame:
    call: CallKey
    body: bytes


@attrs.frozen(slots=True)
class AnswerCame:
    number: int
    peer: NodeName
    body: bytes


@attrs.frozen(slots=True)
class QuestionGone:
    """Nobody waits for the answer any more."""

    call: CallKey


@attrs.frozen(slots=True)
class AnswerUnsure:
    """A question that must not be repeated is not known where it was asked: it was lost on its way, or its answer is
    lost with a start of that node."""

    number: int
    peer: NodeName


CallEvent: TypeAlias = QuestionCame | AnswerCame | QuestionGone | AnswerUnsure


@attrs.define(slots=True)
class _CallsOut:
    """What this node asks of one peer."""

    bodies: dict[int, bytes] = attrs.field(factory=dict)
    """By number, rising."""
    unknown: dict[int, int] = attrs.field(factory=dict)
    """How often the peer did not know a question."""
    once: set[int] = attrs.field(factory=set)
    """Which of them must not be repeated."""
    cancelled: dict[int, None] = attrs.field(factory=dict)
    """Of which the peer has not said that it knows."""
    heard_ms: int = -(2**62)
    check_ms: int = 0

    def take(self, number: int) -> bytes | None:
        """It is over; None: it was before."""
        self.unknown.pop(number, None)
        self.once.discard(number)
        return self.bodies.pop(number, None)


@attrs.define(slots=True)
class _CallsIn:
    """What one peer asks of this node."""

    boot: int
    heard_ms: int
    floor: int = 0
    pending: dict[int, None] = attrs.field(factory=dict)
    answers: dict[int, bytes | None] = attrs.field(factory=dict)
    """The last ones, in the order in which they were given; None: it was withdrawn, the question is to be asked
    anew if somebody still wants to know."""
    size: int = 0
    """In bytes, of all of these."""

    def remember(self, number: int, body: bytes | None) -> None:
        self.forget(number)
        self.answers[number] = body
        self.size += len(body or b"")
        while len(self.answers) > ANSWERS_MAX or self.size > ANSWER_BYTES_MAX:
            self.forget(next(iter(self.answers)))

    def forget(self, number: int) -> None:
        self.size -= len(self.answers.pop(number, None) or b"")

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(self.size == sum(len(body or b"") for body in self.answers.values()), "the size is that of all answers")
        must(self.pending.keys().isdisjoint(self.answers), "what is answered does not wait")


class CallOutlet(Protocol):
    """Where what the two sides tell each other leaves. It may get lost, come twice, late, or after a later word."""

    def say(self, peer: NodeName, message: CallMessage, *, waits: bool = True) -> None:
        """To one node. With `waits=False` it may leave before what this step keeps is on the disk."""

    def call_note(self, id: str, **fields: object) -> None:
        """Something worth counting."""


class Calls:
    """Both sides. All times are milliseconds."""

    def __init__(self, boot: int, outlet: CallOutlet, first: int = 0) -> None:
        """Numbers are above `first`: who cannot guess it can answer no question."""
        self._boot = boot
        self._outlet: Final = outlet
        self._count = first
        self.is_answered = False
        """Whether a question was answered by now; only read."""
        self._out: Final = dict[NodeName, _CallsOut]()
        self._in: Final = dict[NodeName, _CallsIn]()

    # -- the asking side

    def count_above(self, first: int) -> None:
        """Numbers are above this from now on; nothing was asked yet."""
        self._count = first

    def ask(
        self, peer: NodeName, body: bytes, now_ms: int, *, is_once: bool = False, waits: bool = True
    ) -> int:
        """Ask a node, this one included; the number of the call. `is_once`: it is told at most once. `waits`: see
        `CallOutlet`; what is said again waits always."""
        out = self._out.setdefault(peer, _CallsOut())
        if not out.bodies:
            out.heard_ms = max(out.heard_ms, now_ms)  # it had nothing to say
            if not out.cancelled:
                out.check_ms = now_ms + CHECK_MS
        self._count += 1
        out.bodies[self._count] = body
        if is_once:
            out.once.add(self._count)
        self._send(peer, self._count, body, waits=waits)
        return self._count

    def cancel(self, peer: NodeName, number: int) -> None:
        """The answer is not wanted any more; none will be told."""
        out = self._out.get(peer)
        if out is not None and out.take(number) is not None:
            out.cancelled[number] = None
            self._tell(peer, CallsCancelled(self._boot, (number,)))
            while len(out.cancelled) > NUMBERS_MAX:  # the peer finds out by itself: who asks nothing is gone
                del out.cancelled[next(iter(out.cancelled))]

    def is_silent(self, peer: NodeName, now_ms: int) -> bool:
        """Whether a peer from which an answer is wanted has said nothing for a while."""
        out = self._out.get(peer)
        return out is not None and bool(out.bodies) and now_ms - out.heard_ms > CHECK_MS + CHECK_MS // 2

    def waits_for(self) -> list[NodeName]:
        """The peers from which an answer is wanted."""
        return [peer for peer, out in self._out.items() if out.bodies]

    # -- the answering side

    def answer(self, call: CallKey, body: bytes, *, waits: bool = True) -> None:
        """Answer a question; nothing happens if nobody waits for that any more. `waits`: see `CallOutlet`."""
        peer = self._in.get(call.peer)
        if peer is not None and peer.boot == call.boot and call.number in peer.pending:
            del peer.pending[call.number]
            peer.remember(call.number, body)
            self._outlet.say(call.peer, CallAnswered(call.boot, call.number, body), waits=waits)

    def withdraw(self, call: CallKey) -> None:
        """An answer that was given is not true any more: it is not sent again."""
        peer = self._in.get(call.peer)
        if peer is not None and peer.boot == call.boot and call.number in peer.answers:
            peer.remember(call.number, None)

    def is_waiting(self, call: CallKey) -> bool:
        """Whether the question is known and not answered."""
        peer = self._in.get(call.peer)
        return peer is not None and peer.boot == call.boot and call.number in peer.pending

    # -- what comes

    def told(self, sender: NodeName, message: CallMessage, now_ms: int) -> list[CallEvent]:
        """A message of a node; what follows from it."""
        match message:
            case CallAsked():
                return list(self._asked(sender, message, now_ms))
            case CallAnswered(boot=boot, number=number, body=body):
                out = self._heard(sender, boot, now_ms)
                if out is None or out.take(number) is None:
                    return []
                self.is_answered = True
                return [AnswerCame(number, sender, body)]
            case CallsChecked(boot=boot, numbers=numbers):
                return list(self._checked(sender, boot, numbers, now_ms))
            case CallsSeen():
                return list(self._seen(sender, message, now_ms))
            case CallsCancelled(boot=boot, numbers=numbers):
                return list(self._cancelled(sender, boot, numbers, now_ms))
            case CallsDropped(boot=boot, numbers=numbers):
                out = self._heard(sender, boot, now_ms)
                if out is not None:
                    for number in numbers:
                        out.cancelled.pop(number, None)
                return []
            case _:
                assert_never(message)

    def wake_ms(self) -> int | None:
        """When `woken` has something to do."""
        first = None
        for out in self._out.values():
            if (out.bodies or out.cancelled) and (first is None or out.check_ms < first):
                first = out.check_ms
        for peer in self._in.values():
            if peer.pending and (first is None or peer.heard_ms + SILENT_MS < first):
                first = peer.heard_ms + SILENT_MS + 1
        return first

    def woken(self, now_ms: int) -> list[CallEvent]:
        """Time passed: what became of the calls is asked; who has gone is seen."""
        for name, out in self._out.items():
            if (out.bodies or out.cancelled) and now_ms >= out.check_ms:
                out.check_ms = now_ms + CHECK_MS
                for numbers in _portions(out.bodies):
                    self._tell(name, CallsChecked(self._boot, numbers))
                for numbers in _portions(out.cancelled):
                    self._tell(name, CallsCancelled(self._boot, numbers))
        gone = list[CallEvent]()
        for name, peer in self._in.items():
            if peer.pending and now_ms - peer.heard_ms > SILENT_MS:
                gone += [QuestionGone(CallKey(name, peer.boot, number)) for number in peer.pending]
                peer.pending.clear()
        return gone

    # -- inside

    def _again(self, sender: NodeName, number: int) -> bool:
        """Send an answer again; whether there is one still."""
        peer = self._in[sender]
        body = peer.answers[number]
        if body is not None:
            self._tell(sender, CallAnswered(peer.boot, number, body))
        return body is not None

    def _asked(self, sender: NodeName, asked: CallAsked, now_ms: int) -> Iterator[CallEvent]:
        yield from self._starts(sender, asked.boot, now_ms)
        peer = self._in.get(sender)
        if peer is None or peer.boot != asked.boot or asked.floor > asked.number:
            return
        if asked.floor > peer.floor:
            peer.floor = asked.floor
            yield from self._end(sender, peer, [number for number in peer.pending if number < asked.floor])
            for number in [number for number in peer.answers if number < asked.floor]:
                peer.forget(number)
        if asked.number in peer.answers:
            self._again(sender, asked.number)
        elif asked.number >= peer.floor and asked.number not in peer.pending:
            peer.pending[asked.number] = None
            yield QuestionCame(CallKey(sender, peer.boot, asked.number), asked.body)

    def _checked(self, sender: NodeName, boot: int, numbers: Iterable[int], now_ms: int) -> Iterator[CallEvent]:
        yield from self._starts(sender, boot, now_ms)
        peer = self._in.get(sender)
        if peer is None or peer.boot != boot:
            return
        pending, unknown = list[int](), list[int]()
        for number in numbers:
            if number in peer.answers and not self._again(sender, number):
                peer.forget(number)
            if number not in peer.answers:
                (pending if number in peer.pending else unknown).append(number)
        self._tell(sender, CallsSeen(boot, tuple(pending), tuple(unknown)))

    def _cancelled(self, sender: NodeName, boot: int, numbers: tuple[int, ...], now_ms: int) -> Iterator[CallEvent]:
        yield from self._starts(sender, boot, now_ms)
        peer = self._in.get(sender)
        if peer is not None and peer.boot == boot:
            for number in numbers:
                peer.pending.pop(number, None)
                peer.remember(number, b"")  # should the question come now it is not told any more
                yield QuestionGone(CallKey(sender, boot, number))
        self._tell(sender, CallsDropped(boot, numbers))

    def _starts(self, sender: NodeName, boot: int, now_ms: int) -> Iterator[CallEvent]:
        """A peer says something as of this start: what it asked before an earlier one is over."""
        peer = self._in.get(sender)
        known = 0 if peer is None else peer.boot
        if boot < known:  # a late message of an earlier start; or somebody spoke in the name of the peer
            self._tell(sender, CallsSeen(known, (), ()))
        elif boot > known + BOOT_JUMP:
            self._outlet.call_note("call_too_far_ahead", peer=sender)
        elif peer is None or boot > known:
            if peer is not None:
                yield from self._end(sender, peer, list(peer.pending))
            else:
                yield from self._make_room(now_ms)
            self._in[sender] = _CallsIn(boot, now_ms)
        else:
            peer.heard_ms = now_ms

    def _make_room(self, now_ms: int) -> Iterator[CallEvent]:
        if len(self._in) >= PEERS_MAX:
            idle = [name for name, one in self._in.items() if not one.pending and now_ms - one.heard_ms > SILENT_MS]
            for name in idle or [next(iter(self._in))]:
                peer = self._in.pop(name)
                yield from self._end(name, peer, list(peer.pending))  # it asks again if it still wants to know

    def _end(self, sender: NodeName, peer: _CallsIn, numbers: list[int]) -> Iterator[CallEvent]:
        for number in numbers:
            del peer.pending[number]
            yield QuestionGone(CallKey(sender, peer.boot, number))

    def _seen(self, sender: NodeName, seen: CallsSeen, now_ms: int) -> Iterator[AnswerUnsure]:
        """A peer says what it does not know, and by which start of this node it goes."""
        if sender in self._out and self._boot < seen.boot <= self._boot + BOOT_JUMP:
            yield from self._begin_above(seen.boot)
        out = self._heard(sender, seen.boot, now_ms)
        if out is None:
            return
        numbers = sorted(out.bodies.keys() & seen.unknown)
        out.unknown = {number: out.unknown.get(number, 0) + 1 for number in numbers}
        if max(out.unknown.values(), default=0) > UNKNOWN_MAX:
            yield from self._begin_above(seen.boot)
            return
        for number in numbers:
            if number in out.once:
                out.take(number)
                yield AnswerUnsure(number, sender)
            else:
                self._send(sender, number, out.bodies[number])

    def _begin_above(self, boot: int) -> Iterator[AnswerUnsure]:
        """Go on as a start that nobody has heard of: all that is not answered is asked anew."""
        self._outlet.call_note("calls_begun_anew")
        self._boot = boot + 1
        for name, out in self._out.items():
            out.cancelled.clear()
            out.unknown.clear()
            for number in sorted(out.once):
                out.take(number)
                yield AnswerUnsure(number, name)
            for number, body in out.bodies.items():
                self._send(name, number, body)

    def _heard(self, sender: NodeName, boot: int, now_ms: int) -> _CallsOut | None:
        """A peer answers this start of this node."""
        out = self._out.get(sender)
        if boot != self._boot or out is None:
            return None
        out.heard_ms = now_ms
        return out

    def _send(self, peer: NodeName, number: int, body: bytes, *, waits: bool = True) -> None:
        floor = next(iter(self._out[peer].bodies))
        self._outlet.say(peer, CallAsked(self._boot, number, floor, body), waits=waits)

    def _tell(self, peer: NodeName, message: CallMessage) -> None:
        self._outlet.say(peer, message)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        for peer, out in self._out.items():
            must([*out.bodies] == sorted(out.bodies), f"the questions to {peer} are in the order of their numbers")
            must(out.bodies.keys().isdisjoint(out.cancelled), "what is cancelled is not asked")
            must(out.unknown.keys() <= out.bodies.keys(), "what a peer does not know is asked")
            must(out.once <= out.bodies.keys(), "what must not be repeated is asked")
        for asked in self._in.values():
            asked.check()


def _portions(numbers: Iterable[int]) -> Iterator[tuple[int, ...]]:
    found = tuple(numbers)
    for begin in range(0, len(found), NUMBERS_MAX):
        yield found[begin : begin + NUMBERS_MAX]
