"""Which secrets were right: a thousand logins of one user cost one slow hash.

Knows: a digest of each, with a key that only this process has.  Does not know secrets.

Invariant: at most `PAIRS_MAX` are known, those that were used last. A registration has a salt of its own, so what was
right for one is not right for a later one.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from distkv.core.ready import Rng
from distkv.model.invariant import must
from distkv.wire.account_entries import SecretHash

PAIRS_MAX: Final = 10_000
KEY_BYTES: Final = 32


class RightSecrets:
    """Those of one start of the machine."""

    def __init__(self, rng: Rng) -> None:
        self._key: Final = drawn_bytes(rng, KEY_BYTES)
        self._digests: Final = dict[bytes, None]()
        """The one that was used last is the last."""

    def add(self, kept: SecretHash, secret: bytes) -> None:
        """This secret is right for what is kept of it."""
        digest = self.digest(kept, secret)
        self._digests.pop(digest, None)
        self._digests[digest] = None
        if len(self._digests) > PAIRS_MAX:
            del self._digests[next(iter(self._digests))]

    def has(self, kept: SecretHash, secret: bytes) -> bool:
        """Whether that is known; else it may be right all the same."""
        return self.digest(kept, secret) in self._digests

    def digest(self, kept: SecretHash, secret: bytes) -> bytes:
        """Of a secret for what is kept, right or not."""
        return blake2b(kept.hash + kept.salt + secret, key=self._key).digest()

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(len(self._digests) <= PAIRS_MAX, "few pairs are known")


def drawn_bytes(rng: Rng, count: int) -> bytes:
    """So many, by chance."""
    return bytes([int(rng.random() * 256) for _ in range(count)])
