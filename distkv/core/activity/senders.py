"""With which epochs clients that resume have sent: so that nothing of an earlier epoch comes after a later one.

Knows: of each such client its highest epoch, and with which activity each of its epochs began.  Does not know who they
are: a client is a hash.

Invariant: there are at most as many as may be; the one that sent least lately is forgotten first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from distkv.model.invariant import must
from distkv.wire.activity_bodies import KeptActivity, SenderMark

BEGINS_MAX: Final = 16
"""So many of the last epochs of a client count where it resumes."""


@attrs.define(slots=True, eq=False)
class _SenderEpochs:
    highest: int = 0
    begins: dict[int, tuple[str, int]] = attrs.field(factory=dict)
    """With which activity, by origin and number, each epoch began."""


class Senders:
    """Those of one node."""

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._all: Final = dict[bytes, _SenderEpochs]()
        """Who sent last stands last."""
        self.forgotten = 0
        """How many were forgotten, because there are too many."""

    def __len__(self) -> int:
        return len(self._all)

    def is_late(self, sender: SenderMark | None) -> bool:
        """Whether something of a later epoch of this client was given out, or sent, here: then this was never echoed.
        """
        found = None if sender is None else self._all.get(sender.hash)
        return found is not None and sender is not None and found.highest > sender.epoch

    def is_first(self, sender: SenderMark | None) -> bool:
        """Whether nothing of this epoch is known, and there were earlier ones."""
        found = None if sender is None else self._all.get(sender.hash)
        return sender is not None and sender.epoch > 1 and (found is None or found.highest < sender.epoch)

    def sent(self, sender: SenderMark | None) -> None:
        """The client sent something here."""
        if sender is not None:
            self._found(sender)

    def gave(self, activity: KeptActivity) -> None:
        """Something of it was given out here, or is known to have been elsewhere."""
        sender = activity.sender
        if sender is None:
            return
        begins = self._found(sender).begins
        if sender.epoch not in begins:
            begins[sender.epoch] = activity.origin, activity.number
            if len(begins) > BEGINS_MAX:
                del begins[min(begins)]

    def is_superseded(self, sender: SenderMark | None, have: Mapping[str, int]) -> bool:
        """Whether somebody who has this of each origin has something of a later epoch of this client."""
        found = None if sender is None else self._all.get(sender.hash)
        if found is None or sender is None or found.highest <= sender.epoch:
            return False
        return any(
            epoch > sender.epoch and have.get(origin, 0) >= number for epoch, (origin, number) in found.begins.items()
        )

    def _found(self, sender: SenderMark) -> _SenderEpochs:
        found = self._all.pop(sender.hash, None) or _SenderEpochs()
        self._all[sender.hash] = found
        found.highest = max(found.highest, sender.epoch)
        if len(self._all) > self._most:
            del self._all[next(iter(self._all))]
            self.forgotten += 1
        return found

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self._all) <= self._most, "no more clients are remembered than may be")
        for found in self._all.values():
            must(len(found.begins) <= BEGINS_MAX, "no more epochs are remembered than may be")
            must(max(found.begins, default=0) <= found.highest, "no epoch is above the highest")
