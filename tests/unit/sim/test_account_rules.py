"""The rules about accounts notice what must never be.

Knows: `distkv.sim.accounts.rules`.
"""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from distkv.core.accounts.requests import Check, Register, Registered, SecretChecked
from distkv.core.ready import ServiceResult
from distkv.errors import UnknownOutcomeError
from distkv.sim.accounts.crowd import ALL_LOG_IN
from distkv.sim.accounts.rules import AccountObserver, Asked, DisksLost, OnlyRegistered, OwnedOnce, SameEverywhere
from distkv.sim.fleet import Fleet
from distkv.sim.rule import BrokenRuleError
from distkv.wire.account_errors import NameTakenError, NoMajorityError, WrongSecretError
from distkv.wire.account_requests import AccountRemove, AccountRemoved

REGISTERED, CHECKED, REMOVED = Registered(), SecretChecked(), AccountRemoved()
UNKNOWN, TAKEN, WRONG = UnknownOutcomeError("?"), NameTakenError("taken"), WrongSecretError("wrong")
REMOVE = AccountRemove(0, "ann")
Told = tuple[Asked, ServiceResult]


def register(secret: bytes) -> Register:
    return Register(0, "ann", secret)


def check(secret: bytes) -> Check:
    return Check(0, "ann", secret)


class Node:
    """A process, as far as rules look at it."""

    class host:  # noqa: N801
        name = "a"


def tell(rule: AccountObserver, *told: Told) -> None:
    """What was asked one after another, and answered."""
    for request, result in told:
        rule.asked(request)
        rule.answered(Node, request, result)  # type: ignore[arg-type]  # it has the name that a message wants


@pytest.mark.parametrize(
    "told",
    [
        [(register(b"1"), REGISTERED), (register(b"2"), REGISTERED)],
        [(register(b"1"), REGISTERED), (check(b"2"), CHECKED)],
        [(check(b"1"), CHECKED), (register(b"2"), REGISTERED)],
        [(REMOVE, REMOVED), (check(b"1"), CHECKED), (check(b"2"), CHECKED), (check(b"3"), CHECKED)],
    ],
)
def test_second_owner_of_a_name_is_noticed(told: list[Told]) -> None:
    with pytest.raises(BrokenRuleError, match="one owner"):
        tell(OwnedOnce(DisksLost()), *told)


@pytest.mark.parametrize(
    "told",
    [
        [(register(b"1"), REGISTERED), (register(b"2"), TAKEN), (check(b"1"), CHECKED), (check(b"2"), WRONG)],
        [(check(b"1"), CHECKED), (REMOVE, REMOVED), (register(b"2"), REGISTERED), (check(b"1"), CHECKED)],
    ],
)
def test_owner_and_whoever_comes_after_a_removal_are_as_promised(told: list[Told]) -> None:
    tell(OwnedOnce(DisksLost()), *told)


def test_two_owners_are_allowed_when_a_majority_lost_its_disks() -> None:
    disks = DisksLost()
    for name in "ab":
        disks.befell(0, name, "is said to be gone for good")
    rule = OwnedOnce(disks)
    tell(rule, (register(b"1"), REGISTERED), (register(b"2"), REGISTERED))
    assert rule.owned_count == 0


@pytest.mark.parametrize(
    ("told", "is_broken"),
    [
        ([(check(b"1"), CHECKED)], True),
        ([(register(b"1"), TAKEN), (check(b"1"), CHECKED)], True),
        ([(register(b"1"), NoMajorityError("none")), (check(b"1"), CHECKED)], True),
        ([(register(b"1"), UNKNOWN), (check(b"1"), CHECKED)], False),
        ([(register(b"1"), REGISTERED), (check(b"1"), CHECKED)], False),
    ],
)
def test_secret_of_a_registration_that_failed_is_noticed(told: list[Told], is_broken: bool) -> None:
    with pytest.raises(BrokenRuleError, match="logs in") if is_broken else nullcontext():
        tell(OnlyRegistered(DisksLost()), *told)


@pytest.mark.parametrize(
    ("before", "last", "is_broken"),
    [
        ([], [(check(b"1"), CHECKED), (check(b"1"), WRONG)], True),
        ([], [(check(b"1"), NoMajorityError("none"))], True),
        ([(register(b"1"), REGISTERED)], [(check(b"1"), WRONG)], True),
        ([(register(b"1"), REGISTERED), (REMOVE, UNKNOWN)], [(check(b"1"), WRONG)], False),
        ([(register(b"1"), REGISTERED)], [(check(b"1"), CHECKED), (check(b"2"), WRONG)], False),
    ],
)
def test_logins_that_differ_once_all_is_well_are_noticed(
    before: list[Told], last: list[Told], is_broken: bool
) -> None:
    rule = SameEverywhere(DisksLost())
    tell(rule, *before)
    rule.befell(0, "", ALL_LOG_IN)
    tell(rule, *last)
    with pytest.raises(BrokenRuleError, match="the same everywhere") if is_broken else nullcontext():
        rule.settled(Fleet(1))
