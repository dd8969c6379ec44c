"""Which part a server serves, from version to version of the common state; surveys and hand-overs.

Knows: one server.  Does not know tokens' holders.
"""

from __future__ import annotations

import attrs
import pytest

from distkv.core.ground.calls import CallKey
from distkv.core.tokens.questions import Questions
from distkv.core.tokens.serving.handover import PIECE_MAX, TokenHandOver
from distkv.core.tokens.serving.part import NUMBERS_AHEAD, PART_SLOT, TokenPart
from distkv.core.tokens.serving.survey import SessionClaim, Survey
from distkv.core.tokens.state import TokenState
from distkv.model.event import NodeName
from distkv.model.standing import ServerStanding
from distkv.wire.calls import CallAsked
from distkv.wire.held_tokens import HeldToken
from distkv.wire.token_messages import TakeTokens, decode_question
from distkv.wire.token_replies import TokenDone
from distkv.wire.token_slots import TokenRecord, decode_part
from distkv.wire.token_states import TokenServer
from tests.taken_effects import TakenEffects

ME, B, C = NodeName("a"), NodeName("b"), NodeName("c")
DOWN, BOOTING, READY = ServerStanding.DOWN, ServerStanding.BOOTING, ServerStanding.READY
LEAVING = ServerStanding.LEAVING
NAMES = [f"token {count}" for count in range(200)]


Stood = tuple[ServerStanding, int]


def state(version: int, a: Stood, b: Stood, c: Stood) -> TokenState:
    servers = {name: TokenServer(standing, 1, since) for name, (standing, since) in ((ME, a), (B, b), (C, c))}
    return TokenState(1, version, ME, servers, {}, version)


def booted(since: int = 2) -> TokenPart:
    """A server that is ready beside two others."""
    part = TokenPart(ME, TakenEffects())
    first = state(since, (BOOTING, since), (READY, 1), (READY, 1))
    part.begin_boot(first)
    for name in (B, C):
        part.handed_over(name, is_whole=True)
    part.collect(first)
    part.state_changed(state(since + 1, (READY, since + 1), (READY, 1), (READY, 1)))
    return part


def test_booting_server_serves_when_all_have_handed_over() -> None:
    part = TokenPart(ME, TakenEffects())
    first = state(2, (BOOTING, 2), (READY, 1), (READY, 1))
    part.begin_boot(first)
    part.handed_over(B, is_whole=True)
    assert not part.collect(first)
    part.handed_over(C, is_whole=True)
    assert part.collect(first)
    assert part.gains == ()
    assert part.next_number() == (2, 1)


def test_hand_over_that_was_not_whole_makes_a_survey() -> None:
    part = TokenPart(ME, TakenEffects())
    first = state(2, (BOOTING, 2), (READY, 1), (READY, 1))
    part.begin_boot(first)
    part.handed_over(B, is_whole=True)
    part.handed_over(C, is_whole=False)
    assert part.collect(first)
    assert len(part.gains) == 1


def test_server_that_goes_down_before_it_hands_over_makes_a_survey() -> None:
    part = TokenPart(ME, TakenEffects())
    part.begin_boot(state(2, (BOOTING, 2), (READY, 1), (READY, 1)))
    part.handed_over(B, is_whole=True)
    assert part.collect(state(3, (BOOTING, 2), (READY, 1), (DOWN, 3)))
    assert len(part.gains) == 1


def test_server_that_is_lost_after_it_handed_over_makes_a_survey() -> None:
    """Its own part was this server's for a while, and nobody handed that over."""
    part = TokenPart(ME, TakenEffects())
    part.begin_boot(state(2, (BOOTING, 2), (READY, 1), (READY, 1)))
    part.handed_over(C, is_whole=True)
    part.handed_over(B, is_whole=True)
    assert part.collect(state(4, (BOOTING, 2), (READY, 1), (BOOTING, 4)))
    assert len(part.gains) == 1
    assert part.giving == {C: (4, False, False)}


def test_booting_server_waits_for_one_that_began_to_boot_before() -> None:
    part = TokenPart(ME, TakenEffects())
    first = state(3, (BOOTING, 3), (READY, 1), (BOOTING, 2))
    part.begin_boot(first)
    part.handed_over(B, is_whole=True)
    assert not part.collect(first)


def test_heirs_do_not_serve_the_part_of_a_lost_server_before_it_is_found_out() -> None:
    part = booted()
    before = {name for name in NAMES if part.serves(name)}
    assert part.state_changed(state(4, (READY, 3), (READY, 1), (DOWN, 4)))
    assert {name for name in NAMES if part.serves(name)} == before
    part.found_out()
    assert {name for name in NAMES if part.serves(name)} > before
    assert part.next_number()[0] == 4


