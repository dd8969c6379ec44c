"""What watches are told by one node of its part of the items: those that changed, as soon as some have.

Knows: in which order items changed last, and the calls that wait for a change.  Does not know the items.

Invariant: of each item only the last change counts, so what is told is the newest one. Items that are known are never
left out; of those that are not known any more the last `CHANGES_MAX` / 2 at least are told. Who missed more, or asks
for the first time, is told all that there is, and that it is all. Only items of this node's part are told.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Final, Generic, Protocol, TypeVar

from distkv.core.ground.calls import CallKey
from distkv.core.ground.gathering import PartNews
from distkv.model.invariant import must

CHANGES_MAX: Final = 20_000
ITEMS_AT_ONCE: Final = 200
WATCHES_MAX: Final = 1000


I = TypeVar("I")  # noqa: E741 - an item
I_contra = TypeVar("I_contra", contravariant=True)
N = TypeVar("N", bound=PartNews[object])
N_co = TypeVar("N_co", bound=PartNews[object], covariant=True)


class NewsForm(Protocol[I_contra, N_co]):
    """Makes what is told."""

    def __call__(self, items: tuple[I_contra, ...], position: int, is_first: bool, is_last: bool, /) -> N_co: ...


class PartChanges(Generic[I, N]):
    """Positions count the changes since the start, from `first` on: those of an earlier start are not known."""

    def __init__(
        self,
        news: NewsForm[I, N],
        first: int,
        known: Container[str],
        is_mine: Callable[[str], bool],
        item: Callable[[str], I],
    ) -> None:
        """`known`: the names of what is there; `is_mine`: whether it is for this node to say that something is, or is
        not any more."""
        self._form: Final = news
        self._first = first
        """What changed before that is not all known."""
        self._position = first
        self._known: Final = known
        self._is_mine: Final = is_mine
        self._item: Final = item
        self._changes: Final = dict[str, int]()
        """Of each item that is known, and of some that were, the position of the last change; rising."""
        self._gone = 0
        """How many changes were of items that are not known any more."""
        self.waiting: Final = dict[CallKey, tuple[str, int]]()
        """Of each watch its prefix, and up to which position it knows all; only read."""

    @property
    def is_full(self) -> bool:
        return len(self.waiting) >= WATCHES_MAX

    def touched(self, name: str) -> None:
        """An item changed."""
        self._position += 1
        self._changes.pop(name, None)
        self._changes[name] = self._position
        self._gone += name not in self._known
        if self._gone > CHANGES_MAX:
            for one in [one for one in self._changes if one not in self._known][: CHANGES_MAX // 2]:
                self._first = max(self._first, self._changes.pop(one))
            self._gone = CHANGES_MAX // 2

    def wait(self, call: CallKey, prefix: str, position: int) -> None:
        """Somebody watches, and knows all up to a position; 0: nothing."""
        is_ours = self._first <= position <= self._position
        self.waiting[call] = prefix, position if is_ours else 0

    def call_gone(self, call: CallKey) -> None:
        """He does not any more."""
        self.waiting.pop(call, None)

    def take(self, *, is_whole: bool) -> list[tuple[CallKey, N]]:
        """What there is to tell; who is told is to ask again. Whoever knows nothing waits until `is_whole` says that
        this node knows all of its part."""
        news = list[tuple[CallKey, N]]()
        for call, (prefix, position) in self.waiting.items():
            if position < self._position and (position or is_whole):
                found = self._news(prefix, position)
                if found.items or found.is_first:
                    news.append((call, found))
                else:
                    self.waiting[call] = prefix, found.position
        for call, _ in news:
            del self.waiting[call]
        return news

    def _news(self, prefix: str, position: int) -> N:
        names = list[str]()
        for name in reversed(self._changes):  # the newest first: who knows nearly all costs little
            if self._changes[name] <= position:
                break
            if name.startswith(prefix) and self._is_mine(name) and (position or name in self._known):
                names.append(name)
        names.reverse()
        items = tuple([self._item(name) for name in names[:ITEMS_AT_ONCE]])
        is_last = len(names) <= ITEMS_AT_ONCE
        end = self._position if is_last else self._changes[names[ITEMS_AT_ONCE - 1]]
        return self._form(items, end, position == 0, is_last)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        changes = [*self._changes.values()]
        must(changes == sorted(changes), "the last change is the last one")
        must(self._first <= self._position and all(at <= self._position for at in changes), "none is to come")
        must(all(at <= self._position for _, at in self.waiting.values()), "nobody knows what is still to come")
