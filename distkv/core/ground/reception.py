"""Who may ask and tell the services of this node something now, and what those hear whom they do not serve.

Knows: whether services work, and which are off.  Does not know what they are asked, nor what they do.

Invariant: what has failed is off until the next start, and who asks for it hears that.
"""

from __future__ import annotations

from typing import Final

from distkv.core.ground.footing import Footing
from distkv.core.ready import NodeTold
from distkv.core.turn import Turn
from distkv.errors import InternalError, NotReadyError, RequestError


class Reception:
    """For all services of one node."""

    def __init__(self, footing: Footing) -> None:
        self._footing: Final = footing
        self.is_working = False
        """Whether services work: they do while the node serves clients."""
        self.failed: Final = set[str]()
        """The services that are off until the next start."""

    def refusal(self, name: str, mounted: object) -> RequestError:
        """Why a service cannot be asked now; `mounted` is None when there is none that works."""
        if name in self.failed:
            return self.off(name)
        if mounted is None:
            return RequestError(f"{self._footing.me} has no service {name}: ask for one that this release has")
        return self.not_ready()

    def not_ready(self) -> NotReadyError:
        """What is said while services do not work."""
        footing = self._footing
        return NotReadyError(f"{footing.me} is {footing.state}, and its services begin anew; ask again in a moment")

    def off(self, name: str) -> InternalError:
        """What is said of a service that has failed."""
        return InternalError(
            f"the service {name} of {self._footing.me} has failed, and is off: the log of the server says why;"
            " start the server again"
        )

    def admit(self, what: NodeTold, turn: Turn, *, is_mounted: bool) -> bool:
        """Whether what a node says counts; it is dropped otherwise, and counted."""
        footing = self._footing
        dropped = ""
        if not is_mounted:
            dropped = "service_unknown"
        elif what.name == footing.me or not footing.is_registered(what.name):
            dropped = "service_stranger"
        elif not self.is_working:
            dropped = "service_not_ready"
        if dropped:
            turn.ready.note(dropped, node=what.name, service=what.service)
        return not dropped
