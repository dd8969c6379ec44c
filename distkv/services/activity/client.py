"""One connection of a client of the activity network.

Knows: how what the conversation wants is done, and what leaves in which order.  Does not know what the client may say
(`core.activity.conversation`), nor who else is connected.

Invariant: the answer to a login leaves before anything that all are told, and what was told before a last word leaves
before it. A connection at rest costs no turn of the loop.
"""

from __future__ import annotations

from collections import deque
from typing import Final, assert_never

import trio

from distkv.core.activity.conversation import (
    ActivityTalk,
    Checking,
    CloseTalk,
    Ending,
    Entering,
    Registering,
    SayLines,
    Sending,
    TalkEffect,
    TalkPhase,
    TellMissed,
)
from distkv.engine.driver import Driver
from distkv.engine.hub import wait
from distkv.errors import BusyError
from distkv.services.activity.asking import TalkQuestions
from distkv.services.activity.missed import MissedByOne, MissedLines
from distkv.services.activity.queue import Listening, ToldBatch, ToldLines, lines_of
from distkv.services.idle import RECEIVE_BYTES, IdleConnections
from distkv.services.sender import Sender

LOGIN_S: Final = 60.0
"""Whoever has not logged in by then is closed."""
ASIDES_MAX: Final = 1000
"""So many answers may wait for a client that sends and does not read."""
LAST_WORDS_S: Final = 1.0
"""So long somebody who does not read has for the last words."""


