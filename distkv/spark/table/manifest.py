"""The manifest of an event table: which files belong to it, and which ticks they hold.

Knows: the form of `manifest.json`, and what must hold between its fields (docs/event-table).  Does not know the folder
(`spark.table.store`), nor what is inside a data file (`spark.table.columns`).

Invariant: a `Manifest` that exists is consistent: no tick is in two files, none is both held and a gap, and the files
have exactly the ticks that the table has (fewer when it is of one path only, or a compaction forgot some).  Equal
manifests have equal bytes; bytes that were changed by anything but `encode` are refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final
from zlib import crc32

import attrs

from distkv.errors import (
    BadPathError,
    DecodeError,
    FormatVersionError,
    LogDamagedError,
    WrongDirectoryError,
)
from distkv.model.event import NodeName
from distkv.model.path import ROOT, Path
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges, common, count, is_within, joined, overlap
from distkv.wire.fields import (
    HASH_BYTES,
    Fields,
    range_map,
    read_int,
    read_list,
    read_map,
    read_node,
    read_ranges,
    read_time,
)

FORMAT: Final = 3
"""Of the manifest. A release reads all that came before its own; in the first one, files have no checksum, and before
the third nobody knew up to when a table was archived, nor settled a gap."""
EVENTS_FORM: Final = 2
"""Of the columns of events (`spark.table.columns`); in the manifest it is the newest that any file may have."""
PLAIN_FORM: Final = 1
"""The oldest. A file is of the oldest form that has room for its events, so that a release which cannot know what is
new is kept out of the tables that have it, and only of those."""
COMMIT_MAX: Final = 99_999_999
"""A name has eight digits for the commit, so that names sort as commits do."""
PART_MAX: Final = 999
CRC_BYTES: Final = 4

EVENTS_FOLDER: Final = "events"
_NAME: Final = re.compile(rf"{EVENTS_FOLDER}/([0-9]{{8}})-[0-9]{{3}}\.parquet")
_CHECKSUM: Final = re.compile(rb'"crc32": "([0-9a-f]{8})"\n\}\n\Z')
"""The end of a manifest. The checksum is of all bytes before it."""
_MARK: Final = "distkv_table"
"""The field that has the format, and by which a manifest of ours is known."""
_FIELDS: Final = ("events", "network", "commit", "path", "forgotten", "until", "ticks", "gaps", "settled", "files")
_NEW_FIELDS: Final = ("until", "settled")
"""Those that came with the third format."""
_SETTLED_FIELDS: Final = ("time", "who", "why", "ticks")
_FILE_FIELDS: Final = ("name", "rows", "size_bytes", "ticks", "crc32")


def file_name(commit: int, part: int) -> str:
    """The name of a data file, relative to the table's folder; `part` counts from 0 within a commit.

    Raises:
        ValueError: one of the numbers is too large for its digits.
    """
    if not 0 < commit <= COMMIT_MAX or not 0 <= part <= PART_MAX:
        raise ValueError(f"a table has commits 1 to {COMMIT_MAX}, each of parts 0 to {PART_MAX}; not {commit}-{part}")
    return f"{EVENTS_FOLDER}/{commit:08}-{part:03}.parquet"


def commit_of(name: str) -> int | None:
    """The number of the commit that a data file came with; None when no data file has such a name."""
    parts = _NAME.fullmatch(name)
    return int(parts[1]) or None if parts else None


def tidy_path(path: str | None) -> str | None:
    """A path's text in the one way that the manifest has it; None for all paths.

    Raises:
        BadPathError: it is no path.
    """
    parsed = ROOT if path is None else Path.parse(path)
    return str(parsed) if parsed else None


def _tidy(ticks: TickRanges) -> TickRanges:
    """A copy in the order of names, without names that have nothing."""
    return {node: ticks[node].copy() for node in sorted(ticks) if ticks[node]}


def _seconds(time: float | None) -> float | None:
    return None if time is None else float(time)


def _times(until: Mapping[NodeName, float]) -> dict[NodeName, float]:
    return {node: float(until[node]) for node in sorted(until)}


def _by_name(files: Iterable[DataFile]) -> tuple[DataFile, ...]:
    return tuple(sorted(files, key=lambda file: file.name))


@attrs.frozen
class DataFile:
    """One Parquet file of a table.

    Raises:
        ValueError: the name is not of the form, or a number cannot be.
    """

    name: str
    """Relative to the table's folder: `events/COMMIT-PART.parquet`."""
    rows: int
    """At least one."""
    size_bytes: int
    ticks: TickRanges = attrs.field(converter=_tidy)
    """Of its rows. In a table of one path, and where changes were forgotten, it may name more than there are rows."""
    crc32: int | None = None
    """The CRC-32 of its bytes; None: a release wrote it that kept none."""

    def __attrs_post_init__(self) -> None:
        if commit_of(self.name) is None:
            raise ValueError(f"a data file is named {file_name(7, 0)}, for instance, not {self.name[:80]!r}")
        if self.rows < 1 or self.size_bytes < 1:
            raise ValueError(f"{self.name} has {self.rows} rows in {self.size_bytes} bytes")
        if self.rows > count(self.ticks):
            raise ValueError(f"{self.name} has {self.rows} rows, but {count(self.ticks)} ticks")
        if self.crc32 is not None and not 0 <= self.crc32 < 1 << 32:
            raise ValueError(f"{self.name} cannot have the checksum {self.crc32}")


