"""What clients of the store ask about accounts: a list of their names, and to remove one.

Knows: the fields of requests and answers.  Does not know what becomes of them.

Invariant: no answer has anything of a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import attrs

from distkv.model.lean import lean_value
from distkv.wire.fields import bad
from distkv.wire.request_fields import FieldKind, declared, whole_number
from distkv.wire.row import AnyRow, ReplyForm
from distkv.wire.services import ServiceReply, ServiceRequest

PAGE_MAX: Final = 1000
NAME_CHARS_MAX: Final = 64


@lean_value
class AccountList(ServiceRequest):
    """The names of accounts, in order."""

    seq: int
    prefix: str = ""
    limit: int = PAGE_MAX
    after: str = ""
    """Only names behind this one."""


@lean_value
class AccountRemove(ServiceRequest):
    """Make a name free: nobody logs in as this user any more."""

    seq: int
    name: str


AccountRequest: TypeAlias = AccountList | AccountRemove


@attrs.frozen(slots=True)
class AccountsListed(ServiceReply):
    names: tuple[str, ...]
    more: bool
    doubled: tuple[str, ...] = ()
    """Those of these names that were registered twice: one of the two secrets does not log in any more."""


@attrs.frozen(slots=True)
class AccountRemoved(ServiceReply):
    """The name is free, and a majority of the token servers knows that."""


AccountReply: TypeAlias = AccountsListed | AccountRemoved


def is_username(text: str) -> bool:
    """1 to 64 characters without control characters."""
    if not 1 <= len(text) <= NAME_CHARS_MAX or any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in text):
        return False
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True


def _read_username(value: object, name: str) -> str:
    if type(value) is not str or not is_username(value):
        raise bad(name, f"a user name: text of 1 to {NAME_CHARS_MAX} characters without control characters", value)
    return value


def _read_beginning(value: object, name: str) -> str:
    return "" if value == "" else _read_username(value, name)


_NAME: Final = FieldKind(_read_username)
_BEGINNING: Final = FieldKind(_read_beginning)

ACCOUNT_ROWS: Final[tuple[AnyRow[AccountRequest], ...]] = (
    declared(
        "account_list",
        AccountList,
        {"prefix": _BEGINNING, "limit": whole_number(PAGE_MAX, 1), "after": _BEGINNING},
        ReplyForm.LATER,
    ),
    declared("account_remove", AccountRemove, {"name": _NAME}, ReplyForm.LATER),
)


def reply_fields(reply: AccountReply) -> tuple[Mapping[str, object], Mapping[str, bytes]]:
    """The fields of the reply to a client; none is packed already."""
    if isinstance(reply, AccountRemoved):
        return {}, {}
    flags = {"more": True} if reply.more else {}
    return {"names": [*reply.names], **flags, **({"doubled": [*reply.doubled]} if reply.doubled else {})}, {}
