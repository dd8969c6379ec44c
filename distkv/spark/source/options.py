"""The options of the data source, as a user writes them.

Knows: which there are to read and to write, their values and defaults.  Does not know what is done with them.

Spark makes small letters of every key, so they are compared that way; the texts name them as they are documented.

Invariant: options that exist were understood, every one of them; an unknown one is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import attrs

from distkv.client.addresses import DEFAULT_ADDRESS, Address, read_hosts
from distkv.client.arguments import check_ttl
from distkv.errors import DistkvError, RequestError, SettingsError
from distkv.model.path import ROOT, Path
from distkv.model.tick_ranges import TickRanges, common
from distkv.naming import is_node_name
from distkv.spark.nodes.rows import ValueForm
from distkv.spark.source.offsets import read_ticks

_Option: TypeAlias = tuple[str, str, Callable[[str, str], Any]]
"""Its documented name, its field, and what reads it."""

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
BATCH_SIZE: Final = 100
_OF_TABLE: Final = "provider"
"""What Spark's catalog gives the source of a table that is made by CREATE TABLE."""
_OF_SPARK: Final = frozenset({"checkpointlocation", "queryname"})
"""What Spark gives the sink of a stream, and keeps for itself."""


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
    fail_on_data_loss: bool | None = None
    """Whether content that went between plan and read ends the read; None: it ends one that can be planned anew, and in
    a stream is a gap where hosts say that it is gone, since a batch is the same at each restart."""

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
    found, names = _read(given, _READ, "a read")
    view = found.get("view", "events")
    if view in _TAKEN and (wrong := [name for name in names if name not in _TAKEN[view]]):
        raise SettingsError(f"the view {view} has no option {wrong[0]}: it has {', '.join(sorted(_TAKEN[view]))}")
    return ReadOptions(**{"hosts": (DEFAULT_ADDRESS,), "starting": {}, **found})


@attrs.frozen
class WriteOptions:
    """How to write."""

    hosts: tuple[Address, ...]
    path: Path | None = None
    """Where all rows are, at it or below; None: anywhere."""
    ttl: float | None = None
    """Of rows that say nothing of it, in seconds; None: they stay."""
    batch_size: int = BATCH_SIZE
    """How many rows are written in one step, at the most."""
    ignore_nulls: bool = False
    """Whether a row without value is passed over; else it deletes."""
    rate: int | None = None
    """Rows per second that a task writes at the most."""
    if_unchanged: bool = False
    """Write a row only while its `node` and `tick` are the last change of its path."""
    confirm_overwrite: bool = False


def write_options(given: Mapping[str, Any], *, overwrite: bool = False, is_stream: bool = False) -> WriteOptions:
    """What a user wrote.

    Args:
        given: as Spark has it.
        overwrite: what is below the path and not in the rows is to be deleted.
        is_stream: rows come in batches for ever.

    Raises:
        SettingsError: an option is unknown, or its value is none that it can have; or it does not go with the others.
    """
    if is_stream:
        given = {key: value for key, value in given.items() if key.lower() not in _OF_SPARK}
    found, _ = _read(given, _WRITE, "a write")
    options = WriteOptions(**{"hosts": (DEFAULT_ADDRESS,), **found})
    if is_stream:
        _check_stream(options, overwrite)
    elif overwrite:
        _check_overwrite(options)
    return options


# -- inside -------------------------------------------------------------------------------------------------------


def _read(given: Mapping[str, Any], known: Mapping[str, _Option], what: str) -> tuple[dict[str, Any], list[str]]:
    """The fields that were given, and the options by the names under which they are documented."""
    found: dict[str, Any] = {}
    names: list[str] = []
    if _OF_TABLE in given:  # Spark has forgotten all options when it reads the table, and would ask 127.0.0.1
        raise SettingsError(
            "a table cannot be made of this source, since Spark forgets its options: make a view instead, with CREATE "
            "TEMPORARY VIEW name USING distkv OPTIONS (hosts '...')"
        )
    for key, value in given.items():
        option = known.get(key.lower())
        if option is None:
            raise SettingsError(
                f"there is no option {key!r}; {what} has {', '.join(name for name, _, _ in known.values())}"
            )
        name, field, read = option
        found[field] = read(name, str(value))
        names.append(name)
    return found, names


def _check_stream(options: WriteOptions, overwrite: bool) -> None:
    if overwrite:
        raise SettingsError("a stream is written with outputMode append or update: complete would write all rows again")
    if options.if_unchanged:
        raise SettingsError(
            "ifUnchanged is for batch writes: a stream whose rows do not fit would stop at the same rows for ever; "
            "use foreachBatch, and write each batch with it"
        )


def _check_overwrite(options: WriteOptions) -> None:
    if options.path is None:
        raise SettingsError("mode overwrite needs the option path: what is there and below, and in no row, is deleted")
    if not options.confirm_overwrite:
        raise SettingsError(
            f"mode overwrite deletes what is at and below {options.path} and in no row: "
            "set confirmOverwrite=true if that is meant, or use mode append"
        )
    if options.if_unchanged:
        raise SettingsError("ifUnchanged is for mode append: with overwrite, all values shall be those of the rows")
    if options.ignore_nulls:
        raise SettingsError("ignoreNulls is for mode append: with overwrite, what has no value in the rows is deleted")


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


def _ttl(name: str, value: str) -> float:
    found = _seconds(name, value)
    try:
        check_ttl(found)
    except RequestError as error:
        raise SettingsError(str(error)) from None
    return found


def _written_path(name: str, value: str) -> Path:
    found = _path(name, value)
    if found.is_reserved:
        raise SettingsError(f"{name} is {value!r}, which belongs to the system: it cannot be written")
    return found


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise SettingsError(f"{name} is {value!r}: it can be {', '.join(allowed)}")
    return value


_READ_TABLE: Final[tuple[_Option, ...]] = (
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
_WRITE_TABLE: Final[tuple[_Option, ...]] = (
    ("hosts", "hosts", _hosts),
    ("path", "path", _written_path),
    ("ttl", "ttl", _ttl),
    ("batchSize", "batch_size", _count),
    ("ignoreNulls", "ignore_nulls", _flag),
    ("rate", "rate", _count),
    ("ifUnchanged", "if_unchanged", _flag),
    ("confirmOverwrite", "confirm_overwrite", _flag),
)
_READ: Final = {option[0].lower(): option for option in _READ_TABLE}
_WRITE: Final = {option[0].lower(): option for option in _WRITE_TABLE}
