"""Which copies of this node have every operation that was answered, and which had, before another node owned the topic.

Knows: for which naming a copy was compared, and what the disk has of former owners and followers.  Does not know how
copies are compared (`comparing`).

For example, *b* follows *a*, and has compared its copy: it is whole. *b* sleeps: *a* may have gone on without it, so it
is not whole until it has compared again. *c* becomes the owner while *b* is whole: then *b* had all that *a* answered,
and remembers that over a restart, too.

Invariant: a follower is whole for one naming, and as long as its node is awake.
"""

from __future__ import annotations

from typing import Final

from distkv.core.ground.data import ServiceRows
from distkv.core.ground.turn import ServiceTurn
from distkv.errors import RequestError
from distkv.model.invariant import must

SEP: Final = "\x1f"
HAD: Final = "w"
"""How the key of a row begins that says that a copy had all that its owner had."""
OWNED: Final = b"owned"
"""This node was the owner, as far as it knew."""
BEFORE: Final = b"before"
"""It was that, or whole as a follower, and then another node became the owner."""


class WholeCopies:
    """Those of one node, since its machine began."""

    def __init__(self) -> None:
        self._had: Final = dict[str, bytes]()
        """As the disk has it."""
        self._whole: Final = dict[str, int]()
        """For which naming a follower's copy is whole."""

    def begin(self, turn: ServiceTurn, data: ServiceRows) -> None:
        """With what was kept. A disk that is an old one, or has lost something, says nothing of what was there."""
        is_doubtful = data.is_old or data.is_unknown or data.lost
        for key, value in [*data.items(f"{HAD}{SEP}")]:
            if is_doubtful or value not in (OWNED, BEFORE):
                turn.keep_data(key, None)
            else:
                self._had[key.partition(SEP)[2]] = value

    def is_whole(self, name: str, naming: int | None, *, is_mine: bool) -> bool:
        """Whether a copy has every operation that was answered: by this node, if it is the owner, or by its owner."""
        if is_mine:
            return self._had.get(name) == OWNED
        return name in self._whole and self._whole[name] == naming

    def had_all(self, name: str) -> bool:
        """Whether it has, or had when another node became the owner."""
        return name in self._had or name in self._whole

    def see(self, turn: ServiceTurn, name: str, naming: int | None, *, is_mine: bool, is_others: bool) -> None:
        """What the entry says now; `is_others`: another node became the owner."""
        had_all = self.had_all(name)
        if self._whole.get(name) != naming:
            self._whole.pop(name, None)
        if is_mine:
            self._keep(turn, name, OWNED)
        elif had_all and name not in self._whole and is_others:
            self._keep(turn, name, BEFORE)

    def compared(self, turn: ServiceTurn, name: str, naming: int) -> None:
        """A follower that was named so has compared its copy."""
        self._whole[name] = naming
        self._keep(turn, name, None)

    def doubt(self, name: str) -> None:
        """A follower may lack something from now on."""
        self._whole.pop(name, None)

    def forget(self, turn: ServiceTurn, name: str) -> None:
        """A copy is none any more, or its owner has all that was in it."""
        self._whole.pop(name, None)
        self._keep(turn, name, None)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must({*self._had.values()} <= {OWNED, BEFORE}, "what is kept of a copy is one of these")

    def _keep(self, turn: ServiceTurn, name: str, value: bytes | None) -> None:
        if self._had.get(name) == value:
            return
        try:
            turn.keep_data(f"{HAD}{SEP}{name}", value)
        except RequestError as error:
            turn.note("topic_whole_not_kept", topic=name, reason=str(error))
            return
        if value is None:
            del self._had[name]
        else:
            self._had[name] = value
