"""Requests that wait on this node while others answer them: each at the nodes that its service names, wherever that is.

Knows: which requests are under way, and at which nodes each waits.  Does not know what is asked, nor how a question
travels: whoever owns this says both.

A request that finds its node waits at one; a list or a watch waits at several. `send` withdraws it from those that are
named no more, and asks the others: so it is to be called whenever others may be named than before.

Invariant: a request waits only at nodes that were named when it was sent last, once at each; what another one says of
it counts no more. No more than `waiting_max` are under way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import takewhile
from typing import Final, Generic, Protocol, TypeVar

import attrs

from distkv.errors import BusyError
from distkv.model.event import NodeName
from distkv.model.invariant import must

AGAIN_MS: Final = 100
"""After so long a request is sent again to a node that could not answer it yet."""


@attrs.define(slots=True, eq=False)
class Attempt:
    """A question to one node: the purpose for which it is asked. It counts while it is in `RoutedRequest.at`."""

    id: int
    """Of the request."""
    node: NodeName
    number: int = 0
    """Of the question, for those who know it by that."""


@attrs.define(slots=True, eq=False)
class RoutedRequest:
    """A request that is under way; services add to it."""

    id: int
    asked_ms: int
    at: dict[NodeName, Attempt] = attrs.field(factory=dict, kw_only=True)
    """Where it waits."""
    is_once: bool = attrs.field(default=False, kw_only=True)
    """Whether it must not be repeated: then it stays where it was asked, as long as that does not say that it did
    nothing."""
    is_endless: bool = attrs.field(default=False, kw_only=True)
    """Whether it waits without an end, as a watch does."""
    wait_ms: int = attrs.field(default=0, kw_only=True)
    """So long the node that is asked may wait before it answers; patience begins then."""


W = TypeVar("W", bound=RoutedRequest)
W_contra = TypeVar("W_contra", bound=RoutedRequest, contravariant=True)


class Asker(Protocol[W_contra]):
    """Whose requests they are."""

    def nodes_for(self, waits: W_contra) -> Collection[NodeName]:
        """Whom to ask now; none: nobody can be asked."""

    def ask_node(self, waits: W_contra, attempt: Attempt, now_ms: int) -> None:
        """Ask this node."""

    def withdraw(self, attempt: Attempt) -> None:
        """The answer is not wanted any more."""


class Routes(Generic[W]):
    """Those of one service on one node. All times are milliseconds."""

    def __init__(self, asker: Asker[W], waiting_max: int, patience_ms: int) -> None:
        self._asker: Final = asker
        self._waiting_max: Final = waiting_max
        self._patience_ms: Final = patience_ms
        self.waiting: Final = dict[int, W]()
        """What is under way, by id, in the order in which it was asked. Not to be changed."""
        self._ending: Final = dict[int, W]()
        """Those of them that may be late, and are to be answered at once: by when they were asked."""
        self._longer: Final = dict[int, W]()
        """Those that may be late, and for which the node that is asked may wait."""
        self._longer_ms: int | None = None
        """None of these is late before this."""
        self._again: Final = dict[int, int]()
        """When which of them is sent again; rising."""

    # -- what clients do

    def add(self, waits: W) -> None:
        """A client asks; `send` it.

        Raises:
            BusyError: too many are under way.
        """
        if len(self.waiting) >= self._waiting_max:
            raise BusyError(f"{self._waiting_max} requests are under way on this node: ask again later")
        self.waiting[waits.id] = waits
        if waits.wait_ms:
            self._longer[waits.id] = waits
            late_ms = waits.asked_ms + waits.wait_ms + self._patience_ms
            self._longer_ms = late_ms if self._longer_ms is None else min(late_ms, self._longer_ms)
        elif not waits.is_endless:
            self._ending[waits.id] = waits

    def ask(self, waits: W, now_ms: int) -> None:
        """The same, and it is sent.

        Raises:
            BusyError: too many are under way.
        """
        self.add(waits)
        self.send(waits, now_ms)

    def end(self, waits: W) -> None:
        """It is answered, or nobody waits for it any more."""
        del self.waiting[waits.id]
        self._ending.pop(waits.id, None)
        self._longer.pop(waits.id, None)
        if not self._longer:
            self._longer_ms = None
        self._again.pop(waits.id, None)
        if waits.at:
            self.stop(waits, tuple(waits.at))

    # -- who is asked

    def send(self, waits: W, now_ms: int) -> None:
        """See to it that a request waits where it should, and nowhere else."""
        nodes, at = self._asker.nodes_for(waits), waits.at
        if at:
            if waits.is_once:
                return
            self.stop(waits, [node for node in at if node not in nodes])
        for node in nodes:
            if node not in at:
                at[node] = attempt = Attempt(waits.id, node)
                self._asker.ask_node(waits, attempt, now_ms)

    def send_again(self, waits: W, now_ms: int) -> None:
        """The node that was asked could not answer it yet, or named others: ask anew in a moment."""
        self._again.pop(waits.id, None)
        self._again[waits.id] = now_ms + AGAIN_MS

    def stop(self, waits: W, nodes: Iterable[NodeName]) -> None:
        """It does not wait at these any more."""
        for node in nodes:
            self._asker.withdraw(waits.at.pop(node))

    # -- what happens

    def answered(self, attempt: Attempt) -> W | None:
        """A node has answered: the request that waited for that; None: it does not any more."""
        waits = self.waiting.get(attempt.id)
        if waits is None or waits.at.get(attempt.node) is not attempt:
            return None
        del waits.at[attempt.node]
        return waits

    def wake_ms(self, sure_ms: int) -> int | None:
        """When `take_again` or `late` may have something; `sure_ms`: as there."""
        first = next(iter(self._ending.values()), None)
        late_ms = None if first is None else max(first.asked_ms, sure_ms) + self._patience_ms
        due = late_ms, self._longer_ms, next(iter(self._again.values()), None)
        return min((ms for ms in due if ms is not None), default=None)

    def take_again(self, now_ms: int) -> list[W]:
        """Those that are to be sent again now."""
        if not self._again:
            return []
        due = [id for id, ms in self._again.items() if ms <= now_ms]
        for id in due:
            del self._again[id]
        return [self.waiting[id] for id in due]

    def late(self, now_ms: int, sure_ms: int) -> list[W]:
        """Those for which patience is over. It counts from `sure_ms` on, if that is later: then somebody was heard who
        can answer."""
        until_ms = now_ms - self._patience_ms
        if sure_ms > until_ms:
            return []
        late = list(takewhile(lambda waits: waits.asked_ms <= until_ms, self._ending.values()))
        if self._longer_ms is not None and self._longer_ms <= now_ms:
            ends = {id: one.asked_ms + one.wait_ms for id, one in self._longer.items()}
            late += [self._longer[id] for id, end_ms in ends.items() if end_ms <= until_ms]
            self._longer_ms = min((ms + self._patience_ms for ms in ends.values() if ms > until_ms), default=None)
        return late

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        for id, waits in self.waiting.items():
            must(id == waits.id, "each request is known by its id")
            must(all((one.id, one.node) == (id, node) for node, one in waits.at.items()), "each waits for its own")
        ending = self._ending.keys() | self._longer.keys()
        must(ending <= self.waiting.keys(), "what may be late is under way")
        asked_ms = [waits.asked_ms for waits in self._ending.values()]
        must(asked_ms == sorted(asked_ms), "what was asked first is late first")
        must(self._again.keys() <= self.waiting.keys(), "what is sent again is under way")
        must([*self._again.values()] == sorted(self._again.values()), "what is sent again has an order")
