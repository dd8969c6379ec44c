"""The service of accounts before it began, asked what is no question, and without room for another hash.

Knows: one machine, and what it wants done.  Does not know registrations and logins: their tests do.
"""

from __future__ import annotations

import random

from distkv.core.accounts.machine import AccountMachine
from distkv.core.accounts.requests import ACCOUNTS, Register
from distkv.core.accounts.right_secrets import PAIRS_MAX, RightSecrets
from distkv.core.accounts.settings import AccountSettings
from distkv.core.ground.node_calls import Replied
from distkv.core.ground.turn import WorkWanted
from distkv.core.ready import Answer, ServiceAsked, ServiceQuestion
from distkv.errors import BusyError, NotFoundError
from distkv.model.event import NodeName
from distkv.wire.account_entries import SecretHash
from tests.service_steps import began, ground_of, stepped

LIFE = 1


def _begun() -> AccountMachine:
    machine = AccountMachine(AccountSettings(), random.Random(1))
    began(machine, ACCOUNTS, ground_of(NodeName("a"), LIFE, 1.0, {}))
    return machine


def _asked(request: ServiceQuestion) -> ServiceAsked:
    return ServiceAsked(ACCOUNTS, 1, request)


def test_machine_that_did_not_begin_does_nothing() -> None:
    machine = AccountMachine(AccountSettings(), random.Random(1))
    assert stepped(machine, ACCOUNTS, 0, _asked(Register(0, "ann", b"one"))) == []
    assert (machine.statistics(), machine.wake_ms()) == ({}, None)


def test_what_is_no_question_about_accounts_is_refused() -> None:
    (answer,) = stepped(_begun(), ACCOUNTS, 0, _asked({"colour": "red"}))
    assert isinstance(answer, Answer)
    assert isinstance(answer.result, NotFoundError)


def test_registration_whose_secret_cannot_be_hashed_now_is_refused_as_busy() -> None:
    machine = _begun()
    (work,) = [one for one in stepped(machine, ACCOUNTS, 0, _asked(Register(0, "ann", b"one"))) if _is_work(one)]
    assert isinstance(work, WorkWanted)
    why = BusyError("too much is under way: try again later")
    (answer,) = stepped(machine, ACCOUNTS, 1, Replied(work.purpose, why))
    assert answer == Answer(1, why)
    machine.check()


def _is_work(effect: object) -> bool:
    return isinstance(effect, WorkWanted)


def test_pair_that_was_right_longest_ago_is_forgotten_first() -> None:
    kept, right = SecretHash(b"h" * 32, b"s" * 16, 1 << 14), RightSecrets(random.Random(1))
    for number in range(PAIRS_MAX + 1):
        right.add(kept, b"%d" % number)
    assert not right.has(kept, b"0")
    assert right.has(kept, b"1")
    right.check()
