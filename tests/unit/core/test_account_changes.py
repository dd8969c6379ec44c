"""How an account is made and removed: who registers a name, and what others do meanwhile.

Knows: machines of accounts with an ideal token service, where a test says what comes when.
"""

from __future__ import annotations

import pytest

from distkv.core.accounts.requests import Check, Register, Registered, SecretChecked
from distkv.core.ready import ServiceWithdrawn
from distkv.errors import BadValueError
from distkv.model.event import NodeName
from distkv.model.fence import TOKEN_BYTES_MAX
from distkv.wire.account_entries import token_of
from distkv.wire.account_requests import AccountList, AccountRemove, AccountRemoved, AccountsListed
from distkv.wire.token_requests import TokenAcquire, TokenRelease
from tests.account_net import A, AccountNet, B, C, D, OnItsWay, shown

E = NodeName("e")
ONE, TWO = Register(0, "ann", b"one"), Register(0, "ann", b"two")


def test_registration_is_sure_on_all_nodes() -> None:
    net = AccountNet()
    assert net.result(A, ONE) is Registered
    entries = [net[name].entry("ann") for name in (A, B, C)]
    assert entries[0] is not None
    assert entries[0].sure
    assert entries[0] == entries[1] == entries[2]


def test_name_that_is_taken_is_refused_elsewhere() -> None:
    net = AccountNet()
    net.result(A, ONE)
    assert net.result(B, TWO) == "name_taken"
    assert net.result(B, ONE) == "name_taken"


def test_anonymous_is_taken() -> None:
    assert AccountNet().result(A, Register(0, "anonymous", b"one")) == "name_taken"


def test_registration_waits_for_a_majority_that_has_the_entry() -> None:
    net = AccountNet()
    number = net[A].ask(ONE)
    net.run(5_000, but=lambda one: one.kind == "event")
    assert number not in net[A].answers
    net.come(next(net.those("event", to=B)))
    net.run(1_000, but=lambda one: one.kind == "event")
    assert shown(net[A].answers[number]) is Registered


def test_registration_without_a_majority_that_has_it_is_not_known_and_taken_back() -> None:
    net = AccountNet()
    number = net[A].ask(ONE)
    net.run(but=lambda one: one.kind == "event")
    assert shown(net[A].answers[number]) == "unknown_outcome"
    entry = net[A].entry("ann")
    assert entry is not None
    assert entry.secret is None


def test_registration_whose_token_was_lost_is_not_known() -> None:
    """Whoever got it meanwhile may have found the name free."""
    net = AccountNet()
    number = net[A].ask(ONE)
    while not any(isinstance(asked, TokenAcquire) for asked in net.tokens.asked):
        net.come(net.on_its_way[0])
    net.tokens.end("1-1")
    net.run()
    assert shown(net[A].answers[number]) == "unknown_outcome"
    assert net.result(B, Check(0, "ann", b"one")) == "wrong_secret"


def test_token_is_given_back_by_its_grant() -> None:
    net = AccountNet()
    net.result(A, ONE)
    (release,) = [asked for asked in net.tokens.asked if isinstance(asked, TokenRelease)]
    assert release.fence is not None


def test_nobody_registers_without_a_majority_of_token_servers() -> None:
    net = AccountNet()
    net.tokens.is_away = True
    assert net.result(A, ONE) == "no_majority"
    assert net[A].entry("ann") is None


def test_nobody_registers_while_a_majority_does_not_say_what_it_knows() -> None:
    net = AccountNet()
    number = net[A].ask(ONE)
    net.run(but=lambda one: one.kind == "ask" and one.to in (B, C))
    assert shown(net[A].answers[number]) == "no_majority"
    assert net[A].entry("ann") is None


def test_registration_that_nobody_finished_is_overwritten_if_no_majority_has_it() -> None:
    net = AccountNet()
    net[A].ask(ONE)
    net.run(5_000, but=lambda one: one.kind == "event")
    net[A].begin()
    net.tokens.end("1-1")
    held, net.on_its_way = net.on_its_way, []
    assert net.result(B, TWO) is Registered
    net.on_its_way += held
    assert net.result(A, Check(0, "ann", b"one")) == "wrong_secret"
    assert net.result(A, Check(0, "ann", b"two")) is SecretChecked


def test_registration_that_nobody_finished_keeps_its_name_if_a_majority_has_it() -> None:
    net = AccountNet()
    net[A].ask(ONE)
    net.run(1_000, but=lambda one: one.kind == "token" and len(net.tokens.asked) > 3)
    net[A].begin()
    net.tokens.end("1-1")
    assert net.result(B, TWO) == "name_taken"


