"""The options of the data source, as a user writes them.

Knows: which there are, their values and defaults.  Does not know what is done with them.

Spark makes small letters of every key, so they are compared that way; the texts name them as they are documented.

Invariant: options that exist were understood, every one of them; an unknown one is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from distkv.client.addresses import DEFAULT_ADDRESS, Address, read_hosts
from distkv.errors import DistkvError, SettingsError
from distkv.model.path import ROOT, Path
from distkv.model.tick_ranges import TickRanges, common
from distkv.naming import is_node_name
from distkv.spark.offsets import read_ticks
from distkv.spark.rows import ValueForm

VIEWS: Final = ("events", "state", "conflicts", "gaps")
"""What can be read; all but events as it is now, and not as a stream."""
_VALUES: Final = frozenset({"hosts", "view", "path", "system", "value"})
_TAKEN: Final = {
    "state": _VALUES,
    "conflicts": _VALUES,
    "gaps": frozenset({"hosts", "view", "path", "nodes", "startingTicks", "endingTicks", "discover"}),
}
"""The options of the views that have not all of them."""
ROWS_PER_PARTITION: Final = 100_000
GAP_WAIT_S: Final = 60.0


@attrs.frozen
class ReadOptions:
    """How to read."""

    hosts: tuple[Address, ...]
    view: str = "events"
    path: Path = ROOT
    nodes: frozenset[str] | None = None
    """The writers whose events are read; None: all."""
    starting: TickRanges | None = None
    """What need not be read; None: nothing of what is held now (latest)."""
    ending: TickRanges | None = None
    """Read is only what is in it; None: all that is held."""
    system: bool = False
    discover: bool = True
    value: ValueForm = ValueForm.JSON
    rows_per_partition: int = ROWS_PER_PARTITION
    max_rows: int | None = None
    """In one batch of a stream."""
    gap_wait_s: float = GAP_WAIT_S
    fail_on_data_loss: bool = True

    def wanted(self, ticks: TickRanges) -> TickRanges:
        """The part of these that may be read: of the named writers, and in `ending`."""
        if self.ending is not None:
            ticks = common(ticks, self.ending)
        return {node: some for node, some in ticks.items() if self.nodes is None or node in self.nodes}


def read_options(given: Mapping[str, Any]) -> ReadOptions:
    """What a user wrote.

    Raises:
        SettingsError: an option is unknown, or its value is none that it can have; or the view has not that option.
    """
    found: dict[str, Any] = {}
    names: list[str] = []
    for key, value in given.items():
        option = _OPTIONS.get(key.lower())
        if option is None:
            known = ", ".join(name for name, _, _ in _OPTIONS.values())
            raise SettingsError(f"there is no option {key!r}; a read has {known}")
        name, field, read = option
        found[field] = read(name, str(value))
        names.append(name)
    view = found.get("view", "events")
    if view in _TAKEN and (wrong := [name for name in names if name not in _TAKEN[view]]):
        raise SettingsError(f"the view {view} has no option {wrong[0]}: it has {', '.join(sorted(_TAKEN[view]))}")
    return ReadOptions(**{"hosts": (DEFAULT_ADDRESS,), "starting": {}, **found})


# -- one reader per kind of value ---------------------------------------------------------------------------------


def _hosts(_: str, value: str) -> tuple[Address, ...]:
    return read_hosts([host.strip() for host in value.split(",") if host.strip()], DEFAULT_ADDRESS[1])


def _view(name: str, value: str) -> str:
    return _one_of(name, value, VIEWS)


def _path(name: str, value: str) -> Path:
    try:
        return Path.parse(value)
    except DistkvError as error:
        raise SettingsError(f"{name}: {error}") from None


def _nodes(name: str, value: str) -> frozenset[str]:
    found = frozenset(node.strip() for node in value.split(",") if node.strip())
    if not found or not all(map(is_node_name, found)):
        raise SettingsError(f"{name} is {value!r}: write names of nodes with commas, such as a,b")
    return found


def _starting(name: str, value: str) -> TickRanges | None:
    if value in ("earliest", "latest"):
        return {} if value == "earliest" else None
    return read_ticks(value, name)


def _ending(name: str, value: str) -> TickRanges | None:
    return None if value == "latest" else read_ticks(value, name)


def _flag(name: str, value: str) -> bool:
    return _one_of(name, value.lower(), ("true", "false")) == "true"


def _form(name: str, value: str) -> ValueForm:
    return ValueForm(_one_of(name, value, tuple(form.value for form in ValueForm)))


def _count(name: str, value: str) -> int:
    if not value.isascii() or not value.isdecimal() or not 0 < int(value) < 2**31:
        raise SettingsError(f"{name} is {value!r}: write a whole number, 1 or above")
    return int(value)


def _seconds(name: str, value: str) -> float:
    try:
        found = float(value.removesuffix("s"))
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1e6:
        raise SettingsError(f"{name} is {value!r}: write seconds, 0 or above")
    return found


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise SettingsError(f"{name} is {value!r}: it can be {', '.join(allowed)}")
    return value


_TABLE: Final[tuple[tuple[str, str, Callable[[str, str], Any]], ...]] = (
    ("hosts", "hosts", _hosts),
    ("view", "view", _view),
    ("path", "path", _path),
    ("nodes", "nodes", _nodes),
    ("startingTicks", "starting", _starting),
    ("endingTicks", "ending", _ending),
    ("system", "system", _flag),
    ("discover", "discover", _flag),
    ("value", "value", _form),
    ("rowsPerPartition", "rows_per_partition", _count),
    ("maxRowsPerTrigger", "max_rows", _count),
    ("gapWait", "gap_wait_s", _seconds),
    ("failOnDataLoss", "fail_on_data_loss", _flag),
)
_OPTIONS: Final = {name.lower(): (name, field, read) for name, field, read in _TABLE}
