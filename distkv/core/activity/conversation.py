"""What one client of the activity network and its node say to each other.

Knows: which message may come when, and what follows from it.  Does not know sockets, accounts, nor what becomes of an
activity: it says what it wants to know, and is told.

Invariant: messages are answered in their order, one after the other; while something is not known nothing further is
read. A refusal is the last word. Nothing keeps a secret, but for the digest of the one that was right.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from hashlib import blake2b
from typing import Final, TypeAlias, assert_never

import attrs

from distkv.core.activity.requests import ActivityGap, ActivityItem
from distkv.errors import DecodeError, DistkvError
from distkv.model.invariant import must
from distkv.wire.activity_answers import (
    LoggedInLine,
    RedirectLine,
    RefusedLine,
    RegisteredLine,
    TakenLine,
    encode_answer,
    gap_line,
)
from distkv.wire.activity_lines import (
    ANONYMOUS,
    ActivityLine,
    LineReader,
    LoginLine,
    LogoutLine,
    RegisterLine,
    activity_text,
    read_line,
)

TOGETHER_MAX: Final = 32
"""So many activities that a client sends together are taken in one step: a step costs more than what is done in it."""
TOGETHER_BYTES: Final = 64 << 10
"""With so many bytes they are enough."""


class TalkPhase(Enum):
    """How far a conversation is."""

    NEW = "nobody is logged in"
    ASKING = "something has to be known"
    IN = "logged in"
    OVER = "over"


class Ending(Enum):
    """Why it is over."""

    LOGOUT = "logout"
    MOVED = "moved"
    INVALID = "invalid_message"
    NOT_REGISTERED = "register_failed"
    NOT_LOGGED_IN = "login_failed"
    NO_RIGHT = "authentication_fail"
    SLOW = "slow"
    SILENT = "silent"
    FAILED = "failed"


@attrs.frozen
class SayLines:
    """Send this."""

    lines: bytes
    is_last: bool = True
    """Whether it comes behind all that was told; else it may come before that. It matters to who is logged in."""


@attrs.frozen
class Registering:
    """Register a name, and say how that went (`ActivityTalk.registered`)."""

    username: str
    secret: bytes = attrs.field(repr=False)


@attrs.frozen
class Checking:
    """See whether a secret is that of a name (`ActivityTalk.checked`)."""

    username: str
    secret: bytes = attrs.field(repr=False)


@attrs.frozen
class Entering:
    """Log somebody in who may (`ActivityTalk.entered`)."""

    username: str
    resume: Mapping[str, int] | None
    client: str | None


@attrs.frozen
class Sending:
    """Give activities to everybody (`ActivityTalk.taken`)."""

    activities: tuple[bytes, ...]


@attrs.frozen
class TellMissed:
    """Tell this a client that resumes, behind the answer to its login and before anything new."""

    items: tuple[ActivityItem | ActivityGap, ...]


@attrs.frozen
class CloseTalk:
    """CloseTalk the connection, when all is sent."""

    ending: Ending


TalkEffect: TypeAlias = SayLines | TellMissed | Registering | Checking | Entering | Sending | CloseTalk


class ActivityTalk:
    """That of one connection."""

    def __init__(self, together_max: int = 1) -> None:
        """So many activities that came together are given together, at the most."""
        self._together_max: Final = together_max
        self.phase = TalkPhase.NEW
        self.ending: Ending | None = None
        """Why it is over."""
        self.user = ""
        """Who is logged in, or wants to be."""
        self.resumes = False
        self._wants_names = False
        """Whether it is told what each of its activities is called."""
        self._reader: Final = LineReader()
        self._login: LoginLine | None = None
        """Until that is answered."""
        self._digest = b""
        """Of the secret, once it was right."""
        self._move: tuple[str, int, Mapping[str, int] | None] | None = None
        """Where it is to go, when what it sent is taken."""

    def feed(self, data: bytes) -> None:
        """Something came."""
        if self.phase is not TalkPhase.OVER:
            self._reader.feed(data)

    @property
    def is_reading(self) -> bool:
        """Whether the next message may be read."""
        return self.phase is TalkPhase.NEW or self.phase is TalkPhase.IN

    @property
    def half_bytes(self) -> int:
        """How much has come of what is not answered."""
        return self._reader.size

    def next(self) -> list[TalkEffect] | None:
        """Take the next message; None: there is none, or it may not be read yet."""
        if not self.is_reading:
            return None
        try:
            line = self._reader.next_line()
            if line is None:
                return None
            return self._take(read_line(line))
        except DecodeError as error:
            return self.refuse(str(error))

    def refuse(self, info: str, ending: Ending = Ending.INVALID, code: str | None = None) -> list[TalkEffect]:
        """End it for a reason; `code` is that of an error of a service."""
        if self.phase is TalkPhase.OVER:
            return []
        command = _COMMANDS.get(ending, "INVALID_MESSAGE")
        return [SayLines(encode_answer(RefusedLine(command, info, code))), self._close(ending)]

    # -- what it wanted to know

    def registered(self, error: DistkvError | None) -> list[TalkEffect]:
        """The answer to `Registering`."""
        if self.phase is not TalkPhase.ASKING:
            return []
        if error is not None:
            return self.refuse(str(error), Ending.NOT_REGISTERED, error.code)
        self.phase = TalkPhase.NEW
        return [SayLines(encode_answer(RegisteredLine(f"register success for {self.user}")))]

    def checked(self, error: DistkvError | None) -> list[TalkEffect]:
        """The answer to `Checking`."""
        if self.phase is not TalkPhase.ASKING or self._login is None:
            return []
        if error is not None:
            return self.refuse(str(error), Ending.NOT_LOGGED_IN, error.code)
        return [Entering(self.user, self._login.resume, self._login.client)]

    def entered(
        self, at: Mapping[str, int] | None, client: str | None, missed: tuple[ActivityItem | ActivityGap, ...]
    ) -> list[TalkEffect]:
        """The answer to `Entering`: from now on everything is told."""
        if self.phase is not TalkPhase.ASKING or self._login is None:
            return []
        self.resumes, self._wants_names = self._login.resume is not None, self._login.taken
        self.phase, self._login = TalkPhase.IN, None
        success = encode_answer(LoggedInLine(f"logged in as user {self.user}", at, client))
        return [SayLines(success), TellMissed(missed)] if missed else [SayLines(success)]

    def refused(self, error: DistkvError) -> list[TalkEffect]:
        """The other answer to `Entering`, also later: nobody is logged in any more."""
        ending = Ending.NOT_LOGGED_IN if self._login is not None else Ending.FAILED
        return self.refuse(str(error), ending, error.code)

    def taken(self, origin: str, first: int, last: int) -> list[TalkEffect]:
        """The answer to `Sending`."""
        if self.phase is not TalkPhase.ASKING:
            return []
        self.phase = TalkPhase.IN
        found = list[TalkEffect]()
        if self._wants_names:
            lines = [encode_answer(TakenLine(origin, number)) for number in range(first, last + 1)]
            found.append(SayLines(b"".join(lines), is_last=False))
        return found if self._move is None else [*found, *self.moved(*self._move)]

    def not_taken(self, error: DistkvError) -> list[TalkEffect]:
        """The other answer to `Sending`."""
        return self.refuse(str(error), Ending.FAILED, error.code)

    def moved(self, host: str, port: int, resume: Mapping[str, int] | None) -> list[TalkEffect]:
        """The client is to go elsewhere; it is told when it knows what became of what it sent."""
        if self.phase is TalkPhase.OVER:
            return []
        if self.phase is TalkPhase.ASKING:
            self._move = (host, port, resume)
            return []
        return [SayLines(encode_answer(RedirectLine(host, port, resume))), self._close(Ending.MOVED)]

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(self._login is None or self.phase is TalkPhase.ASKING, "who logs in waits for the answer")
        must(not self._digest or self.user not in ("", ANONYMOUS), "a secret is that of somebody")

    # -- inside

    def _take(self, line: RegisterLine | LoginLine | ActivityLine | LogoutLine) -> list[TalkEffect]:
        match line:
            case RegisterLine(username, secret):
                if self.phase is TalkPhase.IN:
                    return self.refuse(f"logged in as user {self.user} already: register before that")
                if username == ANONYMOUS:
                    return self.refuse(f"{ANONYMOUS} is already registered with the system", Ending.NOT_REGISTERED)
                self.phase, self.user = TalkPhase.ASKING, username
                return [Registering(username, secret)]
            case LoginLine():
                return self._log_in(line)
            case ActivityLine():
                return self._send(line)
            case LogoutLine():
                return [self._close(Ending.LOGOUT)]
            case _:
                assert_never(line)

    def _log_in(self, line: LoginLine) -> list[TalkEffect]:
        if self.phase is TalkPhase.IN:
            return self.refuse(f"logged in as user {self.user} already")
        self.phase, self.user = TalkPhase.ASKING, line.username
        self._login = attrs.evolve(line, secret=None)
        if line.secret is None:
            return [Entering(line.username, line.resume, line.client)]
        self._digest = _digest(line.secret)
        return [Checking(line.username, line.secret)]

    def _send(self, line: ActivityLine) -> list[TalkEffect]:
        activity = activity_text(line.activity, line.username)  # its form is looked at before who sends it
        if self.phase is not TalkPhase.IN:
            return self.refuse("not logged in: send LOGIN first", Ending.NO_RIGHT)
        if not self._is_user(line):
            what = f"logged in as user {self.user}: the message has another username or secret"
            return self.refuse(what, Ending.NO_RIGHT)
        self.phase = TalkPhase.ASKING
        return [Sending((activity, *self._further(len(activity))))]

    def _further(self, size: int) -> list[bytes]:
        """The activities that came right behind one with so many bytes, as far as nothing is wrong with them."""
        found = list[bytes]()
        try:
            while len(found) + 1 < self._together_max and size < TOGETHER_BYTES:
                text = self._reader.next_line()
                if text is None:
                    break
                activity = self._activity_of(text)
                if activity is None:
                    self._reader.put_back(text)
                    break
                found.append(activity)
                size += len(activity)
        except DecodeError:
            pass  # the line is too long, and waits
        return found

    def _activity_of(self, text: bytes) -> bytes | None:
        """The activity that somebody may send with this line; None: there is something to say about it."""
        try:
            line = read_line(text)
            if isinstance(line, ActivityLine) and self._is_user(line):
                return activity_text(line.activity, line.username)
        except DecodeError:
            pass
        return None

    def _is_user(self, line: ActivityLine) -> bool:
        has_other_secret = self._digest and line.secret is not None and _digest(line.secret) != self._digest
        return line.username == self.user and not has_other_secret

    def _close(self, ending: Ending) -> CloseTalk:
        self.phase, self.ending, self._login, self._digest = TalkPhase.OVER, ending, None, b""
        return CloseTalk(ending)


def line_of(item: ActivityItem | ActivityGap) -> bytes:
    """What a client is told of it."""
    return item.line if isinstance(item, ActivityItem) else gap_line(item.origin, item.first, item.last)


_COMMANDS: Final[Mapping[Ending, str]] = {
    Ending.NOT_REGISTERED: "REGISTER_FAILED",
    Ending.NOT_LOGGED_IN: "LOGIN_FAILED",
    Ending.NO_RIGHT: "AUTHENTICATION_FAIL",
}


def _digest(secret: bytes) -> bytes:
    return blake2b(secret).digest()
