"""What is said about topics goes to bytes and back (docs: client protocol).

Knows: all requests and answers of the topic service.  Does not know who says them.
"""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.errors import DecodeError
from distkv.wire import packing
from distkv.wire.declared import pack
from distkv.wire.topic_bodies import flat_map
from distkv.wire.topic_replies import (
    TOPIC_REPLIES,
    NodeReply,
    ShownSubscriber,
    TopicDone,
    TopicItem,
    TopicMessage,
    TopicMessages,
    TopicPutDone,
    TopicShown,
    TopicsListed,
    TopicStale,
    TopicSubscribed,
)
from distkv.wire.topic_requests import REQUESTS, TOPIC_ROWS, TopicPut, TopicRequest, pack_request
from tests.profiles import examples
from tests.property.strategies import (
    counter_maps,
    mutated,
    node_names,
    raw_values,
    times,
    topic_counters,
    topic_names,
    topic_request_kinds,
)

pytestmark = pytest.mark.slow

topic_requests = st.one_of(*topic_request_kinds)
passed_on = topic_requests.filter(lambda request: not isinstance(request, TopicPut) or request.producer is not None)
"""A node that passes on a put has given it a producer."""
copies = st.integers(0, 7)
numbers = st.integers(0, 2**63 - 1)
flat_counters = counter_maps.map(flat_map)
nodes = st.lists(node_names, max_size=3).map(tuple)
messages = st.builds(TopicMessage, topic_names, topic_counters, raw_values, times)
subscribers = st.builds(ShownSubscriber, topic_names, numbers, st.none() | times)
replies: st.SearchStrategy[NodeReply] = st.one_of(
    st.builds(TopicSubscribed, numbers, st.booleans(), copies, st.none() | flat_counters),
    st.builds(TopicPutDone, topic_names, topic_counters, st.booleans(), copies),
    st.builds(TopicMessages, st.lists(messages, max_size=3).map(tuple), numbers, flat_counters),
    st.builds(
        TopicShown, topic_names, node_names, nodes, copies, numbers, numbers, numbers, st.binary(max_size=32),
        copies, st.floats(0, 1e10), numbers, st.lists(subscribers, max_size=3).map(tuple), numbers, nodes,
        st.none() | st.lists(topic_names, max_size=3).map(tuple),
    ),
    st.builds(
        TopicsListed,
        st.lists(st.builds(TopicItem, topic_names, node_names, copies, numbers, numbers), max_size=3).map(tuple),
        st.booleans(),
        nodes,
    ),
    st.just(TopicDone()),
    st.builds(TopicStale, numbers),
)  # fmt: skip


@examples(75)
@given(passed_on)
def test_request_that_a_node_passes_on_comes_as_it_was(request: TopicRequest) -> None:
    assert REQUESTS.read(pack_request(request)) == attrs.evolve(request, seq=0)


@given(topic_requests)
def test_request_of_a_client_is_read_as_it_was_written(request: TopicRequest) -> None:
    row = next(row for row in TOPIC_ROWS if row.type is type(request))
    fields: dict[str, object] = {"seq": request.seq, "action": row.action}
    raw: dict[str, bytes] = {}
    assert row.write is not None
    row.write(request, fields, raw)
    frame = packing.pack_map(fields, raw)
    found = packing.unpack(frame)
    assert type(found) is dict
    assert row.read(request.seq, found, frame) == request


@examples(75)
@given(replies)
def test_answer_is_read_as_it_was_written(reply: NodeReply) -> None:
    assert TOPIC_REPLIES.read(pack(reply)) == reply


@examples(75)
@given(mutated(passed_on.map(pack_request)) | st.binary(max_size=80))
def test_bytes_of_any_kind_are_a_request_or_are_refused(data: bytes) -> None:
    try:
        found = REQUESTS.read(data)
    except DecodeError:
        return
    assert REQUESTS.read(pack_request(found)) == found


@examples(75)
@given(mutated(replies.map(pack)) | st.binary(max_size=80))
def test_bytes_of_any_kind_are_an_answer_or_are_refused(data: bytes) -> None:
    try:
        found = TOPIC_REPLIES.read(data)
    except DecodeError:
        return
    assert TOPIC_REPLIES.read(pack(found)) == found
