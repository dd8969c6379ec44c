"""Whose datagrams were opened so far: what opens the next one, and which ones were here.

Knows: the starts of members and of strangers, and those that a member had before.  Does not know how anything is
sealed, nor who is a member.

Invariant: a start is a member's, a stranger's, an old one, or unknown. Of strangers and of old ones only the last
`STARTS_MAX` are kept; members stay until they are dropped (docs/protocol, SWIM-46).
"""

from __future__ import annotations

from typing import Final, Protocol

import attrs

from distkv.model.invariant import must
from distkv.swim.replays import CounterWindow

STARTS_MAX: Final = 4096


class Cipher(Protocol):
    """One key of one sender."""

    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes, /) -> bytes: ...

    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes, /) -> bytes: ...


@attrs.define
class KnownStart:
    """One start."""

    ciphers: dict[bytes, Cipher] = attrs.field(factory=dict)
    """Those that opened something, by the id of their key."""
    sealed_by: bytes = b""
    """The id of the key with which it sealed last."""
    window: CounterWindow = attrs.field(factory=CounterWindow)


class KnownStarts:
    """By their starts."""

    def __init__(self) -> None:
        self._members: dict[bytes, KnownStart] = {}
        self._strangers: dict[bytes, KnownStart] = {}
        """Whoever was heard last stands at the end."""
        self._old: dict[bytes, None] = {}

    def is_old(self, start: bytes) -> bool:
        """Whether its node has a newer one."""
        return start in self._old

    def known(self, start: bytes) -> KnownStart | None:
        return self._members.get(start) or self._strangers.get(start)

    def heard(self, start: bytes) -> KnownStart:
        """Something of this start opened: it is kept."""
        found = self._members.get(start)
        if found is None:
            found = self._taken(start)
            self._strangers[start] = found
            _shorten(self._strangers)
        return found

    def vouch(self, start: bytes) -> None:
        """A member has it."""
        if start not in self._members and start not in self._old:
            self._members[start] = self._taken(start)

    def refuse(self, start: bytes) -> None:
        """Its node has a newer one."""
        self._members.pop(start, None)
        self._strangers.pop(start, None)
        self._old.pop(start, None)
        self._old[start] = None
        _shorten(self._old)

    def drop(self, start: bytes) -> None:
        """No member has it any more; what was heard of it is forgotten with the other strangers."""
        found = self._members.pop(start, None)
        if found is not None:
            self._strangers[start] = found
            _shorten(self._strangers)

    def keep_keys(self, ids: frozenset[bytes]) -> None:
        """Other keys do not open any more."""
        for sender in (*self._members.values(), *self._strangers.values()):
            sender.ciphers = {name: cipher for name, cipher in sender.ciphers.items() if name in ids}

    def _taken(self, start: bytes) -> KnownStart:
        """Not a stranger any more; with what was heard of it."""
        return self._strangers.pop(start) if start in self._strangers else KnownStart()

    def check(self) -> None:
        must(len(self._strangers) <= STARTS_MAX, "few strangers are kept")
        must(len(self._old) <= STARTS_MAX, "few old starts are kept")
        must(self._members.keys().isdisjoint(self._strangers), "nobody is a member and a stranger")
        must(self._old.keys().isdisjoint(self._members), "no member has an old start")
        must(self._old.keys().isdisjoint(self._strangers), "no stranger has an old start")
        for sender in (*self._members.values(), *self._strangers.values()):
            sender.window.check()


def _shorten(starts: dict[bytes, KnownStart] | dict[bytes, None]) -> None:
    """The one that stands first goes."""
    if len(starts) > STARTS_MAX:
        del starts[next(iter(starts))]
