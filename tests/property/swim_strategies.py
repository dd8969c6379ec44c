"""What a node of the membership layer may say, for hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from distkv.wire.swim_frames import (
    REDIRECTS_MAX,
    TOKEN_BYTES_MAX,
    TTL_MAX,
    UNSIGNED_MAX,
    BroadcastFrame,
    Frame,
    GossipFrame,
    JoinAck,
    JoinNak,
    JoinRedirect,
    JoinRequest,
    Leave,
    Nack,
    PingFrame,
    PongFrame,
)
from distkv.wire.swim_records import (
    ADDRESSES_MAX,
    COUNT_MAX,
    GENERATION_MAX,
    INTERVAL_MS_MAX,
    KEY_BYTES,
    KEY_ID_BYTES,
    KEYS_MAX,
    RECORD_BYTES_MAX,
    SEQUENCE_MAX,
    START_BYTES,
    TABLE_MAX,
    KeyAction,
    KeyChange,
    MemberState,
    NodeId,
    NodeRecord,
    Payload,
    Rumour,
    UserMessage,
    record_bytes,
)

names = st.text("abcXYZ019.-_", min_size=1, max_size=63)
generations = st.integers(0, GENERATION_MAX)
starts = st.binary(min_size=START_BYTES, max_size=START_BYTES)
ids = st.builds(NodeId, names, generations)
counts = st.integers(0, COUNT_MAX)
sequences = st.integers(1, SEQUENCE_MAX)
ports = st.integers(1, 65535)
addresses = st.one_of(
    st.builds("127.0.{}.1:{}".format, st.integers(0, 255), ports),
    st.builds("[fe80::{:x}]:{}".format, st.integers(1, 65535), ports),
    st.builds("[2001:db8:1234:5678:9abc:def0:1234:{:04x}]:{}".format, st.integers(0, 65535), ports),
)
key_ids = st.binary(min_size=KEY_ID_BYTES, max_size=KEY_ID_BYTES)
records = st.builds(
    NodeRecord,
    names,
    generations,
    starts,
    st.lists(addresses, min_size=1, max_size=ADDRESSES_MAX).map(tuple),
    counts,
    st.integers(1, INTERVAL_MS_MAX),
    st.lists(key_ids, max_size=KEYS_MAX).map(tuple),
).filter(lambda record: record_bytes(record) <= RECORD_BYTES_MAX)
states = st.sampled_from(MemberState)
says = st.one_of(st.just(""), names)
rumours = st.one_of(
    st.builds(Rumour, states.filter(lambda state: state is not MemberState.ALIVE), ids, says),
    st.builds(lambda state, record, by: Rumour(state, record.id, by, record), states, records, says),
)
user_messages = st.builds(UserMessage, names, starts, sequences, counts, st.binary(max_size=300))
key_changes = st.one_of(
    st.builds(KeyChange, sequences, st.just(KeyAction.INSTALL), st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES)),
    st.builds(KeyChange, sequences, st.sampled_from([KeyAction.USE, KeyAction.REMOVE]), key_ids),
)
payloads = st.builds(
    Payload,
    rumours=st.lists(rumours, max_size=3).map(tuple),
    table=st.none() | st.integers(0, TABLE_MAX),
    messages=st.lists(user_messages, max_size=2).map(tuple),
    keys=st.lists(key_changes, max_size=2).map(tuple),
    capacity=counts,
    peers=counts,
) | st.builds(Payload, page=counts, sample=st.lists(rumours, max_size=3).map(tuple))
tokens = st.binary(max_size=TOKEN_BYTES_MAX)
unsigned = st.integers(0, UNSIGNED_MAX)
ttls = st.integers(0, TTL_MAX)
redirects = st.lists(addresses, min_size=1, max_size=REDIRECTS_MAX).map(tuple)
frames: st.SearchStrategy[Frame] = st.one_of(
    st.builds(JoinRequest, records, tokens, tokens, names, counts),
    st.builds(JoinNak, unsigned, unsigned, tokens),
    st.builds(JoinRedirect, redirects, unsigned, unsigned, tokens),
    st.builds(JoinAck, records),
    st.builds(Leave, records),
    st.builds(BroadcastFrame, records),
    st.builds(PingFrame, ids, ids, sequences, ttls, payloads),
    st.builds(PongFrame, ids, ids, sequences, ttls, payloads),
    st.builds(GossipFrame, ids, payloads),
    st.builds(Nack, ids, ids, sequences),
)
