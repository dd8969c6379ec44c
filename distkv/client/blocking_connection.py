"""One connection that the threads of a blocking client share, made again when it breaks.

Knows: whose turn it is, when to connect again, and what is asked again then.  Does not know sockets (`connection`), nor
what is asked (`questions`).

Invariant: one thread at a time asks and gets its answer; a write is sent at most once, unless a second time can do no
harm (`questions`); once it is closed nobody waits any more. What a signal handler raises, between whichever two steps,
costs the call that it interrupts and no other one: nothing here is locked, and a connection that still owes an answer
is not asked again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final, TypeVar

from distkv.client import failures, forks
from distkv.client.addresses import Address, Reach, in_turn
from distkv.client.bell import Bell
from distkv.client.connection import Connection, Lines, open_connection
from distkv.client.node_questions import ping
from distkv.client.outages import SILENCE_S, Begun, Watched
from distkv.client.pages import Item, Pages
from distkv.client.protocol import Backoff, Call, read_answer
from distkv.client.questions import Answer, Question, Repeat, look_s
from distkv.client.turns import CallTurn, CallTurns
from distkv.errors import ConnectionLostError, DistkvError, UnreachableError
from distkv.wire.fields import Fields
from distkv.wire.replies import Hello

if TYPE_CHECKING:
    from distkv.client.watch import WatchEvent  # long to load, and most clients watch nothing

Event = TypeVar("Event")
Told = TypeVar("Told")


class SharedConnection:
    """A connection for several threads, one question after the other; long results have lines of their own."""

    def __init__(self, addresses: Sequence[Address], *, connect_s: float, reply_s: float, reconnect: bool) -> None:
        """Connect to the first of `addresses` that answers; raises as `open_connection`."""
        self._addresses: Final = tuple(addresses)
        self._connect_s: Final = connect_s
        self._reply_s: Final = reply_s
        self._each_s: Final = reply_s / max(1, len(self._addresses))
        """So long one node may be silent where another one may be asked instead."""
        self._look_s: Final = look_s(self._each_s) if reconnect and len(self._addresses) > 1 else None
        self._reconnect: Final = reconnect
        self._backoff: Final = Backoff.within(reply_s)
        self._why = ""  # no node answered when one was looked for last
        self._is_silent = False  # the node that was connected last
        self._turns = CallTurns()
        self._is_closed = False
        self.bell: Final = Bell()
        """Rings when it is closed, and whenever who waits on it has to look."""
        self._lines: Final = Lines()
        self._connection = open_connection(self._addresses, connect_s=connect_s, lines=self._lines)
        forks.tell_child(self)

    @property
    def hello(self) -> Hello:
        """How the node greeted, when it was connected last."""
        return self._connection.hello

    @property
    def name(self) -> str:
        """The address of the node that was connected last."""
        return self._connection.name

    @property
    def reach(self) -> Reach:
        """For who needs a connection of its own; raises UnreachableError once it is closed."""
        self._check_open()
        return Reach(tuple(self._in_turn()), self._connect_s, self._reply_s)

    @property
    def reply_s(self) -> float:
        return self._reply_s

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def __str__(self) -> str:
        is_alive = not self._is_closed and self._connection.is_open
        return failures.shown(self.hello.node, self.name, is_closed=self._is_closed, is_alive=is_alive)

    def close(self) -> None:
        """End it for good, from any thread: whoever waits is told at once. May be called again."""
        self._is_closed = True
        self._lines.end()
        self.bell.ring()
        self._close_if_idle()

    def ask(self, question: Question[Answer]) -> Answer:
        """Ask when it is this thread's turn, and again where that is allowed, until there is an answer or no time.

        Raises:
            UnreachableError: no node answers, or other threads had all the time.
            ConnectionLostError: it is unknown whether a write took place.
            RequestError: a signal handler asks amid a question of its own thread.
            DistkvError: the refusal.
        """
        patience_s = self._reply_s + question.wait_s
        deadline = time.monotonic() + patience_s
        turns, turn = self._turns, CallTurn()
        try:
            if not turns.take(turn, patience_s):
                raise failures.crowded(self.name, patience_s)
            return self._answer(Call(question), deadline)
        finally:
            turns.give_back(turn)
            if self._is_closed:
                self._close_if_idle()  # who closed it saw that it was in use

    def ask_pages(self, pages: Pages[Item]) -> tuple[Item, ...]:
        """Ask for page after page; raises as `ask`."""
        while (question := pages.question) is not None:
            pages.add(self.ask(question))
        return pages.result()

    def items(self, question: Question[Answer]) -> Generator[Answer, None, None]:
        """The items of a long result, each within `reply_s` of the last one, on a line of their own.

        Raises:
            UnreachableError: the node is gone, or the client was closed.
            DistkvError: the refusal, which may also come after items.
        """
        try:
            line = self._open_line()
        except UnreachableError:
            if not self._reconnect:
                raise
            self.ask(ping())  # which waits until there is a node again
            line = self._open_line()
        yield from self._told(line, question, self._reply_s)

    def watch(self, watching: Watched[Event]) -> Generator[Event, None, None]:
        """What a watch is told, over as many connections as it takes, until this one is closed.

        Raises:
            UnreachableError: the client was closed; or the node is gone, and it does not connect again.
            DistkvError: the refusal.
        """
        told = self._watch(watching, None)
        return _events(told)

    def begin_watch(self, watching: Watched[WatchEvent], kinds: tuple[type[Told], ...]) -> Generator[Told, None, None]:
        """Those of some kinds, of a node that says when it begins to watch: when this returns it does.

        Raises:
            UnreachableError: no node began within `reply_s`.
            DistkvError: the refusal.
        """
        begin_by = time.monotonic() + self._reply_s
        told = self._watch(watching, begin_by)
        next(told)  # it has begun
        return _events_of(told, kinds)

    def leave_to_parent(self) -> None:
        """In a child: its threads take turns anew, and the next one connects. What waited was the parent's."""
        self._turns = CallTurns()

    # -- inside

    def _answer(self, call: Call[Answer], deadline: float) -> Answer:
        while True:
            try:
                connection = self._connected(deadline)
                call.begin(connection.hello.node)
                answer = self._ask_at(connection, call.question, deadline)
            except ConnectionLostError:
                raise
            except UnreachableError as error:
                self._is_silent |= error.is_silence
                call.lose(error)
                if not self._reconnect or self._is_closed or time.monotonic() >= deadline:
                    raise call.give_up(error) from None
            else:
                self._backoff.reset()
                return call.conclude(answer)

    def _ask_at(self, connection: Connection, question: Question[Answer], deadline: float) -> Fields | DistkvError:
        until = self._until(question, deadline)
        if question.looks and self._look_s is not None:
            return connection.ask_looking(question, until, self._look_s)
        return connection.ask(question, until)

    def _until(self, question: Question[Answer], deadline: float) -> float:
        """Until when this node may take: who reads leaves time for the others."""
        if question.repeat is not Repeat.ANYWHERE or question.wait_s or not self._reconnect:
            return deadline
        return min(deadline, time.monotonic() + self._each_s)

    def _connected(self, deadline: float) -> Connection:
        """The connection; when it is broken a new one, after a pause that grows with every failure."""
        if self._is_closed:
            raise failures.ended(self.name)
        if not self._reconnect:
            self._connection.check_open()
        elif not self._connection.is_alive():
            self._connection.close()
            self._connection = self._connect_again(deadline)
        return self._connection

    def _connect_again(self, deadline: float) -> Connection:
        pause_s = self._backoff.next_s(random.random())
        self._pause(min(pause_s, deadline - time.monotonic()))
        self._check_open()
        usual_s = min(self._connect_s, self._each_s)
        connect_s = max(0.001, min(usual_s, deadline - time.monotonic()))
        try:
            found = open_connection(self._in_turn(), connect_s=connect_s, lines=self._lines)
        except DistkvError as error:  # whatever it is, it may be over soon: something starts, or makes room
            self._check_open()
            if not self._why or connect_s == usual_s:  # an attempt that was cut short knows less
                self._why = str(error)
            raise UnreachableError(self._why) from None
        self._why = ""
        self._is_silent = False
        return found

    def _open_line(self) -> Connection:
        """One more connection, to the same node if it can be."""
        self._check_open()
        if not self._reconnect:
            self._connection.check_open()
        return open_connection(self._in_turn(), connect_s=self._connect_s, lines=self._lines)

    def _told(
        self, line: Connection, question: Question[Answer], reply_s: float, first_s: float | None = None
    ) -> Generator[Answer, None, None]:
        with closing(line.items(question, reply_s, first_s)) as items:
            for item in items:
                yield read_answer(question, item, line.hello.node)

    def _watch(self, watching: Watched[Event], begin_by: float | None) -> Generator[Event | None, None, None]:
        """On each connection first None where the node says that it begins, by `begin_by` at first."""
        pauses = Backoff()
        while True:
            has_begun = False
            try:
                line = self._open_line()
                with closing(self._told(line, watching.question(), SILENCE_S, self._each_s)) as events:
                    for event in events:
                        has_begun, begin_by = True, None
                        pauses.reset()
                        if isinstance(event, Begun):
                            watching.meet()
                            yield None
                        else:
                            yield event
                why: DistkvError = failures.left(line.name)
            except DistkvError as error:
                if self._is_closed:
                    raise failures.ended(self.name) from None
                is_late = begin_by is not None and time.monotonic() >= begin_by
                if not self._reconnect or is_late or not watching.is_bearable(error):
                    raise
                self._is_silent |= isinstance(error, UnreachableError) and error.is_silence and not has_begun
                why = error
            watching.lose(why)
            pause_s = pauses.next_s(random.random())
            self._pause(pause_s if begin_by is None else min(pause_s, begin_by - time.monotonic()))

    def _pause(self, seconds: float) -> None:
        """Wait, unless it is closed."""
        self.bell.wait(lambda: self._is_closed, seconds)

    def _check_open(self) -> None:
        if self._is_closed:
            raise failures.ended(self.name)

    def _close_if_idle(self) -> None:
        """Close it unless a thread uses it, which does so when it has done: a socket must not vanish under its user."""
        turn = CallTurn()
        try:
            if self._turns.take(turn, 0):
                self._connection.close()
        finally:
            self._turns.give_back(turn)

    def _in_turn(self) -> Sequence[Address]:
        return in_turn(self._addresses, self._connection.address, is_silent=self._is_silent)


def _events(told: Generator[Event | None, None, None]) -> Generator[Event, None, None]:
    """What users are told of it."""
    with closing(told):
        for event in told:
            if event is not None:
                yield event


def _events_of(told: Generator[object, None, None], kinds: tuple[type[Told], ...]) -> Generator[Told, None, None]:
    """The same, of some kinds."""
    with closing(told):
        for event in told:
            if isinstance(event, kinds):
                yield event
