"""Small event tables for tests, and file systems that end after some steps.

Knows: how to fill a data file with plain events, and to read all that a stranger would see.  Does not judge.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from zlib import crc32

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from distkv.model.event import NodeName, Tick
from distkv.model.fence import Fence
from distkv.model.tick_ranges import ranges_of
from distkv.spark.table.columns import FENCE_COLUMNS, TABLE_FORM, form_of
from distkv.spark.table.folder import Folders, crc32_of
from distkv.spark.table.manifest import DataFile
from distkv.spark.table.store import Table, sync_file

NETWORK = bytes.fromhex("0123456789abcdef")
Links = Iterable[tuple[str, int]]
Row = dict[str, object]


def event_row(
    node: str,
    tick: int,
    path: str = "hall.light",
    value: object = 1,
    kind: str = "set",
    *,
    tock: int | None = None,
    fence: Fence | None = None,
) -> Row:
    """An event that knows no other one."""
    moment = datetime.fromtimestamp(1_700_000_000 + tick, UTC)
    return {
        "path": path.split("."),
        "path_str": path,
        "root": path.partition(".")[0],
        "system": False,
        "kind": kind,
        "value": json.dumps(value) if kind == "set" else None,
        "value_msgpack": bytes([value]) if kind == "set" and isinstance(value, int) else None,
        "node": node,
        "tick": tick,
        "tock": tick if tock is None else tock,
        "chain": [{"node": node, "tick": tick}],
        "truncated": False,
        "time": moment,
        "time_s": moment.timestamp(),
        "arrived": moment,
        "read_from": node,
        **dict(zip(FENCE_COLUMNS.names, fence or [None] * 4, strict=True)),
    }


def rows_table(rows: Iterable[Row]) -> pa.Table:
    """The rows, as a worker writes them into a file: of the oldest form that has room for them."""
    table = pa.Table.from_pylist([*rows], schema=TABLE_FORM.columns)
    schema = form_of(table).schema
    return table.select(schema.names).cast(schema)


def form_needed(rows: Iterable[Row]) -> int:
    """The number of that form."""
    return form_of(pa.Table.from_pylist([*rows], schema=TABLE_FORM.columns)).number


def write_rows(table: Table, part: int, rows: list[Row]) -> DataFile:
    """A new data file of these rows, ready to be committed."""
    name = table.new_name(part)
    place = table.new_place(name)
    pq.write_table(rows_table(rows), place, compression="zstd")
    sync_file(place)
    links = [(NodeName(str(row["node"])), Tick(int(str(row["tick"])))) for row in rows]
    return DataFile(name, len(rows), os.path.getsize(place), ranges_of(links), crc32_of(place))


def write_events(table: Table, part: int, links: Links) -> DataFile:
    """The same of events that differ by node and tick only."""
    return write_rows(table, part, [event_row(node, tick) for node, tick in sorted(links)])


def resealed(manifest: bytes) -> bytes:
    """The same with the checksum that it would have."""
    body = manifest[: manifest.rindex(b'"crc32"')]
    return body + b'"crc32": "%08x"\n}\n' % crc32(body)


def seen_by_pyarrow(folder: Path) -> list[tuple[str, int]]:
    """(node, tick) of each row in `events/*.parquet`, twice if it is there twice."""
    tables = [pq.read_table(file, partitioning=None) for file in sorted(folder.glob("events/*.parquet"))]
    return sorted((row["node"], row["tick"]) for table in tables for row in table.to_pylist())


def seen_by_duckdb(folder: Path) -> list[tuple[str, int]]:
    """The same, as DuckDB has it."""
    if not any(folder.glob("events/*.parquet")):
        return []
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT node, tick FROM '{folder}/events/*.parquet'").fetchall()
    return sorted(found)


class CutError(BaseException):
    """The process ends here; nothing catches it, as nothing catches a kill."""


class CountedFolders(Folders):
    """Ends after some steps: each call that changes or syncs something is one."""

    def __init__(self, steps: int | None = None, error: Callable[[], BaseException] = CutError) -> None:
        self.taken = 0
        self.steps = steps
        self._error = error

    def _step(self) -> None:
        if self.steps is not None and self.taken >= self.steps:
            raise self._error()
        self.taken += 1

    def make_folder(self, folder: str) -> None:
        self._step()
        super().make_folder(folder)

    def write(self, file: str, data: bytes) -> None:
        if self.taken == self.steps:
            super().write(file, data[: len(data) // 2])  # a write is torn, other steps are not
        self._step()
        super().write(file, data)

    def rename(self, file: str, new: str) -> None:
        self._step()
        super().rename(file, new)

    def remove(self, file: str) -> None:
        self._step()
        super().remove(file)

    def sync_file(self, file: str) -> None:
        self._step()
        super().sync_file(file)

    def sync_folder(self, folder: str) -> None:
        self._step()
        super().sync_folder(folder)


def full_disk() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def broken_disk() -> OSError:
    return OSError(errno.EIO, os.strerror(errno.EIO))


class LosingFolders(CountedFolders):
    """After the cut, the power fails: of the names that were not synced, some are as before, and data is lost."""

    def __init__(self, steps: int | None, losses: set[int]) -> None:
        super().__init__(steps)
        self._losses = losses
        self._moves: list[tuple[str, Callable[[], object]]] = []
        """Renamed and removed since the last sync of the folder, and what brings back what was before."""
        self._data: set[str] = set()
        """Files whose content was not synced."""
        self._names: set[str] = set()
        """What was in a folder when it was synced."""

    def write(self, file: str, data: bytes) -> None:
        self._data.add(file)
        super().write(file, data)

    def sync_file(self, file: str) -> None:
        super().sync_file(file)
        self._data.discard(file)

    def rename(self, file: str, new: str) -> None:
        content, former = self.read(file), self.read(new)
        super().rename(file, new)
        if file in self._data:
            self._data.add(new)

        def undo() -> None:
            Path(file).write_bytes(content or b"")
            if former is None:
                Path(new).unlink()
            else:
                Path(new).write_bytes(former)

        self._moves.append((os.path.dirname(file), undo))

    def remove(self, file: str) -> None:
        content = self.read(file)
        super().remove(file)
        self._moves.append((os.path.dirname(file), lambda: Path(file).write_bytes(content or b"")))

    def sync_folder(self, folder: str) -> None:
        super().sync_folder(folder)
        self._moves = [(place, undo) for place, undo in self._moves if place != folder]
        self._names.update(os.path.join(folder, name) for name in os.listdir(folder))

    def lose(self, folder: str) -> None:
        """What the power failure does to the table in a folder."""
        for place in Path(folder).glob("events/*.new"):
            if str(place) not in self._names:
                place.unlink()
        for at, (_, undo) in reversed(list(enumerate(self._moves))):
            if at in self._losses:
                undo()
        for file in self._data:
            if os.path.exists(file):
                os.truncate(file, 0)
