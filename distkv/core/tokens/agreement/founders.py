"""Who of the list of token servers was heard lately, and whether all of them can found.

Knows: the life that each said last, and whether it knows of a founding.  Does not know how votes are counted.

Invariant: what was said longer ago than `HEARD_LEASES` leases counts as not said.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from distkv.core.tokens.agreement.settings import ConsensusSettings
from distkv.model.event import NodeName
from distkv.model.invariant import must

HEARD_LEASES: Final = 2


@attrs.frozen(slots=True)
class FounderHeard:
    """What one server said last."""

    life: int
    known: int | None
    """The generation of the founding that it knows; 0: none. None: it did not say."""
    ms: int


class Founders:
    """All that speak as servers: which of them count depends on the list."""

    def __init__(self, settings: ConsensusSettings, life: int) -> None:
        self._settings: Final = settings
        self._life: Final = life
        self._heard: Final = dict[NodeName, FounderHeard]()
        self.version = 0
        """The highest that any of the others had accepted, or said that a leader had, since this server started."""

    def heard(self, name: NodeName, life: int, known: int | None, now_ms: int) -> None:
        """Any message of another server, and which founding it knows, if it says that."""
        before = self._heard.get(name)
        if known is None and before is not None and before.life == life:
            known = before.known
        self._heard[name] = FounderHeard(life, known, now_ms)

    @property
    def generation(self) -> int:
        """The highest of a founding that any of the others knows, as far as they said so."""
        return max((one.known or 0 for one in self._heard.values()), default=0)

    def fresh_lives(self, now_ms: int) -> dict[NodeName, int] | None:
        """The lives of all; None: some were not heard, or know of a founding."""
        lives = self.lives(now_ms, self._settings.servers)
        are_fresh = [lives[name] and self._heard[name].known == 0 for name in self._settings.others]
        return lives if all(are_fresh) else None

    def lives(self, now_ms: int, names: Iterable[NodeName]) -> dict[NodeName, int]:
        """The lives of these; 0: it was not heard."""
        since_ms = now_ms - HEARD_LEASES * self._settings.lease_ms
        lives = {name: one.life for name, one in self._heard.items() if one.ms > since_ms}
        lives[self._settings.me] = self._life
        return {name: lives.get(name, 0) for name in names}

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(self._settings.me not in self._heard, "nobody hears itself")
