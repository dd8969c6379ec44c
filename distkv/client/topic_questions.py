"""The requests of producers and consumers of topics: to frames, and what their replies mean.

Knows: the fields of these replies, as clients get them.  Does not know puts and subscriptions (`producing`,
`consuming`), nor how anything travels.

Invariant: as in `questions`: what `read` returns was checked; a reply that is nonsense raises `DecodeError`.
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.client.consuming import ConsumerRequest
from distkv.client.questions import Question, Repeat
from distkv.errors import BadValueError, DecodeError, TooLargeError
from distkv.wire.asking import encode_request
from distkv.wire.fields import Fields, read_flag, read_int, read_list, read_map, read_time
from distkv.wire.topic_bodies import flat_map
from distkv.wire.topic_fields import COUNTER_MAX, read_counter, read_counters, read_name
from distkv.wire.topic_replies import TopicMessage, TopicMessages, TopicPutDone, TopicReply, TopicSubscribed
from distkv.wire.topic_requests import COPIES_MAX, TopicGet, TopicPut
from distkv.wire.values import pack_value


class PutQuestion:
    """The question of a put that names its producer, and how often it was sent: when a connection breaks, or a node is
    silent, it is sent again, and nobody knows what became of it before."""

    def __init__(self, put: TopicPut) -> None:
        self._put: Final = put
        self._sent = 0
        self.question: Final[Question[TopicReply]] = Question(self._encode, _put_done, Repeat.ANYWHERE, looks=True)

    @property
    def is_repeated(self) -> bool:
        return self._sent > 1

    def _encode(self, seq: int) -> bytes:
        self._sent += 1
        return encode_request(attrs.evolve(self._put, seq=seq))


def consumer_question(request: ConsumerRequest) -> Question[TopicReply]:
    """A question of a consumer, as it is sent. Another node may be asked the same: each names what it is about, so it
    cannot take place twice."""
    wait_s = request.wait_s if isinstance(request, TopicGet) else 0.0
    read = _messages if isinstance(request, TopicGet) else _subscribed
    return Question(
        lambda seq: encode_request(attrs.evolve(request, seq=seq)), read, Repeat.ANYWHERE, wait_s=wait_s, looks=True
    )


# -- inside -------------------------------------------------------------------------------------------------------


def _subscribed(reply: Fields) -> TopicReply:
    unknown = reply.get("unknown")
    known = None if unknown is None else flat_map(read_counters(unknown, "unknown"))
    op, copies = read_int(reply, "op", COUNTER_MAX), read_int(reply, "copies", COPIES_MAX)
    return TopicSubscribed(op, read_flag(reply, "changed"), copies, known)


def _put_done(reply: Fields) -> TopicReply:
    producer, counter = read_name(reply.get("producer"), "producer"), read_counter(reply.get("counter"), "counter")
    return TopicPutDone(producer, counter, read_flag(reply, "duplicate"), read_int(reply, "copies", COPIES_MAX))


def _messages(reply: Fields) -> TopicReply:
    messages = tuple([_message(read_map(one, "messages")) for one in read_list(reply.get("messages"), "messages")])
    gone = flat_map(read_counters(reply["gone"], "gone")) if "gone" in reply else {}
    return TopicMessages(messages, read_int(reply, "left", COUNTER_MAX), gone)


def _message(item: Fields) -> TopicMessage:
    if "value" not in item:
        raise DecodeError("the field 'value' is missing", "bad_value")
    try:
        value = pack_value(item["value"])
    except (BadValueError, TooLargeError) as error:
        raise DecodeError(str(error), "bad_value") from None
    producer, counter = read_name(item.get("producer"), "producer"), read_counter(item.get("counter"), "counter")
    return TopicMessage(producer, counter, value, read_time(item.get("time"), "time"))
