"""What an owner answers who compares a copy with its own.

Knows: its own copies, and when what another one sent is with all followers.  Does not know who compares when.

Invariant: rows that were sent here are on the disks of this node and of all followers of the topic before that is said.
A follower is sent what changes before it is told what there is, so it misses nothing in between.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Protocol

import attrs

from distkv.core.ground.calls import CallKey
from distkv.core.ground.machine import ServiceInput
from distkv.core.ground.node_calls import NodeGaveUp
from distkv.core.ground.turn import ServiceTurn
from distkv.core.topics.compared_copy import ComparedCopy, CopyRows, page_of, pairs_of
from distkv.core.topics.copying import Copying
from distkv.errors import DecodeError, RequestError
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.declared import pack
from distkv.wire.topic_messages import (
    TEXT_MAX,
    Compare,
    CompareDiffers,
    CompareEqual,
    Exchange,
    Exchanged,
    NotCompared,
)


class OwnedCopies(Protocol):
    """The topics that this node owns."""

    def owned_copy(self, name: str, ids: Collection[str]) -> ComparedCopy | None:
        """That of a topic which has one of these ids and which this node owns."""

    def join_rows(
        self, turn: ServiceTurn, name: str, ids: Collection[str], rows: CopyRows, sender: NodeName
    ) -> int:
        """Join them into this copy, keep them and copy them to the followers; the number of that operation, or of the
        last one, if there was nothing new.

        Raises:
            DecodeError: they are no rows of a topic.
            RequestError: there is no room for them.
        """


@attrs.frozen(slots=True)
class ExchangeTarget:
    """An answer that waits until the followers have what was sent."""

    call: CallKey
    question: Compare | Exchange


class CompareAnswers:
    """Those of one node, since its machine began."""

    def __init__(self, host: OwnedCopies, copying: Copying, start: int) -> None:
        self._host: Final = host
        self._copying: Final = copying
        self._start: Final = start
        self._parked: Final = dict[CallKey, ExchangeTarget]()

    def asked(self, turn: ServiceTurn, call: CallKey, question: Compare | Exchange) -> None:
        """A node compares its copy."""
        copy = self._host.owned_copy(question.name, question.ids)
        if copy is None:
            turn.answer_node(call, pack(NotCompared("this node is not the owner of a topic with these ids")))
        elif isinstance(question, Exchange):
            self._exchange(turn, call, question)
        elif question.is_whole:
            self._copying.became_whole(turn, question.name, call.peer, question.run)
            self._park(turn, call, question, self._copying.last_op(question.name))
        else:
            self._copying.begin(turn, question.name, call.peer, question.run)
            if question.digest == copy.digest:
                self._copying.became_whole(turn, question.name, call.peer, question.run)
            self._answer(turn, call, question, copy)

    def copied(self, turn: ServiceTurn, target: ExchangeTarget) -> None:
        """What was sent is with all followers."""
        self._parked.pop(target.call, None)
        copy = self._host.owned_copy(target.question.name, target.question.ids)
        if copy is None:
            self.refuse(turn, target)
        else:
            self._answer(turn, target.call, target.question, copy)

    def refuse(self, turn: ServiceTurn, target: ExchangeTarget) -> None:
        """This node is not the owner any more."""
        self._parked.pop(target.call, None)
        turn.answer_node(target.call, pack(NotCompared("this node is not the owner any more")))

    def step(self, turn: ServiceTurn, what: ServiceInput) -> bool:  # noqa: ARG002
        """Whatever the machine is told; whether it was for this."""
        target = self._parked.pop(what.call, None) if isinstance(what, NodeGaveUp) else None
        if target is not None:
            self._copying.gone(target)
        return target is not None

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(all(call == target.call for call, target in self._parked.items()), "each waits for its own question")

    # -- inside

    def _exchange(self, turn: ServiceTurn, call: CallKey, question: Exchange) -> None:
        """Take what was sent; without rows there is nothing to wait for."""
        op, name = 0, question.name
        if question.rows:
            try:
                op = self._host.join_rows(turn, name, question.ids, pairs_of(question.rows), call.peer)
            except (DecodeError, RequestError) as error:
                turn.note("topic_exchange_refused", topic=name, node=call.peer, reason=str(error))
                turn.answer_node(call, pack(NotCompared(str(error)[:TEXT_MAX])))
                return
        self._park(turn, call, question, op)

    def _park(self, turn: ServiceTurn, call: CallKey, question: Compare | Exchange, op: int) -> None:
        """Answer when that operation is with all followers, but do not let one that compares wait for itself."""
        self._parked[call] = target = ExchangeTarget(call, question)
        if self._copying.is_follower(question.name, call.peer):
            self.copied(turn, target)
        else:
            self._copying.wait(turn, op, question.name, target)

    def _answer(self, turn: ServiceTurn, call: CallKey, question: Compare | Exchange, copy: ComparedCopy) -> None:
        if isinstance(question, Exchange):
            after = question.after
            rows, more = ((), False) if after is None else page_of(copy, question.bucket, after)
            turn.answer_node(call, pack(Exchanged(self._start, rows, more)))
        elif question.digest == copy.digest:
            turn.answer_node(call, pack(CompareEqual(self._start)))
        else:
            turn.answer_node(call, pack(CompareDiffers(self._start, tuple(copy.buckets()))))
