"""Whose turn it is: one call at a time, in the order in which they came.

Knows: calls, as the frames in which they run, and their threads.  Does not know what they do.

Invariant: a turn ends with its call, also when a signal handler raises an exception between whichever two steps of it.
A lock would stay locked then, one in some hundreds. So whoever waits looks whether the call before it runs at all.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from contextlib import suppress
from types import FrameType
from typing import Final

from distkv.errors import RequestError

LOOK_S: Final = 0.2
"""So often who waits looks whether the call before it still runs."""


class CallTurn:
    """Of one call."""

    __slots__ = ("alarm", "call", "thread")

    def __init__(self) -> None:
        """The caller takes the turn, and has to give it back."""
        self.call: FrameType | None = sys._getframe(1)  # noqa: SLF001  (public, and what `inspect` imports is not needed)
        self.thread: Final = threading.get_ident()
        self.alarm: threading.Lock | None = None

    def is_over(self) -> bool:
        """Whether its call has ended."""
        call = self.call
        if call is not None:
            try:
                call.clear()
            except RuntimeError:  # it runs
                return False
        return True


class CallTurns:
    """Of several threads."""

    __slots__ = ("_queue",)

    def __init__(self) -> None:
        self._queue: Final = deque[CallTurn]()

    def take(self, turn: CallTurn, timeout_s: float) -> bool:
        """Wait for a turn; False: the time is over. To be given back in either case.

        Raises:
            RequestError: this thread has a turn, so it would wait for itself.
        """
        queue = self._queue
        queue.append(turn)
        return queue[0] is turn or self._wait(turn, timeout_s)

    def give_back(self, turn: CallTurn) -> None:
        """May be called again."""
        queue = self._queue
        try:
            queue.remove(turn)
        except ValueError:  # it was given back
            return
        turn.call = None
        if queue:
            self._wake_first()

    # -- inside

    def _wake_first(self) -> None:
        with suppress(IndexError, RuntimeError):  # nobody waits any more; he is awake
            if (alarm := self._queue[0].alarm) is not None:
                alarm.release()

    def _wait(self, turn: CallTurn, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while True:
            turn.alarm = threading.Lock()
            turn.alarm.acquire()
            for other in self._queue.copy():
                if other is not turn and other.is_over():
                    self.give_back(other)
            if self._queue[0] is turn:
                return True
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            if any(other is not turn and other.thread == turn.thread for other in self._queue.copy()):
                raise RequestError(
                    "this thread asks already, and was interrupted: give a signal handler a client of its own"
                )
            turn.alarm.acquire(timeout=min(LOOK_S, left_s))
