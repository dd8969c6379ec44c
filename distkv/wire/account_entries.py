"""The entries of accounts in the store, and what nodes ask each other about them.

Knows: the key, the token and the form of the value of each.  Does not know what follows from several versions of one.

For example, `:n.service.accounts.ann` is `{epoch: 3, counter: 1, secret: [HASH, SALT, 14], sure: true}`: `ann` was
registered under the grant 3.1 of the token `:user ann`. Without `secret` the name is free again.

Invariant: as in `declared`; equal entries are equal bytes.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, Final, TypeAlias

from distkv.model.fence import FENCE_MAX, TOKEN_BYTES_MAX, Fence, GrantNumber
from distkv.wire.declared import BodyReader, Bounds, Declared, pack

HASH_BYTES: Final = 32
SALT_BYTES: Final = 16
COST_MAX: Final = 17
"""128 MiB, and half a second."""
TOKEN_BEGIN: Final = ":user "

Number: TypeAlias = Annotated[int, Bounds(ge=0, le=FENCE_MAX)]
Username: TypeAlias = Annotated[str, Bounds(min_length=1, max_length=64)]


class SecretHash(Declared, array_like=True):
    """What is kept of a secret. No two registrations have the same: the salt is drawn for each."""

    hash: Annotated[bytes, Bounds(min_length=HASH_BYTES, max_length=HASH_BYTES)]
    """scrypt of the secret, with r = 8 and p = 1."""
    salt: Annotated[bytes, Bounds(min_length=SALT_BYTES, max_length=SALT_BYTES)]
    cost: Annotated[int, Bounds(ge=0, le=COST_MAX)]
    """The binary logarithm of N of scrypt. 0: no secret is right."""


class AccountEntry(Declared, omit_defaults=True):
    """What is known of a name."""

    epoch: Number
    counter: Number
    """With `epoch` the number of the grant of the token under which this was written."""
    secret: SecretHash | None = None
    """None: the name is free."""
    sure: bool = False
    """Whether the token was held until a majority of the token servers had it."""

    @property
    def number(self) -> GrantNumber:
        return GrantNumber(self.epoch, self.counter)

    @property
    def rank(self) -> tuple[GrantNumber, bool, bool]:
        """The higher one counts. Under one grant the name may become free after it was taken, or the account sure."""
        return self.number, self.secret is None, self.sure

    def packed(self) -> bytes:
        """The value of the entry; `read_account` reads it."""
        return pack(self)


class AccountQuestion(Declared, array_like=True):
    """What do you know of this name?"""

    username: Username


class AccountAnswer(Declared, array_like=True):
    """What the node has on its disk."""

    entry: AccountEntry | None = None


_ENTRIES: Final = BodyReader[AccountEntry](AccountEntry, "account")
QUESTIONS: Final = BodyReader[AccountQuestion](AccountQuestion, "account_question")
ANSWERS: Final = BodyReader[AccountAnswer](AccountAnswer, "account_answer")


def read_account(value: bytes) -> AccountEntry:
    """What the value of an entry says.

    Raises:
        DecodeError: it is none.
    """
    return _ENTRIES.read(value)


def token_of(username: str) -> str:
    """The token that a node takes before it changes the account. It has room for most names; of others the hash: it is
    longer than a name, so it is that of no other."""
    text = TOKEN_BEGIN + username
    return text if len(text.encode()) <= TOKEN_BYTES_MAX else f"{TOKEN_BEGIN}#{sha256(username.encode()).hexdigest()}"


def fence_of(username: str, number: GrantNumber) -> Fence:
    """Under which an entry of this grant is written."""
    return Fence(0, number.epoch, number.counter, token_of(username))
