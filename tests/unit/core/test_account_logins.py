"""Who may log in: with which secret, and what a login waits for.

Knows: machines of accounts with an ideal token service, where a test says what comes when.
"""

from __future__ import annotations

from distkv.core.accounts.changes import CHANGES_MAX
from distkv.core.accounts.hash_queue import AT_ONCE, NAME_MAX
from distkv.core.accounts.inquiries import INQUIRIES_MAX
from distkv.core.accounts.requests import Check, Register, Registered, SecretChecked
from distkv.core.ready import ServiceWithdrawn
from distkv.wire.account_requests import AccountRemove
from distkv.wire.token_requests import TokenOpen
from tests.account_net import A, AccountNet, B, C, D, OnItsWay, shown

ONE = Register(0, "ann", b"one")
RIGHT, WRONG = Check(0, "ann", b"one"), Check(0, "ann", b"two")


def unsure(holds_back: str = "bc") -> AccountNet:
    """Node a has written an entry, which is not sure, and ended; the entry is on its way to these nodes."""
    net = AccountNet(A, B, C, D)

    def is_held(one: OnItsWay) -> bool:
        return one.kind == "event" and one.to in holds_back

    net[A].ask(ONE)
    net.run(3_000, but=lambda one: is_held(one) or (one.kind == "reply" and net[A].entry("ann") is not None))
    net[A].begin()
    net.tokens.end("1-1")
    net.on_its_way = [one for one in net.on_its_way if is_held(one)]
    return net


def test_secret_that_is_sure_here_logs_in_without_a_majority() -> None:
    net = AccountNet()
    net.result(A, ONE)
    net.tokens.is_away = True
    assert (net.result(B, RIGHT), net.result(B, WRONG)) == (SecretChecked, "wrong_secret")


def test_name_that_is_not_known_here_is_asked_of_the_token_servers() -> None:
    net = AccountNet(A, B, C, D)
    net[A].ask(ONE)
    net.run(5_000, but=lambda one: one.kind == "event" and one.to == D)
    number = net[D].ask(RIGHT)
    net.run(5_000, but=lambda one: one.kind == "event" and one.to == D)
    assert shown(net[D].answers[number]) is SecretChecked


def test_name_that_is_not_known_here_logs_in_nobody_without_a_majority() -> None:
    net = AccountNet()
    net.tokens.is_away = True
    assert net.result(B, RIGHT) == "no_majority"


def test_login_waits_for_servers_that_say_nothing_and_no_longer() -> None:
    net = AccountNet()
    number = net[A].ask(RIGHT)
    net.run(10_000, but=lambda one: one.kind == "ask" and one.to in (B, C))
    assert shown(net[A].answers[number]) == "no_majority"


def test_entry_that_is_not_sure_opens_no_door_where_no_majority_has_it() -> None:
    net = unsure("bc")
    held, net.on_its_way = net.on_its_way, []
    assert net.result(D, RIGHT) == "wrong_secret"
    net.on_its_way += held
    assert {net.result(name, RIGHT) for name in net.nodes} == {"wrong_secret"}


def test_entry_that_a_majority_has_logs_in_and_is_sure_from_then_on() -> None:
    net = unsure("c")
    assert net.result(D, RIGHT) is SecretChecked
    entry = net[A].entry("ann")
    assert entry is not None
    assert entry.sure
    assert net.result(B, Register(0, "ann", b"two")) == "name_taken"


def test_registration_that_nobody_finished_here_does_not_hide_the_owner() -> None:
    net = AccountNet()
    net[B].ask(Register(0, "ann", b"two"))
    net.run(3_000, but=lambda one: one.kind == "event")
    net[B].begin()
    net.tokens.end("1-1")
    net.on_its_way = []
    number = net[A].ask(ONE)
    net.run(5_000, but=lambda one: one.kind == "event" and one.to == B)
    assert shown(net[A].answers[number]) is Registered
    number = net[B].ask(RIGHT)
    net.run(5_000, but=lambda one: one.kind == "event" and one.to == B)
    assert shown(net[B].answers[number]) is SecretChecked


def test_wrong_secret_takes_no_token() -> None:
    net = unsure("c")
    opened = sum(isinstance(asked, TokenOpen) for asked in net.tokens.asked)
    assert net.result(D, WRONG) == "wrong_secret"
    assert sum(isinstance(asked, TokenOpen) for asked in net.tokens.asked) == opened


def test_thousand_logins_of_one_user_cost_one_hash() -> None:
    net = AccountNet()
    net.result(A, ONE)
    works = 0
    for _ in range(1000):
        number = net[B].ask(RIGHT)
        works += sum(1 for _ in net.those("work"))
        net.run()
        assert shown(net[B].answers[number]) is SecretChecked
    assert works == 1


def test_many_who_log_in_at_once_with_one_secret_wait_for_one_hash() -> None:
    """ACCOUNT-13."""
    net = AccountNet()
    net.result(A, ONE)
    numbers = [net[B].ask(RIGHT) for _ in range(500)]
    assert len([*net.those("work")]) == 1
    net[B].step(ServiceWithdrawn("accounts", numbers[0]))
    net.run()
    assert {shown(net[B].answers[number]) for number in numbers[1:]} == {SecretChecked}


def test_hash_that_nobody_waits_for_any_more_is_not_made_twice() -> None:
    net = AccountNet()
    net.result(A, ONE)
    net[B].step(ServiceWithdrawn("accounts", net[B].ask(RIGHT)))
    number = net[B].ask(RIGHT)
    assert len([*net.those("work")]) == 1
    net.run()
    assert shown(net[B].answers[number]) is SecretChecked