@attrs.frozen
class GapDecision:
    """Somebody decided that gaps stop nobody any more.

    Raises:
        ValueError: there is no such time, nobody is named, or no reason is given.
    """

    time: float
    """When, in seconds since 1970."""
    who: str
    why: str
    ticks: TickRanges = attrs.field(converter=_tidy)
    """The gaps that there were. One whose content turned up later is none any more."""

    def __attrs_post_init__(self) -> None:
        if not math.isfinite(self.time):
            raise ValueError(f"nothing was settled at the time {self.time}")
        for name, text in (("who", self.who), ("why", self.why)):
            if not (text.strip() and text.isprintable()):
                raise ValueError(f"{name!r} of a settlement is {text!r}: a line of text is needed")


@attrs.frozen
class Manifest:
    """What a table is after a commit.

    Raises:
        ValueError: the fields do not agree; see the invariant of this module.
    """

    network: bytes
    """The id of the network whose events these are; 8 bytes."""
    commit: int = 0
    """How many commits there were."""
    path: str | None = attrs.field(default=None, kw_only=True)
    """The text of the path that alone is in the table, with what is below it; None: all paths."""
    files: tuple[DataFile, ...] = attrs.field(default=(), converter=_by_name, kw_only=True)
    """In the order of their names."""
    ticks: TickRanges = attrs.field(factory=dict, converter=_tidy, kw_only=True)
    """Whose events were taken, and need not be read again."""
    gaps: TickRanges = attrs.field(factory=dict, converter=_tidy, kw_only=True)
    """Whose content no host had when it was asked for; it is asked for again."""
    forgotten: float | None = attrs.field(default=None, converter=_seconds, kw_only=True)
    """A compaction dropped changes that were overwritten before this time, in seconds since 1970; None: never."""
    until: dict[NodeName, float] = attrs.field(factory=dict, converter=_times, kw_only=True)
    """Up to when the table has all that a node wrote, or knows it to be a gap, by the clock of that node, in seconds
    since 1970. Of a node that is not named here nobody knows."""
    settled: tuple[GapDecision, ...] = attrs.field(default=(), kw_only=True)
    """Which gaps stop nobody any more, in the order in which that was decided."""
    events: int = attrs.field(default=PLAIN_FORM, kw_only=True)
    """The newest form of events that any of the files may have."""

    def __attrs_post_init__(self) -> None:
        if len(self.network) != HASH_BYTES:
            raise ValueError(f"the network id has {len(self.network)} bytes, not {HASH_BYTES}")
        if not 0 <= self.commit <= COMMIT_MAX or self.events < 1:
            raise ValueError(f"there is no commit {self.commit} with events of form {self.events}")
        if self.path is not None and tidy_path(self.path) != self.path:
            raise ValueError(f"the path {self.path!r} is not written in the usual way")
        if self.forgotten is not None and not math.isfinite(self.forgotten):
            raise ValueError(f"nothing can be forgotten before the time {self.forgotten}")
        if not all(map(math.isfinite, self.until.values())):
            raise ValueError("a table is archived up to a time, or nobody knows")
        if overlap(self.ticks, self.gaps):
            raise ValueError("a tick is both held and a gap")
        _check_files(self)

    @property
    def rows(self) -> int:
        """How many events there are."""
        return sum(file.rows for file in self.files)

    @property
    def settled_gaps(self) -> TickRanges:
        """The gaps that stop nobody: those of a settlement whose content has not turned up since."""
        found: TickRanges = {}
        for settlement in self.settled:
            found = joined(found, common(settlement.ticks, self.gaps))
        return found

    def encode(self) -> bytes:
        """The bytes of `manifest.json`: JSON with a field, and a file, on each line, and a checksum on the last."""
        head: dict[str, object] = {
            _MARK: FORMAT,
            "events": self.events,
            "network": self.network.hex(),
            "commit": self.commit,
            "path": self.path,
            "forgotten": self.forgotten,
            "until": self.until,
            "ticks": range_map(self.ticks),
            "gaps": range_map(self.gaps),
            "settled": [attrs.asdict(one, recurse=False) | {"ticks": range_map(one.ticks)} for one in self.settled],
        }
        lines = [f"{_json(name)}: {_json(value)},\n" for name, value in head.items()]
        files = [f"\n {_json(_file_form(file))}" for file in self.files]
        body = "".join(["{\n", *lines, '"files": [', ",".join(files), "\n],\n" if files else "],\n"]).encode()
        return body + b'"crc32": "%08x"\n}\n' % crc32(body)


