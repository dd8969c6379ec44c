"""What is said about accounts in another shape is refused, and what clients are answered has its fields.

Knows: the forms that clients and other nodes see.  Does not know what becomes of them.
"""

from __future__ import annotations

from typing import Any

import pytest

from distkv.core.accounts.requests import Check, Register
from distkv.errors import DecodeError, RequestError
from distkv.wire import packing
from distkv.wire.account_entries import (
    ANSWERS,
    COST_MAX,
    HASH_BYTES,
    QUESTIONS,
    SALT_BYTES,
    AccountAnswer,
    AccountEntry,
    AccountQuestion,
    SecretHash,
    read_account,
)
from distkv.wire.account_requests import ACCOUNT_ROWS, AccountRemoved, AccountsListed, reply_fields
from distkv.wire.accounts import FORM
from distkv.wire.declared import pack

HASH, SALT = b"h" * HASH_BYTES, b"s" * SALT_BYTES
ENTRY = {"epoch": 3, "counter": 1, "secret": [HASH, SALT, 14], "sure": True}


def asked(action: str, fields: dict[str, Any]) -> Any:
    """What a client asks that sends these fields."""
    frame = packing.pack({"seq": 1, "action": action, **fields})
    row = next(row for row in ACCOUNT_ROWS if row.action == action)
    found = packing.unpack(frame)
    assert isinstance(found, dict)
    return row.read(1, found, frame)


def test_no_client_of_the_store_can_ask_with_a_secret() -> None:
    assert not {Register, Check} & {row.type for row in FORM.rows}


def test_each_entry_is_hidden() -> None:
    assert FORM.hides is not None
    assert all(FORM.hides(key) for key in ("ann", " ", "ann\0x"))


@pytest.mark.parametrize(
    ("action", "fields"),
    [
        ("account_remove", {}), ("account_remove", {"name": ""}), ("account_remove", {"name": 1}),
        ("account_remove", {"name": "a" * 65}), ("account_remove", {"name": "a\x7f"}),
        ("account_list", {"prefix": 1}), ("account_list", {"after": "\n"}), ("account_list", {"limit": 0}),
        ("account_list", {"limit": 1001}),
    ],
)  # fmt: skip
def test_request_of_another_form_is_refused(action: str, fields: dict[str, Any]) -> None:
    with pytest.raises((RequestError, DecodeError)):
        asked(action, fields)


def test_entry_is_read_as_it_was_written() -> None:
    entry = AccountEntry(3, 1, SecretHash(HASH, SALT, 14), sure=True)
    assert read_account(entry.packed()) == entry
    assert packing.unpack(entry.packed()) == ENTRY
    assert read_account(AccountEntry(3, 1).packed()).secret is None


@pytest.mark.parametrize(
    "changed",
    [
        {"epoch": -1}, {"epoch": None}, {"counter": 2**62}, {"secret": [HASH, SALT]}, {"secret": [HASH[1:], SALT, 14]},
        {"secret": [HASH, SALT + b"s", 14]}, {"secret": [HASH, SALT, COST_MAX + 1]}, {"secret": "ann"}, {"sure": 1},
    ],
)  # fmt: skip
def test_entry_of_another_form_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(DecodeError):
        read_account(packing.pack({**ENTRY, **changed}))


def test_what_nodes_ask_each_other_is_read_as_it_was_written() -> None:
    assert QUESTIONS.read(pack(AccountQuestion("ann"))) == AccountQuestion("ann")
    answer = AccountAnswer(AccountEntry(3, 1))
    assert ANSWERS.read(pack(answer)) == answer
    assert ANSWERS.read(pack(AccountAnswer())).entry is None
    for body in (b"", packing.pack([]), packing.pack(["a" * 65]), packing.pack([""])):
        with pytest.raises(DecodeError):
            QUESTIONS.read(body)


def test_answers_to_clients_have_their_fields() -> None:
    assert reply_fields(AccountRemoved()) == ({}, {})
    assert reply_fields(AccountsListed(("ann",), more=False)) == ({"names": ["ann"]}, {})
    listed = AccountsListed(("ann", "bob"), more=True, doubled=("bob",))
    assert reply_fields(listed) == ({"names": ["ann", "bob"], "more": True, "doubled": ["bob"]}, {})
