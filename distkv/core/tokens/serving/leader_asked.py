"""What a server has to settle with the leader about sessions: what was taken from them, and what they may not know of.

Knows: which of them are under way.  Does not know what the answers mean: the server repeats what is still to be
settled, whenever the leader may be another one.

Invariant: each question is under way once at the most, to the node that leads as far as this one knows.
"""

from __future__ import annotations

from typing import Final

from distkv.core.tokens.questions import Questions, ServerAnswered
from distkv.model.event import NodeName
from distkv.wire.token_messages import AskHolding, TellLoss


class LeaderAsked:
    """All times are milliseconds."""

    def __init__(self, questions: Questions) -> None:
        self.again_ms: int | None = None
        """When what was not settled is asked again."""
        self._questions: Final = questions
        self._under_way: Final = dict[TellLoss | AskHolding, tuple[NodeName, int]]()

    def ask(self, question: TellLoss | AskHolding, leader: NodeName, now_ms: int) -> None:
        """Of a session. `leader`: who leads, as far as this node knows."""
        old = self._under_way.get(question)
        if old is not None and old[0] == leader:
            return
        if old is not None:
            self._questions.cancel(*old)
        number = self._questions.ask(leader, question, now_ms, question)
        self._under_way[question] = leader, number

    def follow(self, leader: NodeName, now_ms: int) -> None:
        """The leader may be another one: it is asked what the one before has not answered. Losses are repeated by
        whoever knows which are left."""
        for question in [one for one in self._under_way if isinstance(one, AskHolding)]:
            self.ask(question, leader, now_ms)

    def take(self, question: TellLoss | AskHolding, came: ServerAnswered) -> bool:
        """It is answered; False: by somebody who is not asked any more."""
        is_it = self._under_way.get(question) == (came.peer, came.number)
        if is_it:
            del self._under_way[question]
        return is_it
