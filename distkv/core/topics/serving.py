"""What the owner of a topic does for clients: it stores, says what is owed, and answers when all copies have that.

Knows: the order of an operation: allowed, done, copied, answered.  Does not know how a topic is stored (`topic`),
copied (`copying`) or given to a server (`owning`).

Invariant: an answer that promises something leaves when the disks of this node and of all followers that the entry
names have it, a get only under a lease of each of these. Who asked a node that is the owner no more is told so, and
asks the next one: all operations may be repeated.
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.core.ground.node_routes import answer_elsewhere
from distkv.core.ground.turn import ServiceTurn
from distkv.core.topics.asked import Target, TopicAsked, answer
from distkv.core.topics.copying import Copying
from distkv.core.topics.forgetting import Forgetting
from distkv.core.topics.getting import Getting
from distkv.core.topics.leases import Leases
from distkv.core.topics.owning import Owners
from distkv.core.topics.settings import TopicSettings
from distkv.core.topics.topic import Next, Topic
from distkv.core.topics.topics import Topics
from distkv.errors import DistkvError, NotFoundError, NotReadyError, RequestError, TooLargeError
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.declared import evolve
from distkv.wire.topic_bodies import flat_map
from distkv.wire.topic_errors import AwayError, NoReplicasError
from distkv.wire.topic_replies import TopicMessages, TopicPutDone, TopicReply, TopicSubscribed
from distkv.wire.topic_requests import TopicGet, TopicPut, TopicSubscribe, TopicUnsubscribe

REPLY_BYTES_MAX: Final = 512 << 10
"""A get brings no more than this in values, but one message at least."""
ROW_BYTES: Final = 1024
"""More than what a row needs besides the value of a message."""
AWAY_MS: Final = 800
"""So long a get waits for leases, or for what other holders have, before it says that they are away. Commands wait a
second for each answer."""


@attrs.frozen(eq=False, slots=True)
class Parked:
    """A request that is done here, and what is answered when all copies have that."""

    name: str
    """Of the topic."""
    asked: TopicAsked
    reply: TopicReply


class Serving:
    """That of one node, since its machine began."""

    def __init__(
        self,
        settings: TopicSettings,
        topics: Topics,
        owners: Owners,
        leases: Leases,
        forgetting: Forgetting,
    ) -> None:
        self._settings: Final = settings
        self._topics: Final = topics
        self._owners: Final = owners
        self._leases: Final = leases
        self._forgetting: Final = forgetting
        self._getting: Final = Getting()
        self._done = list[Parked]()
        """What this step has done, and answers when it is copied."""

    # -- what is asked

    def take(self, turn: ServiceTurn, asked: TopicAsked) -> None:
        """This node owns the topic, or may begin it: do what is asked."""
        request = asked.request
        try:
            if isinstance(request, TopicPut):
                self._put(turn, asked, request)
            elif isinstance(request, TopicSubscribe):
                self._subscribe(turn, asked, request)
            elif isinstance(request, TopicGet | TopicUnsubscribe):
                self._try_again(turn, asked)
            else:
                raise TypeError(f"{request} is no operation on a topic")
        except RequestError as error:
            answer(turn, asked, error)

    def gone(self, target: Target) -> None:
        """Nobody waits for this any more."""
        self._getting.gone(target)

    # -- what happens

    def look_again(self, turn: ServiceTurn, name: str) -> None:
        """Something of a topic has changed: messages, leases, or who has it."""
        for asked in self._getting.take(name):
            self._try_again(turn, asked)

    def look_at_all(self, turn: ServiceTurn) -> None:
        """Leases may have come."""
        for name in self._getting.topics():
            self.look_again(turn, name)

    def pass_time(self, turn: ServiceTurn) -> None:
        """Those whose time is over."""
        for _, asked in self._getting.take_due(turn.boot_ms):
            self._try_again(turn, asked)

    def wake_ms(self) -> int | None:
        return self._getting.wake_ms()

    @property
    def has_done(self) -> bool:
        """Whether something was done that is not parked."""
        return bool(self._done)

    def park(self, turn: ServiceTurn, copying: Copying) -> None:
        """What this step has done is on its way to the followers."""
        done, self._done = self._done, []
        for parked in done:
            name, reply = parked.name, parked.reply
            is_older = isinstance(reply, TopicPutDone) and reply.is_duplicate
            if self._owners.followers(name):
                self._owners.want(name)
            copying.wait(turn, copying.last_op(name), name, parked, is_older=is_older)

    def copied(self, turn: ServiceTurn, parked: Parked, copies: int) -> None:
        """All copies have it."""
        reply, name = parked.reply, parked.name
        if isinstance(reply, TopicPutDone | TopicSubscribed):
            view = self._owners.view(name)
            wanted = 1 if view is None else view.min_replicas
            if copies < wanted:
                says = f"it is on {copies} of at least {wanted} disks (min_replicas): it may have happened; ask again"
                answer(turn, parked.asked, NoReplicasError(f"the topic {name!r}: {says}"))
                return
            reply = evolve(reply, copies=copies)
        answer(turn, parked.asked, reply)

    def lost(self, turn: ServiceTurn, name: str, parked: list[Parked]) -> list[TopicAsked]:
        """This node is not the owner any more. Returns what its own clients asked: that is asked elsewhere."""
        mine = list[TopicAsked]()
        begun = [attrs.evolve(one.asked, is_begun=True) for one in parked]
        for asked in (*begun, *self._getting.take(name)):
            if isinstance(asked.target, int):
                mine.append(asked)
            else:
                found = self._owners.server_for(name)
                node = None if isinstance(found, DistkvError) else found
                answer_elsewhere(turn, asked.target, node, may_be_done=asked.is_begun)
        return mine

    # -- inside

    def _topic(self, turn: ServiceTurn, name: str) -> Topic:
        """The copy of a topic that this node owns, or begins.

        Raises:
            TooLargeError: there are too many.
        """
        view = self._owners.view(name)
        if view is None or not self._owners.is_mine(name):
            if self._topics.find(name, view.ids if view is not None else ()) is None:
                self._topics.check_count()
            view = self._owners.begin_topic(turn, name)
        topic = self._topics.find(name, view.ids)
        if topic is None:
            self._topics.check_count()
            topic = self._topics.create(name, view.ids)
        return topic

    def _put(self, turn: ServiceTurn, asked: TopicAsked, put: TopicPut) -> None:
        if len(put.value) > self._settings.message_bytes:
            says = f"the message has {len(put.value)} bytes: limits.topic_message_bytes allows"
            raise TooLargeError(f"{says} {self._settings.message_bytes}")
        self._topics.check_room(turn, len(put.value) + ROW_BYTES)
        topic = self._topic(turn, put.topic)
        self._check_copies(put.topic)
        producer, counter = put.producer or "", put.counter or 0
        if not topic.has_seen(producer, counter):
            self._forgetting.check_backlog(topic, len(put.value))
        is_new = topic.put(
            producer, counter, put.value, turn.wall, put.floor or counter, put.tag, turn.boot_ms
        )
        self._done.append(Parked(put.topic, asked, TopicPutDone(producer, counter, not is_new, 1)))

    def _subscribe(self, turn: ServiceTurn, asked: TopicAsked, request: TopicSubscribe) -> None:
        self._topics.check_room(turn, ROW_BYTES)
        topic = self._topic(turn, request.topic)
        op, is_changed = topic.subscribe(request.subscriber, request.op, request.had, turn.wall)
        if self._lacks(request.topic):
            topic.take_here(request.subscriber, turn.boot_ms)
        unknown = None if request.had is None else flat_map(topic.unknown(request.subscriber, request.had))
        self._done.append(Parked(request.topic, asked, TopicSubscribed(op, is_changed, 1, unknown)))

    def _unsubscribe(self, turn: ServiceTurn, asked: TopicAsked, request: TopicUnsubscribe) -> None:
        self._topics.check_room(turn, ROW_BYTES, makes_room=True)
        topic = self._topic(turn, request.topic)
        if request.op is None:
            until_ms = asked.asked_ms + AWAY_MS
            try:
                self._check_knowable(topic, request.subscriber)
                if not topic.is_subscribed(request.subscriber):
                    self._check_nobody_knows(turn, asked, request)
            except AwayError:
                if until_ms <= turn.boot_ms:
                    raise
                self._getting.wait(request.topic, asked, until_ms)
                return
        op, is_changed = topic.unsubscribe(request.subscriber, request.op, turn.wall)
        self._done.append(Parked(request.topic, asked, TopicSubscribed(op, is_changed, 1, None)))

    def _try_again(self, turn: ServiceTurn, asked: TopicAsked) -> None:
        """Answer what can wait now, or let it wait."""
        try:
            if isinstance(asked.request, TopicUnsubscribe):
                self._unsubscribe(turn, asked, asked.request)
            else:
                self._answer_get(turn, asked)
        except RequestError as error:
            answer(turn, asked, error)

    def _answer_get(self, turn: ServiceTurn, asked: TopicAsked) -> None:
        get, now_ms = asked.request, turn.boot_ms
        if not isinstance(get, TopicGet):
            raise TypeError(f"{get} is no get")
        until_ms = asked.asked_ms + max(int(get.wait_s * 1000), AWAY_MS)
        try:
            topic = self._known_topic(turn, asked, get)
            asked = self._say_done(turn, topic, asked, get)
            self._check_leases(get.topic, now_ms)
        except (AwayError, NotReadyError):
            if until_ms <= now_ms:
                raise
            self._getting.wait(get.topic, asked, until_ms)
            return
        held_ms = self._held_until(topic, get.subscriber)
        if held_ms is not None and now_ms < held_ms:
            found = Next((), {}, held_ms)
        else:
            found = topic.next_messages(get.subscriber, get.limit, now_ms, REPLY_BYTES_MAX)
        until_ms = asked.asked_ms + int(get.wait_s * 1000)
        if not found.messages and not found.gone and until_ms > now_ms:
            again_ms = until_ms if found.wake_ms is None else min(until_ms, found.wake_ms)
            self._getting.wait(get.topic, asked, again_ms)
            return
        reply = TopicMessages(found.messages, topic.left(get.subscriber) - len(found.messages), flat_map(found.gone))
        self._done.append(Parked(get.topic, asked, reply))

    def _say_done(self, turn: ServiceTurn, topic: Topic, asked: TopicAsked, get: TopicGet) -> TopicAsked:
        """Keep what a get says is done, once."""
        if not get.done or asked.is_said:
            return asked
        self._topics.check_room(turn, topic.done_bytes(get.subscriber, get.done), makes_room=True)
        topic.add_done(get.subscriber, get.done)
        return attrs.evolve(asked, is_said=True)

    def _check_copies(self, name: str) -> None:
        """Whether as many nodes as must have a message are there."""
        view = self._owners.view(name)
        if view is not None and view.min_replicas > 1 and 1 + len(self._owners.reachable_servers()) < view.min_replicas:
            says = f"the topic {name!r} wants {view.min_replicas} copies (min_replicas), and fewer servers are reached"
            raise NoReplicasError(f"{says}: nothing was stored; start them, or set less")

    def _lacks(self, name: str) -> tuple[NodeName, ...]:
        """Nodes that hold what this one may not have."""
        view = self._owners.view(name)
        return () if view is None else view.lacking

    def _held_until(self, topic: Topic, subscriber: str) -> int | None:
        """Until when somebody whose subscription was taken here gets nothing: what nodes that seem alive still have may
        go before what is here."""
        is_coming = any(self._owners.is_alive(node) for node in self._lacks(topic.name))
        return topic.held_until(subscriber) if is_coming else None

    def _check_knowable(self, topic: Topic, subscriber: str) -> None:
        """Whether this copy can know what a subscriber is owed.

        Raises:
            AwayError: other nodes know, and are not reached.
        """
        lacking = self._lacks(topic.name)
        if lacking and not topic.is_taken_here(subscriber):
            names = ", ".join(lacking)
            says = f"what {subscriber!r} is owed of {topic.name!r} is known to {names}"
            raise AwayError(f"{says}: ask again when they are up")

    def _known_topic(self, turn: ServiceTurn, asked: TopicAsked, get: TopicGet) -> Topic:
        """The copy of a topic that this node owns, which knows that somebody is subscribed.

        Raises:
            AwayError: other nodes may know what it is owed, and are not reached, or not asked yet.
            NotFoundError: it is not subscribed.
        """
        subscriber = get.subscriber
        if self._owners.view(get.topic) is None:
            self._check_nobody_knows(turn, asked, get)
            raise NotFoundError(f"there is no topic {get.topic!r}: put or subscribe to begin it")
        topic = self._topic(turn, get.topic)
        self._check_knowable(topic, subscriber)
        if not topic.is_subscribed(subscriber):
            self._check_nobody_knows(turn, asked, get)
            view = self._owners.view(get.topic)
            why = "its copies were lost, so subscribe anew" if view is not None and view.is_lost else "subscribe first"
            raise NotFoundError(f"{subscriber!r} is not subscribed to {get.topic!r}: {why}")
        return topic

    def _check_nobody_knows(self, turn: ServiceTurn, asked: TopicAsked, request: TopicGet | TopicUnsubscribe) -> None:
        """Whether all nodes that may keep topics have said, since a request came, that they know no subscribers
        but those that are known here.

        Raises:
            AwayError: one of them may know others, or did not answer yet.
        """
        nodes = self._forgetting.who_may_know(turn, request.topic, asked.asked_ms)
        if nodes != ():
            names = "other nodes" if nodes is None else ", ".join(nodes)
            says = f"whether {request.subscriber!r} is subscribed to {request.topic!r} may be known to {names}"
            raise AwayError(f"{says}: ask again when they are up")

    def _check_leases(self, name: str, now_ms: int) -> None:
        """Whether no follower may have taken the topic over.

        Raises:
            NotReadyError: one of them has not said lately that it has not.
        """
        followers = self._owners.followers(name)
        if not self._leases.may_answer(name, followers, now_ms):
            self._owners.want(name)
            names = ", ".join(sorted(followers)) or "nobody"
            raise NotReadyError(f"the servers that may have taken over {name!r} are silent ({names}): ask again")

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(not self._done, "what a step has done waits for copies when the step is over")
        self._getting.check()
