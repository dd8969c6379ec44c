"""Which records say that changes were superseded before they came, so that nobody can be told what they were.

Knows: what a step recorded and changed.  Does not know who is told, nor in which form.

Invariant: a tick is missed once, when the node comes to hold it. An event that was shown, as the winner of its path or
as an open loser, is not missed, also when a peer says later that it is superseded.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final

from distkv.core.ready import PathChange
from distkv.model.event import Link, Tick
from distkv.model.path import Path
from distkv.wire.message import KnownRecord
from distkv.wire.states import path_key

MISSED_KEY: Final = path_key(Path([None, "missed"]))
"""Stands for the path of what was missed in rows of the history, where each has one. Nothing is ever written there."""


def closed_links(changes: Iterable[PathChange]) -> frozenset[Link]:
    """The ticks that a step closed: they were shown."""
    return frozenset(event.link for change in changes for event in change.closed)


def tells_missed(record: KnownRecord, closed: Container[Link]) -> bool:
    """Whether the ticks of a record were missed; else they are all among those that were closed with it."""
    links = ((node, Tick(begin)) for node, ticks in record.ranges.items() for begin, _ in ticks.pairs())
    first = next(links, None)
    return first is not None and first not in closed
