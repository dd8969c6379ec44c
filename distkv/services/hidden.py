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
_NAME_PATHS: Final = frozenset({row.type for row in ROWS if hasattr(row.type, "path")} | {Batch}) - _LOOK_THEMSELVES


def hidden_error(request: Any) -> ForbiddenError | None:
    """Why a request is refused that names a hidden path; None: it names none, or looks itself."""
    if type(request) not in _NAME_PATHS:
        return None
    ops = request.ops if isinstance(request, Batch) else (request,)
    for index, op in enumerate(ops):
        try:
            _refuse(op)
        except ForbiddenError as error:
            return error if op is request else error.at_op(index)
    return None


def _refuse(request: Any) -> None:
    if isinstance(request.path, Path):
        refuse_hidden(request.path)
