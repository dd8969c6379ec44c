"""A version that a leader proposes: from which state it was made, by which change, and with whom it counts.

Knows: the two states.  Does not know who has which of them on its disk.

Invariant: of the servers only those count whose life is the same in what was in effect before and in what is proposed.
"""

from __future__ import annotations

import attrs

from distkv.core.tokens.state import TokenState, state_id, whole_change
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.model.standing import ServerStanding
from distkv.wire.token_states import StateChange, StateId


@attrs.define(slots=True)
class Proposal:
    """One of them."""

    state: TokenState
    base: TokenState | None
    """From which it was made; None: it is the first of all."""
    change: StateChange
    """From the base to it."""
    is_in_effect: bool = False
    _whole: StateChange | None = None

    @property
    def id(self) -> StateId:
        """Of the state."""
        return state_id(self.state)

    @property
    def before(self) -> TokenState:
        """What was in effect before; the proposal itself when that is, or nothing was."""
        return self.state if self.is_in_effect or self.base is None else self.base

    def has_life(self, name: NodeName, life: int) -> bool:
        """Whether a server counts in this life."""
        before, after = self.before.servers.get(name), self.state.servers.get(name)
        return before is not None and after is not None and life == before.life == after.life

    def is_falling(self, name: NodeName) -> bool:
        """Whether a server is to be declared down: until then it must hear of no newer beat of its own."""
        before, after = self.before.servers[name], self.state.servers[name]
        return before.standing is not ServerStanding.DOWN and after.standing is ServerStanding.DOWN

    def change_from(self, accepted: StateId) -> StateChange | None:
        """From this state to what is proposed; None: only the whole of it brings that."""
        return self.change if self.base is None or accepted == state_id(self.base) else None

    def whole(self) -> StateChange:
        """All of it, for who has another state."""
        if self._whole is None:
            self._whole = whole_change(self.state)
        return self._whole

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(self.change.head.id == self.id, "the change leads to what is proposed")
        must(self.base is None or state_id(self.base) < self.id, "what is proposed is later than what it was made from")
