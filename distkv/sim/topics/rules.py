"""Topics: each message once, nothing that was promised is missing, and nothing else comes.

Knows: what clients ask and are answered, what their states record, and what befell the nodes.  Does not know how topics
are kept.
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.core.ready import Input, Ready
from distkv.model.ranges import Ranges
from distkv.sim.host import Process
from distkv.sim.rule import Observed
from distkv.sim.topics.moments import (
    GetSent,
    GetTold,
    Identity,
    MessageRecorded,
    PutDenied,
    PutSent,
    PutStored,
    StateForked,
    SubscriptionMissed,
    SubscriptionSent,
    SubscriptionTaken,
    TopicLimited,
)
from distkv.sim.topics.observer import TopicObserver
from distkv.sim.topics.subscriptions import KnownSubscriptions, SubscribedSince
from distkv.sim.topics.troubles import Troubles

ORDER_MS: Final = 9000
"""So long a message surely waits for those before it: 10 s, by clocks that may be wrong."""
AWAY_LIMIT: Final = "topic_away_limit_reached"
OF_NODES: Final = "~"
"""How the name of a node's own producer begins. Its messages wait for none: each is of another client, or is asked for
after the last one was answered."""


class OnceIntoState(TopicObserver):
    """Into a client's state each message comes once. A state that is a copy has what it was copied of."""

    rule = "each message comes once into a state"

    def __init__(self, troubles: Troubles) -> None:
        super().__init__(troubles)
        self.count = 0
        self._states: dict[int, list[Identity]] = {}

    def state_forked(self, at_ms: int, what: StateForked) -> None:  # noqa: ARG002
        self._states[what.new] = self._states.get(what.old, [])[: what.kept]

    def recorded(self, at_ms: int, what: MessageRecorded) -> None:
        self.count += 1
        known = self._states.setdefault(what.state, [])
        if what.identity in known:
            raise self.broken(f"{what.subscriber} recorded {what.identity} ({what.value}) twice, at {at_ms} ms")
        known.append(what.identity)


@attrs.define
class _Promised:
    """What is known of one put."""

    asked_ms: int
    answered_ms: int | None = None
    identity: Identity = ("", 0)
    copies: int = 0


class PutsAreKept(TopicObserver):
    """Who subscribed before a put that was answered has its message once all is well, or was told that it is gone.

    Excepted is what was on no more disks than were lost since then, and an identity that a copied state used for two
    messages: one of these stays.
    """

    rule = "what was promised is not missing"

    def __init__(self, troubles: Troubles) -> None:
        super().__init__(troubles)
        self.checked = 0
        self._puts: dict[tuple[str, str], _Promised] = {}
        """By topic and value."""
        self._by_identity: dict[tuple[str, Identity], set[str]] = {}
        self._subscriptions = KnownSubscriptions()
        self._recorded: dict[tuple[str, str], set[Identity]] = {}
        self._gone: dict[tuple[str, str], dict[str, Ranges]] = {}
        self._dropped: set[str] = set()

    def put_sent(self, at_ms: int, what: PutSent) -> None:
        self._puts.setdefault((what.topic, what.value), _Promised(at_ms))
        if what.identity is not None:
            self._by_identity.setdefault((what.topic, what.identity), set()).add(what.value)

    def put_stored(self, at_ms: int, what: PutStored) -> None:
        put = self._puts.setdefault((what.topic, what.value), _Promised(at_ms))
        if put.answered_ms is None:
            put.answered_ms, put.identity, put.copies = at_ms, what.identity, what.copies

    def subscription_sent(self, at_ms: int, what: SubscriptionSent) -> None:  # noqa: ARG002
        self._subscriptions.asked(what)

    def subscription_taken(self, at_ms: int, what: SubscriptionTaken) -> None:
        self._subscriptions.answered(at_ms, what)

    def topic_limited(self, at_ms: int, what: TopicLimited) -> None:  # noqa: ARG002
        if what.is_dropped:
            self._dropped.add(what.topic)

    def subscription_missed(self, at_ms: int, what: SubscriptionMissed) -> None:
        for one in self._subscriptions.missed(what):
            if self._is_kept(one) and what.topic not in self._dropped:
                text = f"subscribed since {one.at_ms} ms with {one.copies} copies, hears at {at_ms} ms: {what.why}"
                raise self.broken(f"{what.subscriber} of {what.topic}, {text}")

    def recorded(self, at_ms: int, what: MessageRecorded) -> None:  # noqa: ARG002
        self._recorded.setdefault((what.topic, what.subscriber), set()).add(what.identity)

    def get_told(self, at_ms: int, what: GetTold) -> None:  # noqa: ARG002
        mine = self._gone.setdefault((what.topic, what.subscriber), {})
        for producer, ranges in what.gone:
            mine[producer] = mine.get(producer, Ranges()) | ranges

    def settled(self, fleet: Observed) -> None:  # noqa: ARG002
        for key in self._subscriptions.all():
            kept = [one.at_ms for one in self._subscriptions.of(*key) if self._is_kept(one)]
            if kept:
                self._check(key, min(kept))

    # -- inside

    def _is_kept(self, answered: SubscribedSince) -> bool:
        """Whether a disk is left that has had it since then."""
        return self.troubles.lost_since(answered.at_ms) < answered.copies

    def _check(self, key: tuple[str, str], since_ms: int) -> None:
        recorded, gone = self._recorded.get(key, set()), self._gone.get(key, {})
        for (topic, value), put in self._puts.items():
            if topic != key[0] or topic in self._dropped or put.answered_ms is None or put.asked_ms <= since_ms:
                continue
            self.checked += 1
            producer, counter = put.identity
            is_here = put.identity in recorded or counter in gone.get(producer, Ranges())
            is_lost = self.troubles.lost_since(put.answered_ms) >= put.copies
            is_shared = len(self._by_identity.get((topic, put.identity), ())) > 1
            if not (is_here or is_lost or is_shared):
                what = f"{value}, put as {put.identity} with {put.copies} copies at {put.answered_ms} ms"
                raise self.broken(f"{key[1]} of {topic}, subscribed at {since_ms} ms, lacks {what}")


