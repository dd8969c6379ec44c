"""Where an exception in a machine of a node is caught: it may cost what the machine is there for, and nothing else.

Knows: what is told of such a fault.  Does not know which machine it is, nor what becomes of it then.

Invariant: this is the one place of the core that catches whatever is raised. Whoever steps a machine here does what the
step wants only when there was no fault: of a step that fails nothing is done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec

import attrs

from distkv.core.turn import Turn
from distkv.errors import place_of

P = ParamSpec("P")


@attrs.frozen(slots=True)
class MachineFault:
    """What a machine raised in the midst of a step: what it holds may be half of something."""

    error: str
    at: str
    """The place in the code."""

    def note(self, turn: Turn, id: str, **fields: object) -> None:
        """Have it counted and logged."""
        turn.ready.note(id, **fields, error=self.error, at=self.at)


def fault_of(step: Callable[P, object], *told: P.args, **named: P.kwargs) -> MachineFault | None:
    """Step a machine; None: all is well."""
    try:
        step(*told, **named)
    except Exception as error:
        return MachineFault(f"{type(error).__name__}: {error}", place_of(error))
    return None
