"""What requests may not name: entries that a service hides.

Knows: which requests name paths.  Does not know which entries are hidden (`wire.hidden`), nor sessions.

Invariant: a request that names a hidden path is refused in the same words, whether anything is there or not.
"""

from __future__ import annotations

from typing import Any, Final

from distkv.errors import ForbiddenError
from distkv.model.path import Path
from distkv.wire.frames import ROWS
from distkv.wire.hidden import refuse_hidden
from distkv.wire.replicated import ReplicatedWrite
from distkv.wire.value_requests import Batch, GetValue, SetValue

_LOOK_THEMSELVES: Final = {GetValue, SetValue, ReplicatedWrite}
"""The most frequent ones: a read looks at its path, and nobody writes where entries are hidden."""
NAME_PATHS: Final = frozenset({row.type for row in ROWS if hasattr(row.type, "path")} | {Batch}) - _LOOK_THEMSELVES
"""The requests that `refuse_hidden_paths` is for."""


def refuse_hidden_paths(request: Any) -> None:
    """
    Raises:
        ForbiddenError: it names a hidden path.
    """
    if not isinstance(request, Batch):
        _refuse(request)
        return
    for index, op in enumerate(request.ops):
        try:
            _refuse(op)
        except ForbiddenError as error:
            raise error.at_op(index) from None


def _refuse(request: Any) -> None:
    if isinstance(request.path, Path):
        refuse_hidden(request.path)
