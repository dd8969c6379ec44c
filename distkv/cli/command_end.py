"""When a command that runs under a token has to end: by its own end, by the loss of the token, or by that of `run`.

Knows: moments.  Does not know processes: it says which signal is due.

Invariant: once a command was told to end, nothing lets it go on: it is killed at the moment that held then, or earlier.
"""

from __future__ import annotations

import signal

import attrs


@attrs.define
class CommandEnd:
    """All times are milliseconds of the clock by which sessions live."""

    grace_ms: int
    until_ms: int
    """When another one may have the token, as things stand."""
    kill_ms: int | None = None
    """It was told to end, and this is when it is killed; None: it was not."""
    is_lost: bool = False
    """Whether it had to end because the token cannot be kept."""

    def kept(self, until_ms: int) -> None:
        """The token may be counted on until then."""
        if self.kill_ms is None:
            self.until_ms = until_ms

    def taken(self, kill_ms: int) -> None:
        """The token is lost: others wait until the command has ended, but no longer than this."""
        self.until_ms = min(self.until_ms, kill_ms)

    def ended(self, now_ms: int) -> None:
        """The command itself has ended: what it left behind is told to end, too."""
        if self.kill_ms is None:
            self.kill_ms = min(self.until_ms, now_ms + self.grace_ms)

    def due(self, now_ms: int) -> signal.Signals | None:
        """What all processes are to be sent now. SIGTERM comes once, SIGKILL until nothing is left."""
        if self.kill_ms is not None:
            return signal.SIGKILL if now_ms >= min(self.kill_ms, self.until_ms) else None
        if now_ms < self.until_ms - self.grace_ms:
            return None
        self.kill_ms, self.is_lost = self.until_ms, True
        return signal.SIGKILL if now_ms >= self.until_ms else signal.SIGTERM

    def wake_ms(self) -> int:
        """When something is due, if nothing happens before."""
        return self.until_ms - self.grace_ms if self.kill_ms is None else min(self.kill_ms, self.until_ms)
