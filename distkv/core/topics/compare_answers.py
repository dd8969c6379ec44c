"""What an owner answers who compares a copy with its own.

Knows: its own copies, and when what another one sent is with all followers.  Does not know who compares when.

Invariant: rows that were sent here are on the disks of this node and of all followers of the topic before that is said.
A follower is sent what changes before it is told what there is, so it misses nothing in between. Who is none in the
entry that the owner sees is not told that its copy is equal as long as it takes itself for one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Protocol

import attrs

from distkv.core.ground.calls import CallKey
from distkv.core.ground.machine import ServiceInput
from distkv.core.ground.node_calls import NodeGaveUp
from distkv.core.ground.turn import ServiceTurn
from distkv.core.topics.compared_copy import ComparedCopy, SentRows, page_of, pairs_of
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

    def naming_for(self, name: str, node: NodeName) -> int | None:
        """By which number the entry names a node as a follower of such a topic; None: it does not."""

    def replace_follower(self, name: str, node: NodeName) -> None:
        """As for `copying`."""

    def take_copy(
        self, turn: ServiceTurn, name: str, ids: Collection[str], rows: SentRows, sender: NodeName
    ) -> None:
        """As for `copying`. What it changes goes to the followers with this step."""

    def joined(self, turn: ServiceTurn, name: str, node: NodeName, had: Collection[int]) -> None:
        """This owner, and its followers, have all that was in the copy of a node, which had every operation that was
        answered by these namings."""


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
        self._new: Final = list[ExchangeTarget]()
        """Those of this step."""
        self._parked: Final = dict[CallKey, ExchangeTarget]()

    def asked(self, turn: ServiceTurn, call: CallKey, question: Compare | Exchange) -> None:
        """A node compares its copy."""
        name, node = question.name, call.peer
        copy = self._host.owned_copy(name, question.ids)
        if copy is None:
            turn.answer_node(call, pack(NotCompared("this node is not the owner of a topic with these ids")))
        elif isinstance(question, Compare) and question.naming != self._host.naming_for(name, node):
            turn.answer_node(call, pack(NotCompared("the two nodes do not see the same entry yet")))
        elif isinstance(question, Compare) and question.is_refused and self._copying.is_follower(name, node):
            self._host.replace_follower(name, node)
            turn.answer_node(call, pack(NotCompared("another node is to follow in the place of this one")))
        elif isinstance(question, Exchange):
            self._exchange(turn, call, question)
        elif question.is_last:
            self._copying.became_whole(turn, name, node, question.run)
            self._new.append(ExchangeTarget(call, question))
        else:
            self._copying.begin(turn, name, node, question.run)
            if question.digest == copy.digest and self._copying.is_follower(name, node):
                self._copying.became_whole(turn, name, node, question.run)
                self._host.joined(turn, name, node, question.had)
            self._answer(turn, call, question, copy)

    def park(self, turn: ServiceTurn) -> None:
        """The changes of this step are on their way to the followers: what waits for that does from now on. One that
        compares does not wait for itself."""
        new = [*self._new]
        self._new.clear()
        for target in new:
            name, call = target.question.name, target.call
            self._parked[call] = target
            if self._copying.is_follower(name, call.peer):
                self.copied(turn, target)
            else:
                self._copying.wait(turn, self._copying.last_op(name), name, target)

    def copied(self, turn: ServiceTurn, target: ExchangeTarget) -> None:
        """What was sent is with all followers."""
        self._parked.pop(target.call, None)
        copy = self._host.owned_copy(target.question.name, target.question.ids)
        question = target.question
        if copy is None:
            self.refuse(turn, target)
            return
        if isinstance(question, Compare):
            self._host.joined(turn, question.name, target.call.peer, question.had)
        self._answer(turn, target.call, question, copy)

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
        must(not self._new, "what came in a step is parked with it")

    # -- inside

    def _exchange(self, turn: ServiceTurn, call: CallKey, question: Exchange) -> None:
        """Take what was sent."""
        name = question.name
        try:
            if question.rows:
                self._host.take_copy(turn, name, question.ids, pairs_of(question.rows), call.peer)
        except (DecodeError, RequestError) as error:
            turn.note("topic_exchange_refused", topic=name, node=call.peer, reason=str(error))
            turn.answer_node(call, pack(NotCompared(str(error)[:TEXT_MAX])))
        else:
            self._new.append(ExchangeTarget(call, question))

    def _answer(self, turn: ServiceTurn, call: CallKey, question: Compare | Exchange, copy: ComparedCopy) -> None:
        if isinstance(question, Exchange):
            after = question.after
            rows, more = ((), False) if after is None else page_of(copy, question.bucket, after)
            turn.answer_node(call, pack(Exchanged(self._start, rows, more)))
        elif question.digest == copy.digest:
            turn.answer_node(call, pack(CompareEqual(self._start)))
        else:
            turn.answer_node(call, pack(CompareDiffers(self._start, tuple(copy.buckets()))))