def decode_manifest(data: bytes, place: str) -> Manifest:
    """The manifest in the bytes that `encode` made; `place` is the file's name, for messages.

    Raises:
        LogDamagedError: something changed the bytes.
        WrongDirectoryError: they are not the manifest of an event table.
        FormatVersionError: a newer release made them.
    """
    fields = _whole_fields(data, place)
    if not isinstance(fields, dict) or _MARK not in fields:
        raise WrongDirectoryError(f"{place} is not of an event table: name the folder of one, or an empty folder")
    try:
        version = read_int(fields, _MARK)
        _check_version(version, FORMAT, f"{place} has format")
        _check_version(read_int(fields, "events"), EVENTS_FORM, f"{place} names events of form")
        names = _FIELDS if version > 2 else tuple(name for name in _FIELDS if name not in _NEW_FIELDS)
        _check_names(fields, (_MARK, *names, "crc32"))
        return _read(fields, version)
    except (DecodeError, BadPathError, ValueError) as error:
        raise _damaged(place, str(error)) from None


# -- what must hold -----------------------------------------------------------------------------------------------


def _check_files(manifest: Manifest) -> None:
    """What holds between the files, and between them and the table."""
    for former, file in pairwise(manifest.files):
        if former.name == file.name:
            raise ValueError(f"{file.name} is named twice")
    for file in manifest.files:
        if (commit_of(file.name) or 0) > manifest.commit:
            raise ValueError(f"{file.name} belongs to a later commit than {manifest.commit}")
    if not is_within(_joined_apart(manifest.files), manifest.ticks):
        raise ValueError("a file has ticks that the table has not")
    has_all = manifest.path is None and manifest.forgotten is None
    if has_all and manifest.rows != count(manifest.ticks):
        raise ValueError(f"the files have {manifest.rows} rows, but the table {count(manifest.ticks)} ticks")


def _joined_apart(files: Iterable[DataFile]) -> TickRanges:
    """The ticks of all files, none of which is in two: sorted once, since comparing each with each would take hours."""
    pairs: dict[NodeName, list[tuple[int, int, str]]] = {}
    for file in files:
        for node, ranges in file.ticks.items():
            pairs.setdefault(node, []).extend((begin, end, file.name) for begin, end in ranges.pairs())
    for node, found in pairs.items():
        found.sort()
        for (_, end, former), (begin, _, name) in pairwise(found):
            if begin < end:
                raise ValueError(f"{former} and {name} both have tick {begin} of {node}")
    return {node: Ranges((begin, end) for begin, end, _ in found) for node, found in pairs.items()}


