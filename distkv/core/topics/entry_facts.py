"""What entries of topics say to those parts of a node that forget: who owns a topic, how long it is kept, which are
dropped.

Knows: the form of these questions.  Does not know how they are answered (`owning`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from distkv.core.ground.turn import ServiceTurn
from distkv.model.event import NodeName


class NamedTopic(Protocol):
    """Of one topic."""

    @property
    def ids(self) -> frozenset[str]:
        """Of all topics that became this one."""

    @property
    def owner(self) -> NodeName | None:
        """None: its node is gone, or lost its disk."""

    @property
    def followers(self) -> Iterable[NodeName]: ...

    @property
    def lacking(self) -> Iterable[NodeName]:
        """Who had something that the owner may lack."""

    @property
    def keep_s(self) -> float:
        """How old a message may become; 0: there is no limit."""

    @property
    def keep_bytes(self) -> int:
        """How much the topic may have; 0: there is no limit."""


class EntryFacts(Protocol):
    """Of all topics, always as it is now."""

    def view(self, name: str) -> NamedTopic | None:
        """None: there is no such topic."""

    def is_mine(self, name: str) -> bool:
        """Whether this node owns it."""

    def owned(self) -> Iterable[str]:
        """The topics that this node owns."""

    def dropped_names(self) -> Iterable[str]:
        """The names under which topics were dropped."""

    def dropped(self, name: str) -> frozenset[str]:
        """The ids of topics of this name that were dropped."""

    def is_unreadable(self, name: str) -> bool:
        """Whether there is an entry of this name that this node cannot read."""

    def keepers(self) -> frozenset[NodeName]:
        """The registered nodes that keep topics, or did."""

    def may_keep(self) -> frozenset[NodeName]:
        """These, and all registered nodes of which it is not known that they keep none."""

    def drop(self, turn: ServiceTurn, name: str) -> None:
        """The entry of a topic says that it is dropped."""

    def forget_dropped(self, turn: ServiceTurn, name: str) -> None:
        """An entry does not say so any more."""


def is_named(entries: EntryFacts, name: str, ids: frozenset[str]) -> bool:
    """Whether an entry may have one of these ids, as a topic or as a dropped one."""
    view = entries.view(name)
    if entries.is_unreadable(name) or not ids.isdisjoint(entries.dropped(name)):
        return True
    return view is not None and not ids.isdisjoint(view.ids)


def dropped_ids(entries: EntryFacts, name: str) -> frozenset[str]:
    """The ids of those that are dropped for good: a topic that somebody kept on with, because it did not know of the
    drop, is none of them."""
    view = entries.view(name)
    return entries.dropped(name) if view is None else entries.dropped(name) - view.ids
