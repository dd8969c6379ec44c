"""How many follows all connections have together: each that reads nothing costs memory.

Knows: in whose name each was begun.  Does not know what is told on one.

Invariant: in the name of a registered node there are at most `OF_A_NODE`, the newest ones; of all others together at
most `OF_OTHERS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from distkv.errors import BusyError
from distkv.model.event import NodeName

OF_A_NODE: Final = 4
"""A node follows another one once; one that was cut off may have left a few behind that did not end yet."""
OF_OTHERS: Final = 256
"""Of clients, and of nodes that are not registered (yet)."""


class BegunFollow(Protocol):
    """One that is open."""

    def stop(self) -> None:
        """Let it come to its end."""


class FollowLimits:
    """Those of one node."""

    def __init__(self, is_registered: Callable[[NodeName], bool]) -> None:
        self._is_registered: Final = is_registered
        self._of_nodes: Final = dict[NodeName, dict[BegunFollow, None]]()
        self._of_others: Final = dict[BegunFollow, None]()

    @property
    def count(self) -> int:
        """Of all that are open."""
        return len(self._of_others) + sum(map(len, self._of_nodes.values()))

    def check(self, name: NodeName | None) -> None:
        """Whether another one may begin.

        Raises:
            BusyError: clients have too many.
        """
        if not self._is_node(name) and len(self._of_others) >= OF_OTHERS:
            raise BusyError(f"{OF_OTHERS} clients follow this node already: stop one, or follow another node")

    def begin(self, name: NodeName | None, follow: BegunFollow) -> None:
        """One more. A node that has too many wants the newest: the oldest is stopped."""
        if name is None or not self._is_registered(name):
            self._of_others[follow] = None
            return
        some = self._of_nodes.setdefault(name, {})
        some[follow] = None
        for oldest in list(some)[:-OF_A_NODE]:
            del some[oldest]
            oldest.stop()

    def end(self, name: NodeName | None, follow: BegunFollow) -> None:
        """It is over."""
        self._of_others.pop(follow, None)
        if name is not None and name in self._of_nodes:
            self._of_nodes[name].pop(follow, None)
            if not self._of_nodes[name]:
                del self._of_nodes[name]

    # -- inside

    def _is_node(self, name: NodeName | None) -> bool:
        return name is not None and self._is_registered(name)