class GoneIsTold(TopicObserver):
    """What a subscriber is owed is gone only for who subscribed elsewhere, or lost with disks, or where a topic keeps
    less. It is owed what was put after its subscription was answered: of what was put before, it may hear that it is
    gone, if it repeats the subscription at a node that does not know that. It may also have subscribed while another
    node was away, which then kept for whoever it does not know as much as it may, and let go what it had before."""

    rule = "what a known subscriber is owed is not forgotten"

    def __init__(self, troubles: Troubles) -> None:
        super().__init__(troubles)
        self._limited: set[str] = set()
        self._subscriptions = KnownSubscriptions()
        self._asked: dict[tuple[str, str], int] = {}
        """By topic and value, when a put left its client first."""
        self._sent: dict[tuple[str, Identity], int] = {}
        """By topic and identity."""
        self._let_go_ms = -1
        """When a node let something go last, because it kept too much for whoever it does not know."""

    def stepped(self, process: Process, what: Input | None, ready: Ready) -> None:  # noqa: ARG002
        if ready.notes and any(note.id == AWAY_LIMIT for note in ready.notes):
            self._let_go_ms = process.now_ms

    def topic_limited(self, at_ms: int, what: TopicLimited) -> None:  # noqa: ARG002
        self._limited.add(what.topic)

    def put_sent(self, at_ms: int, what: PutSent) -> None:
        self._asked.setdefault((what.topic, what.value), at_ms)
        if what.identity is not None:
            self._sent.setdefault((what.topic, what.identity), at_ms)

    def put_stored(self, at_ms: int, what: PutStored) -> None:
        asked_ms = self._asked.get((what.topic, what.value), at_ms)
        self._sent.setdefault((what.topic, what.identity), asked_ms)

    def subscription_sent(self, at_ms: int, what: SubscriptionSent) -> None:  # noqa: ARG002
        self._subscriptions.asked(what)

    def subscription_taken(self, at_ms: int, what: SubscriptionTaken) -> None:
        self._subscriptions.answered(at_ms, what)

    def get_told(self, at_ms: int, what: GetTold) -> None:
        since = [one.at_ms for one in self._subscriptions.of(what.topic, what.subscriber)]
        if not since or not self.troubles.is_whole or what.topic in self._limited:
            return
        for producer, ranges in what.gone:
            for counter in ranges:
                sent_ms = self._sent.get((what.topic, (producer, counter)))
                if sent_ms is not None and sent_ms > max(min(since), self._let_go_ms):
                    text = f"{producer} {counter} is gone, put at {sent_ms} ms: it is subscribed since {min(since)} ms"
                    raise self.broken(f"{what.subscriber} of {what.topic} is told at {at_ms} ms that {text}")


@attrs.define
class _Sent:
    """When a message was under way for the first time."""

    asked_ms: int
    answered_ms: int | None = None


