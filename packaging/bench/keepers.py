"""Many sessions that hold many tokens on one node and keep them, over a few connections: a program of its own.

Knows: how bytes come and go.  Does not know when a session is kept, and what it says then: `Holding` does, the half of
the product's own client.

Invariant: what is counted as held was granted and not lost since. A refused request, or a session that ends, ends the
program.

    python -m bench.keepers PORT CONNECTIONS SESSIONS TOKENS

SESSIONS and TOKENS are those of all connections. Once all are held it answers each line that it gets with a line of
JSON, until its input ends.
"""

from __future__ import annotations

import heapq
import json
import selectors
import socket
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from distkv.client.boot_clock import boot_ms
from distkv.client.holding import Holding
from distkv.client.holding_news import DataAnswered, SessionLives, TokenObtained, TokenReleased
from distkv.client.protocol import ClientProtocol, read_answer
from distkv.client.questions import Question
from distkv.client.session_talk import session_question
from distkv.errors import DistkvError
from distkv.wire.token_replies import SessionKept, TokenReply

AT_ONCE: Final = 40
"""So many sessions are opening, or asking for their tokens, at a time."""
PATIENCE_MS: Final = 20_000
"""So long an answer may take."""
RECEIVE_BYTES: Final = 1 << 16
READ: Final = "stdin"


class KeepError(Exception):
    """A session or a token is not what it should be."""


@attrs.frozen
class Kept:
    """What the sessions have, and were told so far."""

    held: int
    """Tokens."""
    keeps: int
    """Keep-alives that were confirmed, of all sessions."""


@attrs.define(eq=False)
class Session:
    """One session on a connection that it shares."""

    place: int
    """Among all sessions."""
    holding: Holding
    tokens: Sequence[str]
    line: Line
    held: int = 0
    asked: dict[int, Question[TokenReply]] = attrs.field(factory=dict)
    """What is under way, by the number of the question."""
    wake_ms: int | None = None
    """When it is to be woken."""

    def begin(self) -> None:
        """Open it, and ask for all its tokens."""
        now = boot_ms()
        self.holding.open(0, PATIENCE_MS, now)
        for token in self.tokens:
            self.holding.acquire(token, patience_ms=PATIENCE_MS, now_ms=now)  # nobody else wants it
        self.holding.connected(now)

    def go_on(self) -> bytes:
        """What it wants to send.

        Raises:
            KeepError: it lost something.
        """
        for news in self.holding.take_news():
            match news:
                case TokenObtained():
                    self.held += 1
                case SessionLives() | TokenReleased() | DataAnswered():
                    pass
                case _:
                    raise KeepError(str(news))
        frames = []
        for one in self.holding.take_questions():
            self.asked[one.id] = session_question(one)
            frames.append(self.line.conversation.ask(self.asked[one.id], (self, one.id)))
        return b"".join(frames)


class Line:
    """A connection of several sessions."""

    def __init__(self, port: int) -> None:
        self.stream: Final = socket.create_connection(("127.0.0.1", port))
        self.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.conversation: Final = ClientProtocol[tuple[Session, int]]("the node")
        while self.conversation.hello is None:
            self.conversation.feed(self._received())

    def hear(self) -> Iterator[tuple[Session, TokenReply]]:
        """What came, and to whom; the session was told.

        Raises:
            KeepError: a refusal.
        """
        for answered in self.conversation.feed(self._received()):
            session, id = answered.asker
            question = session.asked.pop(id)
            if answered.answer is None or isinstance(answered.answer, DistkvError):
                raise KeepError(f"{session.holding.session}: {answered.answer}")
            reply = read_answer(question, answered.answer, "the node")
            session.holding.answered(id, reply, boot_ms())
            yield session, reply
        if self.conversation.failure is not None:
            raise self.conversation.failure

    def _received(self) -> bytes:
        data = self.stream.recv(RECEIVE_BYTES)
        if not data:
            raise KeepError("the node closed a connection")
        return data


class Keepers:
    """All sessions."""

    def __init__(self, port: int, connections: int, sessions: int, tokens: int) -> None:
        lines = [Line(port) for _ in range(connections)]
        self._selector: Final = selectors.DefaultSelector()
        for line in lines:
            self._selector.register(line.stream, selectors.EVENT_READ, line)
        names = [f"kept.{number:06d}" for number in range(tokens)]
        self._sessions: Final = [
            Session(place, Holding(), names[place::sessions], lines[place % connections]) for place in range(sessions)
        ]
        self._later: Final = deque(self._sessions)
        """Those that have not begun."""
        self._wakes: Final = list[tuple[int, int]]()
        """When which session is to be woken; the moment is not valid any more if the session has another one."""
        self._held = self._keeps = self._tokens_begun = 0

    @property
    def kept(self) -> Kept:
        """As it is now."""
        return Kept(self._held, self._keeps)

    def begin(self) -> None:
        """Until every session holds its tokens.

        Raises:
            KeepError, DistkvError: one does not.
        """
        total = sum(len(session.tokens) for session in self._sessions)
        most = AT_ONCE * max(len(session.tokens) for session in self._sessions)
        while self._held < total:
            while self._later and self._tokens_begun - self._held < most:
                session = self._later.popleft()
                self._tokens_begun += len(session.tokens)
                session.begin()
                self._move(session)
            self._turn()

    def keep(self) -> None:
        """Until the input ends.

        Raises:
            KeepError, DistkvError: something was lost.
        """
        self._selector.register(sys.stdin, selectors.EVENT_READ, READ)
        while self._turn():
            continue

    # -- inside

    def _turn(self) -> bool:
        """Whatever happens next; False: the input ended."""
        is_open, now = True, boot_ms()
        wait_s = max(0.0, (self._wakes[0][0] - now) / 1000) if self._wakes else None
        for key, _ in self._selector.select(wait_s):
            if isinstance(key.data, Line):
                self._hear(key.data)
            elif sys.stdin.readline():
                print(json.dumps(attrs.asdict(self.kept)), flush=True)
            else:
                is_open = False
        now = boot_ms()
        while self._wakes and self._wakes[0][0] <= now:
            wake_ms, place = heapq.heappop(self._wakes)
            session = self._sessions[place]
            if wake_ms == session.wake_ms:
                session.wake_ms = None
                session.holding.woken(now)
                self._move(session)
        return is_open

    def _hear(self, line: Line) -> None:
        for session, reply in line.hear():
            self._keeps += isinstance(reply, SessionKept)
            self._move(session)

    def _move(self, session: Session) -> None:
        before = session.held
        data = session.go_on()
        self._held += session.held - before
        if data:
            session.line.stream.sendall(data)
        wake_ms = session.holding.wake_ms()
        if wake_ms is not None and wake_ms != session.wake_ms:
            session.wake_ms = max(wake_ms, boot_ms() + 1)
            heapq.heappush(self._wakes, (session.wake_ms, session.place))


def main(words: Sequence[str]) -> int:
    """Hold and keep; 0 when nothing was lost."""
    keepers = Keepers(*map(int, words))
    try:
        keepers.begin()
        print(json.dumps(attrs.asdict(keepers.kept)), flush=True)
        keepers.keep()
    except (KeepError, DistkvError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
