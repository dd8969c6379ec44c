"""What a node makes of the versions of an entry, and of what token servers say of it.

Knows: entries and opinions.  Does not know who asks for them.
"""

from __future__ import annotations

import pytest

from distkv.core.accounts.entries import UNREADABLE, AccountEntries
from distkv.core.accounts.opinions import Fate, Opinions
from distkv.core.accounts.requests import Check, Register
from distkv.wire.account_entries import HASH_BYTES, SALT_BYTES, AccountEntry, SecretHash
from tests.account_net import A, AccountNet, B, C, D
from tests.service_steps import KnownEntries

ONE = SecretHash(b"1" * HASH_BYTES, b"1" * SALT_BYTES, 1)
TWO = SecretHash(b"2" * HASH_BYTES, b"2" * SALT_BYTES, 1)
UNSURE, SURE = AccountEntry(1, 5, ONE), AccountEntry(1, 5, ONE, sure=True)
FREE = AccountEntry(1, 5)
LATER = AccountEntry(1, 6, TWO)


def known(*versions: AccountEntry | bytes | None) -> AccountEntries:
    values = tuple([one.packed() if isinstance(one, AccountEntry) else one for one in versions])
    return AccountEntries(KnownEntries({"ann": values}))


def counts(*versions: AccountEntry | bytes | None) -> AccountEntry | None:
    return known(*versions).known("ann")


@pytest.mark.parametrize("versions", [(UNSURE, LATER), (LATER, UNSURE), (SURE, LATER), (FREE, LATER)])
def test_highest_grant_counts(versions: tuple[AccountEntry, ...]) -> None:
    """ACCOUNT-11."""
    assert counts(*versions) == LATER


@pytest.mark.parametrize("versions", [(UNSURE, FREE), (FREE, UNSURE)])
def test_under_one_grant_a_free_name_counts(versions: tuple[AccountEntry, ...]) -> None:
    """ACCOUNT-11."""
    assert counts(*versions) == FREE


def test_registration_that_is_sure_in_any_version_is_sure() -> None:
    """ACCOUNT-11."""
    again = AccountEntry(1, 6, ONE)
    assert counts(again, SURE) == AccountEntry(1, 6, ONE, sure=True)
    assert counts(LATER, SURE) == LATER


def test_deleted_entry_is_none() -> None:
    assert counts(None) is None
    assert counts(None, UNSURE) == UNSURE


@pytest.mark.parametrize("value", [b"", b"\xc0", b"\x81\xa5epoch\x01", b"\xff" * 100])
def test_entry_that_cannot_be_read_is_taken_by_somebody_whose_secret_is_not_known(value: bytes) -> None:
    assert counts(value) == UNREADABLE
    net = AccountNet()
    for node in net.nodes.values():
        node.entries.found["ann"] = (value,)
        node.begin()
    assert net.result(A, Register(0, "ann", b"one")) == "name_taken"
    assert net.result(A, Check(0, "ann", b"")) == "wrong_secret"


def test_name_that_two_registered_is_doubled_until_one_is_removed() -> None:
    """ACCOUNT-12."""
    sure = AccountEntry(1, 6, TWO, sure=True)
    assert (known(sure, SURE).doubled, known(sure, SURE).known("ann")) == (1, sure)
    assert known(AccountEntry(1, 7), sure, SURE).doubled == 0
    assert known(sure, UNSURE).doubled == 0


def test_names_follow_their_entries() -> None:
    found = known(SURE)
    assert (found.page("", "", 10), len(found), found.free) == ((["ann"], False), 1, 0)
    assert found.page("b", "", 10) == ([], False)
    assert found.page("", "ann", 10) == ([], False)
    both = AccountEntries(KnownEntries({name: (SURE.packed(),) for name in ("ann", "bob")}))
    assert both.page("a", "", 10) == (["ann"], False)


def test_names_are_looked_at_again_when_an_entry_changes() -> None:
    kept = KnownEntries({"ann": (SURE.packed(),)})
    found = AccountEntries(kept)
    kept.found["ann"] = (AccountEntry(1, 9).packed(),)
    found.look("ann")
    found.check()
    assert (found.page("", "", 10), len(found), found.free) == (([], False), 1, 1)


def opinions(*lists: str, **answers: AccountEntry | None) -> Opinions:
    found = Opinions([tuple(map(type(A), names)) for names in lists])
    for name, entry in answers.items():
        found.take(type(A)(name), entry)
    return found


@pytest.mark.parametrize(
    ("lists", "answers", "fate"),
    [
        (("abc",), {"a": UNSURE, "b": SURE}, Fate.HELD),
        (("abc",), {"a": UNSURE, "b": None}, Fate.UNKNOWN),
        (("abc",), {"a": UNSURE, "b": None, "c": LATER}, Fate.NOT_HELD),
        (("abc",), {"a": None, "b": FREE}, Fate.NOT_HELD),
        (("a", "bcd"), {"a": SURE, "b": SURE}, Fate.UNKNOWN),
        (("a", "bcd"), {"a": SURE, "b": SURE, "c": SURE}, Fate.HELD),
        (("a", "bcd"), {"a": None, "b": SURE, "c": SURE}, Fate.NOT_HELD),
        ((), {}, Fate.UNKNOWN),
    ],
)
def test_registration_is_held_or_not_by_a_majority_of_each_list(
    lists: tuple[str, ...], answers: dict[str, AccountEntry | None], fate: Fate
) -> None:
    assert opinions(*lists, **answers).fate(ONE) is fate


def test_nobody_but_servers_is_counted() -> None:
    found = opinions("abc", a=SURE, d=SURE)
    assert found.fate(ONE) is Fate.UNKNOWN
    assert D not in found.answers
    assert found.servers == {A, B, C}
    found.check()
