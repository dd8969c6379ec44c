"""What nodes hold, in words: the end of a trace.

Knows: what of a replica people want to compare.  Does not know how it came to that.

Invariant: two nodes in the same state have the same words, whatever their names and however their lives are numbered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from distkv.core.replica import Replica
from distkv.graph.recorder import ranges_text, value_text
from distkv.model.entry import Entry
from distkv.model.event import COUNT_BITS, Event, Kind, NodeName, life_of
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges, lives

VALUES_SHOWN: Final = 12
"""So many values are shown; of more, the first few and how many there are."""


def standing_lines(replicas: Mapping[str, Replica]) -> list[str]:
    """A line for each group of nodes that stand alike, in the order of their names."""
    groups: dict[str, list[str]] = {}
    for name in sorted(replicas):
        groups.setdefault(standing(replicas[name]), []).append(name)
    return [f"{' '.join(names)}: {words}" for words, names in groups.items()]


def standing(replica: Replica) -> str:
    """State, values, open losers, and what is missing. The system's own paths and the root are left out."""
    tree = replica.tree
    entries = sorted((e for e in tree.entries() if e.head.path and not e.head.path.is_reserved), key=_text_of_path)
    values = [f"{e.head.path} = {value_text(e.head)}" for e in entries if e.is_live]
    losers = [f"{e.head.path} also {_loser(event)}" for e in entries for event in e.conflicts()]
    deleted = [str(e.head.path) for e in entries if not e.is_live]
    ledger = tree.ledger
    parts = [
        str(replica.state),
        _some(values) or "no values",
        _some(losers),
        f"deleted {_some(deleted)}" if deleted else "",
        _ranges("misses", ledger.missing(but_lost=True), replica),
        _ranges("gave up", ledger.lost(), replica),
    ]
    return "; ".join(part for part in parts if part)


def _text_of_path(entry: Entry) -> str:
    return str(entry.head.path)


def _loser(event: Event) -> str:
    what = "deleted" if event.kind is not Kind.SET else f"= {value_text(event)}"
    return f"{what} by {event.node}"


def _some(words: list[str]) -> str:
    if len(words) > VALUES_SHOWN:
        return f"{', '.join(words[:2])}, … {words[-1]} ({len(words)} in all)"
    return ", ".join(words)


def _ranges(verb: str, ranges: TickRanges, replica: Replica) -> str:
    """With lives counted from 0: which number a life has depends on the second in which it began."""
    if not ranges:
        return ""
    known: dict[NodeName, list[int]] = {}
    for (node, life), _ in replica.tree.ledger.writers():
        known.setdefault(node, []).append(life)
    return f"{verb} {ranges_text({node: _renumbered(ranges[node], known[node]) for node in ranges})}"


def _renumbered(ranges: Ranges, known: Iterable[int]) -> Ranges:
    numbers = {life: number for number, life in enumerate(sorted(known))}
    return Ranges(
        (begin + shift, end + shift)
        for begin, end in lives(ranges)
        for shift in [(numbers.get(life_of(begin), 0) - life_of(begin)) << COUNT_BITS]
    )
