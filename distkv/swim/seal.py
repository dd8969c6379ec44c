"""How frames are closed to strangers, and opened: the one place that knows `cryptography`, once there is a secret.

Knows: the header of a sealed datagram, what it is sealed with, and what was opened before (docs: swim, 'Sealed').  Does
not know frames, nor what a sender is believed.

Invariant: no two datagrams are sealed with one key and one nonce. What opens was sealed by somebody who has a key of
the ring, for this group, and, if it is bound, for the present start of this node; it opens once. Nothing is kept of a
start of which nothing opened (docs/protocol, SWIM-45).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import attrs

from distkv.errors import SettingsError
from distkv.model.invariant import must
from distkv.swim.keyring import Keyring, key_id, sealing_key
from distkv.swim.starts import Cipher, KnownStarts
from distkv.wire.swim_frames import FrameType
from distkv.wire.swim_records import DATAGRAM_BYTES_MAX, KEY_ID_BYTES, KEYS_MAX, START_BYTES

RANDOM_BYTES: Final = 4
COUNTER_BYTES: Final = 8
TAG_BYTES: Final = 16

_START_AT: Final = 1 + KEY_ID_BYTES
_BOUND_AT: Final = _START_AT + START_BYTES
_NONCE_AT: Final = _BOUND_AT + 1
_COUNTER_AT: Final = _NONCE_AT + RANDOM_BYTES
HEADER_BYTES: Final = _COUNTER_AT + COUNTER_BYTES

_SEALED: Final = FrameType.SEALED.to_bytes(1, "big")
_UNBOUND: Final = b"\x00"
_BOUND: Final = b"\x01"
_PLAIN: Final = frozenset({*FrameType} - {FrameType.SEALED})


@attrs.frozen(slots=True)
class Opened:
    """What was inside."""

    frame: bytes
    start: bytes | None
    """Of who sealed it; None: nobody did."""
    is_bound: bool
    """Whether it was sealed for our present start, so that it is fresh."""


class Seal(Protocol):
    """What every datagram goes through."""

    @property
    def overhead(self) -> int:
        """How many bytes it adds."""

    def close(self, frame: bytes, receiver_start: bytes | None, keys: Sequence[bytes] = ()) -> bytes:
        """The datagram. `receiver_start`: if it is known; then it opens for no other start. `keys`: the ids of those
        that the receiver has; if the one that seals is not among them, it gets another one that both have."""

    def open(self, data: bytes) -> Opened | str:
        """What is inside, or why it is dropped: `seal`, `type`, `size` or `replay`."""

    def renew(self, keyring: Keyring) -> None:
        """This keyring holds from now on. Counters go on, and what was here before is not forgotten."""

    def vouch(self, start: bytes) -> None:
        """A member has this start: what was heard of it is kept until `drop` or `refuse`."""

    def refuse(self, start: bytes) -> None:
        """The node of this start has a newer one: nothing of this one opens any more."""

    def drop(self, start: bytes) -> None:
        """No member has this start any more."""

    def check(self) -> None:
        """
        Raises:
            BrokenInvariantError: it does not hold what it promises.
        """


class PlainSeal:
    """There is no secret: all may read all, and say all."""

    overhead: Final = 0

    def close(self, frame: bytes, receiver_start: bytes | None, keys: Sequence[bytes] = ()) -> bytes:  # noqa: ARG002
        return frame

    def open(self, data: bytes) -> Opened | str:
        if not 0 < len(data) <= DATAGRAM_BYTES_MAX:
            return "size"
        return "seal" if data[:1] == _SEALED else Opened(data, None, False)

    def renew(self, keyring: Keyring) -> None:
        """There are no keys."""

    def vouch(self, start: bytes) -> None:
        """Nobody proves which start it has."""

    def refuse(self, start: bytes) -> None:
        """Nobody proves which start it has."""

    def drop(self, start: bytes) -> None:
        """Nobody proves which start it has."""

    def check(self) -> None:
        """Nothing changes here."""


@attrs.frozen(slots=True)
class _Library:
    """What is used of it."""

    cipher: Callable[[bytes], Cipher]
    misfit: type[Exception]
    """Raised when something does not open."""


def _library() -> _Library:
    try:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    except ImportError:
        raise SettingsError(
            "cluster.secret is set, and the package cryptography is missing: pip install 'distkv[swim]'"
        ) from None
    return _Library(ChaCha20Poly1305, InvalidTag)


class KeyedSeal:
    """ChaCha20-Poly1305, with a key of its own for each sender."""

    overhead: Final = HEADER_BYTES + TAG_BYTES

    def __init__(self, keyring: Keyring, group: str, start: bytes, draw: Callable[[int], bytes]) -> None:
        """`draw` gives so many random bytes, and asks the host for them each time: when a virtual machine is copied
        while it runs, both copies go on with one counter, and with one state of every generator in this process.

        Raises:
            SettingsError: the library is missing.
        """
        self._library = _library()
        self._group = group.encode()
        self._start = start
        self._draw = draw
        self._counter = 0
        self._starts = KnownStarts()
        self._keys: dict[bytes, bytes] = {}
        self.renew(keyring)

    def renew(self, keyring: Keyring) -> None:
        self._keys = {key_id(key): key for key in keyring.keys}
        self._own = {name: self._library.cipher(sealing_key(key, self._start)) for name, key in self._keys.items()}
        self._starts.keep_keys(frozenset(self._keys))

    def close(self, frame: bytes, receiver_start: bytes | None, keys: Sequence[bytes] = ()) -> bytes:
        name = self._name_for(receiver_start, keys)
        self._counter += 1
        nonce = self._draw(RANDOM_BYTES) + self._counter.to_bytes(COUNTER_BYTES, "big")
        bound = _UNBOUND if receiver_start is None else _BOUND
        header = b"".join((_SEALED, name, self._start, bound, nonce))
        return header + self._own[name].encrypt(nonce, frame, self._around(header, receiver_start))

    def open(self, data: bytes) -> Opened | str:
        misfit = self._misfit(data)
        if misfit is not None:
            return misfit
        name, start, bound = data[1:_START_AT], data[_START_AT:_BOUND_AT], data[_BOUND_AT:_NONCE_AT]
        key = self._keys.get(name)
        if key is None or bound not in (_UNBOUND, _BOUND):
            return "seal"
        sender = self._starts.known(start)
        cipher = None if sender is None else sender.ciphers.get(name)
        if cipher is None:
            cipher = self._library.cipher(sealing_key(key, start))
        header, receiver = data[:HEADER_BYTES], self._start if bound == _BOUND else None
        try:
            frame = cipher.decrypt(header[_NONCE_AT:], data[HEADER_BYTES:], self._around(header, receiver))
        except self._library.misfit:
            return "seal"
        sender = self._starts.heard(start)
        sender.ciphers[name] = cipher
        sender.sealed_by = name
        is_new = sender.window.take(int.from_bytes(header[_COUNTER_AT:], "big"))
        return Opened(frame, start, receiver is not None) if is_new else "replay"

    def vouch(self, start: bytes) -> None:
        self._starts.vouch(start)

    def refuse(self, start: bytes) -> None:
        self._starts.refuse(start)

    def drop(self, start: bytes) -> None:
        self._starts.drop(start)

    def check(self) -> None:
        must(1 <= len(self._keys) <= KEYS_MAX, "there are one to three keys")
        must([*self._own] == [*self._keys], "each of them seals, the first one if nothing else is asked for")
        must(self._starts.known(self._start) is None, "nothing of our own opens")
        self._starts.check()

    def _name_for(self, receiver_start: bytes | None, keys: Sequence[bytes]) -> bytes:
        """The key that a receiver gets: the first one, if it has that; of a stranger only its own choice is known."""
        first = next(iter(self._own))
        if keys:
            return first if first in keys else next((one for one in self._own if one in keys), first)
        sender = None if receiver_start is None else self._starts.known(receiver_start)
        return first if sender is None or sender.sealed_by not in self._own else sender.sealed_by

    def _around(self, header: bytes, receiver_start: bytes | None) -> bytes:
        """What is not in the box, and must be the same for both sides."""
        return header + (receiver_start or b"") + self._group

    def _misfit(self, data: bytes) -> str | None:
        """Why nobody needs to try to open it."""
        if not 0 < len(data) <= DATAGRAM_BYTES_MAX:
            return "size"
        if data[:1] != _SEALED:
            return "seal" if data[0] in _PLAIN else "type"
        if len(data) <= self.overhead:
            return "size"
        start = data[_START_AT:_BOUND_AT]
        return "replay" if start == self._start or self._starts.is_old(start) else None
