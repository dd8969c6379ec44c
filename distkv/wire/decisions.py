"""What is asked about conflicts: the fields of `conflicts`, `restore` and `dismiss`, declared.

Knows: these fields.  Does not know frames, nor what a decision does.

Invariant: as in `frames`: a request that exists is well-formed, and what is wrong is said by the field's name.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from distkv.model.event import Link, read_tick_text, tick_text
from distkv.model.lean import lean_value
from distkv.model.path import ROOT, Path
from distkv.wire.fields import bad, chain_map, read_link, read_map
from distkv.wire.request_fields import COUNT, COUNT_FROM_1, FLAG, PATH, DeclaredFields, FieldKind, declared, refused
from distkv.wire.row import AnyRow

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

# -- their fields -------------------------------------------------------------------------------------------------


def _read_loser(value: object, name: str) -> Link:
    loser = read_tick_text(value) if type(value) is str else None
    if loser is None:
        raise bad(name, "the id of a change, such as 'a:12' or 'a:7.12'", value)
    return loser


def _read_head(value: object, name: str) -> Link:
    link = read_map(value, name)
    return read_link(link.get("node"), link.get("tick"), name)


_DECISION: Final[DeclaredFields] = {
    "id": FieldKind(_read_loser, lambda loser: tick_text(*loser)),
    "chain": FieldKind(_read_head, lambda head: chain_map((head,), truncated=True)),
    "path": PATH,
    "nchain": COUNT,
}

ROWS: Final[tuple[AnyRow[ConflictRequest], ...]] = (
    declared("conflicts", GetConflicts, {"path": PATH, "after": PATH, "limit": COUNT_FROM_1, "closed": FLAG}),
    declared("restore", Restore, {**_DECISION, "closed": FLAG}),
    declared("dismiss", Dismiss, {
        **_DECISION, "closed": refused("closed", "is for 'restore': what is closed cannot be dismissed"),
    }),
)  # fmt: skip
