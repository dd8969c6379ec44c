"""What services and listeners of a node ask the service of accounts. No client of the store can ask this: it is in no
row of its `FORM`.

Knows: the fields of these requests and answers, and what a name and a secret may be.  Does not know who asks.

Invariant: no secret is shown by `repr`.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs

from distkv.errors import BadValueError
from distkv.wire.account_requests import NAME_CHARS_MAX, is_username
from distkv.wire.services import ServiceReply, ServiceRequest

ACCOUNTS: Final = "accounts"
"""The name of the service."""
ANONYMOUS: Final = "anonymous"
"""Who has no account: nobody can register this name."""
SECRET_BYTES_MAX: Final = 256


@attrs.frozen(slots=True)
class Register(ServiceRequest):
    """Make an account. Answered by `Registered`, or by an error that says why not, in words for whoever registers:
    `name_taken`, `no_majority`, `busy` and others when the account is not made, and `unknown_outcome` when nobody knows
    whether it is."""

    seq: int
    username: str
    secret: bytes = attrs.field(repr=False)
    source: int = 0
    """The number of the host from which it comes; 0: this one."""


@attrs.frozen(slots=True)
class Check(ServiceRequest):
    """Whether this is the secret of an account. Answered by `SecretChecked`, or by `wrong_secret`, also when there is
    no such account; `no_majority` or `busy`: nobody knows now."""

    seq: int
    username: str
    secret: bytes = attrs.field(repr=False)
    source: int = 0
    """The number of the host from which it comes; 0: this one."""


@attrs.frozen(slots=True)
class Registered(ServiceReply):
    """The account is made: this secret logs in on every node, and no other does."""


@attrs.frozen(slots=True)
class SecretChecked(ServiceReply):
    """It is the secret."""


AccountAsked: TypeAlias = Register | Check
"""What is asked with a secret."""


def check_form(username: str, secret: bytes) -> None:
    """Whether this can be a name and a secret.

    Raises:
        BadValueError: it cannot.
    """
    if not is_username(username):
        raise BadValueError(f"a user name has 1 to {NAME_CHARS_MAX} characters, and no control characters")
    if len(secret) > SECRET_BYTES_MAX:
        raise BadValueError(f"a secret has {len(secret)} bytes: at most {SECRET_BYTES_MAX}")
