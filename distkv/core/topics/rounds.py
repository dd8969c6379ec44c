"""Rounds: a node asks all that keep topics at once whether something may be forgotten, and takes what all of them say.

Knows: who was asked, what for, and who has answered.  Does not know what is forgotten then.

Invariant: what a round says holds of all nodes that may keep topics: each of them has said so, in an answer to a
question of this round, and knows the same nodes as the one that asks. One round is open at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from hashlib import blake2b
from typing import Final, Protocol

import attrs

from distkv.core.ground.calls import CallKey
from distkv.core.ground.machine import NetworkNodes
from distkv.core.ground.node_calls import Replied
from distkv.core.ground.turn import ServiceTurn
from distkv.errors import DecodeError
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.declared import pack
from distkv.wire.fields import HASH_BYTES
from distkv.wire.topic_rounds import SAID, NamedCopy, RoundAsked, RoundSaid

PATIENCE_MS: Final = 5000
"""How long a question is told."""


class RoundHost(Protocol):
    """What a node that is asked says."""

    def keepers(self) -> frozenset[NodeName]:
        """The registered nodes that keep topics, or did."""

    def may_keep(self) -> frozenset[NodeName]:
        """These, and all registered nodes of which it is not known that they keep none."""

    def is_clean(self, name: str, owner: NodeName, owner_start: int) -> bool:
        """Whether this owner has, since this start of it, all that this node holds of a topic."""

    def has_thrown(self, name: str, ids: frozenset[str]) -> bool:
        """Whether a topic of these ids is known to be dropped, and there is no copy of it here."""

    def is_named(self, name: str, ids: frozenset[str]) -> bool:
        """Whether an entry names one of these ids."""


@attrs.frozen
class RoundPlan:
    """What a round asks, and what all must say to it."""

    names: Collection[str] = ()
    """Topics of which each node must say that this one has all that it holds."""
    dropped: Mapping[str, frozenset[str]] = attrs.field(factory=dict)
    """Topics that each node must have thrown away."""
    unnamed: Mapping[str, frozenset[str]] = attrs.field(factory=dict)
    """Copies that no entry of any node may name."""


@attrs.frozen(slots=True)
class RoundPurpose:
    """Of the question to one node."""

    number: int
    node: NodeName


@attrs.define(slots=True)
class KeeperRound:
    """One that was begun. When it is over, `plan` may be carried out but for what stands in `unclean`, `unthrown` and
    `known`; if it is void, none of it may."""

    plan: RoundPlan
    servers: bytes
    others: frozenset[NodeName]
    """Who was asked."""
    waits_for: set[NodeName]
    is_void: bool = False
    unclean: dict[str, NodeName] = attrs.field(factory=dict)
    """The topics of which some node holds what this one may lack, and such a node."""
    unthrown: set[str] = attrs.field(factory=set)
    known: set[str] = attrs.field(factory=set)


class KeeperRounds:
    """Those of one node, since its machine began."""

    def __init__(self, me: NodeName, nodes: NetworkNodes, start: int, host: RoundHost) -> None:
        """`start`: which start of this node this is."""
        self._me: Final = me
        self._nodes: Final = nodes
        self._start: Final = start
        self._host: Final = host
        self._open: KeeperRound | None = None
        self._number = 0

    @property
    def is_open(self) -> bool:
        """Whether answers are waited for."""
        return self._open is not None

    def away(self) -> frozenset[NodeName]:
        """The nodes that may keep topics and seem not to be there: as long as it is so, no round can end."""
        return self.others() - self._nodes.alive

    def others(self) -> frozenset[NodeName]:
        """Who is asked: also who may have begun to keep topics, while its entry is not here yet."""
        return self._host.may_keep() - {self._me}

    def unanswered(self) -> frozenset[NodeName]:
        """Who was asked, and has not answered yet."""
        return frozenset() if self._open is None else frozenset(self._open.waits_for)

    def begin(self, turn: ServiceTurn, plan: RoundPlan) -> KeeperRound | None:
        """Ask all; a round that is over, if there is nobody to ask."""
        must(self._open is None, "one round is open at a time")
        others = self.others()
        round = KeeperRound(plan, self.servers(), others, set(others))
        if not others:
            return round
        self._open, self._number = round, self._number + 1
        body = pack(
            RoundAsked(self._start, round.servers, tuple(plan.names), _copies(plan.dropped), _copies(plan.unnamed))
        )
        for node in sorted(others):
            turn.ask_node(node, body, RoundPurpose(self._number, node), patience_ms=PATIENCE_MS)
        return None

    def replied(self, turn: ServiceTurn, what: Replied) -> KeeperRound | None:
        """One of them has answered, or does not; the round, if it is over."""
        purpose, round = what.purpose, self._open
        if round is None or not isinstance(purpose, RoundPurpose) or purpose.number != self._number:
            return None
        round.waits_for.discard(purpose.node)
        self._take(turn, round, purpose.node, what.reply)
        if round.waits_for:
            return None
        self._open = None
        round.is_void |= self.servers() != round.servers  # somebody else keeps topics than when it began
        return round

    def asked(self, turn: ServiceTurn, call: CallKey, question: RoundAsked) -> None:
        """Another node asks."""
        host, owner = self._host, call.peer
        unclean = [name for name in question.names if not host.is_clean(name, owner, question.start)]
        thrown = [copy.name for copy in question.dropped if host.has_thrown(copy.name, frozenset(copy.ids))]
        known = [copy.name for copy in question.unnamed if host.is_named(copy.name, frozenset(copy.ids))]
        turn.answer_node(call, pack(RoundSaid(self.servers(), tuple(unclean), tuple(thrown), tuple(known))))

    def servers(self) -> bytes:
        """A hash of who keeps topics, each with the life in which it is."""
        names = [f"{node} {self._nodes.life_of(node)}" for node in sorted(self._host.keepers())]
        return blake2b("\n".join(names).encode(), digest_size=HASH_BYTES).digest()

    def _take(self, turn: ServiceTurn, round: KeeperRound, node: NodeName, reply: object) -> None:
        try:
            said = SAID.read(reply) if isinstance(reply, bytes) else None
        except DecodeError as error:
            turn.note("topic_round_bad", node=node, reason=error.reason)
            said = None
        if said is None or said.servers != round.servers:
            round.is_void = True
            round.unclean.update(dict.fromkeys(round.plan.names, node))
            return
        round.unclean.update(dict.fromkeys(said.unclean, node))
        round.unthrown |= round.plan.dropped.keys() - set(said.thrown)
        round.known |= set(said.known)

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(self._open is None or bool(self._open.waits_for), "a round is open while somebody has not answered")


def _copies(ids: Mapping[str, Iterable[str]]) -> tuple[NamedCopy, ...]:
    return tuple([NamedCopy(name, tuple(sorted(some))) for name, some in ids.items()])
