"""A client's half of the activity network, without a socket: what it says, what it was told, and what became of what it
sent.

Knows: lines, up to which number it was told of each origin, and which activities are not echoed.  Does not know
connections: whoever has one drives it.

Invariant: each activity is handed out once, those of a sender in order, over as many connections as it takes. A result
of something sent is known once: echoed, refused, or that nobody knows. What was not taken is sent again, and nothing
that was.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final, TypeAlias, assert_never

import attrs

from distkv.client.arguments import check_patience
from distkv.errors import (
    BadValueError,
    BusyError,
    DecodeError,
    DistkvError,
    PeerError,
    RequestError,
    TooLargeError,
    UnknownOutcomeError,
    UnreachableError,
)
from distkv.model.invariant import must
from distkv.wire.activity_answers import (
    BroadcastLine,
    GapLine,
    LoggedInLine,
    RedirectLine,
    RefusedLine,
    RegisteredLine,
    ServerLine,
    TakenLine,
    read_answer,
)
from distkv.wire.activity_lines import ANONYMOUS, LINE_BYTES_MAX, RESUME_MAX, USER_FIELD, LineReader, encode, read_line
from distkv.wire.replies import reply_error


class SendUnknownError(UnknownOutcomeError):
    """Nobody knows whom an activity reached: some, all or nobody."""

    code = "send_unknown"


MESSAGES_MAX: Final = 10_000
"""So many messages wait for the user; with more nothing is read."""
SENDS_MAX: Final = 1_000
"""So many activities are not echoed; a further one is refused."""
BY_LOAD: Final = frozenset({"busy", "not_ready", "no_space", "slow", "no_majority"})
"""Another node may say something else, or this one later."""


@attrs.frozen
class ActivityMessage:
    """Something that somebody said."""

    activity: Mapping[str, object]
    origin: str
    number: int

    @property
    def user(self) -> str:
        """Who said it."""
        return str(self.activity.get(USER_FIELD))


@attrs.frozen
class ActivityMissed:
    """Some activities of an origin will not come: they are not kept any more."""

    origin: str
    first: int
    last: int


ActivityNews: TypeAlias = ActivityMessage | ActivityMissed


@attrs.define
class _SentActivity:
    """An activity that is not echoed."""

    line: bytes
    is_written: bool = False
    """On this connection."""
    echo: tuple[str, int] | None = None
    """What it is called, once it was taken."""
    is_abandoned: bool = False
    """Nobody waits for the result."""


def activity_half(user: str, secret: str | None, connect_s: object, reply_s: object, *, listens: bool) -> ActivityHalf:
    """That of a client, as a program wants it.

    Raises:
        BadValueError: it is no user, or no secret.
        SettingsError: a time that is none.
    """
    check_patience("connect_s", connect_s)
    check_patience("reply_s", reply_s)
    return ActivityHalf(user, secret, listens=listens)


class ActivityHalf:
    """That of one client, over all its connections."""

    def __init__(self, user: str, secret: str | None, *, listens: bool = True) -> None:
        """`listens`: whether messages are handed out.

        Raises:
            BadValueError: it is no user, or no secret.
        """
        self.error: DistkvError | None = None
        """Why it is over; None: it goes on."""
        self.redirect: tuple[str, int] | None = None
        """Where the last connection said to go."""
        self.news: Final = deque[ActivityNews]()
        """What the user was not given yet."""
        self._is_last_word = False
        """Whether the server said why the connection ends: it has read nothing of which it did not say that."""
        self._login: Final = _login_of(user, secret)
        self._listens: Final = listens
        self._reader = LineReader()
        self._place: Final = _HeardSoFar()
        self._sent: Final = dict[int, _SentActivity]()
        """In their order."""
        self._results: Final = dict[int, DistkvError | None]()
        self._last = 0

    @property
    def is_ending(self) -> bool:
        """Whether this connection has nothing more to say."""
        return self._is_last_word

    @property
    def is_in(self) -> bool:
        """Whether it is logged in on this connection."""
        return self._place.is_in

    @property
    def was_in(self) -> bool:
        """Whether it ever was."""
        return self._place.reached is not None

    # -- connections

    def connected(self) -> bytes:
        """There is a connection; what is to be sent on it first."""
        self._reader, self.redirect, self._is_last_word, place = LineReader(), None, False, self._place
        fields = {**self._login, "resume": place.reached or {}, "taken": True}
        if place.client is not None:
            fields["client"] = place.client
        return encode(fields) + b"\n"

    def lost(self) -> None:
        """The connection is gone. Of what was taken and not echoed nobody knows what becomes; so of what was written,
        unless it is known that it was not taken."""
        is_known, self._place.is_in = self._is_last_word, False
        for number, sent in [*self._sent.items()]:
            if sent.echo is not None or (sent.is_written and not is_known):
                why = "the connection ended before the echo came: nobody knows whether the activity reached anybody"
                self._end(number, SendUnknownError(why))
            sent.is_written = False

    @property
    def wants_more(self) -> bool:
        """Whether more may be read."""
        return len(self.news) < MESSAGES_MAX

    def take(self, data: bytes) -> None:
        """Something came. If no node says that it is over."""
        self._reader.feed(data)
        try:
            while not self._is_last_word and (line := self._reader.next_line()) is not None:
                self._hear(read_answer(line))
        except DecodeError as error:
            self._is_last_word = True
            self.fail(PeerError(f"what answers is no node of the activity network: {error}"))

    # -- what is sent

    def send(self, activity: Mapping[str, object]) -> int:
        """Say something to everybody; returns its number, for `result`.

        Raises:
            BadValueError, TooLargeError: it is no activity.
            BusyError: too many are not echoed.
        """
        if len(self._sent) >= SENDS_MAX:
            raise BusyError(f"{SENDS_MAX} activities are not echoed yet: wait for one")
        line = _activity_line(self._login["username"], activity)
        self._last += 1
        self._sent[self._last] = _SentActivity(line)
        return self._last

    def give_up(self, number: int) -> None:
        """Nobody waits for the result any more. What was not written is not sent."""
        self._results.pop(number, None)
        sent = self._sent.get(number)
        if sent is None:
            return
        if sent.is_written:
            sent.is_abandoned = True
        else:
            del self._sent[number]

    def take_lines(self) -> bytes:
        """What is to be sent now."""
        if not self.is_in:
            return b""
        found = [sent for sent in self._sent.values() if not sent.is_written]
        for sent in found:
            sent.is_written = True
        return b"".join([sent.line for sent in found])

    def has_result(self, number: int) -> bool:
        """Whether it is known what became of it."""
        return number in self._results

    def result(self, number: int) -> DistkvError | None:
        """Why it is not known to reach everybody; None: it does. To be asked once, when `has_result`."""
        return self._results.pop(number)

    def result_or_silence(self, number: int) -> DistkvError | None:
        """The same, of who waits no longer: nobody knows, if there is no result."""
        if self.has_result(number):
            return self.result(number)
        sent = self._sent[number]
        if sent.is_written:
            why = "the echo did not come in time: nobody knows whether the activity reached anybody"
            return SendUnknownError(why)
        return UnreachableError("no listener of the activity network took the activity in time; it is not sent")

    def fail(self, error: DistkvError) -> None:
        """It is over."""
        self.error = self.error or error
        for number in [*self._sent]:
            self._end(number, error)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(not self._sent.keys() & self._results.keys(), "what has a result is not sent any more")
        must(len(self._sent) <= SENDS_MAX, "no more are sent than may be")

    # -- inside

    def _hear(self, line: ServerLine) -> None:
        match line:
            case LoggedInLine(_, at, client):
                if at is None:
                    raise DecodeError("it cannot resume", "activity_line")
                self._place.enter(at, client)
            case BroadcastLine(activity, origin, number):
                if origin is not None and self._place.reach(origin, number):
                    self._tell(ActivityMessage(activity, origin, number))
                self._see_echoes()
            case GapLine(origin, first, last):
                if self._place.reach(origin, last):
                    self._tell(ActivityMissed(origin, first, last))
            case TakenLine(origin, number):
                sent = next((one for one in self._sent.values() if one.is_written and one.echo is None), None)
                if sent is not None:
                    sent.echo = (origin, number)
                self._see_echoes()
            case RedirectLine(host, port):
                self.redirect, self._is_last_word = (host, port), True
            case RefusedLine():
                self._refused(line)
            case RegisteredLine():
                pass  # it never registers
            case _:
                assert_never(line)

    def _tell(self, news: ActivityNews) -> None:
        if self._listens:
            self.news.append(news)

    def _see_echoes(self) -> None:
        for number, sent in [*self._sent.items()]:
            if sent.echo is None:
                return  # nor are later ones
            if self._place.has_reached(*sent.echo):
                self._end(number, None)

    def _refused(self, line: RefusedLine) -> None:
        error, self._is_last_word = error_of(line), True
        is_by_load = line.code in BY_LOAD
        head = next((number for number, sent in self._sent.items() if sent.is_written and sent.echo is None), None)
        if line.command == "INVALID_MESSAGE" and head is not None and not is_by_load:
            self._end(head, error)  # which it was about: those behind were not read
        elif not is_by_load and not (self.was_in and line.code is None):
            self.fail(error)

    def _end(self, number: int, result: DistkvError | None) -> None:
        if not self._sent.pop(number).is_abandoned:
            self._results[number] = result


class _HeardSoFar:
    """Where the client is in what everybody is told."""

    def __init__(self) -> None:
        self.is_in = False
        self.reached: dict[str, int] | None = None
        """Up to which number it was told of each origin; None: it was never logged in."""
        self.client: str | None = None
        """What the server calls it."""

    def enter(self, at: Mapping[str, int], client: str | None) -> None:
        """It is logged in."""
        if self.reached is None:
            self.reached = dict(at)
        self.is_in, self.client = True, client

    def reach(self, origin: str, number: int) -> bool:
        """It is told up to this number; whether that is news."""
        if self.reached is None or number <= self.reached.get(origin, 0):
            return False
        self.reached.pop(origin, None)  # the latest stand last
        self.reached[origin] = number
        while len(self.reached) > RESUME_MAX:
            del self.reached[next(iter(self.reached))]
        return True

    def has_reached(self, origin: str, number: int) -> bool:
        """Whether it was told that."""
        return self.reached is not None and number <= self.reached.get(origin, 0)


def error_of(line: RefusedLine) -> DistkvError:
    """What a refusal is to who asked."""
    found = None if line.code is None else reply_error({"error": line.info, "code": line.code})
    return RequestError(line.info) if found is None else found


def register_line(user: str, secret: str) -> bytes:
    """What makes an account.

    Raises:
        BadValueError: it is no user, or no secret.
    """
    return _checked({"command": "REGISTER", "username": user, "secret": secret})


def _login_of(user: str, secret: str | None) -> dict[str, object]:
    fields: dict[str, object] = {"command": "LOGIN", "username": user}
    if user != ANONYMOUS:
        fields["secret"] = secret
    _checked(fields)
    return fields


def _activity_line(user: object, activity: Mapping[str, object]) -> bytes:
    return _checked({"command": "ACTIVITY_MESSAGE", "username": user, "activity": activity})


def _checked(fields: Mapping[str, object]) -> bytes:
    """As a line that a node takes."""
    try:
        line = encode(fields)
        if len(line) > LINE_BYTES_MAX:
            raise TooLargeError(f"a message has {len(line)} bytes: at most {LINE_BYTES_MAX}")
        read_line(line)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadValueError(f"this cannot be said as JSON: {error}") from None
    except DecodeError as error:
        raise BadValueError(str(error)) from None
    return line + b"\n"
