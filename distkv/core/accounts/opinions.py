"""What the token servers say of a name, and what follows from that.

Knows: the lists of servers that count, and what each answered last.  Does not know who asks, nor when again.

For example, with the servers a, b, c: when a and b say that they have the entry of a registration, it is *held*. When b
and c say that they have it not, it is *not held*, and can never have been. When only b has answered, nobody knows.

Invariant: each answer is that of a server of a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final

from distkv.model.event import NodeName
from distkv.model.fence import GrantNumber
from distkv.model.invariant import must
from distkv.wire.account_entries import AccountEntry, SecretHash


class Fate(Enum):
    """Of a registration, as far as the answers tell."""

    HELD = "held"
    """A majority of each list has it."""
    NOT_HELD = "not held"
    """Of one list so many lack it that no majority has it."""
    UNKNOWN = "unknown"


class Opinions:
    """Of one name."""

    def __init__(self, lists: Iterable[tuple[NodeName, ...]]) -> None:
        """`lists`: that in force, and during a change of servers the next one."""
        self._lists: Final = [frozenset(list) for list in lists if list]
        self.answers: Final = dict[NodeName, AccountEntry | None]()
        self.others: Final = dict[NodeName, AccountEntry | None]()
        """What other nodes have: it does not count, but may be what the servers have not heard of yet."""

    @property
    def servers(self) -> frozenset[NodeName]:
        """All that are asked."""
        return frozenset().union(*self._lists)

    def take(self, node: NodeName, entry: AccountEntry | None) -> None:
        """A server answers, or another node."""
        (self.answers if node in self.servers else self.others)[node] = entry

    @property
    def is_majority(self) -> bool:
        """Whether a majority of each list has answered."""
        return self._holds(lambda _: True)

    def best(self, own: AccountEntry | None) -> AccountEntry | None:
        """The entry that counts, of all that answered and this node."""
        found = [entry for entry in (*self.answers.values(), *self.others.values(), own) if entry is not None]
        return max(found, key=lambda entry: entry.rank, default=None)

    def fate(self, secret: SecretHash) -> Fate:
        """Whether a majority has this very registration."""
        if self._holds(lambda entry: entry is not None and entry.secret == secret):
            return Fate.HELD
        lacking = {node for node, entry in self.answers.items() if entry is None or entry.secret != secret}
        if any(len(list & lacking) > len(list) - _majority(list) for list in self._lists):
            return Fate.NOT_HELD
        return Fate.UNKNOWN

    def has_free(self, number: GrantNumber) -> bool:
        """Whether a majority knows that the name is free since this grant."""
        return self._holds(lambda entry: entry is not None and entry.secret is None and entry.number >= number)

    def _holds(self, is_so: Callable[[AccountEntry | None], bool]) -> bool:
        found = {node for node, entry in self.answers.items() if is_so(entry)}
        return bool(self._lists) and all(len(list & found) >= _majority(list) for list in self._lists)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(self.answers.keys() <= self.servers, "who answered is a server")


def _majority(list: frozenset[NodeName]) -> int:
    return len(list) // 2 + 1
