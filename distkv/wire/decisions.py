"""What is asked about conflicts: the fields of `conflicts`, `restore` and `dismiss`, read and written.

Knows: these fields.  Does not know frames, nor what a decision does.

Invariant: as in `frames`: a request that exists is well-formed, and what is wrong is said by the field's name.
"""

from __future__ import annotations

from typing import Final

from distkv.errors import RequestError
from distkv.model.event import Link, read_tick_text, tick_text
from distkv.model.path import ROOT, Path
from distkv.wire.fields import Fields, bad, chain_map, read_flag, read_int, read_link, read_map, read_path
from distkv.wire.request import Dismiss, GetConflicts, Restore
from distkv.wire.row import COUNT_MAX, AnyRow, Row, read_nchain


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


ROWS: Final[tuple[AnyRow, ...]] = (
    Row("conflicts", GetConflicts, _read_conflicts, _write_conflicts),
    Row("restore", Restore, _read_restore, _write_decision),
    Row("dismiss", Dismiss, _read_dismiss, _write_decision),
)
