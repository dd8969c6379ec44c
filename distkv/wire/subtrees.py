"""What is asked about a part of the tree: `get_tree`, `list`, `delete_tree` and `watch`, declared.

Knows: the fields of these.  Does not know frames, nor what becomes of a request.

Invariant: as in `frames`: a request that exists is well-formed, and what is wrong is said by the field's name.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from distkv.errors import RequestError
from distkv.model.lean import lean_value
from distkv.model.path import NAMES_MAX, Path
from distkv.wire.fields import read_int, shown
from distkv.wire.request_fields import (
    COUNT,
    COUNT_FROM_1,
    FLAG,
    PATH,
    DeclaredFields,
    FieldKind,
    declared,
    read_path_of,
)
from distkv.wire.row import COUNT_MAX, AnyRow, ReplyForm

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

# -- their fields -------------------------------------------------------------------------------------------------


def _read_since(value: object, name: str) -> bytes | None:
    if value is not None and type(value) is not bytes:
        raise RequestError(f"the field '{name}' must be a token that a watch gave, not {shown(value)}")
    return value


def _depth(highest: int) -> FieldKind:
    return FieldKind(lambda fields, name: min(read_int(fields, name, COUNT_MAX), highest), of_fields=True)


_DEPTHS: Final[DeclaredFields] = {"min_depth": _depth(NAMES_MAX + 1), "max_depth": _depth(NAMES_MAX)}
_AFTER: Final = FieldKind(lambda value, name: read_path_of([value], name), lambda path: path.names[0])

ROWS: Final[tuple[AnyRow[TreeRequest], ...]] = (
    declared("get_tree", GetTree, {"path": PATH, **_DEPTHS, "nchain": COUNT, "limit": COUNT}, ReplyForm.LONG),
    declared("list", ListNames, {"path": PATH, "limit": COUNT_FROM_1, "after": _AFTER}),
    declared("delete_tree", DeleteTree, {"path": PATH}),
    declared("watch", Watch, {
        "path": PATH, "fetch": FLAG, "since": FieldKind(_read_since), **_DEPTHS, "missed": FLAG,
    }, ReplyForm.OPEN),
)  # fmt: skip
