"""Whatever comes in which order, is lost, or dies: a name has one owner, and no secret but the owner's logs in.

Knows: machines of accounts with an ideal token service that ends sessions, and nodes that start again.
"""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from distkv.core.accounts.requests import AccountAsked, Check, Register, Registered, SecretChecked
from distkv.core.ground.machine import ServiceWoken
from distkv.core.ready import ServiceResult
from distkv.errors import RequestError, UnknownOutcomeError
from distkv.wire.account_errors import WrongSecretError
from distkv.wire.account_requests import AccountRemove
from tests.account_net import A, AccountNet, AccountNode, B, C, D

NAMES = ("ann", "bob")
STEPS = 400


class Play:
    """One run, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.net = AccountNet(A, B, C, D, patience_ms=5000)
        self.net.answered = self.answered
        self.asked = dict[tuple[object, int, int], AccountAsked | AccountRemove]()
        """By node, its start and the number of the request."""
        self.owner = dict[str, bytes]()
        self.before = dict[str, set[bytes]]()
        """Secrets of removed accounts."""
        self.removing = set[str]()
        self.failed = set[tuple[str, bytes]]()
        self.registered = dict[str, bytes]()
        self.unfinished = Counter[str]()
        """How many removals of a name were asked for and not answered; a node that ended answers never."""
        self.counted = set[bytes]()
        """Secrets of registrations that began when there was none."""
        self.count = 0
        self.is_finished = False

    def run(self) -> None:
        for _ in range(STEPS):
            self.step()
        self.finish()

    def step(self) -> None:
        rng, net = self.rng, self.net
        draw = rng.random()
        if draw < 0.04:
            self.count += 1
            self.ask(rng.choice([*net.nodes.values()]), Register(0, rng.choice(NAMES), b"%d" % self.count))
        elif draw < 0.1 and self.count:
            secret = b"%d" % rng.randint(1, self.count)
            self.ask(rng.choice([*net.nodes.values()]), Check(0, rng.choice(NAMES), secret))
        elif draw < 0.105:
            self.ask(rng.choice([*net.nodes.values()]), AccountRemove(0, rng.choice(NAMES)))
        elif draw < 0.12 and net.tokens.sessions:
            net.tokens.end(rng.choice(sorted(net.tokens.sessions)))
        elif draw < 0.13:
            rng.choice([*net.nodes.values()]).begin()
        elif draw < 0.2:
            self.pass_time(rng.choice([10, 100, 1000, 5000]))
        elif net.on_its_way:
            one = rng.choice(net.on_its_way[:30])
            if rng.random() < 0.05 and one.kind not in ("event", "work"):
                net.on_its_way.remove(one)
                one.lose()
            else:
                net.come(one)

    def pass_time(self, ms: int) -> None:
        self.net.now_ms += ms
        for node in self.net.nodes.values():
            node.step(ServiceWoken())

    def ask(self, node: AccountNode, request: AccountAsked | AccountRemove) -> None:
        if isinstance(request, AccountRemove):
            self.removing.add(request.name)
            self.registered.pop(request.name, None)
            self.unfinished[request.name] += 1
        elif isinstance(request, Register) and not self.unfinished[request.username]:
            self.counted.add(request.secret)
        self.asked[node.name, node.starts, node.last + 1] = request
        node.ask(request)

    def answered(self, node: AccountNode, id: int, result: ServiceResult) -> None:
        request = self.asked.pop((node.name, node.starts, id))
        if isinstance(request, AccountRemove):
            self.unfinished[request.name] -= 1
            return
        name, secret = request.username, request.secret
        if isinstance(request, Register) and isinstance(result, RequestError):
            if not isinstance(result, UnknownOutcomeError):
                self.failed.add((name, secret))
        elif isinstance(result, Registered | SecretChecked):
            assert (name, secret) not in self.failed, f"{secret!r} is right, though its registration failed"
            if isinstance(result, Registered) and secret in self.counted and not self.unfinished[name]:
                self.registered[name] = secret
            self.own(name, secret)

    def own(self, name: str, secret: bytes) -> None:
        if secret in self.before.get(name, ()):
            return
        owner = self.owner.get(name, secret)
        if owner != secret:
            assert name in self.removing, f"{name} of {owner!r} is that of {secret!r}"
            self.before.setdefault(name, set()).add(owner)
            self.removing.discard(name)
        self.owner[name] = secret

    def finish(self) -> None:
        """All comes, then each secret is tried at each node."""
        net = self.net
        for session in sorted(net.tokens.sessions):
            net.tokens.end(session)
        net.run(60_000)
        for name in NAMES:
            for secret in [b"%d" % count for count in range(1, self.count + 1)]:
                results = set[type]()
                for node in net.nodes.values():
                    number = node.last + 1
                    self.ask(node, Check(0, name, secret))
                    net.run()
                    results.add(type(node.answers[number]))
                assert results in ({SecretChecked}, {WrongSecretError}), (name, secret, results)
                if self.registered.get(name) == secret:
                    assert results == {SecretChecked}, f"{secret!r} was registered, and does not log in"
        assert not any(key[1] == net.nodes[key[0]].starts for key in self.asked), "somebody is not answered"  # type: ignore[index]
        assert not any(node.machine.statistics()["changes"] for node in net.nodes.values())
        self.is_finished = True


@given(st.integers(0, 2**32))
def test_name_has_one_owner_and_no_other_secret_logs_in(seed: int) -> None:
    play = Play(seed)
    play.run()
    assert play.is_finished
