"""What people see of topics, and what they set and drop.

Knows: the parts of a node that each have something to show of a topic.  Does not know how any of them works.

Invariant: showing changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from heapq import nsmallest
from typing import Final

from distkv.core.ground.turn import ServiceTurn
from distkv.core.topics.asked import TopicAsked, answer
from distkv.core.topics.copy_state import MESSAGE_BYTES
from distkv.core.topics.forgetting import Forgetting
from distkv.core.topics.local_copies import LocalCopies
from distkv.core.topics.owning import Owners
from distkv.core.topics.settings import TopicSettings
from distkv.errors import NotFoundError, RequestError
from distkv.wire.topic_replies import ShownSubscriber, TopicDone, TopicItem, TopicShown
from distkv.wire.topic_requests import PAGE_MAX, TopicDrop, TopicSet, TopicShow

SHOWN_MAX: Final = 10
"""So many names the statistics give of each kind."""
ALMOST: Final = 15 / 16
"""From this part of a limit on people are told."""


class Showing:
    """Of one node."""

    def __init__(self, settings: TopicSettings, copies: LocalCopies, owners: Owners, forgetting: Forgetting) -> None:
        self._settings: Final = settings
        self._copies: Final = copies
        self._owners: Final = owners
        self._copying: Final = copies.copying
        self._forgetting: Final = forgetting

    def take(self, turn: ServiceTurn, asked: TopicAsked, request: TopicShow | TopicSet | TopicDrop) -> None:
        """This node owns the topic: show it, or change what it is kept by. A change is an entry of the store, or rows
        of this step: the answer leaves when the disk has it."""
        try:
            if self._owners.view(request.topic) is None:
                raise NotFoundError(f"there is no topic {request.topic!r}")
            if isinstance(request, TopicShow):
                answer(turn, asked, self._shown(request))
                return
            if isinstance(request, TopicSet):
                self._owners.set_settings(turn, request)
            else:
                self._drop(turn, request)
        except RequestError as error:
            answer(turn, asked, error)
        else:
            answer(turn, asked, TopicDone())

    def items(self) -> Mapping[str, TopicItem]:
        """The topics that this node owns."""
        found = dict[str, TopicItem]()
        for name in self._owners.owned():
            topic = self._copies.current(name)
            count, size = (0, 0) if topic is None else (len(topic), topic.held_bytes)
            found[name] = TopicItem(name, self._owners.me, self._copying.copies(name), count, size)
        return found

    def statistics(self) -> Mapping[str, object]:
        """Of all topics."""
        topics, owned = self._copies.topics.all(), sorted(self._owners.owned())
        few = [name for name in owned if self._copying.copies(name) < self._owners.wanted_copies(name)]
        waits_for = {node for name in owned for node in self._forgetting.waits_for(name)}
        return {
            "topics": len(topics),
            "owned": len(owned),
            "messages": sum(map(len, topics)),
            "bytes": sum(topic.held_bytes for topic in topics),
            "few_copies": few[:SHOWN_MAX],
            "waits_for": sorted(waits_for)[:SHOWN_MAX],
            "unnamed": self._forgetting.orphans()[:SHOWN_MAX],
            "backlogged": [name for name in owned if self._is_backlogged(name)][:SHOWN_MAX],
            "crowded": [name for name in owned if self._is_crowded(name)][:SHOWN_MAX],
        }

    # -- inside

    def _is_backlogged(self, name: str) -> bool:
        """Whether subscribers have left almost as much waiting as they may."""
        topic, most = self._copies.current(name), self._settings.backlog_bytes * ALMOST - MESSAGE_BYTES
        return topic is not None and topic.held_bytes >= most and topic.size_owed() >= most

    def _is_crowded(self, name: str) -> bool:
        """Whether it has almost as many producers or subscribers as it may."""
        topic, settings = self._copies.current(name), self._settings
        return topic is not None and (
            len(topic.producers()) >= settings.producers_max * ALMOST
            or len(topic.subscribers()) >= settings.subscribers_max * ALMOST
        )

    def _shown(self, request: TopicShow) -> TopicShown:
        name = request.topic
        view, topic = self._owners.view(name), self._copies.current(name)
        if view is None or view.owner is None or topic is None:
            raise NotFoundError(f"there is no topic {name!r}")
        subscribers = list[ShownSubscriber]()
        for subscriber in topic.subscribers():
            count, _, oldest = topic.owed(subscriber)
            subscribers.append(ShownSubscriber(subscriber, count, oldest))
        return TopicShown(
            name,
            view.owner,
            tuple(sorted(view.followers)),
            self._copying.copies(name),
            len(topic),
            topic.held_bytes,
            self._forgetting.kept_bytes(name),
            topic.digest,
            view.min_replicas,
            view.keep_s,
            view.keep_bytes,
            tuple(subscribers),
            len(topic.producers()),
            tuple(sorted(self._forgetting.waits_for(name))),
            _names(topic.producers(), request.after) if request.producers else None,
        )

    def _drop(self, turn: ServiceTurn, request: TopicDrop) -> None:
        topic = self._copies.current(request.topic)
        if request.subscriber is None and request.producer is None:
            self._forgetting.drop(turn, request.topic, force=request.force)
        elif topic is None:
            raise NotFoundError(f"there is no topic {request.topic!r}")
        elif request.subscriber is not None and not topic.drop_subscriber(request.subscriber):
            raise NotFoundError(f"the topic {request.topic!r} knows no subscriber {request.subscriber!r}")
        elif request.producer is not None and not topic.drop_producer(request.producer):
            raise NotFoundError(f"the topic {request.topic!r} knows no producer {request.producer!r}")


def _names(names: Collection[str], after: str) -> tuple[str, ...]:
    """The first ones behind this one."""
    return tuple(nsmallest(PAGE_MAX, (name for name in names if name > after)))