def test_both_lists_count_while_token_servers_change() -> None:
    net = AccountNet(A, B, C, D, servers=(A,))
    net.tokens.next = (B, C, D)
    number = net[A].ask(ONE)

    def is_held(one: OnItsWay) -> bool:
        return one.kind == "event" and one.to in (C, D)

    net.run(5_000, but=is_held)
    assert number not in net[A].answers
    for event in [*net.those("event", to=C)]:
        net.come(event)
    net.run(2_000, but=lambda one: is_held(one) and one.to == D)
    assert shown(net[A].answers[number]) is Registered


def _late(one: OnItsWay) -> bool:
    return one.kind == "event" and one.to in (C, D, E)


def test_name_that_new_token_servers_have_not_heard_of_is_taken() -> None:
    net = AccountNet(A, B, C, D, E, servers=(A,))
    net[A].ask(ONE)
    net.run(5_000, but=_late)
    net.tokens.servers = (C, D, E)
    number = net[C].ask(TWO)
    net.run(5_000, but=_late)
    assert shown(net[C].answers[number]) == "name_taken"


def test_nodes_that_say_nothing_are_waited_for_a_moment() -> None:
    net = AccountNet(A, B, C, D, E, servers=(C, D, E))
    number = net[C].ask(TWO)
    net.run(0, but=lambda one: one.kind == "ask" and one.to in (A, B))
    assert number not in net[C].answers
    for one in [*net.those("ask", to=A), *net.those("ask", to=B)]:
        net.on_its_way.remove(one)
        one.lose()
    net.run(5_000)
    assert shown(net[C].answers[number]) is Registered


def test_removed_account_lets_nobody_in_and_its_name_can_be_registered() -> None:
    net = AccountNet()
    net.result(A, ONE)
    assert net.result(B, AccountRemove(0, "ann")) is AccountRemoved
    assert net.result(A, Check(0, "ann", b"one")) == "wrong_secret"
    assert net[C].machine.statistics()["free"] == 1
    assert net.result(C, TWO) is Registered
    assert [net.result(A, Check(0, "ann", secret)) for secret in (b"one", b"two")] == ["wrong_secret", SecretChecked]


def test_name_that_nobody_has_cannot_be_removed() -> None:
    assert AccountNet().result(A, AccountRemove(0, "ann")) == "not_found"


def test_names_are_limited() -> None:
    net = AccountNet(accounts_max=1)
    net.result(A, ONE)
    assert net.result(A, Register(0, "bob", b"one")) == "too_large"
    net.result(A, AccountRemove(0, "ann"))
    assert net.result(A, Register(0, "bob", b"one")) == "too_large"
    assert net.result(A, TWO) is Registered


@pytest.mark.parametrize(
    ("username", "secret"), [("", b""), ("a" * 65, b""), ("a\n", b""), ("\ud800", b""), ("a", b"x" * 257)]
)
def test_name_or_secret_of_another_form_is_refused(username: str, secret: bytes) -> None:
    net = AccountNet()
    assert net.result(A, Register(0, username, secret)) == BadValueError.code
    assert net.result(A, Check(0, username, secret)) == BadValueError.code


def test_each_name_has_a_token_of_its_own_that_fits() -> None:
    names = ["a", "#" + "0" * 63, "\U0001f600" * 64, "\U0001f600" * 63 + "a"]
    tokens = [token_of(name) for name in names]
    assert len(set(tokens)) == len(names)
    assert all(len(token.encode()) <= TOKEN_BYTES_MAX for token in tokens)


def test_name_with_the_longest_token_is_registered() -> None:
    net = AccountNet()
    assert net.result(A, Register(0, "\U0001f600" * 64, b"one")) is Registered


def test_names_are_listed_in_order_page_by_page() -> None:
    net = AccountNet()
    for name in ("bea", "ann", "bob", "cid"):
        net.result(A, Register(0, name, b"one"))
    net.result(A, AccountRemove(0, "cid"))
    number = net[B].ask(AccountList(0, limit=2))
    assert net[B].answers[number] == AccountsListed(("ann", "bea"), more=True)
    number = net[B].ask(AccountList(0, prefix="b", after="ann"))
    assert net[B].answers[number] == AccountsListed(("bea", "bob"), more=False)


def test_registration_that_nobody_waits_for_any_more_is_not_begun() -> None:
    net = AccountNet()
    number = net[A].ask(ONE)
    net[A].step(ServiceWithdrawn("accounts", number))
    net.run()
    assert net[A].entry("ann") is None
    assert net.result(A, TWO) is Registered