class ActivityClient:
    """That of one client."""

    def __init__(
        self,
        driver: Driver,
        stream: trio.abc.Stream,
        idle: IdleConnections,
        told: ToldLines,
        missed: MissedLines,
        nursery: trio.Nursery,
        together_max: int,
    ) -> None:
        """So many activities that it sends together are given together, at the most."""
        self.sender = Sender(driver.committer, stream, nursery)
        self._driver: Final = driver
        self._stream: Final = stream
        self._idle: Final = idle
        self._told: Final = told
        self._missed: Final = missed
        self._nursery: Final = nursery
        self._talk: Final = ActivityTalk(together_max)
        self._questions: Final = TalkQuestions(driver, self._talk, self._follow, self.sender.origin)
        self._effects: Final = deque[TalkEffect]()
        self._is_at_work = False
        self._listening: Listening | None = None
        """Its place in what all are told, once it is logged in."""
        self._lacking: MissedByOne | None = None
        """What it lacks of that from before, if it resumes."""
        self._last_words = b""
        self._asides: Final = deque[bytes]()
        """What leaves before anything else that is told; the client sends no more while it waits."""
        self._changed = trio.Event()
        self._rest = trio.CancelScope()
        """Around what it waits for while it is at rest."""
        self._telling = trio.CancelScope()
        self._told_all = trio.Event()

    @property
    def ending(self) -> Ending | None:
        """Why it is over."""
        return self._talk.ending

    async def serve(self) -> None:
        """Answer until it is over, or the other side closes.

        Raises:
            trio.BrokenResourceError, trio.ClosedResourceError: the other side is gone.
        """
        self._nursery.start_soon(self._end_when_silent)
        try:
            while not self._is_over and await self._receive():
                await self._answer_all()
            if self._is_over:
                with trio.move_on_after(LAST_WORDS_S):
                    await self._say_last_words()
        finally:
            self._idle.halves.closed(self)
            self._questions.end()
            if self._listening is not None:
                self._told.leave(self._listening)
            if self._lacking is not None:
                self._missed.leave(self._lacking)

    def take(self, data: bytes) -> bool:
        """Answer the messages that these bytes complete; False: this connection's own task has to go on."""
        self._talk.feed(data)
        end = self._driver.work.end_of()
        while self._driver.work.done < end:
            if not self._answer_next():
                return not self._is_over and self._talk.is_reading
        return False

    def end(self, error: BusyError) -> None:
        """It cannot be kept."""
        self._follow(self._talk.refuse(str(error)))

    # -- what comes

    @property
    def _is_over(self) -> bool:
        return self._talk.phase is TalkPhase.OVER

    async def _receive(self) -> bool:
        """Wait for something; meanwhile `IdleConnections` answers what needs no task. False: the stream has ended."""
        socket = self.sender.socket
        self._rest = trio.CancelScope()
        with self._rest:
            if socket is not None and await self._idle.serve(self, socket.fileno()):
                return True
            data = await self._stream.receive_some(RECEIVE_BYTES)
            self._talk.feed(bytes(data))
            return bool(data)
        return True

    async def _answer_all(self) -> None:
        """Answer what has come, however long it takes."""
        work = self._driver.work
        while not self._is_over:
            end = work.end_of()
            while work.done < end and self._answer_next():
                pass
            if self._listening is None:
                await self.sender.flush()
            if self._talk.is_reading:
                if work.done < end:
                    return
                await work.give_way()
            else:
                await self._wait_changed()

    async def _wait_changed(self) -> None:
        if not self._talk.is_reading and not self._is_over:
            self._changed = trio.Event()
            await self._changed.wait()

    def _answer_next(self) -> bool:
        """Take the next message; False: there is none now."""
        found = self._talk.next()
        self._idle.halves.note(self, self._talk.half_bytes, is_new=found is not None)
        if found is None:
            return False
        self._driver.work.done += 1
        self._follow(found)
        return True

    async def _end_when_silent(self) -> None:
        await trio.sleep(LOGIN_S)
        if not self._talk.user or self._talk.phase is TalkPhase.NEW:
            self._follow(self._talk.refuse(f"log in within {LOGIN_S:g} s", Ending.SILENT))

    # -- what follows

    def _follow(self, effects: list[TalkEffect]) -> None:
        """Do this, when what is being done is done."""
        self._effects.extend(effects)
        if self._is_at_work:
            return
        self._is_at_work = True
        try:
            while self._effects:
                self._do(self._effects.popleft())
        finally:
            self._is_at_work = False
        if self._is_over:
            self._rest.cancel()
        self._changed.set()

    def _do(self, effect: TalkEffect) -> None:
        match effect:
            case SayLines(lines, is_last):
                self._say(lines, is_last=is_last)
            case TellMissed(items):
                self._lacking = self._missed.join(items, self._fall_out)
            case Registering() | Checking() | Entering() | Sending():
                self._questions.ask(effect)
            case CloseTalk(ending):
                self._driver.counters[f"activity_end_{ending.value}"] += 1
                if self._listening is not None:
                    self._listening.stop()
            case _:
                assert_never(effect)

    def _say(self, lines: bytes, *, is_last: bool) -> None:
        if self._listening is not None:
            if is_last:
                self._last_words += lines
            elif self.sender.size or not self.sender.send_nowait(lines):  # the answer to its login leaves first
                self._asides.append(lines)
                self._listening.wake()
                if len(self._asides) > ASIDES_MAX:
                    self._fall_out()
            return
        self.sender.add(lines, 0)
        if self._talk.phase is TalkPhase.IN:
            self._listening = self._told.join(self._push, self._fall_out)
            self._nursery.start_soon(self._tell)

    # -- what all are told

    async def _tell(self) -> None:
        """Tell what comes, and at the end the last words."""
        listening = self._listening
        assert listening is not None
        with self._telling:
            await self.sender.flush()
            await self._tell_missed()
            while not self._has_lost:
                if self._asides:
                    asides = b"".join(self._asides)
                    self._asides.clear()
                    await self.sender.send(asides)
                elif (batch := listening.take()).items:
                    if lines := lines_of(batch, resumes=self._talk.resumes):
                        await self.sender.send(lines)
                elif listening.is_stopped:
                    break
                else:
                    await wait(listening)
            await self.sender.send(self._last_words)
        self._told_all.set()

    async def _tell_missed(self) -> None:
        """Tell what it lacks; it is made into lines as it is read."""
        if self._lacking is not None:
            while lines := self._lacking.take():
                await self.sender.send(lines)
            self._missed.leave(self._lacking)

    @property
    def _has_lost(self) -> bool:
        """Whether something that it was to be told is not told."""
        is_lost = self._lacking is not None and self._lacking.is_lost
        return is_lost or (self._listening is not None and self._listening.is_lost)

    def _push(self, batch: ToldBatch) -> bool:
        lines = lines_of(batch, resumes=self._talk.resumes)
        return not lines or self.sender.send_nowait(lines)

    def _fall_out(self) -> None:
        """More waits for it than may."""
        why = "too much waits for you: read faster, and log in again"
        self._follow(self._talk.refuse(why, Ending.SLOW, Ending.SLOW.value))
        self._telling.deadline = trio.current_time() + LAST_WORDS_S

    async def _say_last_words(self) -> None:
        if self._listening is None:
            await self.sender.flush()
        else:
            await self._told_all.wait()
