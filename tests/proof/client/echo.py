"""A client's half of the echo: which names there are, as a watch tells them. It has no socket: who has one drives it.

Knows: what a watch says.  Does not know who asks.
"""

from __future__ import annotations

from distkv.errors import DistkvError
from tests.proof.wire.echo import EchoChanged


class EchoNames:
    """Begins anew with each watch."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.is_complete = False
        """Whether it has been told all that there is."""
        self.error: DistkvError | None = None
        """Why it is told no more."""

    def take(self, told: object) -> None:
        """Something that the watch says."""
        if isinstance(told, DistkvError):
            self.error = told
        elif isinstance(told, EchoChanged):
            for item in told.items:
                if item.text is None:
                    self.names.pop(item.name, None)
                else:
                    self.names[item.name] = item.text
            self.is_complete |= told.is_complete

    def text(self) -> str:
        return ", ".join(f"{name} is {text}" for name, text in sorted(self.names.items())) or "no name"
