"""Commits that are put off, because nobody waits for them.

Knows: how long a commit may be put off, and how much.  Does not know what is committed, nor whether somebody waits.

Invariant: what was put off is committed soon, or earlier with something for which somebody waits. Until then nobody is
told of it: to put off a commit weakens nothing.

A node that follows gets each set of a busy writer in a frame of its own. Then a commit for each costs more than taking
it in.
"""

from __future__ import annotations

from typing import Final

import trio

from distkv.engine.commit import Committer

PUT_OFF_S: Final = 0.005
"""So long what came by links is kept for a commit that it shares with what comes meanwhile; and twice as long at most,
when nothing more comes: a clock that rings costs more than a look at it."""
PUT_OFF_BYTES: Final = 64 << 10
"""So much is committed at once."""


class LateCommits:
    """Those of one log."""

    def __init__(self, committer: Committer) -> None:
        self._committer: Final = committer
        self._came = trio.Event()
        self._is_set = False
        self._seen = -1
        """How much was durable when the first of what is put off now came, and when that was."""
        self._since_s = 0.0

    def put_off(self) -> None:
        """Have what was appended committed soon, but not now.

        Raises:
            StorageFailedError: as `Committer.hurry`.
        """
        committer, now_s = self._committer, trio.current_time()
        if self._seen != committer.durable:  # what was put off before is committed
            self._seen, self._since_s = committer.durable, now_s
        if now_s - self._since_s >= PUT_OFF_S or committer.waiting_bytes > PUT_OFF_BYTES:
            committer.hurry(committer.last_writer)
        elif not self._is_set:
            self._is_set = True
            self._came.set()

    async def run(self) -> None:
        """Work until cancelled.

        Raises:
            StorageFailedError: as `Committer.hurry`.
        """
        while True:
            await self._came.wait()
            await trio.sleep(2 * PUT_OFF_S)
            self._came = trio.Event()
            self._is_set = False
            if not self._committer.is_idle:
                self._committer.hurry(self._committer.last_writer)
