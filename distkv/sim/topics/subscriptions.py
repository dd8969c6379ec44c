"""Since when each subscriber surely is subscribed, by what its clients were answered.

Knows: which subscriptions were asked for, answered and ended.  Does not know messages, nor what befell the nodes.

For example, *s* is subscribed at *a*, and repeats that with the same number at *b*, which did not know of it. It is
owed what was put after the first answer. If the disks are lost that had the first one, the second one still counts.

Invariant: all answers that are kept for a subscriber are of one number, the highest that was answered.
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.sim.topics.moments import SubscriptionMissed, SubscriptionSent, SubscriptionTaken

_ANY_OP: Final = 1 << 63
"""Above each number that servers choose."""


@attrs.frozen
class SubscribedSince:
    """A subscription that is on disks."""

    at_ms: int
    copies: int


@attrs.frozen
class _Subscription:
    op: int
    answers: tuple[SubscribedSince, ...]


class KnownSubscriptions:
    """Those of one run."""

    def __init__(self) -> None:
        self._known: Final = dict[tuple[str, str], _Subscription]()
        """By topic and subscriber."""
        self._ended: Final = dict[tuple[str, str], int]()
        """The highest number that may have ended a subscription."""

    def all(self) -> list[tuple[str, str]]:
        """The topic and name of each subscriber."""
        return [*self._known]

    def of(self, topic: str, subscriber: str) -> tuple[SubscribedSince, ...]:
        """What was answered of the subscription that counts; nothing, if there is none for certain."""
        known = self._known.get((topic, subscriber))
        return () if known is None else known.answers

    def asked(self, what: SubscriptionSent) -> None:
        """A client asks for a subscription, or for its end."""
        key = what.topic, what.subscriber
        if not what.is_subscribed:
            self._ended[key] = max(self._ended.get(key, 0), _ANY_OP if what.op is None else what.op)
            self._known.pop(key, None)

    def answered(self, at_ms: int, what: SubscriptionTaken) -> None:
        """It is told that this is done."""
        key, answer = (what.topic, what.subscriber), SubscribedSince(at_ms, what.copies)
        if not what.is_subscribed or what.op <= self._ended.get(key, 0):
            return
        known = self._known.get(key)
        if known is None or what.op > known.op:
            self._known[key] = _Subscription(what.op, (answer,))
        elif what.op == known.op and what.is_changed:
            self._known[key] = _Subscription(what.op, (*known.answers, answer))

    def missed(self, what: SubscriptionMissed) -> tuple[SubscribedSince, ...]:
        """It is told that it is not subscribed: those answers that had come before it asked, which count no more."""
        key = what.topic, what.subscriber
        known = self._known.pop(key, None)
        if known is None:
            return ()
        before = tuple([one for one in known.answers if one.at_ms < what.asked_ms])
        after = known.answers[len(before) :]
        if after:
            self._known[key] = _Subscription(known.op, after)
        return before
