"""The bodies of blocks that are cancelled when what they hold is lost, and that a task may leave in any order.

Knows: cancel scopes, which each task leaves in the reverse order in which it entered them.  Does not know what is held.

Invariant: a scope is left by the task that entered it, the innermost first. So when a task leaves an outer body first,
the bodies inside move one scope outwards. When another task leaves a body, its scope stays until its own task leaves
one; nobody cancels it. (Neither trio nor a task group of anyio lets a task end before.)
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from types import TracebackType
from typing import Final
from weakref import WeakKeyDictionary

import anyio
import attrs

from distkv.client.event_loop import running_task


@attrs.define(eq=False)
class _Scope:
    """One of those that a task entered."""

    scope: anyio.CancelScope
    body: Body | None
    """None: its body was left by another task."""
    cause: Body | None = None
    """Why it was cancelled."""


_entered: Final = WeakKeyDictionary[object, list[_Scope]]()
"""By each task, the outermost first."""


class Body:
    """What a task does between entering and leaving."""

    def __init__(self, loss: Callable[[], Exception]) -> None:
        """`loss`: what is raised where it was cancelled."""
        self.loss: Final = loss
        self._scope: _Scope | None = None
        self._task: object = None

    def enter(self) -> None:
        """From now on the task that runs this is cancelled by `cancel`."""
        self._task = running_task()
        self._scope = _Scope(anyio.CancelScope(), self)
        self._scope.scope.__enter__()
        _entered.setdefault(self._task, []).append(self._scope)

    def cancel(self) -> None:
        """Without effect before it is entered, and when it was left."""
        if self._scope is not None:
            self._scope.cause = self._scope.cause or self
            self._scope.scope.cancel()

    def move(self, scope: _Scope) -> None:
        """From now on this is the one that is cancelled."""
        self._scope = scope

    def leave(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> Exception | None:
        """To be called once, with what goes through. What to raise instead, where that is our own cancellation."""
        left, self._scope = self._scope, None
        if left is None:
            return None
        left.body = None
        if running_task() is not self._task:
            return None
        scopes = _entered[self._task]
        for outer, inner in pairwise(scopes[scopes.index(left) :]):
            outer.body, inner.body = inner.body, None
            if outer.body is not None:
                outer.body.move(outer)
        loss: Exception | None = None
        while scopes and scopes[-1].body is None:
            innermost = scopes.pop()
            if innermost.scope.__exit__(kind, error, at) and innermost.cause is not None:
                kind = error = at = None
                loss = innermost.cause.loss()
        return loss
