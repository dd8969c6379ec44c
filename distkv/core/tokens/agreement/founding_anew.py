"""Foundings beside the first one: that of a reset, and those that the store knows of.

Knows: who is heard, which numbers were seen, and what the store says.  Does not know what becomes of it.

Invariant: the generation and version of a reset are above all that this server knows of.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from distkv.core.tokens.agreement.elections import Elections
from distkv.core.tokens.agreement.remembered import Remembered
from distkv.core.tokens.agreement.settings import ConsensusSettings
from distkv.core.tokens.agreement.turn import AgreementTurn
from distkv.core.tokens.state import has_majority
from distkv.errors import NotReadyError, RequestError
from distkv.model.event import NodeName
from distkv.wire.token_states import Founding

RESET_VERSIONS: Final = 1 << 20
"""By so much a reset goes above what it saw: the lost majority may have gone on."""


def founding_anew(
    settings: ConsensusSettings, memory: Remembered, elections: Elections, servers: Collection[NodeName], now_ms: int
) -> Founding:
    """The founding by which this server begins anew, with those of the list that it hears.

    Args:
        settings: what this server was told at its start.
        memory: what it knows.
        elections: whom it hears.
        servers: the list; empty: the one in force.
        now_ms: by its clock.

    Raises:
        RequestError: this node is not in the list, or the list is neither in force nor in the settings.
        NotReadyError: it does not hear a majority of the list.
    """
    allowed = {*_in_force(settings, memory), tuple(settings.servers)}
    chosen = tuple(sorted(servers)) or _in_force(settings, memory)[0]
    names = ", ".join(chosen)
    if chosen not in allowed:
        raise RequestError(
            f"{names} is neither the list of token servers in force nor the one that {settings.me} has in its setting "
            "tokens.servers: write it there, on all nodes, start them again, then reset again"
        )
    if settings.me not in chosen:
        raise RequestError(f"{settings.me} is none of the token servers {names}: ask one of them, or name others")
    founders = elections.founders
    lives = founders.lives(now_ms, chosen)
    heard = [name for name, life in lives.items() if life]
    if not has_majority([lives], heard):
        raise NotReadyError(
            f"{len(heard)} of the {len(lives)} token servers {names} are heard, {len(lives) // 2 + 1} are needed:"
            " start them, or write another list into tokens.servers of all nodes, start these again, and reset to that"
        )
    known = max(one.version if one else 0 for one in (memory.founding, memory.entry))
    seen = max(memory.accepted_id.version, founders.version, known)
    version = max(elections.age_s(now_ms), seen + RESET_VERSIONS)
    return Founding(lives, version, max(founders.generation, memory.known_generation) + 1)


def _in_force(settings: ConsensusSettings, memory: Remembered) -> tuple[tuple[NodeName, ...], ...]:
    """The list, or two while it changes. A server that lost its disk knows it from the store."""
    if memory.accepted is not None:
        return memory.lists
    return (memory.listed or settings.servers,)


class StoreEntry:
    """What the store says of the founding: a hint that is followed by a question, and decides nothing. All times are
    milliseconds.

    Invariant: anybody can write the entry, so nothing that was agreed ends by it, and nobody counts by it
    (docs/protocol, QUORUM-21)."""

    def __init__(self, settings: ConsensusSettings, memory: Remembered, elections: Elections) -> None:
        self._settings: Final = settings
        self._memory: Final = memory
        self._elections: Final = elections
        self._ask_ms = 0

    def read(self, turn: AgreementTurn, entry: Founding) -> None:
        """The store has this one, which may be older than what is known."""
        memory, before = self._memory, self._memory.entry
        if before is not None and (entry.generation, entry.version) <= (before.generation, before.version):
            return
        memory.entry = entry
        if memory.is_fresh:
            self._elections.withdraw()
        self._ask_ms = turn.now_ms
        self.ask_if_behind(turn)

    def wake_ms(self, next_ms: int) -> int:
        """When `ask_if_behind` has something to do, or `next_ms` if that is earlier."""
        return min(next_ms, self._ask_ms) if self._memory.is_behind else next_ms

    def ask_if_behind(self, turn: AgreementTurn) -> None:
        """A server answers with the founding that it was told itself. Who has no part in it does not ask."""
        entry, settings = self._memory.entry, self._settings
        if entry is None or not self._memory.is_behind or turn.now_ms < self._ask_ms:
            return
        self._ask_ms = turn.now_ms + settings.lease_ms
        if self._memory.is_server or settings.is_server or settings.me in entry.servers:
            turn.tell_all([name for name in entry.servers if name != settings.me], self._elections.hello())