class ProducersInOrder(TopicObserver):
    """Into a state the messages of a producer come by their counters, as long as nothing was split or lost. Excepted
    is one that was stored so late that the first of its successors had not to wait for it any more: then none has to.
    """

    rule = "messages of a producer come in its order"

    def __init__(self, troubles: Troubles) -> None:
        super().__init__(troubles)
        self._sent: dict[tuple[str, Identity], _Sent] = {}
        self._asked: dict[tuple[str, str], int] = {}
        """By topic and value, when it was asked first."""
        self._last: dict[tuple[int, str, str], int] = {}
        """By state, topic and producer the highest counter."""

    def put_sent(self, at_ms: int, what: PutSent) -> None:
        asked_ms = self._asked.setdefault((what.topic, what.value), at_ms)
        if what.identity is not None:
            self._sent.setdefault((what.topic, what.identity), _Sent(asked_ms))

    def put_stored(self, at_ms: int, what: PutStored) -> None:
        asked_ms = self._asked.get((what.topic, what.value), at_ms)
        sent = self._sent.setdefault((what.topic, what.identity), _Sent(asked_ms))
        sent.answered_ms = at_ms if sent.answered_ms is None else sent.answered_ms

    def recorded(self, at_ms: int, what: MessageRecorded) -> None:
        producer, counter = what.identity
        key = what.state, what.topic, producer
        last = self._last.get(key, 0)
        self._last[key] = max(last, counter)
        if counter > last or not self.troubles.is_whole:
            return
        mine = self._sent.get((what.topic, what.identity))
        asked_ms = self._first_behind(what.topic, what.identity, last)
        if mine is None or asked_ms is None or mine.answered_ms is None:
            return
        if mine.answered_ms < asked_ms + (0 if producer.startswith(OF_NODES) else ORDER_MS):
            raise self.broken(
                f"{what.subscriber} of {what.topic} got {what.identity} at {at_ms} ms, after {last}: it was stored "
                f"by {mine.answered_ms} ms, and the first one behind it was asked at {asked_ms} ms"
            )

    # -- inside

    def _first_behind(self, topic: str, identity: Identity, last: int) -> int | None:
        """When that one of all that are stored behind a message was asked that was asked first; `last` has come."""
        producer, counter = identity
        behind = [
            sent.asked_ms
            for (where, (name, other)), sent in self._sent.items()
            if (where, name) == (topic, producer)
            and other > counter
            and (other == last or sent.answered_ms is not None)
        ]
        return min(behind, default=None)


class NeverAgain(TopicObserver):
    """What a subscriber said it has, and was answered, comes never again, while nothing was split or lost: also to a
    client without a state."""

    rule = "what is done comes never again"

    def __init__(self, troubles: Troubles) -> None:
        super().__init__(troubles)
        self.checked = 0
        self._asked: dict[int, tuple[int, tuple[Identity, ...]]] = {}
        """Of each get that is under way, how much was done for certain when it was asked, and what it says."""
        self._done: dict[tuple[str, str], dict[Identity, int]] = {}
        """By topic and subscriber what is done for certain, numbered."""

    def subscription_taken(self, at_ms: int, what: SubscriptionTaken) -> None:  # noqa: ARG002
        if what.is_changed:
            self._done.pop((what.topic, what.subscriber), None)

    def get_sent(self, at_ms: int, what: GetSent) -> None:  # noqa: ARG002
        self._asked[what.number] = len(self._done.get((what.topic, what.subscriber), ())), what.done

    def get_told(self, at_ms: int, what: GetTold) -> None:
        known, said = self._asked.pop(what.number, (0, ()))
        done = self._done.setdefault((what.topic, what.subscriber), {})
        for identity, value in what.messages:
            self.checked += 1
            is_done = identity in said or done.get(identity, known) < known
            if is_done and self.troubles.is_whole:
                raise self.broken(f"{what.subscriber} of {what.topic} got {identity} ({value}) again at {at_ms} ms")
        for identity in said:
            done.setdefault(identity, len(done))


class OnlyPutsCome(TopicObserver):
    """What comes was put, under its identity; no put comes whose every try was refused for good. While nothing was
    split, an identity is one message."""

    rule = "only what was put comes"

    def __init__(self, troubles: Troubles) -> None:
        super().__init__(troubles)
        self._open: dict[tuple[str, str], int] = {}
        """By topic and value, how many tries there were of which nobody knows that nothing can have happened."""
        self._identities: dict[tuple[str, str], set[Identity | None]] = {}
        self._values: dict[tuple[str, Identity], str] = {}
        """What came first under an identity."""

    def put_sent(self, at_ms: int, what: PutSent) -> None:  # noqa: ARG002
        key = what.topic, what.value
        self._open[key] = self._open.get(key, 0) + 1
        self._identities.setdefault(key, set()).add(what.identity)

    def put_denied(self, at_ms: int, what: PutDenied) -> None:  # noqa: ARG002
        if what.is_certain:
            self._open[what.topic, what.value] -= 1

    def get_told(self, at_ms: int, what: GetTold) -> None:
        for identity, value in what.messages:
            self._came(at_ms, what.topic, identity, value)

    # -- inside

    def _came(self, at_ms: int, topic: str, identity: Identity, value: str) -> None:
        known = self._identities.get((topic, value))
        if known is None or not (identity in known or (None in known and identity[0].startswith("~"))):
            raise self.broken(f"{value} came as {identity} from {topic} at {at_ms} ms, which nobody put")
        if not self._open[topic, value]:
            raise self.broken(f"{value} came from {topic} at {at_ms} ms, and was refused")
        first = self._values.setdefault((topic, identity), value)
        if first != value and self.troubles.is_whole:
            raise self.broken(f"{identity} of {topic} is {first} and {value} at {at_ms} ms")
