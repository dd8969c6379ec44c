"""Who a client that resumes is, as the text that it brings along with each login.

Knows: the form of that text, and which epoch a login gets.  Does not know what the client sent, nor who is logged in.

Nobody but the server reads the text. What it says concerns its client alone: whoever makes one up is another client.

Invariant: a text that was written is read as the same value; whatever else comes is refused.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

import attrs

from distkv.core.ready import Rng
from distkv.errors import BadValueError
from distkv.wire.activity_bodies import EPOCH_MAX, SENDER_BYTES, START_CHARS, SenderMark

SECRET_CHARS: Final = 36
_FORM: Final = re.compile(
    rf"([0-9a-f]{{{SECRET_CHARS}}}) ([0-9]{{1,10}})"
    rf" ([0-9A-Za-z._-]{{1,63}}\.[0-9a-f]{{{START_CHARS}}}) ([0-9]{{1,12}})",
    re.ASCII,
)


def drawn_hex(rng: Rng, chars: int) -> str:
    """So many hexadecimal digits that nobody can guess."""
    return "".join([f"{int(rng.random() * 2**48):012x}" for _ in range(0, chars, 12)])[:chars]


@attrs.frozen(slots=True)
class ClientMark:
    """One client."""

    secret: str = attrs.field(repr=False)
    """A number that only the client knows, and the nodes at which it was."""
    epoch: int
    origin: str
    """Where it was logged in last."""
    moved_s: int = 0
    """When it came from another node, seconds since 1970; 0: never."""

    def sender_of(self, user: str) -> SenderMark:
        """As other nodes know it. With the text of another user's client nobody is that client."""
        text = f"{self.secret} {user}".encode()
        return SenderMark(hashlib.sha256(text).digest()[:SENDER_BYTES], self.epoch)

    @property
    def text(self) -> str:
        """What the client brings along."""
        return f"{self.secret} {self.epoch} {self.origin} {self.moved_s}"

    def at(self, origin: str, wall_s: int) -> ClientMark:
        """The same client after a login there: elsewhere it has the next epoch."""
        if origin == self.origin:
            return self
        return ClientMark(self.secret, self.epoch + 1, origin, wall_s)


def new_mark(rng: Rng, origin: str) -> ClientMark:
    """Of a client that is new here."""
    return ClientMark(drawn_hex(rng, SECRET_CHARS), 1, origin)


def read_mark(text: str) -> ClientMark:
    """What a text says.

    Raises:
        BadValueError: no node wrote it.
    """
    found = _FORM.fullmatch(text)
    if found is None or not 1 <= int(found[2]) < EPOCH_MAX:
        raise BadValueError("the field client is not what the last LOGIN_SUCCESS said: leave it out, or send that")
    return ClientMark(found[1], int(found[2]), found[3], int(found[4]))
