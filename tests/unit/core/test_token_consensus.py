"""The machine of one token server, told things one by one (docs/tokens, The servers).

Knows: what others may say, and what must be on the disk before an answer.  Does not know a network.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TypeVar

import pytest

from distkv.core.tokens.agreement.settings import ConsensusSettings
from distkv.errors import BusyError, NotReadyError, RequestError
from distkv.model.event import NodeName
from distkv.model.standing import ServerStanding
from distkv.wire.declared import evolve
from distkv.wire.token_states import (
    NO_STATE,
    Founding,
    FoundingTold,
    LeaderRound,
    OwnTime,
    ServerBeat,
    StateChange,
    StateHead,
    StateId,
    StateMessage,
    TokenHello,
    TokenServer,
    VoteAsked,
    VoteGiven,
)
from tests.agreeing import AgreeingServer
from tests.taken_effects import Taken

A, B, C, M = (NodeName(name) for name in "abcm")
LIVES = {A: 1, B: 2, M: 3}
LEASE_MS = 1000
SETTINGS = ConsensusSettings(M, (A, B, M), LEASE_MS, 0.01)
HASH = SETTINGS.servers_hash
FOUNDING = Founding(LIVES, 100, 1)
WAITED_MS = SETTINGS.long_ms
"""Started at 0, it may vote from then on."""

T = TypeVar("T")


def _keep(disk: dict[str, bytes], effects: Taken) -> None:
    for slot in effects.slots:
        if slot.value is None:
            disk.pop(slot.key, None)
        else:
            disk[slot.key] = slot.value


def _server(settings: ConsensusSettings = SETTINGS, life: int = 3) -> AgreeingServer:
    """A server that was founded, and starts at 0."""
    server = AgreeingServer(settings, life, Random(1))
    server.restore(server.turn(0), {})
    are_more = len(settings.servers) > 3
    founding = evolve(FOUNDING, servers=dict.fromkeys(settings.servers, 1) | LIVES) if are_more else FOUNDING
    server.founded(server.turn(0), founding)
    server.begin(server.turn(0), 100)
    server.effects.take()
    return server


def _alone(disk: Mapping[str, bytes], now_ms: int = 0, life: int = 3, sessions_max: int = 10_000) -> AgreeingServer:
    """A server that is the whole list."""
    server = AgreeingServer(ConsensusSettings(M, (M,), LEASE_MS, 0.01, sessions_max), life, Random(1))
    server.restore(server.turn(0), disk)
    server.begin(server.turn(now_ms), 100)
    return server


def _told(effects: Taken, kind: type[T], to: NodeName | None = None) -> list[T]:
    return [tell.message for tell in effects.tells if isinstance(tell.message, kind) and to in (None, tell.to)]


def _ask(term: int, accepted: StateId = NO_STATE, *, is_trial: bool = False) -> VoteAsked:
    return VoteAsked(HASH, 1, term, is_trial, accepted, {})


def _is_given(server: AgreeingServer, asked: VoteAsked, now_ms: int, candidate: NodeName = A, life: int = 1) -> bool:
    server.told(candidate, life, asked, now_ms)
    (answer,) = _told(server.effects.take(), VoteGiven)
    return answer.is_given


def _head(version: int, standing: str = "ready", term: int = 1, leader: NodeName = A) -> StateHead:
    servers = {name: TokenServer(ServerStanding(standing), life, 100) for name, life in LIVES.items()}
    return StateHead(term, version, leader, servers, 100)


def _round(
    number: int, change: StateChange | None = None, *, acked: int = 0, effective: StateId | None = None,
    heard: OwnTime | None = None, term: int = 1,
) -> LeaderRound:
    return LeaderRound(HASH, 1, term, number, acked, effective, heard, change)


def _beat(server: AgreeingServer, told: LeaderRound, now_ms: int) -> ServerBeat:
    server.told(A, 1, told, now_ms)
    (beat,) = _told(server.effects.take(), ServerBeat)
    return beat


def _follower() -> AgreeingServer:
    """It has accepted version 100, and knows it in effect."""
    server = _server()
    _beat(server, _round(1, StateChange(_head(100), None, {})), 0)
    _beat(server, _round(2, effective=StateId(1, 100)), 10)
    return server


def _run_until(server: AgreeingServer, end_ms: int) -> list[StateMessage]:
    """Wake it whenever it wants, but answer nothing."""
    found = list[StateMessage]()
    while (wake_ms := server.wake_ms()) is not None and wake_ms <= end_ms:
        server.woken(max(wake_ms, 0))
        found += [tell.message for tell in server.effects.take().tells]
    return found


def _next_round(server: AgreeingServer) -> tuple[int, dict[NodeName, LeaderRound]]:
    """When a leader begins it, and what the others are told."""
    now_ms = server.wake_ms()
    assert now_ms is not None
    server.woken(now_ms)
    tells = server.effects.take().tells
    return now_ms, {tell.to: tell.message for tell in tells if isinstance(tell.message, LeaderRound)}


def _leader() -> tuple[AgreeingServer, int]:
    """Elected by itself and A, with nothing acknowledged yet; and when."""
    server = _server()
    now_ms = server.wake_ms()
    assert now_ms is not None
    server.woken(now_ms)
    for is_trial in (True, False):
        (asked,) = _told(server.effects.take(), VoteAsked, A)
        assert asked.is_trial is is_trial
        server.told(A, 1, VoteGiven(HASH, 1, asked.term, is_trial, True, 0), now_ms)
    return server, now_ms


def _answer(
    server: AgreeingServer, told: LeaderRound, now_ms: int, accepted: StateId, *, name: NodeName = A, life: int = 1,
    is_member: bool = True, wanted: str = "down", since: int = 0, own_ms: int | None = None,
) -> LeaderRound | None:
    """A server answers a round; the next round that it is told at once."""
    sent = OwnTime(7, now_ms if own_ms is None else own_ms)
    beat = ServerBeat(HASH, 1, told.term, told.number, sent, accepted, is_member, ServerStanding(wanted), since)
    server.told(name, life, beat, now_ms)
    return next(iter(_told(server.effects.take(), LeaderRound, name)), None)


def _settled() -> tuple[AgreeingServer, int, LeaderRound]:
    """A leader whose first version is on the disks of itself and of A; the last round."""
    server, now_ms = _leader()
    (first,) = _told(server.effects.take(), LeaderRound, A)
    assert first.change is not None
    told = _answer(server, first, now_ms, first.change.head.id)
    assert told is not None
    return server, now_ms, told


# -- who takes part


def test_node_that_is_not_in_the_list_takes_no_part() -> None:
    server = AgreeingServer(ConsensusSettings(C, (A, B, M), LEASE_MS, 0.01), 9, Random(1))
    server.restore(server.turn(0), {})
    server.begin(server.turn(0), 100)
    server.told(A, 1, _ask(1), 5000)
    assert server.wake_ms() is None
    (tell,) = server.effects.take().tells
    assert isinstance(tell.message, TokenHello)  # it wants to know the founding
    server.told(A, 1, FoundingTold(HASH, 1, FOUNDING), 5010)
    server.told(A, 1, _ask(1), 5020)
    assert server.wake_ms() is None
    (answer,) = _told(server.effects.take(), VoteGiven)
    assert not answer.is_given


def test_fresh_server_does_not_hear_one_whose_settings_name_another_list() -> None:
    """(docs/protocol, QUORUM-1)"""
    server = AgreeingServer(SETTINGS, 3, Random(1))
    server.restore(server.turn(0), {})
    server.begin(server.turn(0), 100)
    server.effects.take()
    server.told(A, 1, evolve(_ask(1), generation=0, servers_hash=b"another."), WAITED_MS)
    server.told(C, 1, evolve(_ask(1), generation=0), WAITED_MS)
    assert not server.effects.take().tells
    assert server.admission.differing == {A: b"another."}
    assert server.admission.counts == {"other_list": 1, "no_server": 1}


def test_setting_that_differs_from_the_list_in_force_changes_nothing_and_is_shown() -> None:
    """(docs/protocol, QUORUM-20)"""
    disk = dict[str, bytes]()
    server = _server()
    _beat(server, _round(1, StateChange(_head(100), None, {})), 0)
    server = AgreeingServer(ConsensusSettings(M, (C, M, A), LEASE_MS, 0.01), 3, Random(1))
    server.restore(server.turn(0), disk)
    server.founded(server.turn(0), FOUNDING)
    server.begin(server.turn(0), 100)
    server.effects.take()
    assert server.list == (A, B, M)
    assert _is_given(server, _ask(1), WAITED_MS)
    assert server.admission.differing == {A: HASH}


def test_slots_of_another_life_are_void_and_removed() -> None:
    disk = dict[str, bytes]()
    _keep(disk, _alone(disk).effects.take())
    server = _alone(disk, life=4)
    assert {slot.key for slot in server.effects.take().slots if slot.value is None} >= {"founding", "state", "vote"}
    assert server.founding is not None  # it is alone, so it founds again
    assert server.founding.servers == {M: 4}


# -- alone


def test_single_server_founds_and_leads_at_once() -> None:
    server = _alone({})
    assert server.leads_until_ms == SETTINGS.short_ms
    assert server.effects.take().founding == Founding({M: 3}, 100, 1)


def test_single_server_that_starts_again_waits_for_its_promise() -> None:
    disk = dict[str, bytes]()
    _keep(disk, _alone(disk).effects.take())
    server = _alone(disk, 50)
    _run_until(server, 50 + WAITED_MS - 1)
    assert not server.leads_until_ms
    _run_until(server, 50 + 2 * WAITED_MS)
    assert server.leads_until_ms


def test_single_server_comes_to_serve_as_it_says() -> None:
    server = _alone({})
    for standing in (ServerStanding.BOOTING, ServerStanding.READY):
        server.stand(standing)
        server.woken(10)
        assert server.effective is not None
        assert server.effective.servers[M].standing is standing
        assert server.effective.servers[M].since == server.effective.version == server.effective.changed


def test_sessions_take_a_version_each_and_are_there_after_a_restart() -> None:
    disk = dict[str, bytes]()
    server = _alone(disk)
    for tag in "xyz":
        server.propose_open(15_000, tag)
    server.woken(10)
    _keep(disk, server.effects.take())
    assert server.effective is not None
    assert dict(server.effective.sessions) == {"101-x": 15_000, "102-y": 15_000, "103-z": 15_000}
    again = _alone(disk, 20)
    _run_until(again, 20 + 2 * WAITED_MS)
    assert again.effective is not None
    assert again.effective.sessions == server.effective.sessions
    assert again.effective.version == 104


def test_session_that_ends_is_gone_from_the_disk() -> None:
    disk = dict[str, bytes]()
    server = _alone(disk)
    server.propose_open(15_000, "x")
    server.woken(10)
    _keep(disk, server.effects.take())
    server.propose_end(["101-x", "unknown"])
    server.woken(20)
    _keep(disk, server.effects.take())
    assert server.effective is not None
    assert not server.effective.sessions
    assert not [key for key in disk if key.startswith("session/")]


def test_change_among_a_thousand_sessions_writes_only_what_changed() -> None:
    server = _alone({})
    for at in range(1000):
        server.propose_open(15_000, f"x{at}")
    server.woken(10)
    server.effects.take()
    server.propose_open(15_000, "one")
    server.woken(20)
    assert [slot.key for slot in server.effects.take().slots] == ["state", "session/1101-one"]


def test_too_many_sessions_are_refused() -> None:
    server = _alone({}, sessions_max=2)
    for tag in "xy":
        server.propose_open(15_000, tag)
    with pytest.raises(BusyError, match="the limit is 2"):
        server.propose_open(15_000, "z")


# -- votes


def test_voter_that_started_a_moment_ago_refuses() -> None:
    server = _server()
    assert not _is_given(server, _ask(1), WAITED_MS - 1)
    assert _is_given(server, _ask(1), WAITED_MS)


def test_voter_that_acknowledged_a_leader_refuses_for_a_lease() -> None:
    server = _server()
    _beat(server, _round(1), 5000)
    assert not _is_given(server, _ask(2), 5000 + WAITED_MS - 1, B, 2)
    assert _is_given(server, _ask(2), 5000 + WAITED_MS, B, 2)


def test_vote_is_on_the_disk_before_it_leaves() -> None:
    server = _server()
    server.told(A, 1, _ask(1), WAITED_MS)
    effects = server.effects.take()
    assert [slot.key for slot in effects.slots] == ["vote"]
    assert _told(effects, VoteGiven)[0].is_given


def test_trial_binds_nobody() -> None:
    server = _server()
    assert _is_given(server, _ask(1, is_trial=True), WAITED_MS)
    assert _is_given(server, _ask(1), WAITED_MS, B, 2)


def test_vote_of_a_term_goes_to_one_candidate_however_often_it_asks() -> None:
    server = _server()
    assert _is_given(server, _ask(1), WAITED_MS)
    assert _is_given(server, _ask(1), WAITED_MS)
    assert not _is_given(server, _ask(1), WAITED_MS, B, 2)


def test_no_vote_is_given_in_the_term_of_the_state_that_is_on_the_disk() -> None:
    disk = dict[str, bytes]()
    server = AgreeingServer(SETTINGS, 3, Random(1))
    server.restore(server.turn(0), {})
    server.founded(server.turn(0), FOUNDING)
    server.begin(server.turn(0), 100)
    server.told(A, 1, _round(1, StateChange(_head(100, term=4), None, {}), term=4), 0)
    _keep(disk, server.effects.take())
    again = AgreeingServer(SETTINGS, 3, Random(1))
    again.restore(again.turn(0), disk)
    again.begin(again.turn(0), 100)
    again.effects.take()
    assert not _is_given(again, _ask(4, StateId(4, 100)), WAITED_MS)
    assert _is_given(again, _ask(5, StateId(4, 100)), WAITED_MS)


def test_candidate_that_accepted_less_is_refused() -> None:
    server = _follower()
    assert not _is_given(server, _ask(2, StateId(1, 99)), 5000)
    assert _is_given(server, _ask(2, StateId(1, 100)), 5000)


def test_candidate_with_another_life_is_refused_by_whoever_knows_as_much() -> None:
    server = _follower()
    assert not _is_given(server, _ask(2, StateId(1, 100)), 5000, life=11)
    assert _is_given(server, _ask(2, StateId(1, 101)), 5000, life=11)


def test_server_with_another_life_neither_votes_nor_stands() -> None:
    server = _server(life=33)
    assert not _is_given(server, _ask(1), WAITED_MS)
    assert not [message for message in _run_until(server, 20_000) if isinstance(message, VoteAsked)]


def test_server_with_another_life_counts_once_it_knows_that_it_was_admitted() -> None:
    server = _server(life=33)
    assert not _beat(server, _round(1, StateChange(_head(100), None, {})), 0).is_member
    head = _head(101)
    admitted = evolve(head, servers={**head.servers, M: TokenServer(ServerStanding.BOOTING, 33, 101)})
    assert not _beat(server, _round(2, StateChange(admitted, StateId(1, 100), {})), 10).is_member
    assert _beat(server, _round(3, effective=StateId(1, 101)), 20).is_member


# -- following


def test_round_of_an_earlier_term_is_refused() -> None:
    server = _server()
    assert _is_given(server, _ask(5), WAITED_MS)
    beat = _beat(server, _round(1, term=4), WAITED_MS)
    assert (beat.term, beat.number) == (5, 0)


def test_state_is_on_the_disk_before_it_is_acknowledged() -> None:
    server = _server()
    server.told(A, 1, _round(1, StateChange(_head(100), None, {"100-x": 15_000})), 0)
    effects = server.effects.take()
    assert [slot.key for slot in effects.slots] == ["state", "session/100-x"]
    assert _told(effects, ServerBeat)[0].accepted == StateId(1, 100)
    assert server.effective is None


def test_difference_for_another_base_is_not_accepted() -> None:
    server = _follower()
    assert _beat(server, _round(3, StateChange(_head(103), StateId(1, 102), {})), 20).accepted == StateId(1, 100)


def test_whole_state_takes_the_place_of_another_base() -> None:
    server = _follower()
    beat = _beat(server, _round(3, StateChange(_head(103), None, {"103-x": 1}), effective=StateId(1, 103)), 20)
    assert beat.accepted == StateId(1, 103)
    assert server.effective is not None
    assert server.effective.version == 103


@pytest.mark.parametrize("head", [_head(103, term=2), _head(103, leader=B)])
def test_change_that_the_leader_cannot_have_made_is_dropped(head: StateHead) -> None:
    server = _follower()
    assert _beat(server, _round(3, StateChange(head, StateId(1, 100), {})), 20).accepted == StateId(1, 100)
    assert server.admission.counts == {"odd_change": 1}


def test_server_that_was_away_follows_a_leader_that_its_list_does_not_name() -> None:
    """(docs/protocol, QUORUM-19)"""
    server = _follower()
    servers = {name: TokenServer(ServerStanding.READY, life, 103) for name, life in ((B, 2), (C, 9), (M, 3))}
    head = evolve(_head(103, leader=C, term=2), servers=servers, list=(B, C, M))
    assert _is_given(server, _ask(2, StateId(2, 103)), WAITED_MS + 20, C, 9)
    told = LeaderRound(HASH, 1, 2, 1, 0, None, None, StateChange(head, None, {}))
    server.told(C, 9, told, WAITED_MS + 30)
    (beat,) = _told(server.effects.take(), ServerBeat, C)
    assert beat.accepted == StateId(2, 103)
    assert server.list == (B, C, M)


def test_server_that_is_about_to_join_neither_stands_nor_votes() -> None:
    """(docs/protocol, QUORUM-15)"""
    server = AgreeingServer(ConsensusSettings(C, (A, B, M), LEASE_MS, 0.01), 9, Random(1))
    server.restore(server.turn(0), {})
    server.founded(server.turn(0), FOUNDING)
    server.begin(server.turn(0), 100)
    servers = {**_head(101).servers, C: TokenServer(ServerStanding.DOWN, 9, 101)}
    head = evolve(_head(101), servers=servers, list=(A, B, M))
    beat = _beat(server, _round(1, StateChange(head, None, {})), 0)
    assert (beat.accepted, beat.is_member) == (StateId(1, 101), False)
    assert not _is_given(server, _ask(2, StateId(1, 101)), WAITED_MS + 10)
    _beat(server, _round(2, effective=StateId(1, 101)), WAITED_MS + 20)
    assert server.is_member
    assert not any(isinstance(one, VoteAsked) for one in _run_until(server, 20 * LEASE_MS))


def test_server_that_is_told_that_it_has_left_takes_no_part() -> None:
    """(docs/protocol, QUORUM-17)"""
    server = _follower()
    server.founded(server.turn(20), Founding({A: 1, B: 2, C: 9}, 200, 1))
    assert not server.is_server
    assert server.list == (A, B, C)


# -- the entry of the store


FORGED = {
    "of a later generation": Founding(LIVES, 200, 2),
    "of a far generation": Founding(LIVES, 200, 1 << 31),
    "of another life": Founding({A: 1, B: 2, M: 4}, 200, 2),
    "of a later list": Founding({A: 1, B: 2, C: 9}, 200, 1),
    "of this server alone": Founding({M: 3}, 200, 1),
    "of others alone": Founding({C: 9}, 1 << 31, 7),
    "of nobody": Founding({}, 200, 2),
}


@pytest.mark.parametrize("entry", FORGED.values(), ids=FORGED)
def test_entry_of_the_store_ends_nothing_and_the_servers_are_asked(entry: Founding) -> None:
    """(docs/protocol, QUORUM-21)"""
    server = _follower()
    server.read_entry(entry, 20)
    effects = server.effects.take()
    assert {tell.to for tell in effects.tells} == entry.servers.keys() - {M}
    assert {type(tell.message) for tell in effects.tells} <= {TokenHello}
    assert not effects.slots
    assert (server.founding, server.list, server.is_member) == (FOUNDING, (A, B, M), True)
    sent = _beat(server, _round(3), 300).sent
    _beat(server, _round(4, effective=StateId(1, 100), heard=sent), 500)
    _beat(server, _round(5, effective=StateId(1, 100), acked=4), 700)
    assert server.grants_until_ms


def test_entry_that_says_what_is_known_asks_nobody() -> None:
    server = _follower()
    server.read_entry(FOUNDING, 20)
    server.read_entry(evolve(FOUNDING, version=99), 20)
    assert server.effects.take() == Taken()


def test_entry_counts_when_a_server_says_the_same() -> None:
    """(docs/protocol, QUORUM-21)"""
    server, anew = _follower(), Founding(LIVES, 200, 2)
    server.read_entry(anew, 20)
    server.told(A, 1, FoundingTold(HASH, 2, anew), 30)
    assert server.founding == anew
    assert server.effective is None


def test_servers_are_asked_again_until_one_says_the_same() -> None:
    server, anew = _follower(), Founding(LIVES, 200, 2)
    server.read_entry(anew, 20)
    server.effects.take()
    asked = [one for one in _run_until(server, 20 + 3 * LEASE_MS) if isinstance(one, TokenHello)]
    assert len(asked) >= 3 * 2
    server.told(A, 1, FoundingTold(HASH, 2, anew), 4000)
    server.effects.take()
    assert not any(isinstance(one, TokenHello) for one in _run_until(server, 8 * LEASE_MS))


def test_server_says_which_founding_it_was_told_to_whoever_asks() -> None:
    server = _follower()
    server.read_entry(Founding(LIVES, 200, 2), 20)
    server.effects.take()
    server.told(B, 2, TokenHello(HASH, 1, 1), 30)
    (told,) = _told(server.effects.take(), FoundingTold, B)
    assert told.founding == FOUNDING


def test_fresh_server_that_reads_an_entry_founds_nothing_and_counts_for_nothing() -> None:
    """(docs/protocol, QUORUM-2)"""
    server = AgreeingServer(SETTINGS, 3, Random(1))
    server.restore(server.turn(0), {})
    server.read_entry(FOUNDING, 0)
    server.begin(server.turn(0), 100)
    for name, life in ((A, 1), (B, 2)):
        server.told(name, life, TokenHello(HASH, 0, 0), 10)
    server.told(A, 1, evolve(_ask(1), generation=0, lives=LIVES), 20)
    said = [tell.message for tell in server.effects.take().tells] + _run_until(server, 5 * LEASE_MS)
    assert not [one for one in said if isinstance(one, VoteGiven) and one.is_given]
    assert {type(one) for one in said} <= {TokenHello, VoteGiven}
    assert {one.known for one in said if isinstance(one, TokenHello)} == {1}
    assert not server.is_member
    server.told(A, 1, FoundingTold(HASH, 1, FOUNDING), 5 * LEASE_MS)
    assert server.is_member


# -- leases of a follower


def test_lease_counts_from_the_own_time_that_an_acknowledged_round_named() -> None:
    server = _follower()
    sent = _beat(server, _round(3), 300).sent
    _beat(server, _round(4, effective=StateId(1, 100), heard=sent), 500)
    assert not server.grants_until_ms
    _beat(server, _round(5, effective=StateId(1, 100), acked=4), 700)
    assert server.grants_until_ms == 300 + SETTINGS.short_ms


def test_lease_needs_the_version_that_the_round_called_in_effect() -> None:
    server = _follower()
    sent = _beat(server, _round(3), 300).sent
    _beat(server, _round(4, effective=StateId(1, 101), heard=sent), 500)
    _beat(server, _round(5, effective=StateId(1, 101), acked=4), 700)
    assert not server.grants_until_ms
    _beat(server, _round(6, StateChange(_head(101), StateId(1, 100), {}), effective=StateId(1, 101), acked=4), 800)
    assert server.grants_until_ms == 300 + SETTINGS.short_ms


def test_lease_is_not_had_by_a_time_of_another_start() -> None:
    server = _follower()
    other = OwnTime(_beat(server, _round(3), 300).sent.start + 1, 300)
    _beat(server, _round(4, effective=StateId(1, 100), heard=other), 500)
    _beat(server, _round(5, effective=StateId(1, 100), acked=4), 700)
    assert not server.grants_until_ms


# -- leading


def test_first_version_of_a_leader_comes_before_anything_else() -> None:
    server, now_ms = _leader()
    assert not server.leads_until_ms
    (first,) = _told(server.effects.take(), LeaderRound, A)
    assert first.effective is None
    assert first.change is not None
    assert first.change.head.id == StateId(1, 100)
    server.propose_open(15_000, "x")
    server.woken(now_ms)
    assert not [told for told in _told(server.effects.take(), LeaderRound, A)
                if told.change is not None and told.change.head.id.version > 100]


def test_leader_leads_from_the_begin_of_the_round_that_a_majority_acknowledged() -> None:
    server, now_ms, _told_last = _settled()
    assert server.leads_until_ms == server.grants_until_ms == now_ms + SETTINGS.short_ms
    assert server.elected_ms == now_ms


def test_next_version_waits_until_the_last_one_is_on_a_majority() -> None:
    server, now_ms, told = _settled()
    server.propose_open(15_000, "x")
    server.woken(now_ms)
    (first,) = _told(server.effects.take(), LeaderRound, A)
    assert first.change is not None
    server.propose_open(15_000, "y")
    server.woken(now_ms + 1)
    rounds = _told(server.effects.take(), LeaderRound, A)
    assert {one.change.head.id for one in rounds if one.change} <= {StateId(1, 101)}
    told = _answer(server, first, now_ms + 2, StateId(1, 101)) or told
    assert told.change is not None
    assert told.change.opened == {"102-y": 15_000}


def test_server_with_another_base_gets_the_whole_state() -> None:
    server, now_ms, told = _settled()
    server.propose_open(15_000, "x")
    server.woken(now_ms)
    _answer(server, told, now_ms + 5, StateId(1, 101))
    assert _answer(server, told, now_ms + 6, NO_STATE, name=B, life=2) is None
    server.woken(now_ms + LEASE_MS // 4)
    (last,) = _told(server.effects.take(), LeaderRound, B)
    assert last.change is not None
    assert (last.change.base, dict(last.change.opened)) == (None, {"101-x": 15_000})


@pytest.mark.parametrize(("life", "is_member"), [(11, True), (1, False)])
def test_acknowledgement_of_a_server_that_does_not_count_is_not_counted(life: int, *, is_member: bool) -> None:
    server, now_ms = _leader()
    (first,) = _told(server.effects.take(), LeaderRound, A)
    assert _answer(server, first, now_ms, StateId(1, 100), life=life, is_member=is_member) is None
    assert server.effective is None


def test_wish_of_an_earlier_standing_comes_too_late() -> None:
    server, now_ms, told = _settled()
    assert _answer(server, told, now_ms + 1, StateId(1, 100), wanted="booting", since=99) is None
    told = _answer(server, told, now_ms + 2, StateId(1, 100), wanted="booting", since=100) or told
    assert told.change is not None
    assert told.change.head.servers[A] == TokenServer(ServerStanding.BOOTING, 1, 101)
    _answer(server, told, now_ms + 3, StateId(1, 101), wanted="ready", since=100)
    assert server.effective is not None
    assert server.effective.servers[A].standing is ServerStanding.BOOTING


def test_readiness_holds_only_for_the_standing_in_which_it_was_said() -> None:
    server = _follower()
    server.stand(ServerStanding.READY)
    head = _head(101)
    moved = evolve(head, servers={**head.servers, M: TokenServer(ServerStanding.BOOTING, 3, 101)})
    _beat(server, _round(3, StateChange(moved, StateId(1, 100), {})), 20)
    assert _beat(server, _round(4, effective=StateId(1, 101)), 30).since == 100
    server.stand(ServerStanding.READY)
    assert _beat(server, _round(5, effective=StateId(1, 101)), 40).since == 101


def _boot(server: AgreeingServer, now_ms: int, told: LeaderRound) -> LeaderRound:
    """A comes to be READY at version 102."""
    told = _answer(server, told, now_ms + 1, StateId(1, 100), wanted="booting", since=100) or told
    told = _answer(server, told, now_ms + 2, StateId(1, 101), wanted="ready", since=101) or told
    return _answer(server, told, now_ms + 3, StateId(1, 102), wanted="ready", since=101) or told


def test_new_life_is_admitted_only_after_the_old_one_was_declared_down() -> None:
    server, now_ms, told = _settled()
    told = _boot(server, now_ms, told)
    assert _answer(
        server, told, now_ms + 4, NO_STATE, life=11, is_member=False, wanted="booting", since=102
    ) is None
    assert server.effective is not None
    found = server.effective.servers[A]
    assert (found.standing, found.life) == (ServerStanding.READY, 1)


def test_server_that_forgot_what_it_serves_is_declared_down_like_one_that_is_silent() -> None:
    server, now_ms, told = _settled()
    told = _boot(server, now_ms, told)
    at_ms = heard_ms = now_ms + 3
    while told.change is None:
        at_ms, rounds = _next_round(server)
        told = rounds[A]
        assert told.heard in (None, OwnTime(7, heard_ms))
        _answer(server, told, at_ms, StateId(1, 102), wanted="booting", since=102)
    assert told.change.head.servers[A].standing == "down"
    assert 0 <= at_ms - heard_ms - WAITED_MS <= SETTINGS.round_ms


def test_server_that_is_being_declared_down_is_named_in_no_round() -> None:
    server, now_ms, told = _settled()
    told = _boot(server, now_ms, told)
    down, at_ms = told, now_ms
    while down.change is None:  # B keeps the leader where it is, A is silent
        at_ms, rounds = _next_round(server)
        _answer(server, rounds[B], at_ms, StateId(1, 102), name=B, life=2)
        down = rounds[A]
        assert down.heard == (OwnTime(7, now_ms + 3) if down.change is None else None)
        assert at_ms < now_ms + 2 * WAITED_MS
    assert down.change.head.servers[A].standing == "down"
    _answer(server, told, at_ms + 1, StateId(1, 102), wanted="ready", since=101)
    at_ms, rounds = _next_round(server)
    assert rounds[A].effective == StateId(1, 102)
    assert rounds[A].heard is None


def test_leader_without_a_majority_gives_up_after_two_leases() -> None:
    server, now_ms, _told_last = _settled()
    _run_until(server, now_ms + 2 * WAITED_MS + LEASE_MS)
    assert not server.elected_ms
    with pytest.raises(NotReadyError, match="does not lead"):
        server.propose_open(15_000, "x")


def test_leader_gives_up_when_a_server_has_to_do_with_a_later_term() -> None:
    server, now_ms, told = _settled()
    server.told(A, 1, ServerBeat(HASH, 1, 9, 0, OwnTime(7, now_ms), NO_STATE, True, "down", 0), now_ms + 1)
    assert not server.elected_ms
    assert told.term < 9


# -- reset


def test_reset_without_a_majority_that_is_heard_is_refused() -> None:
    with pytest.raises(NotReadyError, match="1 of the 3 token servers a, b, m are heard, 2 are needed"):
        _reset_lives(_follower(), now_ms=60_000)


def test_reset_by_a_node_that_is_no_server_is_refused() -> None:
    server = AgreeingServer(ConsensusSettings(C, (A, B, M), LEASE_MS, 0.01), 9, Random(1))
    with pytest.raises(RequestError, match="c is none of the token servers a, b, m: ask one of them"):
        server.reset(server.turn(0))


def test_reset_founds_with_the_lives_that_are_heard_above_all_that_was_seen() -> None:
    server = _follower()
    server.reset(server.turn(20))
    founding = server.effects.take().founding
    assert founding is not None
    assert (dict(founding.servers), founding.generation) == ({A: 1, B: 0, M: 3}, 2)
    assert founding.version > 100 + 1_000_000


def _with_another_list(servers: tuple[NodeName, ...] = (A, B, M)) -> AgreeingServer:
    """Its list in force is a, c, m; the settings name others. It hears a and c."""
    server = AgreeingServer(ConsensusSettings(M, servers, LEASE_MS, 0.01), 3, Random(1))
    server.restore(server.turn(0), {})
    server.founded(server.turn(0), Founding({A: 1, C: 9, M: 3}, 100, 1))
    server.begin(server.turn(0), 100)
    for name, life in ((A, 1), (C, 9)):
        server.told(name, life, TokenHello(HASH, 1, 1), 10)
    server.effects.take()
    return server


def _reset_lives(
    server: AgreeingServer, servers: tuple[NodeName, ...] = (), now_ms: int = 20
) -> dict[NodeName, int]:
    server.reset(server.turn(now_ms), servers)
    founding = server.effects.take().founding
    assert founding is not None
    return dict(founding.servers)


@pytest.mark.parametrize("servers", [(A, B, M), (M,), (A, B)])
def test_reset_keeps_the_list_in_force_whatever_the_settings_name(servers: tuple[NodeName, ...]) -> None:
    """(docs/protocol, QUORUM-12)"""
    assert _reset_lives(_with_another_list(servers)) == {A: 1, C: 9, M: 3}


def test_reset_takes_the_list_of_the_settings_when_it_is_named() -> None:
    """(docs/protocol, QUORUM-12)"""
    assert _reset_lives(_with_another_list(), (M, B, A)) == {A: 1, B: 0, M: 3}
    assert _reset_lives(_with_another_list(), (C, A, M)) == {A: 1, C: 9, M: 3}


def test_reset_with_a_list_that_no_server_was_told_is_refused() -> None:
    with pytest.raises(RequestError, match=r"^b, c, m is neither .* in force nor .* setting tokens\.servers: write"):
        _reset_lives(_with_another_list(), (B, C, M))


def test_reset_of_a_server_that_lost_its_disk_takes_the_list_of_the_store() -> None:
    server = AgreeingServer(SETTINGS, 5, Random(1))
    server.restore(server.turn(0), {})
    server.read_entry(Founding({A: 1, C: 9, M: 3}, 200, 1), 0)
    server.begin(server.turn(0), 100)
    with pytest.raises(NotReadyError, match="1 of the 3 token servers a, c, m are heard"):
        server.reset(server.turn(20))
    server.told(C, 9, TokenHello(HASH, 0, 1), 30)
    server.effects.take()
    assert _reset_lives(server) == {A: 0, C: 9, M: 5}


def test_reset_founds_above_what_another_server_has_seen() -> None:
    server = _follower()
    server.told(A, 1, _ask(2, StateId(1, 50_000_000)), 10)
    server.effects.take()
    server.reset(server.turn(20))
    founding = server.effects.take().founding
    assert founding is not None
    assert founding.version > 51_000_000


def test_founding_of_a_higher_generation_voids_state_and_leases() -> None:
    server = _follower()
    disk = dict[str, bytes]()
    sent = _beat(server, _round(3, StateChange(_head(101), StateId(1, 100), {"101-x": 1})), 300).sent
    _beat(server, _round(4, effective=StateId(1, 101), heard=sent), 500)
    _beat(server, _round(5, effective=StateId(1, 101), acked=4), 700)
    assert server.grants_until_ms
    server.founded(server.turn(800), Founding(LIVES, 2_000_000, 2))
    _keep(disk, server.effects.take())
    assert server.effective is None
    assert not server.grants_until_ms
    assert sorted(disk) == ["admitted", "founding", "vote"]


def test_second_founding_of_the_same_generation_is_not_minded() -> None:
    server = _follower()
    server.founded(server.turn(20), Founding(LIVES, 50, 1))
    assert server.founding == FOUNDING
    assert server.effective is not None
