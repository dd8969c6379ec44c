"""All topics that the store names, as this node sees them now.

Knows: what the entries say, which disks nodes have, and who owns how much.  Does not know who seems alive,
nor what is done about any of it.

Invariant: a view is that of the entry as it is in the store, or as this node has just written it. An entry that nobody
can read costs its topic, is noted, and nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import attrs

from distkv.core.ground.machine import ServiceGround
from distkv.core.ground.turn import ServiceTurn
from distkv.core.topics.entries import Lives, TopicView, view_of
from distkv.errors import DecodeError
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.topic_entries import TOPIC, Holder, TopicEntry, read_entry, topic_key, topic_of


@attrs.frozen(slots=True)
class Versions:
    """Of one entry."""

    found: tuple[TopicEntry, ...]
    """The winner first."""
    is_stored: bool = True
    """The store says just this, and nothing that cannot be read."""
    is_alone: bool = True
    """There is one version, be it of a deletion."""

    @property
    def is_unreadable(self) -> bool:
        """Something is there, and none of it can be read."""
        return not self.found and not self.is_stored

    def view(self, name: str, lives: Lives) -> TopicView | None:
        """What they say of a topic."""
        view = view_of(name, self.found, lives)
        is_settled = self.is_stored and self.is_alone
        return view if view is None or is_settled else attrs.evolve(view, is_settled=False)


@attrs.frozen(slots=True)
class _Counts:
    """Of topics."""

    owned: Counter[NodeName] = attrs.field(factory=Counter)
    """How many each node owns."""
    following: Counter[NodeName] = attrs.field(factory=Counter)
    """How many of this node each node follows."""
    followed: Counter[NodeName] = attrs.field(factory=Counter)
    """How many of each node this node follows."""


class KnownTopics:
    """Those of one node, since its machine began."""

    def __init__(self, ground: ServiceGround, disk_of: Lives) -> None:
        self._ground: Final = ground
        self.life_of: Final = disk_of
        """The life of a holder, by its node: that in which its disk began; None: it is registered no more."""
        self._lives = dict[NodeName, int | None]()
        """Those that were looked at, as they were then."""
        self._seen: Final = dict[str, tuple[bytes | None, ...]]()
        """What the store had of each entry when it was looked at."""
        self._views: Final = dict[str, TopicView]()
        self._dropped: Final = dict[str, frozenset[str]]()
        self._written: Final = dict[str, TopicEntry]()
        """What this node wrote in this step."""
        self._refused: Final = dict[str, TopicEntry]()
        """What it wrote, and the store did not take: it is a version here only, until it is written again."""
        self._counts: Final = _Counts()
        self.of_me: Final = dict[str, None]()
        """The topics whose entries name this node; only read."""
        self.unreadable: Final = dict[str, None]()
        """The topics of which nobody can read the entry; only read."""

    @property
    def me(self) -> Holder:
        """This node."""
        return Holder(self._ground.me, self.life_of(self._ground.me) or 0)

    def begin(self, turn: ServiceTurn) -> None:
        for key in self._ground.entries.all_keys(TOPIC):
            self.changed(turn, key)

    # -- questions

    def view(self, name: str) -> TopicView | None:
        """A topic; None: there is none of this name, or nobody can read what it is."""
        return self._views.get(name)

    def names(self) -> Iterator[str]:
        """Of all topics."""
        return iter(self._views)

    def dropped(self, name: str) -> frozenset[str]:
        """The ids of which nobody is to keep a copy."""
        return self._dropped.get(name, frozenset())

    def dropped_names(self) -> Iterator[str]:
        """Of all topics of which some are."""
        return iter(self._dropped)

    def count(self, node: NodeName) -> int:
        """How many topics a node owns."""
        return self._counts.owned[node]

    def following(self) -> frozenset[NodeName]:
        """The followers of all topics of this node."""
        return frozenset(self._counts.following)

    def followed(self) -> frozenset[NodeName]:
        """The owners of all topics that this node follows."""
        return frozenset(self._counts.followed)

    def holder(self, node: NodeName) -> Holder | None:
        """A node with its present disk."""
        life = self.life_of(node)
        return None if life is None else Holder(node, life)

    def fresh(self, name: str) -> TopicView | None:
        """As `view`, also of what nobody was told yet: what is written over is looked at first."""
        if self._ground.entries.versions(topic_key(name)) != self._seen.get(name, ()):
            self._look(name)
        return self.view(name)

    def seen(self, name: str) -> tuple[bytes | None, ...]:
        """All versions in the store that the view was made of: they may be written over."""
        return self._seen.get(name, ())

    def versions(self, name: str) -> Versions:
        """What the entry of a topic says."""
        if name in self._written:
            return Versions((self._written[name],))
        values = self._ground.entries.versions(topic_key(name))
        found, is_stored = list[TopicEntry](), name not in self._refused
        for value in values:
            if value is not None:
                try:
                    found.append(read_entry(value))
                except DecodeError:
                    is_stored = False
        if name in self._refused:
            found.append(self._refused[name])
        return Versions(tuple(found), is_stored, is_alone=len(values) <= 1)

    def owners_of(self, name: str) -> frozenset[NodeName]:
        """All that any version of an entry names as the owner."""
        return frozenset(one.owner.node for one in self.versions(name).found if one.owner is not None)

    # -- what happens

    def changed(self, turn: ServiceTurn, key: str) -> str | None:
        """An entry is another; the topic of which it is."""
        name = topic_of(key)
        if name is not None:
            self._written.pop(name, None)
            if not self._look(name).is_stored:
                turn.note("topic_entry_bad", topic=name)
        return name

    def lives_changed(self) -> list[str]:
        """Nodes may have other disks; the topics whose views are others because of that."""
        changed = {node for node, life in self._lives.items() if life != self.life_of(node)}
        names = [name for name, view in self._views.items() if not changed.isdisjoint(view.named)] if changed else []
        for node in changed:
            self._lives[node] = self.life_of(node)
        for name in names:
            self._look(name)
        return names

    def wrote(self, name: str, entry: TopicEntry) -> TopicView | None:
        """This node writes the entry of a topic in this step."""
        self._written[name] = entry
        self._refused.pop(name, None)
        self._look(name)
        return self.view(name)

    def refused(self, name: str) -> None:
        """The store did not take what was written last."""
        entry = self._written.pop(name, None)
        if entry is not None:
            self._refused[name] = entry
        self._look(name)

    def given(self, name: str) -> None:
        """Another node owns it, and has all that this one took: what the store did not take counts no more."""
        if self._refused.pop(name, None) is not None:
            self._look(name)

    # -- inside

    def _look(self, name: str) -> Versions:
        """See what the entry says now."""
        before = self._views.pop(name, None)
        if before is not None:
            self._count(before, -1)
        values = self._ground.entries.versions(topic_key(name))
        if values:
            self._seen[name] = values
        else:
            self._seen.pop(name, None)
        versions = self.versions(name)
        view = versions.view(name, self.life_of)
        is_bad, me = versions.is_unreadable, self._ground.me
        ids = {id for one in versions.found for id in one.ids}
        dropped = frozenset(id for one in versions.found for id in one.dropped if id not in ids)
        if view is not None:
            self._views[name] = view
            self._count(view, 1)
            for node in view.named - self._lives.keys():
                self._lives[node] = self.life_of(node)
        for known, is_in in ((self.of_me, view is not None and me in view.named), (self.unreadable, is_bad)):
            if is_in:
                known[name] = None
            else:
                known.pop(name, None)
        if dropped:
            self._dropped[name] = dropped
        else:
            self._dropped.pop(name, None)
        return versions

    def _count(self, view: TopicView, step: int) -> None:
        owner, me = view.owner, self._ground.me
        if owner is not None:
            _add(self._counts.owned, owner, step)
            for node in view.followers if owner == me else ():
                _add(self._counts.following, node, step)
            if owner != me and me in view.followers:
                _add(self._counts.followed, owner, step)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        owned = Counter(view.owner for view in self._views.values() if view.owner is not None)
        must(self._counts.owned == owned, "what each node owns is counted")
        me = self._ground.me
        mine = [view for view in self._views.values() if view.owner == me]
        following = Counter(node for one in mine for node in one.followers)
        must(self._counts.following == following, "its followers are counted")
        must({*self.of_me} == {name for name, view in self._views.items() if me in view.named}, "its own are known")
        must(self.unreadable.keys().isdisjoint(self._views), "what cannot be read is no topic")
        for name, view in self._views.items():
            must(view == self.versions(name).view(name, self.life_of), f"the view of {name} is that of now")


def _add(counter: Counter[NodeName], node: NodeName, step: int) -> None:
    """Nobody is counted with 0."""
    counter[node] += step
    if not counter[node]:
        del counter[node]
