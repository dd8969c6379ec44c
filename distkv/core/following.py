"""Whom this node follows for which writer: a connection for each, on which changes come as soon as they are durable.

Knows: what became of the connections, and when to try again.  Does not know the ledger, nor what comes, nor who stands
where in a ring (`rings`): it says whom to follow for whom.  Does not talk.

Invariant: a node follows a writer only through nodes that stand before it in that writer's ring, whatever each believes
of the others: so there is no circle (docs/protocol, LINK-1 to LINK-5).
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Final

import attrs

from distkv.core.ready import Rng
from distkv.core.rings import RingChoice, Rings
from distkv.model.event import TICK_MAX, NodeName
from distkv.model.invariant import must
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges, joined

CHECK_MS: Final = 1000
"""How often it is seen who is alive."""
LOOK_MS: Final = 200
"""In a large network it is not looked more often whom to follow, whatever changes."""
RETRY_MS: Final = 250
"""After so long a connection that broke is tried again; then after twice as long, and so on."""
RETRY_MAX_MS: Final = 8000
HOPE_MS: Final = 1000
"""In a large network those that were left are tried again within so long when one of them is heard."""
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
    is_older: bool = False
    """Whether it answered that it does not know what a follow is."""
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


@attrs.define(slots=True)
class Looks:
    """When it is, and was, looked whom to follow."""

    check_ms: int = 0
    """The next time."""
    planned_ms: int = 0
    """The last time."""
    hoped_ms: int | None = None
    """When those that were left were tried again the last time because one of them was heard."""
    registered_ms: int | None = None
    """When it was last seen at once who is registered."""


@attrs.frozen(slots=True)
class SeenAlive:
    """Who seems alive, as it was when it was last taken over from `plan`."""

    rings: Rings
    """Of those and this node."""
    names: Sequence[NodeName] = ()
    at_ms: int | None = None
    """When that was."""
    calm_ms: int | None = None
    """When all may be moved to the best parents; None: at once."""


@attrs.define(slots=True)
class FollowNumbers:
    """Each follow has another number than all before it."""

    last: int = 0
    open: dict[int, NodeName] = attrs.field(factory=dict)
    """Who is followed by each."""


class Following:
    """The machine. All times are monotonic milliseconds."""

    def __init__(self, me: NodeName, fanout: int, rng: Rng, *, is_on: bool) -> None:
        self.parents: Final = dict[NodeName, Parent]()
        """All that were followed since the start, and are registered."""
        self.is_on: Final = is_on
        self._me: Final = me
        self._fanout: Final = fanout
        self._rng: Final = rng
        self._looks: Final = Looks()
        self._seen = SeenAlive(Rings(me, (), fanout))
        self._is_settled = False
        """Whether the best bring everything, so that `plan` would say nothing new."""
        self._numbers: Final = FollowNumbers()
        self.followers = frozenset[NodeName]()
        """Who follows this node for what it makes itself."""
        self.reaches_all = False
        """Whether these are all other nodes that seem alive: then nobody needs its updates by gossip."""

    # -- when

    def is_due(self, now_ms: int) -> bool:
        """Whether `plan` is to be asked now."""
        return self._is_needed and now_ms >= self._looks.check_ms

    def wake_ms(self) -> int | None:
        """When it is."""
        return self._looks.check_ms if self._is_needed else None

    def look_again(self) -> None:
        """Something changed. In a large network so much may change at once that a look at each change is too much."""
        self._looks.check_ms = min(self._looks.check_ms, self._looks.planned_ms + LOOK_MS if self._is_large else 0)

    def registry_changed(self, now_ms: int) -> None:
        """Others are registered than before: while a fleet grows this is not seen more often than who is alive."""
        if self._looks.registered_ms is None or now_ms - self._looks.registered_ms >= CHECK_MS:
            self._looks.registered_ms = now_ms
            self.look_again()

    # -- what came of it

    def parent_of(self, follow: int) -> NodeName | None:
        """Who is followed by this number; None: nobody any more."""
        return self._numbers.open.get(follow)

    def began(self, follow: int) -> None:
        """The peer answers."""
        name = self._numbers.open.get(follow)
        if name is not None:
            parent = self.parents[name]
            parent.is_up, parent.reason = True, ""
            self._is_settled = False
            self.look_again()  # what came by another one meanwhile need not any more

    def told(self, follow: int, lasts: Mapping[NodeName, int]) -> None:
        """An item came, up to these ticks; without ticks it is a sign of life: nothing else is left to be told."""
        name = self._numbers.open.get(follow)
        if name is not None:
            parent = self.parents[name]
            parent.failures = 0
            parent.is_idle = not lasts
            if parent.is_idle and not parent.is_whole:
                parent.is_whole, self._is_settled = True, False
                self.look_again()  # a better one waits for that
            for writer in parent.writers & lasts.keys():  # of others it may tell without end
                parent.told[writer] = max(lasts[writer], parent.told.get(writer, 0))

    def heard(self, name: NodeName, now_ms: int) -> None:
        """An exchange with a node took place, or its agent is back: if it was left, it is there again, and so may be
        others that were.

        Of many, most may be dead still, and each one that comes back would have all of them dialled anew: so in a large
        network they are tried again once in a while only, not all at the same moment, and what they failed before
        counts."""
        parent = self.parents.get(name)
        if parent is None or not parent.failures or parent.is_up or parent.is_older:
            return
        lefts = [left for left in self.parents.values() if left.failures and not left.writers and not left.is_older]
        if not self._is_large:
            for left in lefts:
                left.failures, left.retry_ms = 0, None
        elif self._looks.hoped_ms is None or now_ms - self._looks.hoped_ms >= RETRY_MAX_MS:
            self._looks.hoped_ms = now_ms
            for left in lefts:
                left.retry_ms = min(left.retry_ms or 0, now_ms + int(self._rng.random() * HOPE_MS))
        parent.failures, parent.retry_ms = 0, None
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
        coming = [parent.writers for parent in self.parents.values() if parent.is_coming]
        found = {name: ranges for name, ranges in missing.items() if any(name in writers for writers in coming)}
        for parent in self.parents.values():
            if parent.is_up and parent.is_whole and not parent.is_idle:
                for writer in sorted(parent.writers & missing.keys()):
                    ahead = missing[writer] & Ranges([(parent.told.get(writer, 0) + 1, TICK_MAX)])
                    found = joined(found, {writer: ahead})
        return found

    def coming(self) -> frozenset[NodeName]:
        """The writers of whom a link is about to bring what was missed."""
        return frozenset(writer for parent in self.parents.values() if parent.is_coming for writer in parent.writers)

    def ended(self, follow: int, reason: str, now_ms: int, *, is_unknown: bool = False) -> None:
        """It broke, was refused, or fell silent; `is_unknown`: the peer does not know what that is. A newer release may
        come to run there."""
        name = self._numbers.open.pop(follow, None)
        if name is None:
            return
        parent = self.parents[name]
        wait_ms = min(RETRY_MS << min(parent.failures, 16), RETRY_MAX_MS)
        parent.writers, parent.is_up, parent.reason = frozenset(), False, reason
        parent.failures, parent.is_older = parent.failures + 1, is_unknown
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
        self._looks.planned_ms, self._looks.check_ms = now_ms, now_ms + CHECK_MS
        if alive != self._seen.names:
            self._take(alive, now_ms)
        if self._is_settled:
            return {}
        wanted, numbers = self._choose(now_ms, pulled), self._numbers
        changed = dict[NodeName, int]()
        for name in sorted({*wanted, *(name for name, parent in self.parents.items() if parent.writers)}):
            parent = self.parents.get(name)
            if parent is None:
                parent = self.parents[name] = Parent()
            writers = frozenset(wanted.get(name, ()))
            if writers != parent.writers:
                numbers.open.pop(parent.follow, None)
                numbers.last += 1
                parent.writers, parent.follow, parent.is_up = writers, numbers.last, False
                parent.is_whole = parent.is_idle = False
                if writers:
                    numbers.open[numbers.last] = name
                changed[name] = numbers.last
        self._is_settled &= not changed
        self._wake_for_retries(now_ms)
        return changed

    def unlinked(self, alive: Sequence[NodeName]) -> list[NodeName]:
        """Of the others that seem alive, those whose changes come by no link."""
        linked = {writer for parent in self.parents.values() if parent.is_up for writer in parent.writers}
        return [name for name in alive if name not in linked]

    def see(self, alive: Sequence[NodeName]) -> None:
        """Who seems alive, also those that cannot be followed."""
        self.reaches_all = bool(alive) and self.followers.issuperset(alive)

    # -- inside

    @property
    def _is_needed(self) -> bool:
        return self.is_on or bool(self.followers)

    @property
    def _is_large(self) -> bool:
        """Whether some writers are followed through others."""
        return len(self._seen.names) > self._fanout

    def _take(self, alive: Sequence[NodeName], now_ms: int) -> None:
        """Who is alive now. In a large network each change moves the places of many, so it is seen once in a while."""
        is_large, at_ms, calm_ms = len(alive) > self._fanout, self._seen.at_ms, None
        if is_large and at_ms is not None and now_ms - at_ms < CHECK_MS:
            self._looks.check_ms = at_ms + CHECK_MS
            return
        rings = Rings(self._me, alive, self._fanout)
        if is_large:
            calm_ms = now_ms + CALM_MS + int(self._rng.random() * CALM_MS)
        self._seen, self._is_settled = SeenAlive(rings, alive, now_ms, calm_ms), False

    def _choose(self, now_ms: int, pulled: Container[NodeName]) -> dict[NodeName, set[NodeName]]:
        """Whom to follow for which writers, from what is known now. What the best bring is looked at as a whole: a
        thousand writers would be too many to look at one by one whenever a connection changes."""
        wanted, left = dict[NodeName, set[NodeName]](), list[NodeName]()
        for best, writers in self._seen.rings.best.items() if self.is_on else ():
            parent = self.parents.get(best)
            brought = writers & parent.writers if parent is not None and parent.is_up else frozenset()
            if brought:
                wanted[best] = set(brought)
            left += writers - brought
        self._is_settled = not left
        if not left:
            return wanted
        is_calm = self._seen.calm_ms is None or now_ms >= self._seen.calm_ms
        bringing, choice = self._bringing(), self._seen.rings.choice(self._blocked(now_ms))
        for writer in left:
            brings = bringing.get(writer, ())
            kept = None
            if brings and not is_calm:
                kept = next((name for name in brings if self._seen.rings.is_as_good(name, writer)), None)
            if kept is not None:
                wanted.setdefault(kept, set()).add(writer)
                continue
            for name in self._chosen(writer, brings, choice):
                if writer not in pulled or self._brings(name, writer):
                    wanted.setdefault(name, set()).add(writer)
        return wanted

    def _bringing(self) -> dict[NodeName, list[NodeName]]:
        """For each writer the parents that bring it."""
        found = dict[NodeName, list[NodeName]]()
        for name, parent in self.parents.items():
            for writer in parent.writers if parent.is_up else ():
                found.setdefault(writer, []).append(name)
        return found

    def _blocked(self, now_ms: int) -> list[NodeName]:
        """Who does not answer, and may not be tried yet."""
        return [
            name
            for name, parent in self.parents.items()
            if not parent.is_up and parent.retry_ms is not None and now_ms < parent.retry_ms
        ]

    def _chosen(self, writer: NodeName, brings: Sequence[NodeName], choice: RingChoice) -> Sequence[NodeName]:
        """Through whom a writer is followed: the best that may be tried; and, until that one answers, whoever brings
        it already. To follow yet another node meanwhile would bring most twice. So would the best one while another is
        about to tell what it holds already: it waits for that."""
        first = choice.first(writer)
        if first is None:
            return ()
        parent = self.parents.get(first)
        if not brings or (parent is not None and parent.is_up):
            return (first,)
        places = [(order, name) for name in brings if (order := self._seen.rings.order(name, writer)) is not None]
        if not places:
            return (first,)
        kept = min(places)[1]
        return (kept,) if self.parents[kept].is_coming and not self._brings(first, writer) else (first, kept)

    def _brings(self, name: NodeName, writer: NodeName) -> bool:
        return name in self.parents and writer in self.parents[name].writers

    def _wake_for_retries(self, now_ms: int) -> None:
        """Who broke is tried again before the next look."""
        later = [parent.retry_ms for parent in self.parents.values() if (parent.retry_ms or 0) > now_ms]
        self._looks.check_ms = min([self._looks.check_ms, *(ms for ms in later if ms is not None)])

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        followed = {parent.follow: name for name, parent in self.parents.items() if parent.writers}
        must(self._numbers.open == followed, "each follow is known by its number")
        must(self._me not in self.parents, "nobody follows himself")
