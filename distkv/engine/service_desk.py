"""What goes between the services of this node and those outside: whoever asked them, and the other nodes.

Knows: who waits for which answer, and how what is told to a node becomes requests.  Does not know what is asked or
told, nor when it may leave (`executor`).

Invariant: whoever asked hears of each answer once, or, when he withdrew or the node ends, never; at most
`limits.service_requests` wait. What is told to a node that nobody knows, or cannot be sent, is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol, TypeAlias

from distkv.core.ready import (
    Answer,
    Input,
    ServiceAsked,
    ServiceContinued,
    ServiceQuestion,
    ServiceResult,
    ServiceTell,
    ServiceWithdrawn,
)
from distkv.core.replica import Replica
from distkv.engine.faults import Faults
from distkv.errors import BusyError
from distkv.transport.tells import TELL_BYTES
from distkv.wire.peering import TELL_BODIES_MAX
from distkv.wire.request import NodeTell

Answered: TypeAlias = Callable[[ServiceResult], object]


class TellCaller(Protocol):
    """How something is told to a node."""

    def tell(self, addr: str, request: NodeTell, dropped: Callable[[int], object]) -> None:
        """Send it to the node at `addr`, now or soon; `dropped` hears of how much is not sent. Never waits."""


class DeskNode(Protocol):
    """What the desk wants of its node."""

    def check_room(self, size: int) -> None:
        """Raises NoSpaceError when the disk has no room for so many bytes."""

    def step(self, what: Input) -> object:
        """Have the replica take an input."""

    def commit(self) -> None:
        """Have what was decided committed."""

    def commit_with_others(self) -> None:
        """Have it committed with what is read from others in the same go; whoever reads sees to it."""


class ServiceDesk:
    """That of one node."""

    def __init__(
        self,
        node: DeskNode,
        replica: Replica,
        caller: TellCaller,
        requests_max: int,
        counters: Counter[str],
        faults: Faults,
    ) -> None:
        self._node: Final = node
        self._replica: Final = replica
        self._caller: Final = caller
        self._requests_max: Final = requests_max
        self._counters: Final = counters
        self._faults: Final = faults
        self._waiting: Final = dict[int, tuple[str, Answered]]()
        self._last = 0
        self._is_giving = False
        self._when_given: Final = list[Callable[[], object]]()

    # -- who asks

    def ask(self, service: str, request: ServiceQuestion, answered: Answered, asker: int = 0) -> int:
        """Ask a service of this node; returns the number of the request, for `go_on` and `withdraw`. `asker` says
        who asks, where that counts (see `asker_of`).

        `answered` is called once, or, where there are several answers, with each, when it may leave: perhaps before
        this returns, perhaps never, when the node ends before. It must not raise. What is to be on the disk before that
        is committed by whoever reads requests, when he has read those that came together (`Committer.is_wanted`).

        Raises:
            BusyError: too many requests wait already.
            NoSpaceError: the disk is full.
        """
        self._node.check_room(0)
        count = len(self._waiting)
        if count >= self._requests_max:
            raise BusyError(f"{count} requests to services of {self._replica.name} wait already: try again later")
        self._last += 1
        id, self._waiting[self._last] = self._last, (service, answered)
        try:
            self._node.step(ServiceAsked(service, id, request, asker))
        except Exception:
            self._waiting.pop(id, None)  # nobody answers it
            raise
        self._node.commit_with_others()
        return id

    def go_on(self, id: int) -> None:
        """Whoever waits for the answers to this request has taken the last one, and can take more."""
        found = self._waiting.get(id)
        if found is not None:
            self._tell(ServiceContinued(found[0], id))

    def withdraw(self, id: int) -> None:
        """Nobody waits for the answer to this request any more."""
        found = self._waiting.pop(id, None)
        if found is not None:
            self._tell(ServiceWithdrawn(found[0], id))

    def answer(self, answer: Answer) -> None:
        """Give it to whoever waits for it, if anybody still does."""
        found = self._waiting.get(answer.id)
        if answer.is_last:
            self._waiting.pop(answer.id, None)
        if found is not None:
            try:
                found[1](answer.result)
            except Exception as error:  # else it would end the step in which the answer was given, and the node
                self._faults.contain(error, f"an answer of {found[0]}")

    def give_together(self, give: Callable[[], object]) -> None:
        """Give the answers that `give` gives; whoever is told more than one can send them in one go."""
        if self._is_giving:
            give()
            return
        self._is_giving = True
        try:
            give()
        finally:
            self._is_giving = False
            found = [*self._when_given]
            self._when_given.clear()
            for do in found:
                try:
                    do()
                except Exception as error:  # as in `answer`
                    self._faults.contain(error, "answers of services")

    def when_given(self, do: Callable[[], object]) -> None:
        """Call it once all answers are given that are given together with this one."""
        if self._is_giving:
            self._when_given.append(do)
        else:
            do()

    # -- other nodes

    def say(self, tells: Sequence[ServiceTell]) -> None:
        """Tell other nodes what leaves at once: each service of a node in one request, if it is not too large."""
        replica, nodes = self._replica, self._replica.registry.nodes
        by_target: dict[tuple[str, str], list[bytes]] = {}
        for tell in tells:
            registered = nodes.get(tell.name)
            if registered is None or not registered.addr or tell.name == replica.name:
                self._counters["tell_unknown"] += 1
            else:
                by_target.setdefault((registered.addr, tell.service), []).append(tell.body)
        for (addr, service), bodies in by_target.items():
            for part in _cut(bodies):
                request = NodeTell(1, service, replica.name, replica.life or 0, part, replica.network_id, is_quiet=True)
                self._caller.tell(addr, request, self._dropped)

    # -- inside

    def _tell(self, what: Input) -> None:
        self._node.step(what)
        self._node.commit()

    def _dropped(self, count: int) -> None:
        self._counters["tell_dropped"] += count


def _cut(bodies: Iterable[bytes]) -> Iterator[tuple[bytes, ...]]:
    """In their order, as many at a time as one request takes."""
    part: list[bytes] = []
    size = 0
    for body in bodies:
        if part and (len(part) == TELL_BODIES_MAX or size + len(body) > TELL_BYTES):
            yield tuple(part)
            part, size = [], 0
        part.append(body)
        size += len(body)
    if part:
        yield tuple(part)
