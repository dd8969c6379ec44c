"""What is asked about conflicts: the fields of `conflicts`, `restore` and `dismiss`, read and written.

Knows: these fields.  Does not know frames, nor what a decision does.

Invariant: as in `frames`: a request that exists is well-formed, and what is wrong is said by the field's name.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from distkv.errors import RequestError
from distkv.model.event import Link, read_tick_text, tick_text
from distkv.model.lean import lean_value
from distkv.model.path import ROOT, Path
from distkv.wire.fields import Fields, bad, chain_map, read_flag, read_int, read_link, read_map, read_path
from distkv.wire.row import COUNT_MAX, AnyRow, RequestRow, read_nchain

# -- what is asked ------------------------------------------------------------------------------------------------


@lean_value
class GetConflicts:
    """The open losers at and below a path; or those of one path that were closed, as far as history knows them."""

    seq: int
    path: Path = ROOT
    after: Path | None = None
    """Only those behind this path."""
    limit: int | None = None
    """How many are shown at the most; a path is shown whole."""
    closed: bool = False


@lean_value
class Restore:
    """Write a loser again."""

    seq: int
    loser: Link
    head: Link | None = None
    """Only while this is the change that won."""
    path: Path = ROOT
    """Only when it lies at or below this path."""
    nchain: int = 0
    closed: bool = False
    """Whether it may be any change that history knows."""


@lean_value
class Dismiss:
    """Close an open loser, and keep what won."""

    seq: int
    loser: Link
    head: Link | None = None
    path: Path = ROOT
    nchain: int = 0


ConflictRequest: TypeAlias = GetConflicts | Restore | Dismiss
"""What is asked about conflicts."""

# -- read and written ---------------------------------------------------------------------------------------------


def _read_conflicts(seq: int, fields: Fields, _: bytes) -> GetConflicts:
    after = read_path(fields["after"]) if "after" in fields else None
    limit = read_int(fields, "limit", COUNT_MAX, 1) if "limit" in fields else None
    return GetConflicts(seq, _path(fields), after, limit, read_flag(fields, "closed"))


def _read_restore(seq: int, fields: Fields, _: bytes) -> Restore:
    return Restore(seq, *_decision(fields), read_flag(fields, "closed"))


def _read_dismiss(seq: int, fields: Fields, _: bytes) -> Dismiss:
    if "closed" in fields:
        raise RequestError("the field 'closed' is for 'restore': what is closed cannot be dismissed")
    return Dismiss(seq, *_decision(fields))


def _write_conflicts(request: GetConflicts, fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields["path"] = request.path.names
    if request.after is not None:
        fields["after"] = request.after.names
    if request.limit is not None:
        fields["limit"] = request.limit
    if request.closed:
        fields["closed"] = True


def _write_decision(request: Restore | Dismiss, fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields |= {"path": request.path.names, "id": tick_text(*request.loser)}
    if request.head is not None:
        fields["chain"] = chain_map((request.head,), truncated=True)
    if request.nchain:
        fields["nchain"] = request.nchain
    if isinstance(request, Restore) and request.closed:
        fields["closed"] = True


def _decision(fields: Fields) -> tuple[Link, Link | None, Path, int]:
    id = fields.get("id")
    loser = read_tick_text(id) if type(id) is str else None
    if loser is None:
        raise bad("id", "the id of a change, such as 'a:12' or 'a:7.12'", id)
    head = None
    if "chain" in fields:
        link = read_map(fields["chain"], "chain")
        head = read_link(link.get("node"), link.get("tick"), "chain")
    nchain = read_nchain(fields)
    return loser, head, _path(fields), nchain


def _path(fields: Fields) -> Path:
    return read_path(fields["path"]) if "path" in fields else ROOT


ROWS: Final[tuple[AnyRow[ConflictRequest], ...]] = (
    RequestRow("conflicts", GetConflicts, _read_conflicts, _write_conflicts),
    RequestRow("restore", Restore, _read_restore, _write_decision),
    RequestRow("dismiss", Dismiss, _read_dismiss, _write_decision),
)
