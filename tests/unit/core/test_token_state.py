"""The common state of the token servers, from one version to the next; who knows less; the two lengths of a lease.

Knows: changes and durations.  Does not know who proposes one.
"""

from __future__ import annotations

import attrs
import pytest

from distkv.core.tokens.agreement.settings import ConsensusSettings
from distkv.core.tokens.serving.parked import is_early, session_of
from distkv.core.tokens.state import TokenState, applied, state_head, state_id, whole_change
from distkv.model.event import NodeName
from distkv.model.standing import ServerStanding
from distkv.wire.token_messages import AboutToken
from distkv.wire.token_requests import TokenAcquire
from distkv.wire.token_states import NO_STATE, StateChange, StateId, TokenServer

A, B = NodeName("a"), NodeName("b")
STATE = TokenState(
    1,
    5,
    A,
    {A: TokenServer(ServerStanding.READY, 1, 4), B: TokenServer(ServerStanding.DOWN, 2, 5)},
    {"3-x": 9000, "4-y": 9000},
    5,
)


def test_whole_change_makes_the_state_again() -> None:
    assert applied(None, whole_change(STATE)) == STATE


def test_difference_opens_and_ends_sessions() -> None:
    head = state_head(attrs.evolve(STATE, version=6))
    after = applied(STATE, StateChange(head, state_id(STATE), {"6-z": 100}, ("3-x", "unknown")))
    assert after is not None
    assert dict(after.sessions) == {"4-y": 9000, "6-z": 100}
    assert dict(STATE.sessions) == {"3-x": 9000, "4-y": 9000}


def test_difference_without_sessions_copies_none() -> None:
    head = state_head(attrs.evolve(STATE, version=6))
    after = applied(STATE, StateChange(head, state_id(STATE), {}))
    assert after is not None
    assert after.sessions is STATE.sessions


def test_difference_for_another_state_is_not_applied() -> None:
    assert applied(STATE, StateChange(state_head(STATE), StateId(1, 4), {})) is None
    assert applied(None, StateChange(state_head(STATE), NO_STATE, {})) is None


def test_question_of_who_knows_of_a_later_change_or_session_is_early() -> None:
    known = TokenAcquire(0, "4-y", "t")
    assert not is_early(AboutToken(known, STATE.changed), "4-y", STATE)
    assert is_early(AboutToken(known, STATE.changed + 1), "4-y", STATE)
    later = AboutToken(TokenAcquire(0, "6-z", "t"), STATE.changed)
    assert session_of(later) == "6-z"
    assert is_early(later, "6-z", STATE)


@pytest.mark.parametrize("lease_ms", [1, 7, 1000, 5000, 12_345])
@pytest.mark.parametrize("drift", [0.0, 0.01, 0.05, 0.2])
def test_short_lease_on_the_slowest_clock_is_over_before_a_long_one_on_the_fastest(lease_ms: int, drift: float) -> None:
    settings = ConsensusSettings(A, (B, A), lease_ms, drift)
    assert settings.short_ms / (1 - drift) <= lease_ms <= (settings.long_ms - 1) / (1 + drift) + 1e-9


def test_order_of_the_list_does_not_matter() -> None:
    one, other = ConsensusSettings(A, (B, A), 1000, 0.01), ConsensusSettings(A, (A, B), 1000, 0.01)
    assert one == other
    assert one.servers_hash != attrs.evolve(one, servers=(A,)).servers_hash
