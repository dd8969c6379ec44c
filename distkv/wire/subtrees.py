"""What is asked about a part of the tree: `get_tree`, `list`, `delete_tree` and `watch`, read and written.

Knows: the fields of these.  Does not know frames, nor what becomes of a request.

Invariant: as in `frames`: a request that exists is well-formed, and what is wrong is said by the field's name.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from distkv.errors import RequestError
from distkv.model.lean import lean_value
from distkv.model.path import NAMES_MAX, Path
from distkv.wire.fields import Fields, read_flag, read_int, read_path, shown
from distkv.wire.row import COUNT_MAX, AnyRow, ReplyForm, RequestRow, of_path, read_nchain

# -- what is asked ------------------------------------------------------------------------------------------------


@lean_value
class GetTree:
    """The values at and below a path, as a long result."""

    seq: int
    path: Path
    min_depth: int = 0
    """How many names below `path` a value has at the least."""
    max_depth: int = NAMES_MAX
    """And at the most."""
    nchain: int = 0
    limit: int | None = None
    """How many values are shown at the most."""


@lean_value
class ListNames:
    """The names directly below a path that lead to a value, as many as fit into a page."""

    seq: int
    path: Path
    limit: int | None = None
    """How many names at the most."""
    after: Path | None = None
    """One name; only those that come after it."""


@lean_value
class DeleteTree:
    """Delete all values at and below a path."""

    seq: int
    path: Path


@lean_value
class Watch:
    """Be told of all changes at and below a path, as a long result that only `Stop` ends."""

    seq: int
    path: Path
    fetch: bool = False
    """Show first what is there."""
    since: bytes | None = None
    """Go on where a watch was that gave this token."""
    min_depth: int = 0
    max_depth: int = NAMES_MAX
    missed: bool = False
    """Be told, too, how many changes were superseded before they came."""


TreeRequest: TypeAlias = GetTree | ListNames | DeleteTree | Watch
"""What is asked about a part of the tree."""

# -- read and written ---------------------------------------------------------------------------------------------


def _read_get_tree(seq: int, fields: Fields, _: bytes) -> GetTree:
    path = read_path(fields.get("path"))
    low, high = _depths(fields)
    limit = read_int(fields, "limit", COUNT_MAX) if "limit" in fields else None
    return GetTree(seq, path, low, high, read_nchain(fields), limit)


def _read_watch(seq: int, fields: Fields, _: bytes) -> Watch:
    since = fields.get("since")
    if since is not None and type(since) is not bytes:
        raise RequestError(f"the field 'since' must be a token that a watch gave, not {shown(since)}")
    low, high = _depths(fields)
    missed = read_flag(fields, "missed")
    return Watch(seq, read_path(fields.get("path")), read_flag(fields, "fetch"), since, low, high, missed)


def _read_list(seq: int, fields: Fields, _: bytes) -> ListNames:
    limit = read_int(fields, "limit", COUNT_MAX, low=1) if "limit" in fields else None
    after = read_path([fields["after"]]) if "after" in fields else None
    return ListNames(seq, read_path(fields.get("path")), limit, after)


def _write_get_tree(request: GetTree, fields: dict[str, object], _: dict[str, bytes]) -> None:
    _write_place(request, fields)
    if request.nchain:
        fields["nchain"] = request.nchain
    if request.limit is not None:
        fields["limit"] = request.limit


def _write_watch(request: Watch, fields: dict[str, object], _: dict[str, bytes]) -> None:
    _write_place(request, fields)
    if request.fetch:
        fields["fetch"] = True
    if request.since is not None:
        fields["since"] = request.since
    if request.missed:
        fields["missed"] = True


def _write_list(request: ListNames, fields: dict[str, object], _: dict[str, bytes]) -> None:
    fields["path"] = request.path.names
    if request.limit is not None:
        fields["limit"] = request.limit
    if request.after is not None:
        fields["after"] = request.after.names[0]


def _depths(fields: Fields) -> tuple[int, int]:
    low = read_int(fields, "min_depth", COUNT_MAX) if "min_depth" in fields else 0
    high = read_int(fields, "max_depth", COUNT_MAX) if "max_depth" in fields else NAMES_MAX
    return min(low, NAMES_MAX + 1), min(high, NAMES_MAX)


def _write_place(request: GetTree | Watch, fields: dict[str, object]) -> None:
    fields["path"] = request.path.names
    if request.min_depth:
        fields["min_depth"] = request.min_depth
    if request.max_depth < NAMES_MAX:
        fields["max_depth"] = request.max_depth


ROWS: Final[tuple[AnyRow[TreeRequest], ...]] = (
    RequestRow("get_tree", GetTree, _read_get_tree, _write_get_tree, ReplyForm.LONG),
    RequestRow("list", ListNames, _read_list, _write_list),
    of_path("delete_tree", DeleteTree, DeleteTree),
    RequestRow("watch", Watch, _read_watch, _write_watch, ReplyForm.OPEN),
)
