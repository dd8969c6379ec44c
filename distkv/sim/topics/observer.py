"""An observer that is told what befalls clients of topics, by kind.

Knows: which moments are those of topics, and what befell the nodes.  Does not know what is right.
"""

from __future__ import annotations

from typing import assert_never

from distkv.sim.rule import Observer
from distkv.sim.topics.moments import (
    GetSent,
    GetTold,
    MessageRecorded,
    PutDenied,
    PutSent,
    PutStored,
    StateForked,
    SubscriptionMissed,
    SubscriptionSent,
    SubscriptionTaken,
    TopicLimited,
    TopicMoment,
)
from distkv.sim.topics.troubles import Troubles


class TopicObserver(Observer):
    """By itself it does nothing. Its methods may raise BrokenRuleError."""

    def __init__(self, troubles: Troubles) -> None:
        self.troubles = troubles

    def moment(self, at_ms: int, what: object) -> None:
        if isinstance(what, TopicMoment):
            self._tell(at_ms, what)

    def put_sent(self, at_ms: int, what: PutSent) -> None: ...
    def put_stored(self, at_ms: int, what: PutStored) -> None: ...
    def put_denied(self, at_ms: int, what: PutDenied) -> None: ...
    def subscription_sent(self, at_ms: int, what: SubscriptionSent) -> None: ...
    def subscription_taken(self, at_ms: int, what: SubscriptionTaken) -> None: ...
    def subscription_missed(self, at_ms: int, what: SubscriptionMissed) -> None: ...
    def get_sent(self, at_ms: int, what: GetSent) -> None: ...
    def get_told(self, at_ms: int, what: GetTold) -> None: ...
    def recorded(self, at_ms: int, what: MessageRecorded) -> None: ...
    def state_forked(self, at_ms: int, what: StateForked) -> None: ...
    def topic_limited(self, at_ms: int, what: TopicLimited) -> None: ...

    # -- inside

    def _tell(self, at_ms: int, what: TopicMoment) -> None:
        match what:
            case PutSent():
                self.put_sent(at_ms, what)
            case PutStored():
                self.put_stored(at_ms, what)
            case PutDenied():
                self.put_denied(at_ms, what)
            case SubscriptionSent():
                self.subscription_sent(at_ms, what)
            case SubscriptionTaken():
                self.subscription_taken(at_ms, what)
            case SubscriptionMissed():
                self.subscription_missed(at_ms, what)
            case GetSent():
                self.get_sent(at_ms, what)
            case GetTold():
                self.get_told(at_ms, what)
            case MessageRecorded():
                self.recorded(at_ms, what)
            case StateForked():
                self.state_forked(at_ms, what)
            case TopicLimited():
                self.topic_limited(at_ms, what)
            case _:
                assert_never(what)
