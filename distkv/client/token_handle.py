"""What the user of a token sees of it, the same in all clients.

Knows: how a token that a session holds is shown, and when it is lost.  Does not know what keeps the session alive: a
thread (`blocking_token`) or a task (`async_token`).

Invariant: whether the token is lost is judged by the clock at that moment, whatever the shell has noticed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from distkv.client import failures
from distkv.client.addresses import Reach
from distkv.client.holding import Holding
from distkv.client.token_wish import TokenNews, TokenWish, data_value, pack_data
from distkv.errors import RequestError
from distkv.model.fence import NO_FENCE, Fence

Found = TypeVar("Found")


class SessionShell(Protocol):
    """What keeps a session alive."""

    @property
    def news(self) -> TokenNews:
        """What it was told."""

    def do(self, what: Callable[[Holding, int], Found]) -> Found:
        """Ask the machine for something."""

    def read(self, what: Callable[[Holding, int], Found]) -> Found:
        """Look at the machine."""


class TokenOwner(Protocol):
    """Whose token it is."""

    @property
    def reach(self) -> Reach:
        """Where its nodes are; raises UnreachableError once it is closed."""

    @property
    def name(self) -> str:
        """The address of the node that was connected last."""

    @property
    def is_closed(self) -> bool: ...


Owner = TypeVar("Owner", bound=TokenOwner)
Shell = TypeVar("Shell", bound=SessionShell)


class TokenHandle(Generic[Owner, Shell]):
    """One token, and the session that holds it once it was entered. A token that is held outlives its client."""

    def __init__(self, client: Owner, wish: TokenWish) -> None:
        """Raises UnreachableError: the client is closed."""
        self._client: Final = client
        self._reach: Final = client.reach
        self._wish: Final = wish
        self._fence = NO_FENCE
        self._data: bytes | None = None
        self._shell: Shell | None = None

    def __repr__(self) -> str:
        fence = self._fence if self._fence.holds else "not held"
        return f"<distkv.{type(self).__name__} {self._wish.name!r} {fence}>"

    @property
    def name(self) -> str:
        return self._wish.name

    @property
    def fence(self) -> Fence:
        """Give it to every write that is made under the token; it stays when the token is lost."""
        return self._fence

    @property
    def session(self) -> str:
        """The id of the session that holds it; empty before that."""
        return "" if self._shell is None else self._shell.read(lambda holding, _: holding.session)

    @property
    def data(self) -> object:
        """What the token carried when it was obtained, or what was set since; None: nothing."""
        return data_value(self._data)

    @property
    def is_lost(self) -> bool:
        """Whether others may have the token. It looks at the clock, and is right also after a long sleep."""
        return self.left_s <= 0

    @property
    def left_s(self) -> float:
        """For how many seconds the token may be counted on as things stand, were no node to answer any more."""
        if self._shell is None:
            return 0.0
        return self._shell.read(lambda holding, now_ms: holding.left_ms(self.name, now_ms)) / 1000

    def check(self) -> None:
        """Raises TokenLostError when others may have the token."""
        if self._shell is not None and self.is_lost:
            raise self._shell.news.lost(self.name)

    # -- for the shells

    def _check_new(self) -> None:
        if self._shell is not None:
            raise RequestError("a token is entered once: call client.token again")

    def _take(self, shell: Shell) -> None:
        """It is decided whether the token is obtained: keep what it brought, or raise why it is not."""
        name = self.name
        if not shell.news.is_decided:
            raise failures.ended(self._client.name)
        fence, data = shell.read(lambda holding, now_ms: (holding.fence(name, now_ms), holding.data(name, now_ms)))
        if shell.news.refusal is not None:
            raise shell.news.refusal
        if fence is None:
            raise shell.news.lost(name)
        self._fence, self._data = fence, data

    def _ask_data(self, value: object) -> tuple[Shell, bytes | None, int]:
        """Begin to change the data: the shell, the data packed, and the number of the answer to wait for."""
        packed, shell = pack_data(value), self._shell
        if shell is None:
            raise RequestError("the token is not held: use it inside its 'with' block")
        self.check()
        if self._client.is_closed:
            raise failures.ended(self._client.name)
        patience_ms = int(self._reach.reply_s * 1000)
        keeps = self._wish.keeps_data
        number = shell.do(lambda holding, now: holding.set_data(self.name, packed, patience_ms, now, keeps=keeps))
        return shell, packed, number

    def _keep_data(self, shell: Shell, packed: bytes | None, number: int) -> None:
        """The answer is there, or there will be nobody to hear it."""
        self.check()
        if not shell.news.is_answered(number):
            raise failures.cut_off(self._client.name)
        shell.news.check_answer(number)
        self._data = packed
