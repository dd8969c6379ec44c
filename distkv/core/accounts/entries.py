"""What the store of a node has of accounts.

Knows: which names are taken, which are free again, and which were registered twice.  Does not know what others have.

Invariant: a name is in one of these sets at the most, by the entry that counts now.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Final

from distkv.core.ground.machine import Entries
from distkv.errors import DecodeError
from distkv.model.invariant import must
from distkv.wire.account_entries import HASH_BYTES, SALT_BYTES, AccountEntry, SecretHash, read_account

UNREADABLE: Final = AccountEntry(0, 0, SecretHash(bytes(HASH_BYTES), bytes(SALT_BYTES), 0), sure=True)
"""What stands for an entry of another release, or a damaged one: somebody has the name, and no secret is right."""


class AccountEntries:
    """Since the machine began."""

    def __init__(self, entries: Entries) -> None:
        self._entries: Final = entries
        self._names: Final = list[str]()
        """Those that are taken, in order."""
        self._taken: Final = set[str]()
        self._free: Final = set[str]()
        self._doubled: Final = set[str]()
        """Those of the taken ones that were registered twice."""
        for name in entries.all_keys():
            self.look(name)

    def __len__(self) -> int:
        """How many names have an entry."""
        return len(self._taken) + len(self._free)

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def doubled(self) -> int:
        return len(self._doubled)

    def __contains__(self, username: object) -> bool:
        return username in self._taken or username in self._free

    def known(self, username: str) -> AccountEntry | None:
        """What counts of a name. It is sure when any version of this very registration is."""
        versions = self._versions(username)
        if not versions:
            return None
        winner = max(versions, key=lambda entry: entry.rank)
        is_sure = any(entry.sure and entry.secret == winner.secret for entry in versions)
        return AccountEntry(winner.epoch, winner.counter, winner.secret, sure=is_sure and winner.secret is not None)

    def values(self, username: str) -> tuple[bytes | None, ...]:
        """All versions, as they are kept."""
        return self._entries.versions(username)

    def page(self, prefix: str, after: str, limit: int) -> tuple[list[str], bool]:
        """The next names that are taken, and whether there are more."""
        names = self._names
        at = max(bisect_left(names, prefix), bisect_right(names, after))
        found = list[str]()
        for name in names[at : at + limit + 1]:
            if not name.startswith(prefix):
                break
            found.append(name)
        return found[:limit], len(found) > limit

    def is_doubled(self, username: str) -> bool:
        """Whether two registrations of it were sure."""
        return username in self._doubled

    def look(self, username: str) -> None:
        """Its entry may be another."""
        known = self.known(username)
        is_taken = known is not None and known.secret is not None
        if is_taken and username not in self._taken:
            insort(self._names, username)
            self._taken.add(username)
        elif not is_taken and username in self._taken:
            del self._names[bisect_left(self._names, username)]
            self._taken.remove(username)
        _put(self._free, username, is_in=known is not None and known.secret is None)
        _put(self._doubled, username, is_in=is_taken and len(set(self._sure(username))) > 1)

    def _sure(self, username: str) -> Iterator[SecretHash]:
        return (entry.secret for entry in self._versions(username) if entry.sure and entry.secret is not None)

    def _versions(self, username: str) -> list[AccountEntry]:
        return [_read(value) for value in self._entries.versions(username) if value is not None]

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(set(self._names) == self._taken and len(self._names) == len(self._taken), "names are those that are taken")
        must(self._names == sorted(self._names), "names are in order")
        must(self._taken.isdisjoint(self._free), "no name is taken and free")
        must(self._doubled <= self._taken, "what was registered twice is taken")


def _read(value: bytes) -> AccountEntry:
    try:
        return read_account(value)
    except DecodeError:
        return UNREADABLE


def _put(names: set[str], name: str, *, is_in: bool) -> None:
    if is_in:
        names.add(name)
    else:
        names.discard(name)
