"""How the keyring of a group changes while it runs: each node does what was said last about each key, and tells those
that have not done it.

Knows: what was said about which key, the keyring that this node keeps, and the one that it should.  Does not know the
file, nor who is a member.

Invariant: a node keeps a keyring only after it was written. It tells of a change only what it has done itself. Of two
words about one key, or about which key seals, the one of the higher epoch holds on every node, in whatever order they
are heard. What was done once is not done again when somebody wrote the file by hand since (docs/protocol, SWIM-47).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from distkv.model.invariant import must
from distkv.swim.keyring import Keyring, key_id
from distkv.wire.swim_records import KEYS_MAX, SEQUENCE_MAX, KeyAction, KeyChange

CHANGES_MAX: Final = 16
RETRY_MS: Final = 10_000
"""So long after it could not be written a keyring is written again."""
NAMED_MAX: Final = 3

_SEALS: Final = b""
"""Under which it is remembered which key seals; each other word is under the id of its key."""


class KeyChanges:
    """What was said about the keys of a group, and what came of it here."""

    def __init__(self, keyring: Keyring, *, is_fixed: bool) -> None:
        """`is_fixed`: the keys stand in the configuration, which nobody writes."""
        self.keyring = keyring
        """What this node keeps."""
        self._is_fixed = is_fixed
        self._said: dict[bytes, KeyChange] = {}
        self._open: dict[bytes, KeyChange] = {}
        """Of these, what is not done here."""
        self._asked_ms: int | None = None

    def begin(
        self, action: KeyAction, key: bytes, generation: int, rings: Mapping[str, Sequence[bytes]]
    ) -> KeyChange | str:
        """The operator says it here; or why it is refused. `generation`: of this node. `rings`: of all registered
        nodes the ids of their keys, as far as they are known."""
        if self._is_fixed:
            return "the keys stand in the configuration: write them into a file, and set cluster.secret: file:/PATH"
        newest = max([one.epoch for one in self._said.values()], default=0)
        change = KeyChange(min(max(newest, generation) + 1, SEQUENCE_MAX), action, key)
        wanted = self._wanted()
        refusal = wanted.changed(change)
        if isinstance(refusal, str):
            return refusal
        lacking = [name for name, ids in rings.items() if wanted.ids[0] not in ids]
        if action is KeyAction.REMOVE and lacking:
            named = ", ".join(sorted(lacking)[:NAMED_MAX]) + (" and others" if len(lacking) > NAMED_MAX else "")
            return f"the key {wanted.ids[0].hex()}, which seals, is not yet on {named}: wait, or remove those nodes"
        self.hear(change)
        return change

    def hear(self, change: KeyChange) -> None:
        """Somebody tells it."""
        place = _place(change)
        known = self._said.get(place)
        if known is not None and _rank(change) <= _rank(known):
            return
        self._said[place] = self._open[place] = change
        self._close_done()
        if len(self._said) > CHANGES_MAX:
            oldest = min(self._said, key=lambda one: _rank(self._said[one]))
            del self._said[oldest]
            self._open.pop(oldest, None)

    def take_wanted(self, now_ms: int) -> Keyring | None:
        """The keyring that is to be written, each `RETRY_MS` until it was."""
        wanted = self._wanted()
        if wanted == self.keyring or self._is_fixed:
            return None
        if self._asked_ms is not None and now_ms - self._asked_ms < RETRY_MS:
            return None
        self._asked_ms = now_ms
        return wanted

    def kept(self, keyring: Keyring) -> None:
        """This one was written, as it was wanted."""
        self.keyring = keyring
        self._asked_ms = None
        self._close_done()

    def reread(self, keyring: Keyring) -> None:
        """Somebody wrote this one: it holds, whatever was said before."""
        self._open.clear()
        self.kept(keyring)

    def told_to(self, ids: Sequence[bytes]) -> tuple[KeyChange, ...]:
        """What a node whose keys have these ids has not done, and this one has."""
        if tuple(ids) == self.keyring.ids or not self._said:
            return ()
        told = [one for one in self._said.values() if _is_done(one, self.keyring.ids) and not _is_done(one, ids)]
        return tuple(sorted(told, key=_rank))

    def check(self) -> None:
        must(len(self._said) <= CHANGES_MAX, "few changes are remembered")
        must(self._open.keys() <= self._said.keys(), "what is not done was said")
        must(all(self._said[place] == one for place, one in self._open.items()), "what was said last is done")
        must(all(_place(one) == place for place, one in self._said.items()), "each word is in its place")

    def _wanted(self) -> Keyring:
        """The keyring after all that is to be done and can be."""
        removed = {one.key for one in self._open.values() if one.action is KeyAction.REMOVE}
        keys = [key for key in self.keyring.keys if key_id(key) not in removed]
        keys += [one.key for one in sorted(self._open.values(), key=_rank) if one.action is KeyAction.INSTALL]
        keys = keys[:KEYS_MAX]
        seals = self._open.get(_SEALS)
        present = self.keyring.keys[0]  # stays until another one seals
        first = next((key for key in keys if seals is not None and key_id(key) == seals.key), present)
        return Keyring((first, *[key for key in keys if key != first])[:KEYS_MAX])

    def _close_done(self) -> None:
        self._open = {place: one for place, one in self._open.items() if not _is_done(one, self.keyring.ids)}


def _is_done(change: KeyChange, ids: Sequence[bytes]) -> bool:
    """Whether the keys with these ids are as it says."""
    match change.action:
        case KeyAction.INSTALL:
            return key_id(change.key) in ids
        case KeyAction.USE:
            return [*ids[:1]] == [change.key]
        case KeyAction.REMOVE:
            return change.key not in ids


def _place(change: KeyChange) -> bytes:
    match change.action:
        case KeyAction.INSTALL:
            return key_id(change.key)
        case KeyAction.USE:
            return _SEALS
        case KeyAction.REMOVE:
            return change.key


def _rank(change: KeyChange) -> tuple[int, int, bytes]:
    """The same on every node; at one epoch a key is rather removed than installed."""
    return change.epoch, change.action.value, change.key