def leaving() -> tuple[TokenPart, set[str]]:
    """c leaves since version 4; what was served before."""
    part = booted()
    before = {name for name in NAMES if part.serves(name)}
    assert not part.state_changed(state(4, (READY, 3), (READY, 1), (LEAVING, 4)))
    return part, before


def test_part_of_a_server_that_leaves_is_served_when_that_has_handed_over() -> None:
    """(docs/protocol, PART-10)"""
    part, before = leaving()
    assert {name for name in NAMES if part.serves(name)} == before
    assert part.awaits(C, 4)
    assert part.survey_version == 0
    part.came(C, is_whole=True)
    assert {name for name in NAMES if part.serves(name)} > before
    assert part.next_number()[0] == 4
    assert not part.state_changed(state(5, (READY, 3), (READY, 1), (DOWN, 5)))
    assert part.gains == ()


@pytest.mark.parametrize("is_told", [False, True])
def test_what_a_server_that_left_did_not_hand_over_is_asked_of_the_sessions(is_told: bool) -> None:
    """(docs/protocol, PART-10)"""
    part, before = leaving()
    if is_told:
        part.came(C, is_whole=False)
        assert part.survey_version == 4
    else:
        assert part.state_changed(state(5, (READY, 3), (READY, 1), (DOWN, 5)))
        assert part.survey_version == 5
    assert {name for name in NAMES if part.serves(name)} == before
    part.found_out()
    assert {name for name in NAMES if part.serves(name)} > before


def test_survey_does_not_end_the_wait_for_a_server_that_left_since() -> None:
    part = booted()
    part.state_changed(state(4, (READY, 3), (DOWN, 4), (READY, 1)))
    part.state_changed(state(5, (READY, 3), (DOWN, 4), (LEAVING, 5)))
    part.found_out()
    assert part.awaits(C, 5)


def test_server_that_leaves_hands_over_to_all_and_serves_nothing() -> None:
    """(docs/protocol, QUORUM-16)"""
    part = booted()
    part.state_changed(state(4, (LEAVING, 4), (READY, 1), (READY, 1)))
    assert not any(part.serves(name) or part.is_mine(name) for name in NAMES)
    assert part.giving == {B: (4, True, False), C: (4, True, False)}
    part.gave(B)
    assert not part.has_left
    part.gave(C)
    assert part.has_left


def test_server_that_left_and_is_in_no_list_any_more_is_lost_for_whoever_boots() -> None:
    part = TokenPart(ME, TakenEffects())
    part.begin_boot(state(2, (BOOTING, 2), (READY, 1), (READY, 1)))
    part.handed_over(B, is_whole=True)
    both = attrs.evolve(state(5, (BOOTING, 2), (READY, 1), (DOWN, 4)))
    rest = {name: one for name, one in both.servers.items() if name != C}
    assert part.collect(TokenState(1, 5, ME, rest, {}, 4))
    assert len(part.gains) == 1


def test_server_that_came_back_unseen_gets_a_hand_over_that_is_not_whole() -> None:
    part = booted()
    assert part.state_changed(state(6, (READY, 3), (READY, 1), (BOOTING, 6)))
    assert part.giving == {C: (6, False, False)}


def test_part_of_a_booting_server_is_not_served_any_more() -> None:
    part = booted()
    part.state_changed(state(4, (READY, 3), (READY, 1), (DOWN, 4)))
    part.found_out()
    mine = {name for name in NAMES if part.serves(name)}
    part.state_changed(state(5, (READY, 3), (READY, 1), (BOOTING, 5)))
    assert {name for name in NAMES if part.serves(name)} < mine
    assert part.giving == {C: (5, True, False)}


def test_restarted_server_gives_no_number_again() -> None:
    effects = TakenEffects()
    part = TokenPart(ME, effects)
    part.begin_boot(state(2, (BOOTING, 2), (DOWN, 1), (DOWN, 1)))
    numbers = [part.next_number()[1] for _ in range(NUMBERS_AHEAD + 5)]
    kept = [slot.value for slot in effects.take().slots if slot.key == PART_SLOT][-1]
    again = TokenPart(ME, TakenEffects())
    again.restore(decode_part(kept or b""))
    assert again.next_number()[1] > max(numbers)


def test_server_that_forgot_everything_serves_nothing() -> None:
    part = booted()
    part.forget()  # it is down in the eyes of all, and may have a lease again before it boots
    assert not any(part.is_mine(name) or part.serves(name) for name in NAMES)


def claim(number: int, version: int, *tokens: str) -> SessionClaim:
    held = tuple([HeldToken(token, 1, number, is_shared=False) for token in tokens])
    return SessionClaim(CallKey(NodeName("p"), 1, number), version, held)


