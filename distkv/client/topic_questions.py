"""The requests of producers and consumers of topics: to frames, and what their replies mean.

Knows: the fields of these replies, as clients get them.  Does not know puts and subscriptions (`producing`,
`consuming`), nor how anything travels.

Invariant: as in `questions`: what `read` returns was checked; a reply that is nonsense raises `DecodeError`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import attrs

from distkv.client.questions import Question, Repeat
from distkv.errors import BadValueError, DecodeError, TooLargeError
from distkv.wire.asking import encode_request
from distkv.wire.fields import Fields, read_flag, read_int, read_list, read_map, read_time
from distkv.wire.topic_bodies import flat_map
from distkv.wire.topic_fields import OP_MAX, read_counter, read_counters, read_name
from distkv.wire.topic_replies import TopicMessage, TopicMessages, TopicPutDone, TopicReply, TopicSubscribed
from distkv.wire.topic_requests import COPIES_MAX, TopicGet, TopicPut, TopicSubscribe, TopicUnsubscribe
from distkv.wire.values import pack_value

ClientRequest: TypeAlias = TopicSubscribe | TopicUnsubscribe | TopicPut | TopicGet


def topic_question(request: ClientRequest) -> Question[TopicReply]:
    """A question of a producer or a consumer, as it is sent. A node that answers nothing may be followed by another
    one: all of them name what they are about, so they cannot take place twice. A put without a producer can."""
    is_safe = not isinstance(request, TopicPut) or request.producer is not None
    repeat = Repeat.ANYWHERE if is_safe else Repeat.NEVER
    wait_s = request.wait_s if isinstance(request, TopicGet) else 0.0
    return Question(
        lambda seq: encode_request(attrs.evolve(request, seq=seq)), _READERS[type(request)], repeat, wait_s=wait_s
    )


# -- inside -------------------------------------------------------------------------------------------------------


def _subscribed(reply: Fields) -> TopicReply:
    unknown = reply.get("unknown")
    known = None if unknown is None else flat_map(read_counters(unknown, "unknown"))
    op, copies = read_int(reply, "op", OP_MAX), read_int(reply, "copies", COPIES_MAX)
    return TopicSubscribed(op, read_flag(reply, "changed"), copies, known)


def _put_done(reply: Fields) -> TopicReply:
    producer, counter = read_name(reply.get("producer"), "producer"), read_counter(reply.get("counter"), "counter")
    return TopicPutDone(producer, counter, read_flag(reply, "duplicate"), read_int(reply, "copies", COPIES_MAX))


def _messages(reply: Fields) -> TopicReply:
    messages = tuple([_message(read_map(one, "messages")) for one in read_list(reply.get("messages"), "messages")])
    gone = flat_map(read_counters(reply["gone"], "gone")) if "gone" in reply else {}
    return TopicMessages(messages, read_int(reply, "left", OP_MAX), gone)


def _message(item: Fields) -> TopicMessage:
    if "value" not in item:
        raise DecodeError("the field 'value' is missing", "bad_value")
    try:
        value = pack_value(item["value"])
    except (BadValueError, TooLargeError) as error:
        raise DecodeError(str(error), "bad_value") from None
    producer, counter = read_name(item.get("producer"), "producer"), read_counter(item.get("counter"), "counter")
    return TopicMessage(producer, counter, value, read_time(item.get("time"), "time"))


_READERS: Final[dict[type[ClientRequest], Callable[[Fields], TopicReply]]] = {
    TopicSubscribe: _subscribed,
    TopicUnsubscribe: _subscribed,
    TopicPut: _put_done,
    TopicGet: _messages,
}
