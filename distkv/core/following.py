"""Whom this node follows for which writer: a connection for each, on which changes come as soon as they are durable.

Knows: the ring of each writer, what became of the connections, and when to try again.  Does not know the ledger, nor
what comes: it says whom to follow for whom.  Does not talk.

Up to `fanout` others, everybody follows each writer itself. In a larger network the names, in their order, are a ring
that begins behind the writer, which is place 0. The node at place d > `fanout` follows it through the node at place
1 + (d - 1) % s, where s is the largest power of `fanout` that is not above d - 1. So each writer has a shallow tree of
its own, nothing is agreed upon, and a node has few connections: to the `fanout` nodes just before it, and to every s-th
one before it, each of which brings the s writers before itself.

Invariant: a node follows a writer only through nodes that stand before it in that writer's ring, whatever each believes
of the others: so there is no circle (docs/protocol, LINK-1 to LINK-5).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final

import attrs

from distkv.core.ready import Rng
from distkv.model.event import TICK_MAX, NodeName
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges, joined

CHECK_MS: Final = 1000
"""How often it is seen who is alive."""
RETRY_MS: Final = 250
"""After so long a connection that broke is tried again; then after twice as long, and so on."""
RETRY_MAX_MS: Final = 8000
CALM_MS: Final = 5000
"""For so long, and up to twice as long, it is seen to it that who is alive does not change any more, before what other
parents bring well is moved to the best ones."""


@attrs.define(slots=True)
class Parent:
    """A node that is followed, or was."""

    writers: frozenset[NodeName] = frozenset()
    """For whom it is followed now; none: not at all."""
    follow: int = 0
    """The number of the follow."""
    is_up: bool = False
    """Whether it answers."""
    failures: int = 0
    """How often in a row it did not."""
    retry_ms: int | None = None
    """When it may be tried again."""
    reason: str = ""
    """Why it did not answer the last time."""
    is_whole: bool = False
    """Whether it has told all that it held when it began to answer."""
    is_idle: bool = False
    """Whether it has nothing more to tell."""
    told: dict[NodeName, int] = attrs.field(factory=dict)
    """Up to where it told of each writer."""

    @property
    def is_coming(self) -> bool:
        """Whether it is about to tell what it holds already."""
        return not self.is_whole and (self.is_up or not self.failures)


class Following:
    """The machine. All times are monotonic milliseconds."""

    def __init__(self, me: NodeName, fanout: int, rng: Rng, *, is_on: bool) -> None:
        self.parents: Final = dict[NodeName, Parent]()
        """All that were followed since the start, and are registered."""
        self.is_on: Final = is_on
        self._me: Final = me
        self._fanout: Final = fanout
        self._rng: Final = rng
        self._count = 0
        self._check_ms = 0
        self._alive: Sequence[NodeName] = ()
        """As it was when it was last taken over from `plan`."""
        self._alive_ms: int | None = None
        """When that was."""
        self._calm_ms: int | None = None
        """When all may be moved to the best parents; None: at once."""
        self._is_settled = False
        """Whether the best bring everything, so that `plan` would say nothing new."""
        self._registered_ms: int | None = None
        """When it was last seen at once who is registered."""
        self._by_follow: Final = dict[int, NodeName]()
        self.followers = frozenset[NodeName]()
        """Who follows this node for what it makes itself."""
        self.reaches_all = False
        """Whether these are all other nodes that seem alive: then nobody needs its updates by gossip."""

    # -- when

    def is_due(self, now_ms: int) -> bool:
        """Whether `plan` is to be asked now."""
        return self._is_needed and now_ms >= self._check_ms

    def wake_ms(self) -> int | None:
        """When it is."""
        return self._check_ms if self._is_needed else None

    def look_again(self) -> None:
        """Something changed."""
        self._check_ms = 0

    def registry_changed(self, now_ms: int) -> None:
        """Others are registered than before: while a fleet grows this is not seen more often than who is alive."""
        if self._registered_ms is None or now_ms - self._registered_ms >= CHECK_MS:
            self._registered_ms = now_ms
            self.look_again()

    # -- what came of it

    def parent_of(self, follow: int) -> NodeName | None:
        """Who is followed by this number; None: nobody any more."""
        return self._by_follow.get(follow)

    def began(self, follow: int) -> None:
        """The peer answers."""
        name = self._by_follow.get(follow)
        if name is not None:
            parent = self.parents[name]
            parent.is_up, parent.reason = True, ""
            self._is_settled = False
            self.look_again()  # what came by another one meanwhile need not any more

    def told(self, follow: int, lasts: Mapping[NodeName, int]) -> None:
        """An item came, up to these ticks; without ticks it is a sign of life: nothing else is left to be told."""
        name = self._by_follow.get(follow)
        if name is not None:
            parent = self.parents[name]
            parent.failures = 0
            parent.is_idle = not lasts
            parent.is_whole |= parent.is_idle
            for writer in parent.writers & lasts.keys():  # of others it may tell without end
                parent.told[writer] = max(lasts[writer], parent.told.get(writer, 0))

    def heard(self, name: NodeName) -> None:
        """An exchange with a node took place: if it was left, it is there again, and so may be others that were."""
        parent = self.parents.get(name)
        if parent is not None and parent.failures and not parent.is_up:
            for left in self.parents.values():
                if left.failures and not left.writers:
                    left.failures, left.retry_ms = 0, None
            self._is_settled = False
            self.look_again()

    def lent(self, name: NodeName) -> None:
        """A node that could not be dialled can be asked: it is tried again at once."""
        parent = self.parents.get(name)
        if parent is not None and not parent.is_up:
            parent.failures, parent.retry_ms = 0, None
        self._is_settled = False
        self.look_again()

    def expected(self, missing: TickRanges) -> TickRanges:
        """What of this a link is about to bring. Links bring ticks in their order, and say when that was all."""
        if not missing:
            return missing
        coming = self.coming()
        found = {name: ranges for name, ranges in missing.items() if name in coming}
        for parent in self.parents.values():
            if parent.is_up and parent.is_whole and not parent.is_idle:
                for writer in parent.writers & missing.keys():
                    ahead = missing[writer] & Ranges([(parent.told.get(writer, 0) + 1, TICK_MAX)])
                    found = joined(found, {writer: ahead})
        return found

    def coming(self) -> frozenset[NodeName]:
        """The writers of whom a link is about to bring what was missed."""
        return frozenset(writer for parent in self.parents.values() if parent.is_coming for writer in parent.writers)

    def ended(self, follow: int, reason: str, now_ms: int) -> None:
        """It broke, was refused, or fell silent."""
        name = self._by_follow.pop(follow, None)
        if name is None:
            return
        parent = self.parents[name]
        wait_ms = min(RETRY_MS << min(parent.failures, 16), RETRY_MAX_MS)
        parent.writers, parent.is_up, parent.reason = frozenset(), False, reason
        parent.failures += 1
        parent.retry_ms = now_ms + wait_ms // 2 + int(self._rng.random() * wait_ms)
        self._is_settled = False
        self.look_again()

    def seen(self, followers: frozenset[NodeName]) -> None:
        """Who follows this node."""
        self.reaches_all &= self.followers <= followers
        self.followers = followers
        self.look_again()

    # -- whom

    def plan(
        self, now_ms: int, alive: Sequence[NodeName], pulled: Container[NodeName] = ()
    ) -> dict[NodeName, int]:
        """Whom to follow from now on for others than before, and the number of each follow; `alive` are the other
        registered nodes that seem alive, by name. What `pulled` made is on its way by a pull, so that a new link would
        bring it again."""
        self._check_ms = now_ms + CHECK_MS
        if alive != self._alive:
            self._take(alive, now_ms)
        if self._is_settled:
            return {}
        wanted = self._wanted(now_ms, pulled)
        changed = dict[NodeName, int]()
        for name in sorted({*wanted, *(name for name, parent in self.parents.items() if parent.writers)}):
            parent = self.parents.setdefault(name, Parent())
            writers = frozenset(wanted.get(name, ()))
            if writers != parent.writers:
                self._by_follow.pop(parent.follow, None)
                self._count += 1
                parent.writers, parent.follow, parent.is_up = writers, self._count, False
                parent.is_whole = parent.is_idle = False
                if writers:
                    self._by_follow[self._count] = name
                changed[name] = self._count
        self._is_settled &= not changed
        self._wake_for_retries(now_ms)
        return changed

    def unlinked(self, alive: Sequence[NodeName]) -> list[NodeName]:
        """Of the others that seem alive, those whose changes come by no link."""
        linked = {writer for parent in self.parents.values() if parent.is_up for writer in parent.writers}
        return [name for name in alive if name not in linked]

    def look_at(self, alive: Sequence[NodeName]) -> None:
        """Who seems alive, also those that cannot be followed."""
        self.reaches_all = bool(alive) and self.followers.issuperset(alive)

    # -- inside

    @property
    def _is_needed(self) -> bool:
        return self.is_on or bool(self.followers)

    def _take(self, alive: Sequence[NodeName], now_ms: int) -> None:
        """Who is alive now. In a large network each change moves the places of many, so it is seen once in a while."""
        is_large = len(alive) > self._fanout
        if is_large and self._alive_ms is not None and now_ms - self._alive_ms < CHECK_MS:
            self._check_ms = self._alive_ms + CHECK_MS
            return
        self._alive, self._alive_ms, self._is_settled, self._calm_ms = alive, now_ms, False, None
        if is_large:
            self._calm_ms = now_ms + CALM_MS + int(self._rng.random() * CALM_MS)

    def _wanted(self, now_ms: int, pulled: Container[NodeName]) -> dict[NodeName, set[NodeName]]:
        """Whom to follow for which writers, from what is known now."""
        wanted = dict[NodeName, set[NodeName]]()
        ring = sorted([*self._alive, self._me])
        here, count, parents = bisect_left(ring, self._me), len(ring), self.parents
        brings = {writer: name for name, parent in parents.items() if parent.is_up for writer in parent.writers}
        is_calm = self._calm_ms is None or now_ms >= self._calm_ms
        self._is_settled = True
        for begin, writer in enumerate(ring if self.is_on else ()):
            place = (here - begin) % count
            if not place:
                continue
            best = ring[(begin + self._above(place)) % count]
            parent = parents.get(best)
            if parent is not None and parent.is_up and writer in parent.writers:
                wanted.setdefault(best, set()).add(writer)
                continue
            self._is_settled = False
            kept = None if is_calm else brings.get(writer)
            if kept is not None and self._is_as_good(kept, begin, place, ring):
                wanted.setdefault(kept, set()).add(writer)
                continue
            for name in self._chosen(writer, begin, place, ring, now_ms):
                if writer not in pulled or self._brings(name, writer):
                    wanted.setdefault(name, set()).add(writer)
        return wanted

    def _is_as_good(self, name: NodeName, begin: int, place: int, ring: Sequence[NodeName]) -> bool:
        """Whether a node may remain the parent for a while: it stands before us, and in fewer steps from the writer."""
        at = bisect_left(ring, name)
        if at == len(ring) or ring[at] != name:
            return False
        there = (at - begin) % len(ring)
        return there < place and self._steps(there) < self._steps(place)

    def _above(self, place: int) -> int:
        """The place of the parent."""
        if place <= self._fanout:
            return 0
        size = base = max(self._fanout, 2)  # the powers of 1 lead nowhere
        if place <= base:
            return 1
        while place > size * base:
            size *= base
        return 1 + (place - 1) % size

    def _steps(self, place: int) -> int:
        """How far from the writer a place is."""
        steps = 0
        while place:
            place, steps = self._above(place), steps + 1
        return steps

    def _chosen(
        self, writer: NodeName, begin: int, place: int, ring: Sequence[NodeName], now_ms: int
    ) -> Iterator[NodeName]:
        """Through whom a writer is followed: the best that may be tried; and, until that one answers, whoever brings
        it already. To follow yet another node meanwhile would bring most twice."""
        first: NodeName | None = None
        for name in self._candidates(begin, place, ring):
            parent = self.parents.get(name)
            is_up = parent is not None and parent.is_up
            if first is None and (is_up or self._may_try(parent, now_ms)):
                first = name
                yield name
            elif first is not None and is_up and self._brings(name, writer):
                yield name
                return
            if name == first and is_up:
                return

    def _candidates(self, begin: int, mine: int, ring: Sequence[NodeName]) -> Iterator[NodeName]:
        """Through whom a writer may be followed, the best first: the parent in its tree, the parent's parent, and so
        on to the writer; then whoever else stands before us."""
        place, above = mine, list[int]()
        while place:
            place = self._above(place)
            above.append(place)
        yield from (ring[(begin + at) % len(ring)] for at in above)
        yield from (ring[(begin + at) % len(ring)] for at in range(1, mine) if at not in above)

    def _brings(self, name: NodeName, writer: NodeName) -> bool:
        return name in self.parents and writer in self.parents[name].writers

    def _may_try(self, parent: Parent | None, now_ms: int) -> bool:
        return parent is None or parent.retry_ms is None or now_ms >= parent.retry_ms

    def _wake_for_retries(self, now_ms: int) -> None:
        """Who broke is tried again before the next look."""
        later = [parent.retry_ms for parent in self.parents.values() if (parent.retry_ms or 0) > now_ms]
        self._check_ms = min([self._check_ms, *(ms for ms in later if ms is not None)])
