"""The client's side of the protocol: which reply belongs to whom, and what may be asked again after a break.

Knows: greetings, seq numbers, replies, long results, refusals.  Does not know sockets, clocks, tasks or threads: bytes
come in and go out as arguments (the two shells, `connection` and `async_connection`, move them).

Invariant: each question gets at most one end (a reply, a refusal, or the end of its items) on a connection; a write is
sent a second time only where it cannot take place twice.
"""

from __future__ import annotations

from typing import Final, Generic, Self, TypeVar

import attrs

from distkv import __version__
from distkv.client.questions import Answer, Question, Repeat
from distkv.errors import ConnectionLostError, DecodeError, DistkvError, PeerError, TooLargeError, UnreachableError
from distkv.model.event import NodeName
from distkv.model.unchecked import unchecked_value
from distkv.wire.fields import Fields
from distkv.wire.framing import FrameReader
from distkv.wire.packing import FEW_BYTES, unpack_whole
from distkv.wire.replies import TEXT, Hello, decode_reply, is_end, is_start, read_hello, reply_error

REPLY_BYTES_MAX: Final = 64 << 20
"""A larger reply is taken for nonsense."""

PAUSE_S_MAX: Final = 2.0
"""Between two attempts to connect."""

Asker = TypeVar("Asker")


# -- one connection -----------------------------------------------------------------------------------------------


@unchecked_value
class Answered(Generic[Asker]):
    """Something that came for the asker of a question."""

    asker: Asker
    answer: Fields | DistkvError | None
    """A reply or an item; a refusal; None: the end of the items."""
    is_last: bool = True


@unchecked_value
class _OpenQuestion(Generic[Asker]):
    asker: Asker
    is_long: bool
    tells_start: bool


class ClientProtocol(Generic[Asker]):
    """What is said on one connection, from the greeting on.

    An asker is whatever the caller wants to get back together with the answer.
    """

    def __init__(self, name: str) -> None:
        self._name: Final = name
        self._reader: Final = FrameReader(REPLY_BYTES_MAX)
        self._hello: Hello | None = None
        self._open: dict[int, _OpenQuestion[Asker]] = {}
        self._seq = 0
        self._failure: DistkvError | None = None

    @property
    def hello(self) -> Hello | None:
        """How the node greeted; None before it did."""
        return self._hello

    @property
    def failure(self) -> DistkvError | None:
        """Why nothing more can be said here: the refusal of the connection as a whole, or `PeerError` for nonsense and
        for a node of a release that does not work with this one."""
        return self._failure

    @property
    def open_count(self) -> int:
        """How many questions wait for their end."""
        return len(self._open)

    def ask(self, question: Question[Answer], asker: Asker, *, is_long: bool = False) -> bytes:
        """What to send. After a cancelled question nothing needs to be done: its answer still comes.

        Raises:
            TooLargeError: the node would refuse it together with all that is asked beside it. Nothing has happened.
        """
        if self._hello is None or self._failure is not None:
            raise RuntimeError("a question before the greeting, or after the end")
        frame, limit = question.encode(self._seq + 1), self._hello.request_bytes
        if limit is not None and len(frame) > limit:
            raise TooLargeError(
                f"the request has {len(frame)} bytes; {self._hello.node} takes at most {limit} (limits.request_bytes)"
            )
        self._seq += 1
        self._open[self._seq] = _OpenQuestion(asker, is_long, question.tells_start)
        return frame

    def feed(self, data: bytes) -> list[Answered[Asker]]:
        """What the bytes that came in say, and to whom; after it, look whether there is a `failure`."""
        if len(self._open) == 1 and len(data) <= FEW_BYTES and self._reader.is_between_frames:
            answered = self._only_reply(data)
            if answered is not None:
                return [answered]
        found: list[Answered[Asker]] = []
        self._reader.feed(data)
        try:
            while self._failure is None and (fields := self._next_fields()) is not None:
                answered = self._take(fields)
                if answered is not None:
                    found.append(answered)
        except DistkvError as error:
            self._failure = error
        return found

    def waiting(self) -> list[Asker]:
        """Who waits for an end, in the order in which they asked."""
        return [opened.asker for opened in self._open.values()]

    def lose(self) -> list[Asker]:
        """The connection is gone: who waits in vain, in the order in which they asked."""
        waiting = self.waiting()
        self._open.clear()
        return waiting

    # -- inside

    def _only_reply(self, data: bytes) -> Answered[Asker] | None:
        """The reply to the only open question, when these bytes are just that, as for one question after the other.
        Anything else, a refusal too, is left to be looked at more closely, and disturbs nothing.

        So a frame is neither measured nor cut before it is read, which was a fifth of a client's time for a get.
        """
        try:
            fields = unpack_whole(data)
        except DecodeError:
            return None
        if type(fields) is not dict or "error" in fields or not TEXT.issuperset(map(type, fields)):
            return None
        seq = fields.get("seq")
        opened = self._open.get(seq) if type(seq) is int else None
        if opened is None or type(seq) is not int or opened.is_long or self._failure is not None:
            return None
        del self._open[seq]
        return Answered(opened.asker, fields)

    def _next_fields(self) -> Fields | None:
        try:
            frame = self._reader.next_frame()
            return None if frame is None else decode_reply(frame)
        except (DecodeError, TooLargeError):
            raise self._no_node() from None

    def _take(self, fields: Fields) -> Answered[Asker] | None:
        refusal = reply_error(fields)
        if self._hello is None:
            self._greet(fields, refusal)
            return None
        if fields["seq"] == 0:
            return self._end_with(refusal)
        return self._match(fields, refusal)

    def _greet(self, fields: Fields, refusal: DistkvError | None) -> None:
        if refusal is not None:
            raise refusal
        try:
            hello = read_hello(fields)
        except DecodeError:
            raise self._no_node() from None
        if abs(hello.version[0] - int(__version__.partition(".")[0])) > 1:
            version = ".".join(map(str, hello.version))
            raise PeerError(
                f"the server at {self._name} is distkv {version}, this is {__version__}: "
                "only neighbouring releases work together; upgrade the older one"
            )
        self._hello = hello

    def _end_with(self, refusal: DistkvError | None) -> Answered[Asker] | None:
        """The server refuses the stream. It answers in order, so what it complains of is the oldest open question."""
        if refusal is None:
            raise PeerError(f"the server at {self._name} greets twice: report this")
        self._failure = refusal
        if not self._open:
            return None
        return Answered(self._open.pop(next(iter(self._open))).asker, refusal)

    def _match(self, fields: Fields, refusal: DistkvError | None) -> Answered[Asker] | None:
        seq = fields["seq"]
        opened = self._open.get(seq) if type(seq) is int else None
        if opened is None or type(seq) is not int:
            raise PeerError(f"the server at {self._name} answered what was not asked: report this")
        if refusal is None and opened.is_long and not is_end(fields):
            is_news = opened.tells_start or not is_start(fields)
            return Answered(opened.asker, fields, is_last=False) if is_news else None
        del self._open[seq]
        return Answered(opened.asker, refusal or (None if opened.is_long else fields))

    def _no_node(self) -> PeerError:
        return PeerError(f"what answers at {self._name} is no distkv server: check host and port")


