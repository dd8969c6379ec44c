"""Who listens to a node's steps, and what each has still to be told.

Knows: what a listener may keep.  Does not know who it is, nor what a step shows (`graph.recorder`).

Invariant: while nobody listens a step costs one look; a listener that is slow never makes the node wait or keep more
than `limits.trace_moments`: it is told how many moments it has missed, behind those before them.
"""

from __future__ import annotations

import time
from collections import Counter, deque

import trio

from distkv.config import Limits
from distkv.core.ready import Input, Ready
from distkv.core.replica import Replica
from distkv.errors import BusyError
from distkv.graph.recorder import Recorder
from distkv.graph.trace import Moment


class Listener:
    """One that is told of every step from some moment on."""

    def __init__(self, moments_max: int) -> None:
        self.is_stopped = False
        self._moments_max = moments_max
        self._waiting: deque[tuple[int, Moment]] = deque()
        self._lost = 0
        self._changed = trio.Event()

    def put(self, position: int, moment: Moment) -> bool:
        """A moment that may be told when so many records are durable; False: there was no room for it, or it is not
        wanted any more."""
        if self.is_stopped:
            return False
        has_room = len(self._waiting) < self._moments_max and not self._lost
        if has_room:
            self._waiting.append((position, moment))
        else:
            self._lost += 1
        self._changed.set()
        return has_room

    def stop(self) -> None:
        """Let it come to its end, after what is still to be told."""
        self.is_stopped = True
        self._changed.set()

    @property
    def has_news(self) -> bool:
        """Whether anything is to be told."""
        return bool(self._waiting or self._lost)

    async def wait(self) -> None:
        """Until there is something to tell, or it is stopped."""
        while not (self.has_news or self.is_stopped):
            self._changed = trio.Event()
            await self._changed.wait()

    def take(self, moments_max: int) -> tuple[list[tuple[int, Moment]], int]:
        """The next moments, each with its position, and how many were missed behind them."""
        taken = [self._waiting.popleft() for _ in range(min(moments_max, len(self._waiting)))]
        lost = 0
        if not self._waiting:
            lost, self._lost = self._lost, 0
        return taken, lost


class Tracing:
    """All listeners of a node."""

    def __init__(self, replica: Replica, limits: Limits, counters: Counter[str]) -> None:
        self.listeners: list[Listener] = []
        self._replica = replica
        self._limits = limits
        self._counters = counters
        self._recorder = Recorder()

    def listen(self, position: int) -> Listener:
        """From here on; the first moment shows the node as it is, which may be told at this position.

        Raises:
            BusyError: there are too many already.
        """
        if len(self.listeners) >= self._limits.traces:
            raise BusyError(f"{self._replica.name} is traced {len(self.listeners)} times already: try again later")
        if not self.listeners:
            self._recorder = Recorder()  # it has not seen what happened since the last one left
        listener = Listener(self._limits.trace_moments)
        listener.put(position, self._recorder.seen(_now_ms(), self._replica))
        self.listeners.append(listener)
        return listener

    def forget(self, listener: Listener) -> None:
        """It has come to its end."""
        self.listeners.remove(listener)

    def step(self, what: Input, ready: Ready, position: int) -> None:
        """A step was taken, whose records end at this position, and is not carried out yet."""
        moment = self._recorder.step(_now_ms(), what, ready, self._replica)
        if moment is not None:
            for listener in self.listeners:
                if not listener.put(position, moment):
                    self._counters["trace_lost"] += 1


def _now_ms() -> int:
    """By the wall clock: moments of several nodes are put in one order."""
    return round(time.time() * 1000)
