"""The end of a process that has to end and does not.

Knows: since when it has to end.  Does not know why, nor what it still waits for.

When memory runs out a thread may be lost with what it was to say, and whoever waits for it waits for ever: the node
would neither serve nor end, and no service manager would start it again.
"""

from __future__ import annotations

import math
import os
import signal
import threading
from types import TracebackType
from typing import Final, Self

import trio

END_S: Final = 30.0
"""So long it may take: what is on its way to the disk is written first."""
CODE: Final = 1


class ForcedEnd:
    """A context around what runs; with `watch` as one of its tasks, it ends the process `after_s` seconds after that
    was cancelled, unless the context was left before."""

    def __init__(self, after_s: float = END_S) -> None:
        self._after_s: Final = after_s
        self._is_ending: Final = threading.Event()
        self._has_ended: Final = threading.Event()
        self._has_thread = True

    def __enter__(self) -> Self:
        try:
            threading.Thread(target=self._wait, daemon=True).start()  # now: later there may be no memory for it
        except RuntimeError:  # no thread can be begun: a signal ends the process, without a word
            self._has_thread = False
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._has_ended.set()
        self._is_ending.set()
        if not self._has_thread:
            signal.alarm(0)

    async def watch(self) -> None:
        """See when the tasks beside it are cancelled."""
        try:
            await trio.sleep_forever()
        finally:
            self._is_ending.set()
            if not self._has_thread:
                signal.alarm(math.ceil(self._after_s))

    def _wait(self) -> None:
        self._is_ending.wait()
        if not self._has_ended.wait(self._after_s):
            os.write(2, b"distkv: the node has to end and waits for something that is lost: it is ended now\n")
            os._exit(CODE)