# -- over several connections -------------------------------------------------------------------------------------


@attrs.define(eq=False)
class Call(Generic[Answer]):
    """A question on its way, over as many connections as it takes."""

    question: Question[Answer]
    _node: NodeName | None = None
    """The node that got it and may have carried it out."""
    _is_repeated: bool = False

    def begin(self, node: NodeName) -> None:
        """It is about to be sent to this node.

        Raises:
            ConnectionLostError: it may have taken place on another node, and could take place twice here.
        """
        if self._node is not None:
            if self.question.repeat is Repeat.SAME_NODE and node != self._node:
                raise _unknown(f"the connection to {self._node} broke, and now {node} answers")
            self._is_repeated = True
        self._node = node

    def lose(self, why: UnreachableError) -> None:
        """The connection broke before the answer.

        Raises:
            ConnectionLostError: it must not be asked again.
        """
        if self._node is not None and self.question.repeat is Repeat.NEVER:
            raise _unknown(str(why)) from why

    def give_up(self, why: UnreachableError) -> UnreachableError:
        """The error to raise when there is no time or no will to ask again."""
        is_read = self.question.repeat is Repeat.ANYWHERE
        return why if is_read or self._node is None else _unknown(str(why))

    def conclude(self, answer: Fields | DistkvError) -> Answer:
        """What the user gets.

        Raises:
            DistkvError: the refusal.
            ConnectionLostError: a repeated write was refused; the cause may be that it took place the first time.
            PeerError: the reply is nonsense.
        """
        if isinstance(answer, DistkvError):
            if self._is_repeated and self.question.repeat is Repeat.SAME_NODE:
                raise _unknown(f"the connection broke, and the repeated write was refused ({answer})") from answer
            raise answer
        return read_answer(self.question, answer, self._node or "the server")


def read_answer(question: Question[Answer], fields: Fields, who: str) -> Answer:
    """What a reply or an item means.

    Raises:
        PeerError: it is nonsense.
    """
    try:
        return question.read(fields)
    except DecodeError as error:
        raise PeerError(f"{who} answers nonsense ({error}): report this") from None


def _unknown(what: str) -> ConnectionLostError:
    return ConnectionLostError(f"{what}; whether the write took place is unknown: look before you repeat it")


@attrs.define
class Backoff:
    """The pauses between attempts to connect: none before the first, then each up to twice as long as the last one.

    Each is shortened by chance to somewhere between half and all of it, so that the clients of a node that restarts do
    not all come back at the same instant.
    """

    first_s: float = 0.05
    max_s: float = PAUSE_S_MAX
    _next_s: float = 0.0

    @classmethod
    def within(cls, reply_s: float) -> Self:
        """Of who waits so long for a reply: a pause leaves time for an attempt, and for the reply."""
        return cls(max_s=min(PAUSE_S_MAX, reply_s / 2))

    def next_s(self, chance: float) -> float:
        """The next pause; `chance` is from 0 to 1."""
        pause_s = self._next_s
        self._next_s = min(self.max_s, pause_s * 2 or self.first_s)
        return pause_s * (1 + chance) / 2

    def reset(self) -> None:
        """A request was answered."""
        self._next_s = 0.0
