"""A token that a task holds: the async client's `async with client.token(...) as token`.

Knows: what entering, losing and leaving it does.  Does not know how a session is kept alive (`session_task`).

Invariant: when the token is lost the body is cancelled; what the body raised itself is never hidden. What is held
without a block belongs to no task.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from itertools import pairwise
from types import TracebackType
from typing import Final, Self
from weakref import WeakKeyDictionary

import anyio
import attrs

from distkv.client.async_connection import AsyncConnection
from distkv.client.boot_clock import boot_ms
from distkv.client.event_loop import running_task
from distkv.client.session_task import SessionTask
from distkv.client.token_handle import TokenHandle
from distkv.client.token_wish import TokenWish, new_holding
from distkv.errors import RequestError


class AsyncTokenHold(TokenHandle[AsyncConnection, SessionTask]):
    """One token, held inside an `async with` block, which is cancelled when the token is lost; or from where it is
    awaited until `aclose`."""

    def __init__(self, client: AsyncConnection, wish: TokenWish) -> None:
        super().__init__(client, wish)
        self._body: Final = Body(self._loss)
        self._is_entered = False

    async def set_data(self, value: object) -> None:
        """Change the data of the token; None: it has none any more.

        Raises:
            TokenLostError: the token is lost.
            BadValueError, TooLargeError: the data cannot be stored.
            UnreachableError: the client is closed.
            DistkvError: no server stored it within `reply_s` of the client, or before it was closed; then it is unknown
                whether one did.
        """
        self._client.check_here()
        shell, packed, number = self._ask_data(value)
        await shell.wait(lambda news: news.is_answered(number) or self._client.is_closed)
        self._keep_data(shell, packed, number)

    def __await__(self) -> Generator[object, None, Self]:
        """Obtain it without a block: any task may give it up, by `aclose`, and nobody is cancelled when it is lost."""
        return self._obtain().__await__()

    async def aclose(self) -> None:
        """Give up a token that was awaited, from any task, whether it is lost or not. May be called again."""
        if self._shell is not None:
            self._client.check_here()
            await self._close(self._shell)

    async def __aenter__(self) -> Self:
        await self._obtain()
        self._body.enter()
        self._is_entered = True
        self._look()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> bool:
        task = self._shell
        if task is None:
            return False
        self._client.check_here()
        is_lost, self._is_entered = self.is_lost, False
        await self._close(task)
        loss = self._body.leave(kind, error, at)
        if loss is None and is_lost and error is None:
            loss = self._loss()
        if loss is not None:
            raise loss from None
        return False

    # -- inside

    async def _obtain(self) -> Self:
        self._check_new()
        self._client.check_here()
        holding = new_holding(self._wish, self._reach.reply_s, boot_ms())
        task = self._shell = SessionTask(self._reach, holding, self._look)
        self._client.tell_end(task)
        try:
            await task.wait(lambda news: news.is_decided or self._client.is_closed)
            self._take(task)
        except BaseException:  # also when we are cancelled
            await self._close(task)
            raise
        return self

    def _look(self) -> None:
        """Something happened: perhaps the body is to be cancelled."""
        if self._is_entered and self.is_lost:
            self._body.cancel()

    def _loss(self) -> Exception:
        return RequestError("the token is not held") if self._shell is None else self._shell.news.lost(self.name)

    async def _close(self, task: SessionTask) -> None:
        """End the session, at the latest after a moment: then it ends by itself. Also when we are being cancelled."""
        with anyio.CancelScope(shield=True):
            task.do(lambda holding, now_ms: holding.close(now_ms))
            await task.wait(lambda news: news.is_over)
            await task.end()


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
    """What a task does between entering and leaving a block that is cancelled when what it holds is lost. A task may
    leave
    its blocks in any order, but cancel scopes in the reverse one only.

    Invariant: a scope is left by the task that entered it, the innermost first. So when a task leaves an outer body
    first, the bodies inside move one scope outwards. When another task leaves a body, its scope stays until its own
    task leaves one; nobody cancels it. (Neither trio nor a task group of anyio lets a task end before.)"""

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
