"""How much subscribers leave waiting: beyond a limit, puts are refused, and told who is furthest behind.

Knows: how many bytes may still come to a topic before that is looked at.  Does not know messages.

Invariant: a topic that was looked at has no more owed to its known subscribers than the limit and one message, but for
what came from other copies. A put costs a subtraction as long as the limit is far.
"""

from __future__ import annotations

from typing import Final

from distkv.core.topics.copy_state import MESSAGE_BYTES
from distkv.core.topics.topic import Topic
from distkv.wire.topic_errors import BacklogError


class TopicBacklog:
    """That of the topics that a node owns."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max: Final = bytes_max
        self._room: Final = dict[str, int]()
        """Of topics that came near to the limit: so many bytes may come before what is owed is counted again."""

    def check(self, topic: Topic, size: int) -> None:
        """Whether a message with a value of this size may come.

        Raises:
            BacklogError: known subscribers are owed too much.
        """
        wanted = size + MESSAGE_BYTES
        if topic.held_bytes + wanted <= self._bytes_max:
            return
        room = self._room.get(topic.name, 0)
        if room < wanted:
            room = self._bytes_max - topic.size_owed()
            if room < wanted:
                self._room.pop(topic.name, None)
                raise self._refusal(topic)
        self._room[topic.name] = room - wanted

    def look_again(self, name: str) -> None:
        """Something of a topic changed, or it is gone: what is owed is counted again when it is needed."""
        self._room.pop(name, None)

    def _refusal(self, topic: Topic) -> BacklogError:
        owed = [(topic.owed(subscriber)[1], subscriber) for subscriber in topic.subscribers()]
        bytes, subscriber = max(owed, default=(0, ""))
        return BacklogError(
            f"the topic {topic.name!r} takes no message now: its subscriber {subscriber!r} has left {bytes} bytes"
            f" waiting, and topics.backlog_bytes allows {self._bytes_max}: let it get them, or drop it with"
            " 'distkv client topic drop TOPIC --subscriber NAME'"
        )
