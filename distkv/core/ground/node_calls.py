"""What one service asks itself on other nodes: calls with a purpose, patience, and a bound on what is under way.

Knows: for which purpose each question was asked, until when somebody waits for its answer, and which wait until there
is room.  Does not know what is asked.

What the two ends tell each other goes as any other word of the service, behind a byte that msgpack never begins with.
Each start of a node that asks something has a number, which is kept in a slot of the ground's own: so a late word of an
earlier start is known for what it is.

Invariant: each question is replied to once, with an answer or with why there is none, unless it is withdrawn. At most
`UNDER_WAY_BYTES` of questions to one node are under way; long ones go in parts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import attrs

from distkv.core.ground.call_parts import (
    BODY_BYTES_MAX,
    CAME,
    FETCH,
    GONE,
    PART,
    WHOLE,
    HeardParts,
    KeptParts,
    fetch_frame,
    question_frames,
)
from distkv.core.ground.calls import AnswerUnsure, CallEvent, CallKey, Calls, QuestionCame, QuestionGone
from distkv.core.ground.turn import AnsweredNode, AskedOfNode, ServiceTurn
from distkv.errors import DecodeError, PeerError, TooLargeError, UnknownOutcomeError
from distkv.model.event import NodeName
from distkv.wire.calls import CALLS, CallMessage
from distkv.wire.declared import pack

MARK: Final = b"\xc1"
"""What a word of the ground begins with."""
BOOT_SLOT: Final = "\0boot"
"""A key that no service has."""
STARTS_MAX: Final = 1 << 10
"""Of one life of a node, before their numbers reach those of a life a second later."""
UNDER_WAY_BYTES: Final = 256 << 10
LOOK: Final = "it may be done, so look before you ask again"


@attrs.frozen(slots=True)
class NodeAsked:
    """The same service of a node, this one included, asks. Answer it by `call` (`turn.answer_node`). It may come
    twice, so it must be safe to repeat."""

    call: CallKey
    body: bytes

    @property
    def node(self) -> NodeName:
        """Who asks."""
        return self.call.peer


@attrs.frozen(slots=True)
class NodeGaveUp:
    """The node that asked waits for the answer no more."""

    call: CallKey


@attrs.frozen(slots=True)
class Replied:
    """What came of a question, or of a write: the answer, or why there is none."""

    purpose: object
    """What was given when it was asked."""
    reply: object
    """Bytes of a node; of another service what it would answer a client; of work what that returned; or why there is
    none (`DistkvError`)."""
    is_last: bool = True
    """False: there will be more, as soon as `ServiceTurn.go_on` asks for it."""


@attrs.frozen(slots=True)
class NodesSilent:
    """Of the nodes from which an answer is wanted, others than before have said nothing for a while."""

    nodes: frozenset[NodeName]
    """All of these."""


CallInput: TypeAlias = NodeAsked | NodeGaveUp | Replied | NodesSilent


@attrs.define(slots=True, eq=False)
class _Pending:
    what: AskedOfNode
    give_up_ms: int
    frames: deque[bytes]
    """What is still to be asked, one after another."""
    size: int = 0
    """In bytes, of what is under way."""
    heard: HeardParts = attrs.field(factory=HeardParts)


class NodeCalls:
    """Those of one service on one node, since its machine began. All times are those of `ServiceTurn.boot_ms`."""

    def __init__(self, me: NodeName, life: int, kept: bytes | None, first: Callable[[], int]) -> None:
        """`kept`: what `BOOT_SLOT` has; `first`: draws a number that nobody can guess."""
        self._me: Final = me
        self._boot: Final = _boot_above(life, kept)
        self._first: Callable[[], int] | None = first
        """None: something was asked already."""
        self._calls: Final = Calls(self._boot, self)
        self._silent = frozenset[NodeName]()
        self._last = 0
        self._asked: Final = dict[tuple[NodeName, int], _Pending]()
        """By the node and the number of the call. Those of questions to this node are below 0."""
        self._waiting: Final = dict[NodeName, deque[_Pending]]()
        """Those for which there is no room yet."""
        self._parts: Final = KeptParts()
        self._handed: Final = set[CallKey]()
        """The questions of other nodes that the machine knows and has not answered."""
        self.own: Final = deque[CallInput]()
        """What this node asked and answered itself, or what was refused at once: who carries it out takes it from here.
        """
        self._turn = ServiceTurn("", 0, 0.0)
        """Nobody's until something is asked or told; most services never do that, and are not to pay for it."""

    # -- what the machine wants

    def take(self, what: AskedOfNode | AnsweredNode, turn: ServiceTurn) -> None:
        """Ask a node, or answer one. The reply comes from `own`, `told` or `woken`."""
        self._turn = turn
        if isinstance(what, AskedOfNode):
            self._ask(what)
        else:
            self._answer(what)

    def withdraw(self, purpose: object, turn: ServiceTurn) -> None:
        """What was asked for this purpose is not wanted any more. A reply that comes in this moment is still told."""
        if not self._turn.service:
            return
        self._turn = turn
        for peer, number in [key for key, asked in self._asked.items() if asked.what.purpose == purpose]:
            del self._asked[peer, number]
            if peer == self._me:
                self.own.append(NodeGaveUp(CallKey(peer, self._boot, number)))
            else:
                self._calls.cancel(peer, number)
                self._send(peer)
        for peer, some in list(self._waiting.items()):
            self._waiting[peer] = deque(asked for asked in some if asked.what.purpose != purpose)

    def reply(self, reply: Replied) -> None:
        """Something else was refused; it is in `own`."""
        self.own.append(reply)

    # -- what happens

    @staticmethod
    def is_for(body: bytes) -> bool:
        """Whether a word of a node is the ground's, and not the service's."""
        return body.startswith(MARK)

    def told(self, sender: NodeName, body: bytes, turn: ServiceTurn) -> list[CallInput]:
        """A node said this."""
        self._turn = turn
        try:
            message = CALLS.read(body[1:])
        except DecodeError as error:
            turn.note("call_bad", service=turn.service, node=sender, reason=error.reason)
            return []
        found = list(self._read(self._calls.told(sender, message, turn.boot_ms)))
        if sender in self._silent:
            found += self._look_who_is_silent()
        return found

    def woken(self, turn: ServiceTurn) -> list[CallInput]:
        """Time passed: who has waited long enough, and what has to be said again."""
        self._turn, now_ms = turn, turn.boot_ms
        self._parts.woken(now_ms)
        found = list(self._read(self._calls.woken(now_ms)))
        for (peer, number), asked in list(self._asked.items()):
            if asked.give_up_ms <= now_ms:
                del self._asked[peer, number]
                if peer == self._me:
                    found.append(NodeGaveUp(CallKey(peer, self._boot, number)))
                else:
                    self._calls.cancel(peer, number)
                found.append(_unsure(asked) if asked.what.is_once and not asked.frames else _too_late(asked))
        for peer, some in list(self._waiting.items()):
            late = [asked for asked in some if asked.give_up_ms <= now_ms]
            found += map(_too_late, late)
            self._waiting[peer] = deque(asked for asked in some if asked not in late)
            self._send(peer)
        return found + self._look_who_is_silent()

    def wake_ms(self) -> int | None:
        """When `woken` has something to do."""
        if not self._turn.service:
            return None
        ends = [asked.give_up_ms for asked in self._asked.values()]
        ends += [asked.give_up_ms for some in self._waiting.values() for asked in some]
        found = (self._calls.wake_ms(), self._parts.wake_ms(), *ends)
        return min((ms for ms in found if ms is not None), default=None)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        self._calls.check()
        self._parts.check()
        for asked in self._asked.values():
            asked.heard.check()

    # -- CallOutlet

    def say(self, peer: NodeName, message: CallMessage, *, waits: bool = True) -> None:
        """For `Calls`."""
        self._turn.tell(peer, MARK + pack(message), waits=waits)

    def call_note(self, id: str, **fields: object) -> None:
        """For `Calls`."""
        self._turn.note(id, service=self._turn.service, **fields)

    # -- inside

    def _look_who_is_silent(self) -> list[CallInput]:
        calls, now_ms = self._calls, self._turn.boot_ms
        silent = frozenset(peer for peer in calls.waits_for() if calls.is_silent(peer, now_ms))
        if silent == self._silent:
            return []
        self._silent = silent
        return [NodesSilent(silent)]

    def _ask(self, what: AskedOfNode) -> None:
        self._last += 1
        frames = question_frames(self._last, what.body)
        asked = _Pending(what, self._turn.boot_ms + what.patience_ms, frames)
        if len(what.body) > BODY_BYTES_MAX:
            text = f"a question to a node has {len(what.body)} bytes; the limit is {BODY_BYTES_MAX}"
            self.own.append(Replied(what.purpose, TooLargeError(text)))
        elif what.node == self._me:
            self._asked[self._me, -self._last] = asked
            self.own.append(NodeAsked(CallKey(self._me, self._boot, -self._last), what.body))
        else:
            self._waiting.setdefault(what.node, deque()).append(asked)
            self._send(what.node)

    def _answer(self, what: AnsweredNode) -> None:
        """Nothing happens when nobody waits for that."""
        call = what.call
        if call.peer != self._me:
            self._handed.discard(call)
            if len(what.body) > BODY_BYTES_MAX:
                self._turn.note("call_answer_too_large", service=self._turn.service, node=call.peer)
            else:
                frame = self._parts.answer_frame(call, what.body, self._turn.boot_ms)
                self._calls.answer(call, frame, waits=what.waits)
        elif (asked := self._asked.pop((call.peer, call.number), None)) is not None:
            self.own.append(Replied(asked.what.purpose, what.body))

    def _send(self, peer: NodeName) -> None:
        """What there is room for now."""
        some = self._waiting.get(peer, deque())
        under_way = sum(asked.size for (node, _), asked in self._asked.items() if node == peer)
        while some and under_way + len(some[0].frames[0]) <= UNDER_WAY_BYTES:
            asked = some.popleft()
            self._begin_to_ask()
            self._go_on(peer, asked)
            under_way += asked.size
        if not some:
            self._waiting.pop(peer, None)

    def _go_on(self, peer: NodeName, asked: _Pending) -> None:
        """Ask the next of what there is to be asked."""
        frame = asked.frames.popleft()
        asked.size = len(frame)
        is_once = asked.what.is_once and not (asked.frames or asked.heard.chunks)
        waits = asked.what.waits or not self._calls.is_answered  # else the number of this start may not be on the disk
        number = self._calls.ask(peer, frame, self._turn.boot_ms, is_once=is_once, waits=waits)
        self._asked[peer, number] = asked

    def _begin_to_ask(self) -> None:
        """The number of this start is on the disk before anybody hears it."""
        if self._first is not None:
            self._turn.keep(BOOT_SLOT, b"%d" % self._boot)
            self._calls.count_above(self._first())
            self._first = None

    def _read(self, events: list[CallEvent]) -> Iterator[CallInput]:
        for event in events:
            if isinstance(event, QuestionCame):
                yield from self._came(event.call, event.body)
            elif isinstance(event, QuestionGone):
                if event.call in self._handed:
                    self._handed.remove(event.call)
                    yield NodeGaveUp(event.call)
            elif isinstance(event, AnswerUnsure):
                yield _unsure(self._asked.pop((event.peer, event.number)))
                self._send(event.peer)
            else:
                asked = self._asked.pop((event.peer, event.number), None)
                if asked is not None:
                    yield from self._heard(event.peer, event.number, asked, event.body)
                self._send(event.peer)

    def _came(self, call: CallKey, frame: bytes) -> Iterator[NodeAsked]:
        """A question, or a part of one, or what asks for a part of an answer."""
        reply: bytes | None = GONE
        body, now_ms = frame[1:], self._turn.boot_ms
        if frame.startswith(WHOLE):
            reply = None
        elif frame.startswith(FETCH):
            reply = self._parts.fetched(call, frame, now_ms)
        elif frame.startswith(PART):
            reply = self._parts.asked(call, frame, now_ms)
            body = self._parts.question(call, frame) if reply is None else b""
        if reply is None:
            self._handed.add(call)
            yield NodeAsked(call, body)
        else:
            self._calls.answer(call, reply, waits=False)

    def _heard(self, peer: NodeName, number: int, asked: _Pending, body: bytes) -> Iterator[Replied]:
        """The answer, or a part of it, or that a part of the question came."""
        if body == GONE and asked.what.is_once and asked.heard.chunks:
            yield _unsure(asked)
            return
        if body == GONE:  # it began anew: all of it once more, as long as there is patience
            self._last += 1
            asked.frames, asked.heard = question_frames(self._last, asked.what.body), HeardParts()
        elif asked.frames:
            if body != CAME:
                yield _nonsense(asked)
                return
        elif not asked.heard.take(number, body):
            yield _nonsense(asked)
            return
        elif asked.heard.is_whole:
            yield Replied(asked.what.purpose, b"".join(asked.heard.chunks))
            return
        else:
            asked.frames.append(fetch_frame(asked.heard.call, len(asked.heard.chunks)))
        self._go_on(peer, asked)


def _boot_above(life: int, kept: bytes | None) -> int:
    """The number of this start, which is above all earlier ones."""
    first = life * STARTS_MAX + 1
    return first if kept is None else max(int(kept) + 1, first)


def _too_late(asked: _Pending) -> Replied:
    what = asked.what
    return Replied(what.purpose, PeerError(f"{what.node} did not answer within {what.patience_ms / 1000:g} s"))


def _unsure(asked: _Pending) -> Replied:
    return Replied(
        asked.what.purpose, UnknownOutcomeError(f"{asked.what.node} was asked, and its answer is lost: {LOOK}")
    )


def _nonsense(asked: _Pending) -> Replied:
    return Replied(asked.what.purpose, PeerError(f"{asked.what.node} answered what no node of this release says"))
