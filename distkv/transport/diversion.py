"""What a script wants to happen to single messages on their way: lost, or held up.

Knows: which messages are meant, by kind, sender and receiver.  Does not know who carries them: the simulated network
and the one in memory both ask.

Invariant: each way from a sender to a receiver is counted by itself, so that the order of receivers changes nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import attrs

ANY: Final = "gossip"
"""The kind that means every kind."""


@attrs.define
class Diversion:
    """Some messages, and what becomes of them."""

    kind: str
    """A `GossipKind`, or `ANY`."""
    senders: frozenset[str] = frozenset()
    """Empty: all."""
    receivers: frozenset[str] = frozenset()
    """Empty: all but the sender."""
    count: int | None = None
    """So many on each way; None: all."""
    delay_ms: int | None = None
    """They arrive that much later; None: never."""
    _used: Counter[tuple[str, str]] = attrs.field(factory=Counter)

    def takes(self, kind: str, sender: str, receiver: str) -> bool:
        """Whether a message is meant; then it is counted."""
        if sender == receiver or self.kind not in (kind, ANY):
            return False
        if (self.senders and sender not in self.senders) or (self.receivers and receiver not in self.receivers):
            return False
        if self.count is not None and self._used[sender, receiver] >= self.count:
            return False
        self._used[sender, receiver] += 1
        return True

    def fresh(self) -> Diversion:
        """The same, which has met no message yet."""
        return Diversion(self.kind, self.senders, self.receivers, self.count, self.delay_ms)


def divert(diversions: list[Diversion], kind: str, sender: str, receiver: str) -> int | None:
    """By how many milliseconds a message is held up, 0 for none; None: it is lost. The first that means it counts."""
    for diversion in diversions:
        if diversion.takes(kind, sender, receiver):
            return diversion.delay_ms
    return 0
