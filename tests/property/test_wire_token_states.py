"""What token servers tell each other about their state comes back from bytes as it was; nonsense is refused.

Knows: every kind of message.  Does not know what becomes of one.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from distkv.errors import DecodeError
from distkv.model.event import NodeName
from distkv.model.standing import ServerStanding
from distkv.wire import packing
from distkv.wire.declared import pack
from distkv.wire.token_states import (
    NUMBER_MAX,
    TTL_MS_MAX,
    Founding,
    FoundingTold,
    LeaderRound,
    OwnTime,
    ServerBeat,
    StateChange,
    StateHead,
    StateId,
    StateMessage,
    StateVote,
    TokenHello,
    TokenServer,
    VoteAsked,
    VoteGiven,
    decode_founding,
    decode_head,
    decode_vote,
    read_state_message,
)

NUMBERS = st.integers(0, NUMBER_MAX)
TERMS = st.integers(1, NUMBER_MAX)
NAMES = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True).map(NodeName)
HASHES = st.binary(min_size=8, max_size=8)
FLAGS = st.booleans()
IDS = st.builds(StateId, NUMBERS, NUMBERS)
TIMES = st.builds(OwnTime, NUMBERS, NUMBERS)
LIVES = st.dictionaries(NAMES, NUMBERS, max_size=7)
FOUNDINGS = st.builds(Founding, LIVES, TERMS, TERMS)
LINES = st.builds(TokenServer, st.sampled_from(ServerStanding), NUMBERS, NUMBERS)
HEADS = st.builds(StateHead, NUMBERS, NUMBERS, NAMES, st.dictionaries(NAMES, LINES, max_size=7), NUMBERS)
SESSIONS = st.from_regex(r"[0-9]{1,9}-[a-z]{1,9}", fullmatch=True)
CHANGES = st.builds(
    StateChange, HEADS, st.none() | IDS, st.dictionaries(SESSIONS, st.integers(1, TTL_MS_MAX), max_size=5),
    st.lists(SESSIONS, max_size=5).map(tuple),
)
MESSAGES: st.SearchStrategy[StateMessage] = st.one_of(
    st.builds(TokenHello, HASHES, NUMBERS, NUMBERS),
    st.builds(FoundingTold, HASHES, NUMBERS, FOUNDINGS),
    st.builds(VoteAsked, HASHES, NUMBERS, TERMS, FLAGS, IDS, LIVES),
    st.builds(VoteGiven, HASHES, NUMBERS, TERMS, FLAGS, FLAGS, NUMBERS),
    st.builds(
        LeaderRound, HASHES, NUMBERS, TERMS, TERMS, NUMBERS, st.none() | IDS, st.none() | TIMES, st.none() | CHANGES
    ),
    st.builds(ServerBeat, HASHES, NUMBERS, TERMS, NUMBERS, TIMES, IDS, FLAGS, st.sampled_from(ServerStanding), NUMBERS),
)
NONSENSE = st.recursive(
    st.none() | st.booleans() | st.integers(-1, NUMBER_MAX + 1) | st.text(max_size=4) | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(MESSAGES)
def test_message_comes_back(message: StateMessage) -> None:
    assert read_state_message(pack(message)) == message


@given(HEADS)
def test_head_comes_back(head: StateHead) -> None:
    assert decode_head(pack(head)) == head


@given(FOUNDINGS)
def test_founding_comes_back(founding: Founding) -> None:
    assert decode_founding(pack(founding)) == founding


@given(st.builds(StateVote, NUMBERS, st.none() | NAMES))
def test_vote_comes_back(vote: StateVote) -> None:
    assert decode_vote(pack(vote)) == vote


@given(MESSAGES, st.data())
def test_message_with_one_other_field_is_refused_or_well_formed(message: StateMessage, data: st.DataObject) -> None:
    fields = packing.unpack_whole(pack(message))
    assert isinstance(fields, dict)
    name = data.draw(st.sampled_from(sorted(fields)))
    changed = {**fields, name: data.draw(NONSENSE)}
    try:
        found = read_state_message(packing.pack(changed))
    except DecodeError:
        return
    assert read_state_message(pack(found)) == found
