"""The token service of one node as a machine: what it begins with, what it drops, and when its life is another one.

Knows: one machine without a node around it.  Does not know how servers agree, nor how tokens are served.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

import pytest

from distkv.core.ground.machine import EntryChanged, ServiceWoken
from distkv.core.ground.turn import Effect, EntryWritten, SlotKept
from distkv.core.ready import Answer, NodeTold, Note, ServiceAsked, ServiceContinued, ServiceTell, ServiceWithdrawn
from distkv.core.tokens.machine import IDENTITY_SLOT, TOKENS, TokenMachine
from distkv.core.tokens.token_settings import TokenSettings
from distkv.errors import ForbiddenError, NotReadyError, RequestError
from distkv.model.event import NodeName
from distkv.wire.held_tokens import HeldToken
from distkv.wire.token_bodies import decode_body, decode_identity
from distkv.wire.token_replies import SessionOpened, TokenDone, TokenGranted
from distkv.wire.token_requests import (
    TokenAcquire,
    TokenBreak,
    TokenData,
    TokenKeep,
    TokenOpen,
    TokenRelease,
    TokenRequest,
    TokenReset,
    TokenShow,
)
from tests.service_steps import KnownEntries, began, ground_of, stepped

A, B, C = (NodeName(name) for name in "abc")
CREATED = 1.6e9


def begun(
    me: NodeName = A,
    servers: tuple[NodeName, ...] = (A,),
    slots: Mapping[str, bytes] | None = None,
    *,
    life: int = 0,
    entries: tuple[bytes, ...] = (),
    seed: int = 1,
) -> tuple[TokenMachine, list[Effect]]:
    machine = TokenMachine(TokenSettings(servers), random.Random(seed))
    known = KnownEntries({"": entries} if entries else {})
    return machine, began(machine, TOKENS, ground_of(me, life, CREATED, slots or {}, known))


def kept(effects: Iterable[Effect]) -> dict[str, bytes]:
    """The slots that are left behind."""
    found: dict[str, bytes] = {}
    for effect in effects:
        if isinstance(effect, SlotKept):
            found.pop(effect.key, None)
            if effect.value is not None:
                found[effect.key] = effect.value
    return found


def notes(effects: Iterable[Effect]) -> list[str]:
    return [effect.id for effect in effects if isinstance(effect, Note)]


def entry_of(effects: Iterable[Effect]) -> bytes:
    (entry,) = [effect.value for effect in effects if isinstance(effect, EntryWritten)]
    return entry


def ran(machine: TokenMachine, until_ms: int) -> list[Effect]:
    """Let time pass."""
    found: list[Effect] = []
    now_ms = 0
    while (wake_ms := machine.wake_ms()) is not None and max(wake_ms, now_ms) <= until_ms:
        now_ms = max(wake_ms, now_ms + 1)
        found += stepped(machine, TOKENS, now_ms, ServiceWoken())
    return found


def test_single_server_founds_and_leads() -> None:
    machine, effects = begun()
    assert entry_of(effects)
    effects += ran(machine, 20_000)
    assert machine.statistics()["states"] == {"a": "ready"}
    assert machine.effective is not None


def test_who_knows_a_founding_of_another_life_founds_nothing() -> None:
    """Its disk was lost: a single server that founded once more would give the same fences again."""
    _, effects = begun()
    machine, effects = begun(life=7, entries=(entry_of(effects),))
    effects += ran(machine, 60_000)
    assert [effect for effect in effects if isinstance(effect, EntryWritten)] == []
    assert machine.effective is None


def test_restart_goes_on_in_its_life_with_a_higher_start() -> None:
    machine, effects = begun()
    effects += ran(machine, 20_000)
    slots = kept(effects)
    again, more = begun(slots=slots, seed=2)
    life, boot = decode_identity(slots[IDENTITY_SLOT])
    assert decode_identity(kept(more)[IDENTITY_SLOT]) == (life, boot + 1)
    more += ran(again, 20_000)
    assert again.statistics()["states"] == {"a": "ready"}


def test_lost_slots_are_another_life_although_the_node_has_the_same() -> None:
    lives = [decode_identity(kept(begun(seed=seed)[1])[IDENTITY_SLOT])[0] for seed in (1, 2)]
    assert lives[0] != lives[1]


def test_starts_of_a_later_life_are_above_those_of_an_earlier_one() -> None:
    _, first = decode_identity(kept(begun(life=5)[1])[IDENTITY_SLOT])
    _, later = decode_identity(kept(begun(life=6)[1])[IDENTITY_SLOT])
    assert later > first + 1000


@pytest.mark.parametrize("key", [IDENTITY_SLOT, "state", "part"])
def test_slot_that_cannot_be_read_makes_all_of_them_void(key: str) -> None:
    machine, effects = begun()
    slots = kept(effects + ran(machine, 20_000))
    before = decode_identity(slots[IDENTITY_SLOT])
    machine, effects = begun(slots=slots | {key: b"\xc1"}, seed=2)
    assert "token_slots_bad" in notes(effects)
    forgotten = {effect.key for effect in effects if isinstance(effect, SlotKept) and effect.value is None}
    assert slots.keys() - {IDENTITY_SLOT} <= forgotten
    assert decode_identity(kept(effects)[IDENTITY_SLOT])[0] != before[0]


def test_message_that_cannot_be_read_is_counted_and_dropped() -> None:
    machine, _ = begun(servers=(A, B, C))
    (note,) = stepped(machine, TOKENS, 1, NodeTold(B, 0, TOKENS, b"\x00"))
    assert isinstance(note, Note)
    assert (note.id, note.fields["node"]) == ("token_message_bad", "b")


def test_founding_that_cannot_be_read_is_counted_and_dropped() -> None:
    machine, effects = begun(servers=(A, B, C), entries=(b"\x00",))
    assert notes(effects) == ["token_founding_bad"]
    assert notes(stepped(machine, TOKENS, 1, EntryChanged(""))) == ["token_founding_bad"]
    assert stepped(machine, TOKENS, 1, EntryChanged("other")) == []


def test_servers_greet_each_other_in_the_life_of_their_service() -> None:
    machine, effects = begun(servers=(A, B, C))
    life, _ = decode_identity(kept(effects)[IDENTITY_SLOT])
    told = [effect for effect in effects + ran(machine, 2000) if isinstance(effect, ServiceTell)]
    assert {tell.name for tell in told} == {B, C}
    assert {decode_body(tell.body)[0] for tell in told} == {life}


def test_node_that_is_no_server_keeps_nothing_but_who_it_is() -> None:
    machine, effects = begun(me=NodeName("d"), servers=(A, B, C))
    effects += ran(machine, 20_000)
    assert kept(effects).keys() == {IDENTITY_SLOT, "life"}
    assert machine.statistics().keys() == {"servers", "lease", "ttl"}
    told = stepped(machine, TOKENS, 1, ServiceAsked(TOKENS, 1, TokenReset(1)))
    (answer,) = [effect for effect in told if isinstance(effect, Answer)]
    assert isinstance(answer.result, RequestError)


def test_reset_without_a_majority_is_answered_with_why_it_is_refused() -> None:
    machine, _ = begun(me=A, servers=(A, B, C))
    told = stepped(machine, TOKENS, 1, ServiceAsked(TOKENS, 1, TokenReset(1)))
    (answer,) = [effect for effect in told if isinstance(effect, Answer)]
    assert (answer.id, isinstance(answer.result, NotReadyError), answer.is_last) == (1, True, True)


def test_before_it_begins_it_wants_and_does_nothing() -> None:
    machine = TokenMachine(TokenSettings((A,)), random.Random(1))
    assert machine.wake_ms() is None
    assert (machine.effective, machine.consensus) == (None, None)
    assert stepped(machine, TOKENS, 0, ServiceWoken()) == []
    assert machine.statistics().keys() == {"servers", "lease", "ttl"}


def test_request_is_answered_once_and_what_is_over_is_not_minded() -> None:
    machine, _ = begun()
    ran(machine, 20_000)
    effects = stepped(machine, TOKENS, 20_001, ServiceAsked(TOKENS, 5, TokenOpen(1, 60.0)))
    effects += ran(machine, 30_000)
    answers = [effect for effect in effects if isinstance(effect, Answer)]
    assert [(answer.id, type(answer.result), answer.is_last) for answer in answers] == [(5, SessionOpened, True)]
    for what in (ServiceContinued(TOKENS, 5), ServiceWithdrawn(TOKENS, 5), ServiceContinued(TOKENS, 99)):
        assert [effect for effect in stepped(machine, TOKENS, 30_001, what) if isinstance(effect, Answer)] == []


@pytest.mark.parametrize("with_fence", [True, False])
def test_release_with_its_fence_does_not_wait_for_the_disk(with_fence: bool) -> None:
    machine, _ = begun()
    ran(machine, 20_000)
    effects = stepped(machine, TOKENS, 20_001, ServiceAsked(TOKENS, 1, TokenOpen(1, 60.0))) + ran(machine, 20_100)
    (opened,) = [effect.result for effect in effects if isinstance(effect, Answer)]
    assert isinstance(opened, SessionOpened)
    acquire = TokenAcquire(1, opened.session, "t", wait_s=1.0)
    told = stepped(machine, TOKENS, 20_101, ServiceAsked(TOKENS, 2, acquire))
    (granted,) = [effect for effect in told if isinstance(effect, Answer)]
    assert isinstance(granted.result, TokenGranted)
    assert granted.waits
    fence = granted.result.number if with_fence else None
    told = stepped(machine, TOKENS, 20_102, ServiceAsked(TOKENS, 3, TokenRelease(1, opened.session, "t", fence)))
    (released,) = [effect for effect in told if isinstance(effect, Answer)]
    assert (type(released.result), released.waits) == (TokenDone, not with_fence)


HELD = HeldToken(":user ann", 1, 1, is_shared=False)


@pytest.mark.parametrize("request_", [
    TokenAcquire(1, "1-a", ":user ann"), TokenRelease(1, "1-a", ":user ann"), TokenData(1, "1-a", ":user ann", None),
    TokenShow(1, ":user ann"), TokenBreak(1, ":user ann"), TokenKeep(1, "1-a", 1, (HELD,)),
])  # fmt: skip
def test_client_is_refused_a_token_whose_name_is_for_services(request_: TokenRequest) -> None:
    """ACCOUNT-2."""
    machine, _ = begun()
    ran(machine, 20_000)
    effects = stepped(machine, TOKENS, 20_001, ServiceAsked(TOKENS, 1, request_))
    (answer,) = [one for one in effects if isinstance(one, Answer)]
    assert isinstance(answer.result, ForbiddenError)


def test_service_of_the_node_gets_such_a_token() -> None:
    machine, _ = begun()
    ran(machine, 20_000)
    effects = stepped(machine, TOKENS, 20_001, ServiceAsked(TOKENS, -1, TokenOpen(0, 60.0))) + ran(machine, 20_100)
    (opened,) = [one.result for one in effects if isinstance(one, Answer)]
    assert isinstance(opened, SessionOpened)
    acquire = TokenAcquire(0, opened.session, ":user ann")
    effects = stepped(machine, TOKENS, 20_101, ServiceAsked(TOKENS, -2, acquire))
    (answer,) = [one for one in effects if isinstance(one, Answer)]
    assert isinstance(answer.result, TokenGranted)
