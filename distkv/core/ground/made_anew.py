"""A service whose part on a node is made anew whenever its machine begins.

Knows: the form of a service's machine.  Does not know what the service does.

Invariant: nothing that was known before the machine began is known after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Generic, Protocol, TypeVar

from distkv.core.ground.machine import ServiceGround, ServiceInput, Setting
from distkv.core.ground.turn import ServiceTurn


class ServiceNode(Protocol):
    """The service of one node, since its machine began; as in `ServiceMachine`."""

    def step(self, turn: ServiceTurn, what: ServiceInput) -> None: ...
    def wake_ms(self) -> int | None: ...
    def statistics(self) -> Mapping[str, object]: ...
    def check(self, *, is_whole: bool = True) -> None: ...


N = TypeVar("N", bound=ServiceNode)


class MadeAnew(Generic[N]):
    """See `ServiceMachine`."""

    def __init__(self, make: Callable[[ServiceTurn, ServiceGround], N], alike: Mapping[str, Setting]) -> None:
        """`make` makes the part of the node, and begins it."""
        self.node: N | None = None
        """None: it did not begin yet."""
        self._make: Final = make
        self._alike: Final = alike

    def begin(self, turn: ServiceTurn, ground: ServiceGround) -> None:
        """Begin anew."""
        self.node = self._make(turn, ground)

    def step(self, turn: ServiceTurn, what: ServiceInput) -> None:
        """Take one input."""
        if self.node is not None:
            self.node.step(turn, what)

    def wake_ms(self) -> int | None:
        """When it wants to be woken."""
        return None if self.node is None else self.node.wake_ms()

    def statistics(self) -> Mapping[str, object]:
        """What people are shown."""
        return {} if self.node is None else self.node.statistics()

    def alike(self) -> Mapping[str, Setting]:
        """What all nodes should have alike."""
        return self._alike

    def check(self, *, is_whole: bool = True) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        if self.node is not None:
            self.node.check(is_whole=is_whole)