def test_survey_is_over_when_all_sessions_have_claimed() -> None:
    survey = Survey(500)
    survey.begin(7, ["1-a", "2-b"], 0)
    survey.claimed("1-a", claim(1, 7, "t"))
    assert not survey.is_over(1000)
    survey.claimed("2-b", claim(2, 8))
    assert survey.is_over(1000)
    assert list(survey.claims({"1-a", "2-b"})) == ["t"]


def test_claim_of_older_knowledge_does_not_count() -> None:
    survey = Survey(500)
    survey.begin(7, ["1-a"], 0)
    survey.claimed("1-a", claim(1, 6, "t"))
    assert not survey.is_over(1000)


def test_claims_that_came_before_the_survey_count() -> None:
    survey = Survey(500)
    survey.claimed("1-a", claim(1, 7, "t"))
    survey.begin(7, ["1-a"], 0)
    assert survey.is_over(500)


def test_survey_waits_the_lock_delay_of_a_session_that_ended() -> None:
    survey = Survey(500)
    survey.begin(7, ["1-a"], 0)
    survey.ended("1-a", 3000)
    assert not survey.is_over(3499)
    assert survey.is_over(3500)


def test_claim_that_is_withdrawn_is_waited_for_again() -> None:
    survey = Survey(0)
    survey.begin(7, ["1-a"], 0)
    one = claim(1, 7, "t")
    survey.claimed("1-a", one)
    assert survey.is_over(0)
    survey.call_gone(one.call)
    assert not survey.is_over(0)
    survey.ended("1-a", 10)
    assert survey.is_over(10)


def test_claim_says_what_the_session_made_of_the_data() -> None:
    survey = Survey(0)
    survey.begin(7, ["1-a"], 0)
    held = HeldToken("t", 1, 1, is_shared=False, data=b"\x05", change=3)
    survey.claimed("1-a", SessionClaim(CallKey(NodeName("p"), 1, 1), 7, (held,)))
    found = survey.claims({"1-a"})["t"]
    assert (found.data, [one.change for one in found.holders]) == (b"\x05", [3])


def test_claims_of_a_session_that_know_of_the_same_version_count_together() -> None:
    survey = Survey(0)
    survey.begin(7, ["1-a"], 0)
    held = HeldToken("t", 1, 1, is_shared=False, data=b"\x05")
    survey.claimed("1-a", SessionClaim(CallKey(NodeName("p"), 1, 1), 7, (held,)))
    late = SessionClaim(CallKey(NodeName("q"), 1, 1), 7, (HeldToken("u", 1, 2, is_shared=False),))
    assert survey.claimed("1-a", late) == CallKey(NodeName("p"), 1, 1)
    found = survey.claims({"1-a"})
    assert {name: one.data for name, one in found.items()} == {"t": b"\x05", "u": None}


def test_claim_of_a_fence_that_the_lost_server_cannot_have_given_does_not_count() -> None:
    survey = Survey(0)
    survey.begin(7, ["1-a", "2-b"], 0)
    survey.claimed("1-a", claim(1, 7, "t"))
    made_up = HeldToken("t", 8, 1, is_shared=False)
    survey.claimed("2-b", SessionClaim(CallKey(NodeName("p"), 1, 2), 7, (made_up,)))
    assert [one.session for one in survey.claims({"1-a", "2-b"})["t"].holders] == ["1-a"]


def test_of_two_claims_the_higher_fence_counts() -> None:
    survey = Survey(0)
    survey.begin(7, ["1-a", "2-b"], 0)
    survey.claimed("1-a", claim(1, 7, "t"))
    survey.claimed("2-b", claim(2, 7, "t"))
    found = survey.claims({"1-a", "2-b"})["t"]
    assert [one.session for one in found.holders] == ["2-b"]
    assert [one.session for one in found.losers] == ["1-a"]


def pieces(names: list[str], *, is_whole: bool) -> list[TakeTokens]:
    """All that a hand-over tells, each when the one before was taken."""
    effects = TakenEffects()
    hand_over = TokenHandOver(Questions(NodeName("a"), 1, effects), lambda name, _now_ms: TokenRecord(name, (), None))
    hand_over.begin(B, 7, names, 0, is_whole=is_whole)
    while not hand_over.answered(B, TokenDone(), 0):
        pass
    told = [decode_question(tell.message.body) for tell in effects.now.tells if isinstance(tell.message, CallAsked)]
    return [one for one in told if isinstance(one, TakeTokens)]


def test_hand_over_goes_in_bounded_pieces_of_which_the_last_says_so() -> None:
    first, last = pieces([f"{count}" for count in range(PIECE_MAX + 1)], is_whole=True)
    assert (len(first.records), first.is_last) == (PIECE_MAX, False)
    assert (len(last.records), last.is_last) == (1, True)


def test_hand_over_of_nothing_is_one_piece() -> None:
    (piece,) = pieces([], is_whole=False)
    assert (piece.records, piece.is_last, piece.is_whole) == ((), True, False)
