"""What `distkv doctor` says of accounts.

Knows: facts and findings.  Does not ask any node.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest

from distkv.doctor import accounts
from distkv.doctor.accounts import AccountFacts
from distkv.doctor.facts import NodeFacts
from distkv.errors import DecodeError
from tests.unit.doctor.test_checks import OK, WARN, A, B, judged, said


def having(node: NodeFacts, facts: AccountFacts, *, servers: str = "", **others: object) -> NodeFacts:
    """With these services besides, each of which shows something; tokens do so also where nobody serves them."""
    services: Mapping[str, object] = {accounts.ACCOUNTS: facts, "tokens": object(), **others}
    return attrs.evolve(node, services=services, settings={"tokens.servers": servers})


def test_state_is_read() -> None:
    shown = {"accounts": 3, "doubled": 1, "free": 2, "answers": {"done": 9}}
    assert accounts.read(shown) == AccountFacts(3, 1)


@pytest.mark.parametrize("shown", [{"accounts": "3"}, {"doubled": -1}])
def test_state_that_cannot_be_meant_is_refused(shown: dict[str, object]) -> None:
    with pytest.raises(DecodeError):
        accounts.read(shown)


def test_network_without_accounts_is_not_judged_for_them() -> None:
    assert [*accounts.check([having(A, AccountFacts()), B])] == []


def test_accounts_with_token_servers_are_well() -> None:
    found = [*accounts.check([having(A, AccountFacts(2), servers="a"), having(B, AccountFacts(1))])]
    assert judged(found) == [("accounts", OK)]
    assert found[0].says == "2 accounts"


def test_accounts_without_token_servers_are_told() -> None:
    found = [*accounts.check([having(A, AccountFacts(2))])]
    assert judged(found) == [("accounts", WARN)]
    assert "tokens.servers" in found[0].do


def test_names_that_were_registered_twice_are_told() -> None:
    found = [*accounts.check([having(A, AccountFacts(2, doubled=1), servers="a")])]
    assert judged(found) == [("accounts", WARN)]
    assert "twice" in said(found)


def test_listeners_without_token_servers_are_told() -> None:
    assert judged([*accounts.check([having(A, AccountFacts(), activity=object())])]) == [("accounts", WARN)]
    assert [*accounts.check([having(A, AccountFacts(), servers="a", activity=object())])] == []
