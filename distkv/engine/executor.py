"""What becomes of a `Ready`, without an event loop: the engine of a server and the simulator drive the same.

Knows: the order of a `Ready`, what waits for which position of the log, and what a full outbox comes to.  Decides
nothing, and does not know time, disks and sockets: those are the `Outlets`.

Invariant: what Ready k emits leaves only after the records of all Readies up to k are durable, in the order in which it
was emitted; an announcement follows whatever a full outbox dropped. Only an answer or a tell that says that it does not
wait leaves earlier.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol, assert_never

import attrs

from distkv.core.edges import Close, Dial, EdgeEffect, Say
from distkv.core.ready import Answer, Ask, FollowFrom, LendTo, Note, Ready, ServiceTell, Work
from distkv.errors import DistkvError, StaleError
from distkv.wire.message import Message


class LogPosition(Protocol):
    """How far the disk is."""

    @property
    def appended(self) -> int:
        """How many records were ever appended."""

    @property
    def durable(self) -> int:
        """How many of them are on the disk."""


class EdgeOutlets(Protocol):
    """Where that goes which the machine in the server tree wants done. None of these may take an input: what comes of
    it is told to the replica later."""

    def dial(self, what: Dial) -> None:
        """Ask a node to be the parent, on a new edge."""

    def say(self, what: Say) -> None:
        """Tell the other end of an edge, if it is open."""

    def close(self, what: Close) -> None:
        """End an edge, if it is open; what was said before may still leave."""


@attrs.frozen
class Outlets:
    """Where each part of a `Ready` goes. They are called in this order; none of them blocks."""

    write: Callable[[Ready, bool], None]
    """Append the records to the log, behind all that were appended before; whether somebody waits for the commit."""
    send: Callable[[Message], None]
    """Gossip it. Called when all is durable that was decided before it."""
    ask: Callable[[Ask], None]
    """Carry a request to a peer. Called as `send` is."""
    say: Callable[[Sequence[ServiceTell]], None]
    """Tell services of other nodes something. Called as `send` is, with all that leaves at once; what does not wait for
    the disk is called with earlier."""
    follow: Callable[[FollowFrom], None]
    """Follow a peer from now on, or no more."""
    lend: Callable[[LendTo], None]
    """Lend a connection to a peer."""
    work: Callable[[Work], None]
    """Do something slow on a thread, or begin to."""
    edges: EdgeOutlets
    answer: Callable[[Answer], None]
    """Give it to whoever asked a service. Called when all is durable that was decided before it, if it waits for that.
    """
    tell: Callable[[Ready], None]
    """Tell watchers of the changes, each of which may be shown when the records are durable."""
    end: Callable[[DistkvError], None]
    """The node must end. Called when the mark of an old disk is durable, which the next start needs; else at once."""
    note: Callable[[Note], None]
    """Count it, and log it. Nobody but the owner of the node hears of it, so it waits for nothing."""
    announce: Callable[[], None]
    """Say to the replica that updates were dropped. Called when the outbox is empty again."""


def carry_out_edges(effects: Sequence[EdgeEffect], outlets: EdgeOutlets) -> None:
    """Do what the machine in the server tree wants done, in this order."""
    for effect in effects:
        match effect:
            case Dial():
                outlets.dial(effect)
            case Say():
                outlets.say(effect)
            case Close():
                outlets.close(effect)
            case _:
                assert_never(effect)


class Executor:
    """Carries out one `Ready` after another, each wholly."""

    def __init__(
        self,
        log: LogPosition,
        outlets: Outlets,
        outbox_max: int,
        contain: Callable[[Exception, str], object] | None = None,
    ) -> None:
        """So many messages wait for the disk; what comes then is dropped, and announced later (what services tell is
        only counted). Asks are few, and are never dropped. `contain` logs a failure of something that waited, or raises
        it: what waits behind it leaves all the same. None: it is raised."""
        self._contain = contain
        self._log: Final = log
        self._outlets: Final = outlets
        self._outbox_max: Final = outbox_max
        self._outbox: deque[tuple[int, Message | Ask | ServiceTell]] = deque()
        self._said: list[ServiceTell] = []
        self._waiting: deque[tuple[int, Callable[[], object]]] = deque()
        self._must_announce = False

    def carry_out(self, ready: Ready, *, is_awaited: bool = False) -> None:
        """Do what it wants, in the order of its fields; the reply is whoever's that gave the input, and `is_awaited`
        when that waits for the commit."""
        outlets = self._outlets
        if ready.records:
            outlets.write(ready, is_awaited)
        for message in ready.messages:
            self._emit(message)
        for tell in ready.tells:
            self._tell(tell)
        self._say()
        for follow in ready.follows:
            outlets.follow(follow)
        for lend in ready.lends:
            outlets.lend(lend)
        for work in ready.works:
            outlets.work(work)
        if ready.edges:
            carry_out_edges(ready.edges, outlets.edges)
        for answer in ready.answers:
            self._answer(answer)
        outlets.tell(ready)
        if ready.fatal is not None:
            self._end(ready.fatal)
        for note in ready.notes:
            outlets.note(note)

    @property
    def is_waiting(self) -> bool:
        """Whether something is to leave as soon as what was decided is durable."""
        return bool(self._outbox or self._waiting)

    def when_durable(self, do: Callable[[], object]) -> None:
        """Call it as soon as all that was decided so far is durable; never, when the node ends before."""
        log = self._log
        if log.durable == log.appended and not self._waiting:
            do()
        else:
            self._waiting.append((log.appended, do))

    def landed(self) -> None:
        """The disk followed: what waited for it leaves."""
        while True:
            try:
                self._land()
                return
            except Exception as error:
                if self._contain is None:
                    raise
                self._contain(error, "what waited for the disk")

    def _land(self) -> None:
        """Each is taken out before it leaves: so one that fails is not met again."""
        outbox, waiting, log = self._outbox, self._waiting, self._log
        while outbox and outbox[0][0] <= log.durable:
            self._leave(outbox.popleft()[1])
        self._say()
        while waiting and waiting[0][0] <= log.durable:
            waiting.popleft()[1]()
        if self._must_announce and not outbox:
            self._must_announce = False
            self._outlets.announce()

    def stop(self) -> None:
        """The node has ended: nothing leaves any more."""
        self._outbox.clear()
        self._said.clear()
        self._waiting.clear()
        self._must_announce = False

    # -- inside

    def _answer(self, answer: Answer) -> None:
        if answer.waits:
            self.when_durable(partial(self._outlets.answer, answer))
        else:
            self._outlets.answer(answer)

    def _tell(self, tell: ServiceTell) -> None:
        if tell.waits:
            self._emit(tell)
        else:
            self._leave(tell)

    def _emit(self, message: Message | Ask | ServiceTell) -> None:
        log, outbox = self._log, self._outbox
        if log.durable == log.appended and not outbox:
            self._leave(message)
        elif len(outbox) < self._outbox_max or isinstance(message, Ask):
            outbox.append((log.appended, message))
        elif isinstance(message, ServiceTell):
            self._outlets.note(Note("tell_dropped", {"node": message.name, "service": message.service}))
        else:
            self._outlets.note(Note("outbox_full", {}))
            self._must_announce = True

    def _leave(self, message: Message | Ask | ServiceTell) -> None:
        if isinstance(message, Ask):
            self._outlets.ask(message)
        elif isinstance(message, ServiceTell):
            self._said.append(message)
        else:
            self._outlets.send(message)

    def _say(self) -> None:
        """What services tell others leaves in one go."""
        if self._said:
            said, self._said = self._said, []
            self._outlets.say(said)

    def _end(self, error: DistkvError) -> None:
        if isinstance(error, StaleError):
            self.when_durable(lambda: self._outlets.end(error))
        else:
            self._outlets.end(error)
