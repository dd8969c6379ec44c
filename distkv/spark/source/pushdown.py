"""Filters of a query that narrow what is read.

Knows: which filters on node, tick and path say that some events need not be read.  Does not know how they are read.

Spark filters once more what is given, so it is enough that nothing is left out that a filter lets pass. What is left
out must not show anywhere else: gap rows are found as without filters, since a narrower read would cut them elsewhere.

Invariant: a read with filters gives, after Spark has filtered it, the rows of one without them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

import attrs
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from distkv.errors import BadPathError
from distkv.model.path import ROOT, Path, split_text
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges

_TICK_END: Final = 1 << 63
_PLANNER: Final = "pyspark.sql.worker.data_source_pushdown_filters"


def is_offered() -> bool:
    """Whether this process is the one in which Spark pushes filters down.

    A reader that takes filters is refused by any other one, when `spark.sql.python.filterPushdown.enabled` is false,
    which it is by default; and no process is told how it is set. Should PySpark call the module otherwise one day,
    nothing is pushed down, and nothing fails.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PLANNER in sys.modules or getattr(main, "name", None) == _PLANNER


@attrs.frozen
class Narrowing:
    """What need be read."""

    nodes: frozenset[str] | None = None
    """Of these writers; None: of all."""
    path: Path = ROOT
    """At and below it."""
    begin: int = 0
    end: int = _TICK_END
    """Ticks from `begin` on and before `end`."""

    def ticks(self, node: str, ticks: Ranges) -> Ranges:
        """The part of a writer's ticks that need be read."""
        return ticks & Ranges([(self.begin, self.end)]) if self.nodes is None or node in self.nodes else Ranges()

    def of_nodes(self, ticks: TickRanges) -> TickRanges:
        """The part of what is new that need be looked for; also for gaps, whose rows have a node as others have."""
        return {node: some for node, some in ticks.items() if self.nodes is None or node in self.nodes}

    def below(self, path: Path) -> Path:
        """The path to read, where `path` is all that is wanted."""
        return self.path if self.path.key[: len(path)] == path.key else path


def narrowed(filters: Iterable[Filter]) -> Narrowing:
    """What need be read when all of these must hold."""
    found = Narrowing()
    for each in filters:
        match each:
            case EqualTo(("node",), str(node)):
                found = _with_nodes(found, {node})
            case In(("node",), values):
                found = _with_nodes(found, {value for value in values if isinstance(value, str)})
            case EqualTo(("tick",), int(tick)):
                found = _between(found, tick, tick + 1)
            case GreaterThan(("tick",), int(tick)):
                found = _between(found, tick + 1, _TICK_END)
            case GreaterThanOrEqual(("tick",), int(tick)):
                found = _between(found, tick, _TICK_END)
            case LessThan(("tick",), int(tick)):
                found = _between(found, 0, tick)
            case LessThanOrEqual(("tick",), int(tick)):
                found = _between(found, 0, tick + 1)
            case EqualTo(("path_str",), str(text)):
                found = _at(found, text)
            case StringStartsWith(("path_str",), str(text)):
                found = _at(found, _whole_names(text))
    return found


# -- inside -------------------------------------------------------------------------------------------------------


def _with_nodes(found: Narrowing, nodes: set[str]) -> Narrowing:
    return attrs.evolve(found, nodes=frozenset(nodes if found.nodes is None else nodes & found.nodes))


def _between(found: Narrowing, begin: int, end: int) -> Narrowing:
    return attrs.evolve(found, begin=max(begin, found.begin), end=min(end, found.end))


def _whole_names(prefix: str) -> str:
    """The path of those names in the beginning of a text that are surely whole; the last one may go on."""
    return ".".join(split_text(prefix)[:-1]) or ":"


def _at(found: Narrowing, text: str) -> Narrowing:
    try:
        path = Path.parse(text)
    except BadPathError:  # no path is written so: nothing passes the filter, whatever is read
        return found
    return attrs.evolve(found, path=path) if path.key[: len(found.path)] == found.path.key else found
