"""What topics add to the blocking client, made of `async_topics`.

Knows: what a user says of a producer and a consumer.  Does not know what they do (`blocking_topic`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from distkv.client.blocking_connection import SharedConnection
from distkv.client.client_part import ClientPart

if TYPE_CHECKING:
    import os

    from distkv.client.blocking_topic import Consumer, Producer
    from distkv.client.topic_handle import StatePlace, WhenGone


class TopicMethods(ClientPart[SharedConnection]):
    """A part of the client."""

    # -- begin generated from async_topics.AsyncTopicMethods: python packaging/blocking_client.py

    def producer(self, id: str, *, state: str | os.PathLike[str] | None = None) -> Producer:
        """A producer of messages, to any topics: `client.producer(id, state=FILE).put(topic, value)`.

        Args:
            id: so the names begin under which it puts; 1 to 246 bytes of text without control characters.
            state: a file for its numbers, and for what was put and not answered; it is made if it is not there, and
                locked until the producer is closed. None: what is unanswered when the process ends is
                not sent again.

        Raises:
            BadStateError: the state cannot be used, such as when another process does.
            RequestError: no producer can have this id.
            UnreachableError: the client is closed.
        """
        from distkv.client.blocking_topic import Producer  # few clients use topics
        from distkv.client.topic_handle import as_producer_id, producer_state

        return Producer(self._connection, producer_state(state, as_producer_id(id)))

    def consumer(
        self,
        topic: str,
        *,
        id: str,
        state: StatePlace = None,
        subscribes: bool = True,
        when_gone: WhenGone | None = None,
    ) -> Consumer:
        """The subscriber `id` of a topic, which is iterated over for its messages; each is to be said `done`.

        Args:
            topic: 1 to 255 bytes of text without control characters.
            id: the same. Of consumers of a topic with one id only one may run.
            state: a file, which is made if it is not there, and locked until the consumer is closed; or
                a connection to an SQLite database of yours, in which `distkv_topic_` begins the names of some tables.
                None: what is done is known to the servers alone.
            subscribes: whether it subscribes when neither its state nor the servers know of it.
            when_gone: called with what was owed to it and not kept, per producer; None: a warning says it.

        Raises:
            BadStateError: the state cannot be used, such as when another process does.
            RequestError: a name is none.
            UnreachableError: the client is closed.
        """
        from distkv.client.blocking_topic import Consumer  # few clients use topics
        from distkv.client.topic_handle import as_topic_name, check_consumer, consumer_state

        check_consumer(subscribes, when_gone)
        names = as_topic_name("the topic", topic), as_topic_name("the id of the consumer", id)
        kept = consumer_state(state, names[1])
        return Consumer(self._connection, names[0], kept, when_gone, subscribes=subscribes)

    # -- end generated
