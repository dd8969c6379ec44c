"""When this node takes the place of an owner, or of a follower, that is silent.

Knows: which topics are waited for, and who is silent for how long.  Does not know how an entry is written (`owning`).

A topic that somebody waits for is looked at at once, and again and again while an owner is silent. All others come in
the background, so many a second: a server that is started anew would else have thousands of entries written for it
within two seconds.

Invariant: nothing is taken over but what `owning` allows; what is to be looked at is named once, and nothing that is
named is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from distkv.core.ground.turn import ServiceTurn
from distkv.core.topics.entries import TopicView
from distkv.core.topics.settings import TopicSettings
from distkv.errors import RequestError
from distkv.model.event import NodeName
from distkv.model.invariant import must

WANTED_MS: Final = 10_000
"""So long a topic counts as waited for after each request."""
WANTED_MAX: Final = 10_000
AWAY_MS: Final = 30_000
"""So long an owner is away before topics are taken over for which nobody waits."""
LOOK_MS: Final = 1000
WRITES_MAX: Final = 50
"""So many entries are written in the background at each look."""
LOOKS_MAX: Final = 2000
"""And so many topics looked at."""


class TakenLeases(Protocol):
    """What followers and owners promised each other (`leases`)."""

    def is_silent(self, node: NodeName, now_ms: int) -> bool:
        """Whether a follower has said nothing for a long lease."""

    def has_answered(self, node: NodeName) -> bool:
        """Whether a node has given a lease since this one started or slept."""

    def last_heard_ms(self, node: NodeName) -> int | None:
        """When a node said something last."""

    def may_take_over(self, node: NodeName, now_ms: int) -> bool:
        """Whether topics of an owner can be taken over."""

    def took(self, turn: ServiceTurn, name: str, node: NodeName) -> None:
        """This node leaves another one out of an entry."""


class Mended(Protocol):
    """What is done about a topic."""

    def view(self, name: str) -> TopicView | None: ...

    def own_names(self) -> Iterator[str]: ...

    def silent_nodes(self) -> tuple[frozenset[NodeName], ...]: ...

    def silent_owners(self) -> frozenset[NodeName]: ...

    def is_mine(self, name: str) -> bool: ...

    def follows(self, name: str) -> bool: ...

    def is_up(self, node: NodeName) -> bool: ...

    def may_begin(self, name: str) -> bool: ...

    def may_revive(self, name: str) -> bool: ...

    def begin_topic(self, turn: ServiceTurn, name: str) -> TopicView: ...

    def mend(self, turn: ServiceTurn, name: str) -> bool: ...


class TakingOver:
    """That of one node, since its machine began. All times are those of `ServiceTurn.boot_ms`."""

    def __init__(self, owners: Mended, settings: TopicSettings, leases: TakenLeases) -> None:
        self._owners: Final = owners
        self._settings: Final = settings
        self._leases: Final = leases
        self._wanted: Final = dict[str, int]()
        """Until when each topic counts as waited for."""
        self._new: Final = dict[str, None]()
        """Those of them that were not looked at yet."""
        self._queue: Final = dict[str, None]()
        """What is to be looked at in the background."""
        self._away: Final = dict[NodeName, int]()
        """Since when owners are away."""
        self._silent: tuple[frozenset[NodeName], ...] = ()
        """Who was so at the last look, and in which way."""
        self._now_ms = 0
        self._glance_ms = 0
        """When it is seen next who is silent."""
        self._look_ms = 0
        """When the next look is."""

    # -- what is to be looked at

    def want(self, name: str, now_ms: int) -> None:
        """Somebody waits for a topic."""
        if name not in self._wanted and len(self._wanted) < WANTED_MAX:
            self._new[name] = None
            self._look_ms = min(self._look_ms, now_ms + self._eighth_ms)
        if name in self._wanted or name in self._new:
            self._wanted[name] = now_ms + WANTED_MS

    def look_at(self, name: str) -> None:
        """The entry of a topic is another, or should be."""
        self._queue[name] = None
        if name in self._wanted:
            self._new[name] = None
            self._look_ms = min(self._look_ms, self._now_ms + self._eighth_ms)

    def look_at_all(self) -> None:
        """Others are there than before."""
        for name in self._owners.own_names():
            self.look_at(name)

    def is_quiet(self, node: NodeName) -> bool:
        """Whether an owner has asked for no lease for a while."""
        heard_ms = self._leases.last_heard_ms(node)
        return heard_ms is None or self._now_ms - heard_ms > self._settings.lease_ms

    # -- what happens

    def step(self, turn: ServiceTurn) -> None:
        """Time passed, perhaps."""
        self._now_ms = now_ms = turn.boot_ms
        if now_ms >= self._glance_ms:
            self._glance(now_ms)
        if now_ms < self._look_ms:
            return
        for name in [name for name, until_ms in self._wanted.items() if until_ms <= now_ms]:
            del self._wanted[name]
        is_owner_silent = bool(self._owners.silent_owners())
        names = [*(self._wanted if is_owner_silent else self._new)]
        self._new.clear()
        for name in names:
            self._mend(turn, name, is_wanted=True)
        self._look_in_the_background(turn)
        is_urgent = self._wanted and (is_owner_silent or self._queue)
        self._look_ms = now_ms + (self._eighth_ms if is_urgent else LOOK_MS)

    def wake_ms(self) -> int | None:
        """When `step` has something to do."""
        return self._look_ms if self._wanted or self._queue or any(self._silent) else None

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self._wanted) <= WANTED_MAX, "no more is waited for than that")
        must(self._new.keys() <= self._wanted.keys(), "what is new is waited for")

    # -- inside

    @property
    def _eighth_ms(self) -> int:
        return self._settings.lease_ms // 8

    def _glance(self, now_ms: int) -> None:
        """See who is silent. No wake is asked for that: while others matter, leases wake this node as often."""
        self._glance_ms = now_ms + self._eighth_ms
        silent = self._owners.silent_nodes()
        if silent != self._silent:
            self._silent = silent
            self.look_at_all()
            self._look_ms = now_ms

    def _look_in_the_background(self, turn: ServiceTurn) -> None:
        names, writes, later = list(self._queue)[:LOOKS_MAX], 0, list[str]()
        owners = {view.owner for name in names if (view := self._owners.view(name)) is not None}
        for node in owners:
            if node is not None and not self._owners.is_up(node):
                self._away.setdefault(node, turn.boot_ms)
            elif node is not None:
                self._away.pop(node, None)
        for name in names:
            if writes >= WRITES_MAX:
                break
            del self._queue[name]
            writes += self._mend(turn, name, is_wanted=False)
            if self._is_waited_for(name):
                later.append(name)
        self._queue.update(dict.fromkeys(later))

    def _is_waited_for(self, name: str) -> bool:
        """Whether its owner is away, and may stay away."""
        view = self._owners.view(name)
        return view is not None and self._owners.follows(name) and view.owner in self._away

    def _mend(self, turn: ServiceTurn, name: str, *, is_wanted: bool) -> bool:
        """Whether an entry was written."""
        owners, view = self._owners, self._owners.view(name)
        try:
            if view is None:
                return False
            if owners.is_mine(name):
                return owners.mend(turn, name)
            since_ms = turn.boot_ms if view.owner is None else self._away.get(view.owner, turn.boot_ms)
            is_due = is_wanted or view.owner is None or turn.boot_ms - since_ms >= AWAY_MS
            if owners.may_revive(name) or (is_due and owners.follows(name) and owners.may_begin(name)):
                owners.begin_topic(turn, name)
                return True
        except RequestError as error:  # there is no room to keep from whom it was taken
            turn.note("topic_not_taken", topic=name, reason=str(error))
            self._queue[name] = None
        return False
