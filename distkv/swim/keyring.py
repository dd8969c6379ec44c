"""The secrets of a group, which are the text of `cluster.secret`: one key seals, all of them open.

Knows: how keys are written and named, what is derived from them, and how a change makes another keyring.  Does not know
files, nor the library that seals.

Invariant: a keyring has one to three different keys with different ids. No message, and no text of a value, holds a
key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Iterable
from typing import Final

import attrs

from distkv.errors import SettingsError
from distkv.wire.swim_records import KEY_BYTES, KEY_ID_BYTES, KEYS_MAX, KeyAction, KeyChange

_ID_LABEL: Final = b"distkv swim key id"
_SEAL_LABEL: Final = b"distkv swim seal"


def key_id(key: bytes) -> bytes:
    """What a key is called where all may read it."""
    return hmac.digest(key, _ID_LABEL, hashlib.sha256)[:KEY_ID_BYTES]


def sealing_key(key: bytes, start: bytes) -> bytes:
    """What the node of this start seals with: HKDF-SHA256 (RFC 5869), its start is the salt."""
    extracted = hmac.digest(start, key, hashlib.sha256)
    return hmac.digest(extracted, _SEAL_LABEL + b"\x01", hashlib.sha256)


@attrs.frozen(slots=True)
class Keyring:
    """Keys of 32 bytes; the first one seals."""

    keys: tuple[bytes, ...] = attrs.field(repr=False)

    @property
    def ids(self) -> tuple[bytes, ...]:
        """In the same order."""
        return tuple(map(key_id, self.keys))

    def changed(self, change: KeyChange) -> Keyring | str:
        """What the change makes of this keyring, which is the same one if that is done already; or why it cannot be
        done."""
        match change.action:
            case KeyAction.INSTALL:
                return self._with(change.key)
            case KeyAction.USE:
                return self._moved(change.key, lambda key, others: Keyring((key, *others)))
            case KeyAction.REMOVE:
                return self._without(change.key)

    def _with(self, key: bytes) -> Keyring | str:
        if key in self.keys:
            return self
        if len(self.keys) == KEYS_MAX:
            return f"there are {KEYS_MAX} keys already: remove one first"
        if key_id(key) in self.ids:
            return f"another key is called {key_id(key).hex()}, too: make a new one"
        return Keyring((*self.keys, key))

    def _without(self, wanted: bytes) -> Keyring | str:
        if wanted == key_id(self.keys[0]):
            return f"the key {wanted.hex()} is the one that seals: use another one first"
        found = self._moved(wanted, lambda _, others: Keyring(tuple(others)))
        return self if isinstance(found, str) else found

    def _moved(self, wanted: bytes, made: Callable[[bytes, Iterable[bytes]], Keyring]) -> Keyring | str:
        for key in self.keys:
            if key_id(key) == wanted:
                return made(key, [one for one in self.keys if one != key])
        return f"there is no key {wanted.hex()}: install it first"


def parse_key(text: str, what: str) -> bytes:
    """A key, as one line has it.

    Raises:
        SettingsError: it is not that. The message does not repeat the text.
    """
    try:
        key = base64.b64decode(text.strip().encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        key = b""
    if len(key) != KEY_BYTES:
        raise SettingsError(f"{what} is not a key: write what distkv swim keygen prints: {KEY_BYTES} bytes in base64")
    return key


def parse_keyring(text: str, what: str) -> Keyring:
    """The keyring that `cluster.secret` is: a key on each line, empty lines aside. `what`: whose text it is.

    Raises:
        SettingsError: it is not that. The message does not repeat the text.
    """
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    keys = [parse_key(line, f"{what}, line {number}," if len(lines) > 1 else what) for number, line in lines]
    if not 1 <= len(keys) <= KEYS_MAX:
        raise SettingsError(f"{what} has {len(keys)} keys: write 1 to {KEYS_MAX}, one on each line")
    if len({*map(key_id, keys)}) < len(keys):
        raise SettingsError(f"{what} has one key twice: write each one once")
    return Keyring(tuple(keys))


def keyring_text(keyring: Keyring) -> str:
    """The text that `parse_keyring` reads."""
    return "".join([base64.b64encode(key).decode() + "\n" for key in keyring.keys])
