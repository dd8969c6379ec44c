"""What the entry of a topic says, also when it has several versions: one owner, on all nodes.

Knows: the rule by which versions become one.  Does not know the store, nor who seems alive.

For example, two sides of a split both gave a topic to a server. When the split is over, the entry has two versions.
The owner with the lower name counts. It lacks what the other one took: it says so until it has joined that copy.

Invariant: equal versions and equal lives give an equal view, on every node. What an owner may lack is said until it was
joined, or until nobody is left who has it: a disk counts as long as its node is registered, and says it has no other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeAlias

import attrs

from distkv.model.event import NodeName
from distkv.wire.declared import evolve
from distkv.wire.topic_entries import GROUPS_MAX, IDS_MAX, Holder, HolderInGroup, TopicEntry

Lives: TypeAlias = Callable[[NodeName], int | None]
"""That in which the disk of a node began; None: the node is not registered."""
Members: TypeAlias = tuple[HolderInGroup, ...]
"""All of a group."""


@attrs.frozen(slots=True)
class TopicView:
    """A topic, as a node knows it by its entry."""

    name: str
    entry: TopicEntry
    """What the owner would write: all versions as one."""
    owner: NodeName | None
    """None: the node that was the owner is gone, or lost its disk."""
    followers: tuple[NodeName, ...]
    """In the order in which they take over; all have their disks still."""
    holders: tuple[NodeName, ...]
    """All nodes that have something of the topic on their disks, as far as the entry says. Who is to be asked first
    comes first."""
    named: frozenset[NodeName]
    """All that the entry names, also those that are gone or lost their disks."""
    is_settled: bool
    """Whether the entry says just this."""

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(self.entry.ids)

    @property
    def is_lost(self) -> bool:
        """Whether all copies were lost: now, or before it began anew."""
        return not self.holders or self.entry.lost

    @property
    def lacking(self) -> tuple[NodeName, ...]:
        """Who may have what the owner lacks."""
        return tuple(sorted({one.node for group in self.entry.lacks for one in group}))

    def naming_of(self, node: NodeName) -> int | None:
        """A number that is another each time that a follower is named; None: it is none."""
        namings = zip(self.entry.followers, self.entry.namings, strict=True)
        return next((number for one, number in namings if one.node == node), None)

    @property
    def min_replicas(self) -> int:
        return self.entry.min_replicas

    @property
    def keep_s(self) -> float:
        """0: no limit."""
        return self.entry.keep_s

    @property
    def keep_bytes(self) -> int:
        """0: no limit."""
        return self.entry.keep_bytes


def view_of(name: str, versions: Sequence[TopicEntry], lives: Lives) -> TopicView | None:
    """What these versions, the winner first, say of a topic; None: there is none, or it is dropped."""
    entry = merged(versions, lives)
    if entry is None or entry.owner is None:
        return None
    groups = [entry.group, *(one.group for one in versions), *entry.lacks]
    holders = dict.fromkeys(one.node for group in groups for one in group if _has_disk(one, lives))
    return TopicView(
        name,
        entry,
        entry.owner.node if _has_disk(entry.owner, lives) else None,
        tuple([one.node for one in entry.followers if _has_disk(one, lives)]),
        tuple(holders),
        frozenset(one.node for version in versions for group in (version.group, *version.lacks) for one in group),
        is_settled=[*versions] == [entry],
    )


def merged(
    versions: Sequence[TopicEntry],
    lives: Lives,
    taker: Holder | None = None,
    whole: int | None = None,
    had: Collection[int] = (),
) -> TopicEntry | None:
    """One entry that says what these versions say together.

    Args:
        versions: the winner first.
        lives: of all nodes.
        taker: who is to be the owner; None: the lowest name of all owners that have their disks.
        whole: by which naming the taker is whole now; None: by none.
        had: by which namings it ever had all of a group.
    """
    dropped = {id for one in versions for id in one.dropped}
    topics = [one for one in versions if one.owner is not None]
    ids = {id for one in topics for id in one.ids}
    dropped -= ids  # who wrote them did not know of the drop
    if not topics:
        return TopicEntry(dropped=_capped(dropped)) if dropped else None
    base = _base(topics, lives, taker)
    owner = taker or base.owner
    named = dict(zip(base.followers, base.namings, strict=True))
    followers = [one for one in named if _has_disk(one, lives) and one != owner]
    lacks = [group for one in topics for group in one.lacks if owner is None or not had_all(group, owner, had)]
    now = () if whole is None else (whole,)
    lacks += [one.group for one in topics if owner and owner != one.owner and not had_all(one.group, owner, now)]
    return evolve(
        base,
        ids=_capped(ids),
        owner=owner,
        followers=tuple(followers),
        namings=tuple(map(named.__getitem__, followers)),
        lacks=pruned(lacks, lives, owner),
        lost=all(one.lost for one in topics),
        dropped=_capped(dropped),
    )


def had_all(group: Members, holder: Holder, had: Collection[int]) -> bool:
    """Whether a holder is in a group by one of these namings."""
    return any(one.holder == holder and one.naming in had for one in group)


def without(groups: Iterable[Members], holder: Holder, had: Collection[int]) -> list[Members]:
    """The groups that are left when the copy of a holder was joined, which had all by these namings."""
    left = (group for group in groups if not had_all(group, holder, had))
    return [tuple(one for one in group if one.holder != holder) for group in left]


def pruned(groups: Iterable[Members], lives: Lives, owner: Holder | None) -> tuple[Members, ...]:
    """The groups of which the owner must still join somebody else: it is in none of them, and what one group asks is
    not asked of another again."""
    left = {frozenset(one for one in group if _has_disk(one, lives) and one.holder != owner) for group in groups}
    needed = [group for group in left if group and not any(other < group for other in left if other)]
    return tuple(sorted(tuple(sorted(group)) for group in needed)[:GROUPS_MAX])


def _has_disk(holder: Holder | HolderInGroup, lives: Lives) -> bool:
    """Whether it is registered, and has the disk with which it became one."""
    return lives(holder.node) == holder.life


def _base(topics: Sequence[TopicEntry], lives: Lives, taker: Holder | None) -> TopicEntry:
    """The version that counts for what only one can say."""
    if taker is not None:
        mine = [one for one in topics if one.owner == taker] or [one for one in topics if taker in one.followers]
        if mine:
            return mine[0]
    owned = [one for one in topics if one.owner is not None and _has_disk(one.owner, lives)]
    if owned:
        return min(owned, key=lambda one: one.group[0].node)  # of equal ones the first
    left = {id(one): [holder for holder in one.group if _has_disk(holder, lives)] for one in topics}
    held = [one for one in topics if left[id(one)]]
    return min(held or topics, key=lambda one: (left[id(one)] or one.group)[0].node)


def _capped(ids: Iterable[str]) -> tuple[str, ...]:
    """So many fit into an entry; only a node that lies makes more."""
    return tuple(sorted(ids)[:IDS_MAX])