# -- the form in JSON ---------------------------------------------------------------------------------------------


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _file_form(file: DataFile) -> dict[str, object]:
    crc = None if file.crc32 is None else f"{file.crc32:08x}"
    values = (file.name, file.rows, file.size_bytes, range_map(file.ticks), crc)
    return dict(zip(_FILE_FIELDS, values, strict=True))


def _whole_fields(data: bytes, place: str) -> object:
    """What the JSON says, when nothing of ours was changed in it."""
    end = _CHECKSUM.search(data)
    if end is not None and crc32(data[: end.start()]) != int(end[1], 16):
        raise _damaged(place, "its checksum does not fit")
    try:
        fields: object = json.loads(data, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise _damaged(place, str(error).splitlines()[0]) from None
    if end is None and isinstance(fields, dict) and _MARK in fields:
        raise _damaged(place, "it does not end with its checksum")
    return fields


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a field stands twice")
    return fields


def _read(fields: Fields, version: int) -> Manifest:
    path, forgotten = fields.get("path"), fields.get("forgotten")
    if path is not None and not isinstance(path, str):
        raise ValueError("the path is no text")
    return Manifest(
        _read_hex(fields.get("network"), HASH_BYTES, "the network id"),
        read_int(fields, "commit"),
        path=path,
        files=tuple(_read_file(one, version) for one in read_list(fields.get("files"), "files")),
        ticks=read_ranges(fields.get("ticks"), "ticks"),
        gaps=read_ranges(fields.get("gaps"), "gaps"),
        forgotten=None if forgotten is None else read_time(forgotten, "forgotten"),
        until={
            read_node(node, "until"): read_time(time, "until")
            for node, time in read_map(fields.get("until", {}), "until").items()
        },
        settled=tuple(_read_settlement(one) for one in read_list(fields.get("settled", []), "settled")),
        events=read_int(fields, "events"),
    )


def _read_settlement(value: object) -> GapDecision:
    fields = read_map(value, "settled")
    _check_names(fields, _SETTLED_FIELDS)
    who, why = fields.get("who"), fields.get("why")
    if not (isinstance(who, str) and isinstance(why, str)):
        raise ValueError("who settled gaps, or why, is no text")
    return GapDecision(read_time(fields.get("time"), "time"), who, why, read_ranges(fields.get("ticks"), "ticks"))


def _read_file(value: object, version: int) -> DataFile:
    fields = read_map(value, "files")
    _check_names(fields, _FILE_FIELDS if version > 1 else _FILE_FIELDS[:-1])
    name = fields.get("name")
    if not isinstance(name, str):
        raise ValueError("the name of a file is no text")
    rows, size_bytes = read_int(fields, "rows"), read_int(fields, "size_bytes")
    crc = fields.get("crc32")
    crc32 = None if crc is None else int.from_bytes(_read_hex(crc, CRC_BYTES, f"the checksum of {name}"), "big")
    return DataFile(name, rows, size_bytes, read_ranges(fields.get("ticks"), "ticks"), crc32)


def _read_hex(value: object, size: int, what: str) -> bytes:
    if not isinstance(value, str) or not re.fullmatch(rf"[0-9a-f]{{{2 * size}}}", value):
        raise ValueError(f"{what} is not {2 * size} hex digits")
    return bytes.fromhex(value)


def _check_names(fields: Fields, names: tuple[str, ...]) -> None:
    if fields.keys() != set(names):
        odd = sorted(map(str, fields.keys() ^ set(names)))
        raise ValueError(f"fields that are missing or unknown: {', '.join(odd)}")


def _check_version(found: int, known: int, what: str) -> None:
    if found > known:
        raise FormatVersionError(f"{what} {found}, this release knows {known}: upgrade distkv")
    if found < 1:
        raise ValueError(f"there is no version {found}")


def _damaged(place: str, reason: str) -> LogDamagedError:
    return LogDamagedError(
        f"{place} is damaged: {reason}. Take the table from a copy, or begin a new one in an empty folder"
    )
