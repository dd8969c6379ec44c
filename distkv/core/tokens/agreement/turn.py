"""What happens at a token server that has to do with the agreement, one by one, and what it wants done then.

Knows: the inputs of the agreement, and where its effects go.  Does not know what follows from one.

Invariant: the effects of one step leave together, as `ServiceTurn` promises; no part of the agreement keeps a turn.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import attrs

from distkv.core.tokens.effects import TokenEffects
from distkv.model.event import NodeName
from distkv.wire.token_states import Founding, StateMessage


@attrs.frozen(slots=True)
class StateTold:
    """Another node says something, from this life of its directory."""

    sender: NodeName
    life: int
    message: StateMessage


@attrs.frozen(slots=True)
class EntryRead:
    """The store has this founding; it may be said before the server begins, too."""

    founding: Founding


@attrs.frozen(slots=True)
class AgreementWoken:
    """The time of `wake_ms` came."""


AgreementInput: TypeAlias = StateTold | EntryRead | AgreementWoken


@attrs.frozen(slots=True)
class AgreementTurn:
    """What the machine is handed with each input."""

    now_ms: int
    """Milliseconds of this host's clock that goes on while it sleeps."""
    effects: TokenEffects

    def keep(self, key: str, value: bytes | None) -> None:
        """Keep a slot; None: not any more."""
        self.effects.turn.keep(key, value)

    def tell(self, name: NodeName, message: StateMessage) -> None:
        """Tell another server."""
        self.effects.say(name, message)

    def tell_all(self, names: Iterable[NodeName], message: StateMessage) -> None:
        """Tell each of these."""
        for name in names:
            self.effects.say(name, message)

    def found(self, founding: Founding) -> None:
        """Write a founding into the store."""
        self.effects.found(founding)

    def note(self, id: str, **fields: object) -> None:
        """Something worth counting."""
        self.effects.turn.note(id, **fields)
