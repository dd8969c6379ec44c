"""One message in the name of a token server, with a number far ahead: what it costs, and that tokens are granted again.

Knows: the numbers that servers tell each other (docs/protocol, JUMP-1 to JUMP-4).  Does not know how a limit is kept.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from distkv.core.jump_limit import JUMP
from distkv.core.ready import NodeTold, ServiceAsked
from distkv.core.tokens.agreement.settings import ConsensusSettings
from distkv.core.tokens.machine import TOKENS
from distkv.core.tokens.state import TokenState, state_head, state_id
from distkv.model.event import NodeName
from distkv.wire.calls import CallAsked, CallMessage, CallsCancelled, CallsChecked, CallsSeen
from distkv.wire.declared import pack
from distkv.wire.held_tokens import HeldToken
from distkv.wire.token_bodies import encode_body
from distkv.wire.token_requests import TokenKeep
from distkv.wire.token_states import (
    NO_STATE,
    NUMBER_MAX,
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
    VoteAsked,
    VoteGiven,
)
from tests.property.test_token_whole import check_all_is_granted
from tests.property.token_clients import DRIFT, LEASE_MS
from tests.property.token_whole import WholeFleet

S0, S1, S2 = SERVERS = tuple(NodeName(f"s{count}") for count in range(3))
HASH = ConsensusSettings(S0, SERVERS, LEASE_MS, DRIFT).servers_hash
FAR = (NUMBER_MAX, NUMBER_MAX - 1, 1 << 61, 1 << 40, JUMP + (1 << 30), JUMP // 2, 1 << 20)

Forged = Callable[[TokenState, int], StateMessage | CallMessage]


def _head(state: TokenState, id: StateId, changed: int | None = None) -> StateHead:
    head = state_head(state)
    return StateHead(*id, S2, head.servers, head.changed if changed is None else changed)


def _round(_: TokenState, far: int) -> LeaderRound:
    return LeaderRound(HASH, 1, far, 1, 0, None, None, None)


def _round_of_this_term(state: TokenState, far: int) -> LeaderRound:
    return LeaderRound(HASH, 1, state.term, far, far, state_id(state), None, None)


def _version(state: TokenState, far: int) -> LeaderRound:
    head = _head(state, StateId(state.term + 1, far))
    return LeaderRound(HASH, 1, state.term + 1, 1, 0, None, None, StateChange(head, state_id(state), {}))


def _whole_version(state: TokenState, far: int) -> LeaderRound:
    head = _head(state, StateId(state.term + 1, far))
    return LeaderRound(HASH, 1, state.term + 1, 1, 0, None, None, StateChange(head, None, dict(state.sessions)))


def _changed(state: TokenState, far: int) -> LeaderRound:
    head = _head(state, StateId(state.term + 1, state.version + 1), changed=far)
    return LeaderRound(HASH, 1, state.term + 1, 1, 0, None, None, StateChange(head, state_id(state), {}))


def _beat(_: TokenState, far: int, *, term: int, number: int = 0, accepted: StateId = NO_STATE) -> ServerBeat:
    return ServerBeat(HASH, 1, term, number, OwnTime(7, far), accepted, True, "down", 0)


FORGED: dict[str, Forged] = {
    "term of a round": _round,
    "term of a vote": lambda state, far: VoteAsked(HASH, 1, far, False, state_id(state), {}),
    "term of a trial": lambda state, far: VoteAsked(HASH, 1, far, True, state_id(state), {}),
    "term that refuses a vote": lambda state, far: VoteGiven(HASH, 1, state.term + 1, True, False, far),
    "term that refuses a round": lambda state, far: _beat(state, far, term=far),
    "round": _round_of_this_term,
    "acknowledged round": lambda state, far: _beat(state, far, term=state.term, number=far),
    "version": _version,
    "version of a whole state": _whole_version,
    "change of servers": _changed,
    "accepted version of a beat": lambda state, far: _beat(state, far, term=state.term, accepted=StateId(1, far)),
    "accepted version of a vote": lambda state, far: VoteAsked(HASH, 1, state.term + 1, False, StateId(1, far), {}),
    "generation of another": lambda _, far: VoteGiven(HASH, far, 2, True, False, 0),
    "generation that is known": lambda _, far: TokenHello(HASH, 1, far),
    "start of calls": lambda _, far: CallAsked(far, 1, 1, b""),
    "number of a call": lambda _, far: CallAsked(1 << 10, far, far, b""),
    "calls that are checked": lambda _, far: CallsChecked(far, (far,)),
    "calls that are cancelled": lambda _, far: CallsCancelled(far, (far,)),
    "start by which a peer goes": lambda _, far: CallsSeen(far, (), (far,)),
}


def _told(fleet: WholeFleet, forged: Forged, far: int, receivers: tuple[NodeName, ...], times: int = 1) -> None:
    """In the name of s2, whose life everybody can know."""
    state = fleet.state()
    assert state is not None
    for name in receivers:
        for _ in range(times):
            body = encode_body(state.servers[S2].life, forged(state, far))
            fleet.sites[name].step(NodeTold(S2, 0, TOKENS, body))


@pytest.mark.parametrize("far", FAR, ids=hex)
@pytest.mark.parametrize("name", FORGED)
def test_one_forged_number_costs_an_election_at_the_most(name: str, far: int) -> None:
    """The example of the issue is the term of a round, told to two of three servers (JUMP-1)."""
    fleet = WholeFleet(7, servers=3, others=1)
    fleet.settle(10 * LEASE_MS)
    client = fleet.client(1)
    client.open()
    fleet.run(LEASE_MS)
    _told(fleet, FORGED[name], far, (S0, S1))
    check_all_is_granted(fleet, [client])


@pytest.mark.parametrize("name", FORGED)
def test_forged_number_that_is_said_again_costs_no_more_than_while_it_is_said(name: str) -> None:
    fleet = WholeFleet(8, servers=3, others=1)
    fleet.settle(10 * LEASE_MS)
    for _ in range(10):
        _told(fleet, FORGED[name], NUMBER_MAX, (S0,), times=3)
        fleet.run(LEASE_MS)
    check_all_is_granted(fleet, [])


@pytest.mark.parametrize("generation", [1 << 61, NUMBER_MAX, JUMP + 2])
@pytest.mark.parametrize("version", [NUMBER_MAX, 1 << 40, 5])
def test_founding_far_ahead_is_none(generation: int, version: int) -> None:
    fleet = WholeFleet(9, servers=3, others=1)
    fleet.settle(10 * LEASE_MS)
    state = fleet.state()
    assert state is not None
    lives = {name: server.life for name, server in state.servers.items()}
    for founding in (Founding(lives, version, generation), Founding(lives, NUMBER_MAX, 2)):
        _told(
            fleet, lambda _, __, founding=founding: FoundingTold(HASH, founding.generation, founding), 0, (S0, S1, S2)
        )  # type: ignore[misc]
        assert fleet.state() == state
    check_all_is_granted(fleet, [])


ENTRIES: dict[str, Callable[[dict[NodeName, int], int], Founding]] = {
    "all, founded anew": lambda lives, version: Founding(lives, version + 100, 2),
    "all, in other lives": lambda lives, version: Founding({name: lives[name] + 1 for name in lives}, version, 2),
    "all, later": lambda lives, version: Founding(lives, version + (1 << 30), 1),
    "one alone": lambda lives, version: Founding({S0: lives[S0]}, version + 100, 1),
    "one alone, founded anew": lambda lives, version: Founding({S0: lives[S0]}, version + 100, 2),
    "a node that is none": lambda _, version: Founding({NodeName("p0"): 1}, version + 100, 3),
    "strangers": lambda _, version: Founding({NodeName("x"): 1, NodeName("y"): 2, NodeName("z"): 3}, version, 1 << 20),
    "nobody": lambda _, version: Founding({}, version + 100, 2),
}


@pytest.mark.parametrize("servers", [1, 3])
@pytest.mark.parametrize("name", ENTRIES)
def test_entry_that_the_servers_did_not_agree_on_ends_no_session(name: str, servers: int) -> None:
    """Anybody can write it in the name of a registered node; it stays in the store (docs/protocol, QUORUM-21)."""
    fleet = WholeFleet(12, servers=servers, others=2)
    fleet.settle(10 * LEASE_MS)
    client = fleet.client(1)
    client.open()
    fleet.run(LEASE_MS)
    state = fleet.state()
    assert state is not None
    lives = {name: server.life for name, server in state.servers.items()}
    fleet.write_entry(pack(ENTRIES[name](lives, state.version)))
    fleet.run(5 * LEASE_MS)
    assert fleet.state() == state
    assert state.sessions
    for site in fleet.sites.values():
        site.stop()
        site.start()
    fleet.settle(20 * LEASE_MS)
    after = fleet.state()
    assert after is not None
    assert after.sessions.keys() >= state.sessions.keys()
    check_all_is_granted(fleet, [client])


@pytest.mark.parametrize("name", ENTRIES)
def test_entry_that_is_forged_keeps_no_server_out_that_lost_its_disk(name: str) -> None:
    fleet = WholeFleet(13, servers=3, others=1)
    fleet.settle(10 * LEASE_MS)
    state = fleet.state()
    assert state is not None
    lives = {name: server.life for name, server in state.servers.items()}
    fleet.sites[S2].wipe()
    fleet.write_entry(pack(ENTRIES[name](lives, state.version)))
    fleet.sites[S2].start()
    fleet.settle(40 * LEASE_MS)
    check_all_is_granted(fleet, [])


def test_server_that_was_raised_alone_is_one_of_three_again() -> None:
    """The others come nearer, step by step (JUMP-2, JUMP-3)."""
    fleet = WholeFleet(10, servers=3, others=1)
    fleet.settle(10 * LEASE_MS)
    for _ in range(5):
        _told(fleet, _round, _terms(fleet)[0] + JUMP, (S0,))
    assert _terms(fleet)[0] > 5 * JUMP
    began = fleet.now
    while len(set(_terms(fleet))) > 1 or not fleet.is_ready():
        assert fleet.now < began + 60 * LEASE_MS
        fleet.run(LEASE_MS)
    check_all_is_granted(fleet, [])


def _terms(fleet: WholeFleet) -> list[int]:
    machines = [fleet.sites[name].machine for name in SERVERS]
    return [0 if one is None or one.consensus is None else one.consensus.term for one in machines]


def test_version_that_a_keep_alive_names_counts_for_its_session_only() -> None:
    fleet = WholeFleet(11, servers=3, others=1)
    fleet.settle(10 * LEASE_MS)
    client = fleet.client(1)
    client.open()
    fleet.run(2 * LEASE_MS)
    state = fleet.state()
    assert state is not None
    (session,) = state.sessions
    held = (HeldToken("a", NUMBER_MAX, NUMBER_MAX, False),)
    for name in SERVERS:
        asked = TokenKeep(0, session, NUMBER_MAX, held, 0.0, NUMBER_MAX, NUMBER_MAX)
        fleet.sites[name].step(ServiceAsked(TOKENS, 10**9, asked))
    check_all_is_granted(fleet, [client])
