"""What the store says of the founding: a hint that is followed by a question, and decides nothing.

Knows: the newest entry, and when the servers that it names are asked.  Does not know what they answer.

Invariant: anybody can write the entry, so nothing that was agreed ends by it, and nobody counts by it (docs/protocol,
QUORUM-21).
"""

from __future__ import annotations

from typing import Final

from distkv.core.tokens.agreement.elections import Elections
from distkv.core.tokens.agreement.remembered import Remembered
from distkv.core.tokens.agreement.settings import ConsensusSettings
from distkv.core.tokens.agreement.turn import AgreementTurn
from distkv.wire.token_states import Founding


class StoreEntry:
    """That of one server. All times are milliseconds."""

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