def test_secret_of_a_removed_account_is_not_remembered() -> None:
    net = AccountNet()
    net.result(A, ONE)
    net.result(B, RIGHT)
    net.result(A, AccountRemove(0, "ann"))
    assert net.result(B, RIGHT) == "wrong_secret"
    net.result(A, Register(0, "ann", b"two"))
    assert net.result(B, RIGHT) == "wrong_secret"


def test_few_hashes_are_made_at_a_time_and_names_take_turns() -> None:
    net = AccountNet()
    net.result(A, ONE)
    net.result(A, Register(0, "bob", b"one"))
    for count in range(10):
        net[A].ask(Check(0, "ann", b"no %d" % count))
    number = net[A].ask(Check(0, "bob", b"one"))
    assert len([*net.those("work")]) == AT_ONCE
    for _ in range(AT_ONCE + 2):
        net.come(next(net.those("work")))
    assert shown(net[A].answers[number]) is SecretChecked


def test_logins_beyond_the_limit_are_refused_as_busy() -> None:
    net = AccountNet(checks_max=5)
    net.result(A, ONE)
    numbers = [net[A].ask(WRONG) for _ in range(6)]
    assert shown(net[A].answers[numbers[-1]]) == "busy"
    net.run()
    assert [shown(net[A].answers[number]) for number in numbers[:-1]] == ["wrong_secret"] * 5


def test_one_name_does_not_fill_the_queue() -> None:
    net = AccountNet()
    net.result(A, ONE)
    numbers = [net[A].ask(Check(0, "ann", b"%d" % count)) for count in range(NAME_MAX + AT_ONCE + 1)]
    assert shown(net[A].answers[numbers[-1]]) == "busy"
    assert net.result(A, Register(0, "bob", b"one")) is Registered


def test_login_that_is_withdrawn_is_forgotten() -> None:
    net = AccountNet()
    net.result(A, ONE)
    numbers = [net[A].ask(WRONG) for _ in range(4)]
    for number in numbers:
        net[A].step(ServiceWithdrawn("accounts", number))
    net.run()
    assert net[A].machine.statistics()["logins"] == 0
    assert not net[A].answers.keys() & set(numbers)


def test_no_secret_is_in_notes_or_in_what_is_shown() -> None:
    net = AccountNet()
    net.result(A, Register(0, "ann", b"very-secret"))
    net.result(A, Check(0, "ann", b"very-secret"))
    net.result(A, Check(0, "ann", b"other-secret"))
    told = [net[A].machine.statistics(), net[A].notes, net[A].answers, Register(0, "ann", b"very-secret"),
            Check(0, "ann", b"other-secret")]  # fmt: skip
    assert "-secret" not in repr(told)


def test_wrong_secrets_from_one_host_do_not_keep_out_the_owner_of_the_name() -> None:
    """ACCOUNT-13."""
    net = AccountNet()
    net.result(A, ONE)
    for count in range(NAME_MAX + AT_ONCE):
        net[A].ask(Check(0, "ann", b"no %d" % count, source=7))
    number = net[A].ask(Check(0, "ann", b"one", source=8))
    for _ in range(AT_ONCE + 2):
        net.come(next(net.those("work")))
    assert shown(net[A].answers[number]) is SecretChecked


def test_host_from_which_most_logins_come_gives_up_a_place() -> None:
    """ACCOUNT-14."""
    net = AccountNet(checks_max=5)
    net.result(A, ONE)
    crowd = [net[A].ask(Check(0, "ann", b"no %d" % count, source=7)) for count in range(5)]
    number = net[A].ask(Check(0, "ann", b"one", source=8))
    assert [shown(net[A].answers[one]) for one in crowd if one in net[A].answers] == ["busy"]
    net.run()
    assert shown(net[A].answers[number]) is SecretChecked


def test_secret_that_was_right_logs_in_while_all_places_are_taken() -> None:
    net = AccountNet(checks_max=5)
    net.result(A, ONE)
    net.result(A, RIGHT)
    for count in range(5):
        net[A].ask(Check(0, "ann", b"no %d" % count))
    number = net[A].ask(RIGHT)
    assert shown(net[A].answers[number]) is SecretChecked


def test_names_that_are_not_known_here_leave_places_for_those_that_are() -> None:
    """ACCOUNT-14."""
    net = AccountNet(checks_max=10)
    net.result(A, ONE)
    unknown = [net[A].ask(Check(0, f"nobody {count}", b"one")) for count in range(20)]
    number = net[A].ask(RIGHT)
    assert sum(one not in net[A].answers for one in unknown) == 5
    net.come(next(net.those("work")))
    assert shown(net[A].answers[number]) is SecretChecked


def test_unknown_names_from_one_host_leave_room_for_one_from_another() -> None:
    net = AccountNet()
    for count in range(INQUIRIES_MAX * 2):
        net[A].ask(Check(0, f"nobody {count}", b"one", source=7))
    number = net[A].ask(Check(0, "somebody", b"one", source=8))
    net[A].machine.check()
    net.run(3_000)
    assert shown(net[A].answers[number]) == "wrong_secret"


def test_registrations_from_one_host_leave_room_for_others() -> None:
    net = AccountNet()
    numbers = [net[A].ask(Register(0, f"user {count}", b"one", source=7)) for count in range(CHANGES_MAX)]
    while some := [*net.those("work")]:
        net.come(some[0])
    assert sum(one in net[A].answers for one in numbers) == CHANGES_MAX // 2
    assert net.result(A, Register(0, "bob", b"one", source=8)) is Registered
