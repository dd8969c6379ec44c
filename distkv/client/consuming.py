"""One subscriber of a topic: what it asks, which messages it hands out, and what it says is done.

Knows: its subscription, its messages (`consuming_messages`), and what each answer means.  Does not know how its state
is kept (`topic_state`), nor how anything travels; time is handed in.

Invariant: a message is handed out at most once, and never when the state has it as done. What is said to be done is in
the state; before anything is said, what the servers know as done is in it, too.

A consumer begins with a `get`: so it hears whether it is subscribed. Then it repeats its subscription, which changes
nothing, and hears what the servers know as done and its state does not: the state may be an old one.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeAlias

import attrs

from distkv.client.consuming_messages import HANDED_MAX, ConsumerMessages
from distkv.errors import (
    BusyError,
    DistkvError,
    InternalError,
    NoSpaceError,
    NotFoundError,
    NotReadyError,
    RequestError,
    UnknownOutcomeError,
)
from distkv.model.lean import lean_value
from distkv.model.ranges import Ranges
from distkv.wire.topic_bodies import counters_of
from distkv.wire.topic_errors import AwayError, NoReplicasError, StaleOpError
from distkv.wire.topic_fields import OP_MAX
from distkv.wire.topic_replies import TopicMessage, TopicMessages, TopicReply, TopicSubscribed
from distkv.wire.topic_requests import TopicGet, TopicSubscribe, TopicUnsubscribe

AGAIN_MS: Final = 100
"""After so long what was refused for now is asked again; twice as long after each further time."""
AGAIN_MS_MAX: Final = 1600

_NOT_NOW: Final = (
    BusyError,
    NoSpaceError,
    NotReadyError,
    AwayError,
    NoReplicasError,
    UnknownOutcomeError,
    InternalError,
)

ConsumerRequest: TypeAlias = TopicSubscribe | TopicUnsubscribe | TopicGet

# -- what is kept -------------------------------------------------------------------------------------------------


@lean_value
class ConsumerChange:
    """What is to be written, in one transaction."""

    op: int | None = None
    """None: as it is."""
    is_subscribed: bool | None = None
    """None: as it is."""
    done: Mapping[str, Ranges] = attrs.field(factory=dict)
    """What is done besides what was before, by producers."""

    def then(self, more: ConsumerChange) -> ConsumerChange:
        """Both, one after the other."""
        op = self.op if more.op is None else more.op
        is_subscribed = self.is_subscribed if more.is_subscribed is None else more.is_subscribed
        return ConsumerChange(op, is_subscribed, _united(self.done, more.done))


@attrs.frozen
class ConsumerState:
    """What outlives the process."""

    op: int | None = None
    """The number of the last operation on the subscription that is known here."""
    is_subscribed: bool = False
    """Whether a server said so."""
    done: Mapping[str, Ranges] = attrs.field(factory=dict)

    def with_change(self, change: ConsumerChange) -> ConsumerState:
        """The state after it."""
        op = self.op if change.op is None else change.op
        is_subscribed = self.is_subscribed if change.is_subscribed is None else change.is_subscribed
        return ConsumerState(op, is_subscribed, _united(self.done, change.done))


def _united(some: Mapping[str, Ranges], more: Mapping[str, Ranges]) -> Mapping[str, Ranges]:
    return {**some, **{producer: some.get(producer, Ranges()) | ranges for producer, ranges in more.items()}}


# -- what is told -------------------------------------------------------------------------------------------------


@lean_value
class MessagesGone:
    """Messages were owed, and are kept no more."""

    counters: Mapping[str, Ranges]


@lean_value
class SubscriptionEnded:
    """It cannot go on; nothing is asked any more until `subscribe` is called."""

    error: DistkvError


ConsumerNews: TypeAlias = MessagesGone | SubscriptionEnded

# -- the machine --------------------------------------------------------------------------------------------------


class Phase(Enum):
    """How far it is."""

    LOOKING = "looking"
    """Whether it is subscribed is not known yet."""
    SUBSCRIBING = "subscribing"
    """A new subscription is asked for."""
    REPEATING = "repeating"
    """The one that is known is asked for again, to hear what is done."""
    RUNNING = "running"
    UNSUBSCRIBING = "unsubscribing"
    OVER = "over"


class Consuming:
    """One subscriber. All times are milliseconds of the client's clock, but for `time_ms`, which is that of the world.

    Ask `take_change` first: what it gives is to be written, and then `committed` called. Then `take_questions`.
    """

    def __init__(
        self, topic: str, subscriber: str, state: ConsumerState, time_ms: int, *, subscribes: bool = True
    ) -> None:
        """
        Args:
            state: as it was written; an empty one for a new consumer.
            time_ms: milliseconds since 1970.
            subscribes: whether it subscribes when its state knows of no subscription, and the servers neither.
        """
        self.topic: Final = topic
        self.subscriber: Final = subscriber
        self._state = attrs.evolve(state, done={})
        self._messages: Final = ConsumerMessages(state.done)
        self._time_ms: Final = time_ms
        self._subscribes = subscribes and not state.is_subscribed
        self.phase = Phase.LOOKING
        self._talk: Final = _Talk()
        self._wish = _MessageWish()
        self._news: list[ConsumerNews] = []

    # -- what the user wants

    def want(self, limit: int = 1, wait_s: float = 0.0) -> None:
        """Ask for messages once, unless there are some already. Where it is not subscribed, somebody may have done
        that meanwhile."""
        self._wish = _MessageWish(True, limit, wait_s)
        self.phase = Phase.LOOKING if self.phase is Phase.OVER else self.phase

    def say(self) -> None:
        """Say what is done, also when no message is wanted."""
        self._wish.says = True

    def subscribe(self) -> None:
        """See that it is subscribed, whatever was before."""
        self._subscribes = self._wish.begins = True
        self.phase = Phase.LOOKING if self.phase is Phase.OVER else self.phase

    def unsubscribe(self) -> None:
        """Be owed nothing any more."""
        self._subscribes = False
        self._new_op(Phase.UNSUBSCRIBING)

    @property
    def first_message(self) -> TopicMessage | None:
        """The one that is handed out next; None: there is none here, or too many are handed out."""
        return self._messages.first if self.is_begun else None

    def next_message(self) -> TopicMessage | None:
        """Hand one out, which nobody wants any more then."""
        message = self.first_message
        if message is not None:
            self._wish.is_wanted = False
            self._messages.hand_out_first()
        return message

    def change_of(self, producer: str, counter: int) -> ConsumerChange:
        """What is to be written with the effect of a message, in one transaction; then comes `done`."""
        return ConsumerChange(done={producer: Ranges([(counter, counter + 1)])})

    def done(self, producer: str, counter: int) -> None:
        """It is written that this message is done."""
        self._messages.finish(producer, counter)

    def is_handed(self, producer: str, counter: int) -> bool:
        """Whether it is handed out, and not done."""
        return self._messages.is_handed(producer, counter)

    @property
    def is_full(self) -> bool:
        """Whether too many are handed out."""
        return self._messages.is_full

    def is_done(self, producer: str, counter: int) -> bool:
        return self._messages.is_done(producer, counter)

    # -- what is written

    def take_change(self) -> ConsumerChange | None:
        """What is to be written now; None: nothing, or what was taken before is not yet."""
        if self._talk.taken is not None or self._talk.change is None:
            return None
        self._talk.taken, self._talk.change = self._talk.change, None
        return self._talk.taken

    def committed(self) -> None:
        """What was taken is on the disk."""
        taken, self._talk.taken = self._talk.taken, None
        if taken is not None:
            self._state = self._state.with_change(attrs.evolve(taken, done={}))

    # -- what is asked

    @property
    def is_begun(self) -> bool:
        """Whether the state knows all that the servers know as done."""
        return self.phase is Phase.RUNNING and self._talk.is_written

    @property
    def is_busy(self) -> bool:
        """Whether anything is to be written or asked for what is wanted."""
        if not self._talk.is_written or self._talk.call is not None:
            return True
        match self.phase:
            case Phase.OVER:
                return False
            case Phase.RUNNING:
                return self._is_getting
        return self._wish.is_wanted or self._wish.begins or self._wish.says or self.phase is Phase.UNSUBSCRIBING

    def take_questions(self, now_ms: int) -> list[tuple[int, ConsumerRequest]]:
        """What is to be sent now: the number of the call, and the request. One is under way at the most."""
        talk = self._talk
        if not self.is_busy or not talk.is_written or talk.call is not None or now_ms < talk.again_ms:
            return []
        talk.last_call += 1
        talk.call, talk.request = talk.last_call, self._request()
        return [(talk.call, talk.request)]

    def wake_ms(self) -> int | None:
        """When `take_questions` has something again, if nothing happens before."""
        is_waiting = self.is_busy and self._talk.is_written and self._talk.call is None
        return self._talk.again_ms if is_waiting else None

    def answered(self, call: int, result: TopicReply | DistkvError, now_ms: int) -> None:
        """What a call came to."""
        talk = self._talk
        request = talk.request
        if call != talk.call or request is None:
            return
        talk.call = talk.request = None
        if isinstance(result, DistkvError):
            self._take_refusal(request, result, now_ms)
            return
        talk.reset()
        if isinstance(request, TopicGet) and isinstance(result, TopicMessages):
            self._take_messages(request, result, now_ms)
        elif isinstance(request, TopicSubscribe) and isinstance(result, TopicSubscribed):
            self._subscribed(result)
        elif isinstance(request, TopicUnsubscribe) and isinstance(result, TopicSubscribed):
            self._write(ConsumerChange(result.op, is_subscribed=False))
            self._end(None)
        else:
            talk.later(now_ms)

    def disconnected(self, now_ms: int) -> None:
        """What is under way will not be answered."""
        if self._talk.call is not None:
            self._talk.call = self._talk.request = None
            self._talk.later(now_ms)

    def interrupted(self, now_ms: int) -> None:
        """Whoever asked was stopped, wherever that was: nobody waits for messages any more, what is under way will not
        be answered, and what was taken may not be written."""
        talk = self._talk
        self._wish = _MessageWish()
        self.disconnected(now_ms)
        if talk.taken is not None:
            talk.change, talk.taken = talk.taken if talk.change is None else talk.taken.then(talk.change), None

    def take_news(self) -> list[ConsumerNews]:
        """What happened since."""
        found, self._news = self._news, []
        return found

    def check(self) -> None:
        self._messages.check()

    # -- inside: what is asked

    @property
    def _is_getting(self) -> bool:
        is_missing = self._wish.is_wanted and not self._messages.is_waiting
        return is_missing or (self._wish.says and not self._messages.is_all_said)

    def _request(self) -> ConsumerRequest:
        topic, subscriber, op, messages = self.topic, self.subscriber, self._state.op, self._messages
        match self.phase:
            case Phase.SUBSCRIBING:
                return TopicSubscribe(0, topic, subscriber, op, messages.had())
            case Phase.REPEATING:
                known = self._talk.known_op or (op if self._state.is_subscribed else None)
                return TopicSubscribe(0, topic, subscriber, known or 1, messages.had())
            case Phase.UNSUBSCRIBING:
                return TopicUnsubscribe(0, topic, subscriber, op)
            case Phase.RUNNING:
                if not self._wish.is_wanted or messages.is_waiting:
                    return TopicGet(0, topic, subscriber, messages.to_say)
                limit = min(self._wish.limit + messages.handed_count, HANDED_MAX)
                return TopicGet(0, topic, subscriber, messages.to_say, limit, self._wish.wait_s)
        return TopicGet(0, topic, subscriber, (), min(self._wish.limit, HANDED_MAX))

    # -- inside: what answers mean

    def _take_messages(self, request: TopicGet, answer: TopicMessages, now_ms: int) -> None:
        self._messages.said(request.done)
        self._take_gone(counters_of(answer.gone))
        self._messages.keep(answer.messages)
        if self.phase is Phase.LOOKING:
            self.phase = Phase.REPEATING
            return
        is_waste = self._messages.handed_count > 0 and not self._messages.is_waiting and bool(answer.messages)
        self._wish = _MessageWish(says=self._wish.says and not self._messages.is_all_said)
        if is_waste:  # all that there is was handed out before: the next answer would say the same
            self._talk.later(now_ms)

    def _take_gone(self, gone: Mapping[str, Ranges]) -> None:
        """It is told again until it is said to be done, some of it at a time."""
        if news := self._messages.not_done(gone):
            self._news.append(MessagesGone(news))
            self._write(ConsumerChange(done=news))
        self._messages.say_gone(gone)

    def _subscribed(self, answer: TopicSubscribed) -> None:
        unknown = counters_of(answer.unknown or {})
        self._write(ConsumerChange(answer.op, is_subscribed=True, done=unknown))
        self.phase = Phase.RUNNING
        self._talk.known_op = None
        self._subscribes = False

    def _take_refusal(self, request: ConsumerRequest, error: DistkvError, now_ms: int) -> None:
        talk = self._talk
        if isinstance(error, StaleOpError) and error.known_op is not None and not isinstance(request, TopicGet):
            self._take_op(error.known_op, error)
        elif isinstance(error, NotFoundError):
            self._take_absence(request, error)
        elif isinstance(error, RequestError) and not isinstance(error, _NOT_NOW):
            self._end(error)
        else:
            if isinstance(error, AwayError) and isinstance(request, TopicGet):
                self._take_doubt()
            talk.later(now_ms)

    def _take_doubt(self) -> None:
        """This side may not know the subscription. A new one is only for who asks for it: should there be an older one,
        which its state does not know, it ends."""
        if self._state.is_subscribed:
            self.phase = Phase.REPEATING
        elif self._wish.begins:
            self._new_op(Phase.SUBSCRIBING)

    def _take_op(self, known: int, error: StaleOpError) -> None:
        """The servers know a higher operation."""
        if known >= OP_MAX:
            self._end(error)
        elif self.phase is Phase.REPEATING:
            self._talk.known_op = known
        else:
            self._write(ConsumerChange(min(max(known, self._state.op or 0) + 1, OP_MAX)))

    def _take_absence(self, request: ConsumerRequest, error: NotFoundError) -> None:
        """It is not subscribed."""
        if isinstance(request, TopicUnsubscribe):
            self._write(ConsumerChange(is_subscribed=False))
            self._end(None)
        elif isinstance(request, TopicGet) and self._subscribes:
            self._new_op(Phase.SUBSCRIBING)
        else:
            self._end(error)

    def _new_op(self, phase: Phase) -> None:
        """The next operation on the subscription, above all that are known here."""
        op = min(max(self._time_ms, (self._state.op or 0) + 1), OP_MAX)
        self.phase = phase
        self._write(ConsumerChange(op, is_subscribed=False))

    def _end(self, error: DistkvError | None) -> None:
        """None: as the user wanted."""
        self.phase = Phase.OVER
        self._wish = _MessageWish()
        self._messages.drop_waiting()
        if error is not None:
            self._news.append(SubscriptionEnded(error))

    def _write(self, change: ConsumerChange) -> None:
        """It is to be written; until then nothing is asked."""
        self._messages.learn(change.done)
        self._talk.change = change if self._talk.change is None else self._talk.change.then(change)


@attrs.define
class _MessageWish:
    """What the user wants of the next request."""

    is_wanted: bool = False
    limit: int = 1
    wait_s: float = 0.0
    says: bool = False
    """What is done."""
    begins: bool = False
    """Nothing but a subscription."""


@attrs.define
class _Talk:
    """What is under way: one request, one change."""

    call: int | None = None
    request: ConsumerRequest | None = None
    last_call: int = 0
    again_ms: int = 0
    tries: int = 0
    known_op: int | None = None
    """What a server named as the last operation, which is not ours."""
    change: ConsumerChange | None = None
    taken: ConsumerChange | None = None

    @property
    def is_written(self) -> bool:
        return self.change is None and self.taken is None

    def later(self, now_ms: int) -> None:
        """Ask again after a while."""
        self.again_ms = now_ms + min(AGAIN_MS << min(self.tries, 10), AGAIN_MS_MAX)
        self.tries += 1

    def reset(self) -> None:
        """It was answered."""
        self.tries = self.again_ms = 0
