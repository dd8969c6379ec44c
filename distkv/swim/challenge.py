"""What a node must show before it may join: that it is where it says to be, and that it has the secret.

Knows: how a token is made from who asks and when, and what proves that somebody has a key.  Does not know who may join.

Invariant: nothing is kept for anybody who asks. A token is good for one name at one address, for one to two minutes, on
the process that made it; a proof is good for one token and one record (docs/protocol, SWIM-7).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import Final

import attrs

from distkv.wire import packing
from distkv.wire.swim_records import Address, NodeRecord, record_list

TOKEN_BYTES: Final = 16
MINUTE_MS: Final = 60_000

_TOKEN_LABEL: Final = "distkv swim token"
_AUTH_LABEL: Final = "distkv swim auth"


@attrs.frozen(slots=True)
class Challenge:
    """The tokens of one process."""

    process_key: bytes = attrs.field(repr=False)
    """Random; nobody else has it."""

    def token(self, now_ms: int, address: Address, node: str) -> bytes:
        """What this one, at the address it sent from, must send back."""
        return self._token(now_ms // MINUTE_MS, address, node)

    def is_token(self, now_ms: int, address: Address, node: str, token: bytes) -> bool:
        """Whether this one got it from us in this minute or the one before."""
        minute = now_ms // MINUTE_MS
        return any(hmac.compare_digest(token, self._token(one, address, node)) for one in (minute, minute - 1))

    def _token(self, minute: int, address: Address, node: str) -> bytes:
        said = packing.pack_plain([_TOKEN_LABEL, minute, address[0], address[1], node])
        return hmac.digest(self.process_key, said, hashlib.sha256)[:TOKEN_BYTES]


def proof(key: bytes, token: bytes, record: NodeRecord) -> bytes:
    """That whoever says this has the key, got the token, and calls itself so."""
    said = packing.pack_plain([_AUTH_LABEL, token, record_list(record)])
    return hmac.digest(key, said, hashlib.sha256)


def is_proof(keys: Iterable[bytes], token: bytes, record: NodeRecord, auth: bytes) -> bool:
    """Whether somebody with one of the keys said it."""
    return any(hmac.compare_digest(auth, proof(key, token, record)) for key in keys)
