"""What a node does for its clients: it writes, decides about conflicts and retires nodes, or says why not.

Knows: which requests change the state, and that a node which is not ready refuses them all.  Does not know reads, which
need no step, nor who may ask.

Invariant: a request is carried out in whole, or refused and nothing of it is; a batch is one step.
"""

from __future__ import annotations

from typing import assert_never

from distkv.core.client_writes import (
    BatchDone,
    ClientWrite,
    Found,
    LocalBatch,
    LocalDecision,
    LocalSet,
    ReplaceChange,
    Retired,
    RetireNode,
    WriteDone,
)
from distkv.core.conditions import (
    check_conditions,
    check_decision,
    decided_fence,
    has_condition,
    next_fence,
    refuse_reserved,
)
from distkv.core.lives import Duty
from distkv.core.node import Node
from distkv.core.recovery import ALIVE_CLOCKS
from distkv.core.turn import Turn
from distkv.errors import DistkvError, ExistsError, NotFoundError, RequestError
from distkv.model.event import Kind, life_of
from distkv.model.path import PathKey
from distkv.wire.decisions import Dismiss, Restore
from distkv.wire.value_requests import GetValue, SetValue


class Clients:
    """Serves clients for one node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def take(self, what: ClientWrite, turn: Turn) -> None:
        """Carry out a write, or say why not. That the node serves clients is looked at here, for all of them."""
        node = self._node
        if not node.is_serving:
            turn.ready.reply = node.not_ready()
            return
        match what:
            case LocalSet(request=request):
                self._set(request, turn)
            case LocalBatch(ops=ops):
                self._batch(ops, turn)
            case RetireNode():
                self._retire(what, turn)
            case LocalDecision(request=request):
                self._decide(request, turn)
            case ReplaceChange():
                self._replace(what, turn)
            case _:
                assert_never(what)

    # -- inside

    def _set(self, request: SetValue, turn: Turn) -> None:
        """Write one value, or delete it."""
        node, ready = self._node, turn.ready
        try:
            refuse_reserved(request.path)
            node.begin_life_if_due(turn)
            applied, before = node.store.local_set(request, turn.wall)
        except RequestError as error:
            ready.reply = error
            return
        if applied is None:
            ready.reply = WriteDone(None, before)
            return
        node.publish(applied, turn)
        ready.reply = WriteDone(applied.event, before)

    def _batch(self, ops: tuple[GetValue | SetValue, ...], turn: Turn) -> None:
        """All operations in their order, or none."""
        node, store = self._node, self._node.store
        try:
            write_count = self._check_writes(ops)
        except RequestError as error:
            turn.ready.reply = error
            return
        if write_count:
            node.begin_life_if_due(turn, write_count)
        results: list[WriteDone | Found] = []
        for op in ops:
            if isinstance(op, GetValue):
                results.append(Found(store.live(op.path)))
                continue
            applied, before = store.local_set(op, turn.wall)
            if applied is not None:
                node.publish(applied, turn)
            results.append(WriteDone(None if applied is None else applied.event, before))
        turn.ready.reply = BatchDone(tuple(results))

    def _decide(self, request: Restore | Dismiss, turn: Turn) -> None:
        """Close one open loser, by what it says or by what won over it."""
        node, store = self._node, self._node.store
        try:
            entry, loser = check_decision(request, store.tree)
            decided_fence(request, entry.head)
        except RequestError as error:
            turn.ready.reply = error
            return
        node.begin_life_if_due(turn)
        if any(other.writer == (store.me, store.own.life) for other in entry.conflicts() if other is not loser):
            # What this life writes would contain the other one, which nobody decided about.
            node.follow([Duty.BEGIN_LIFE], turn)
        applied, before = store.decide(entry, loser, request, turn.wall)
        node.publish(applied, turn)
        turn.ready.reply = WriteDone(applied.event, before)

    def _replace(self, what: ReplaceChange, turn: Turn) -> None:
        """Write again what is here at the path of a change that was set aside: it is superseded by that, for all."""
        node, store = self._node, self._node.store
        try:
            refuse_reserved(what.path)
        except RequestError as error:
            turn.ready.reply = error
            return
        before = store.live(what.path)
        if store.tree.ledger.has(what.link):
            turn.ready.reply = WriteDone(None, before)
            return
        node.begin_life_if_due(turn)
        if (what.link[0], life_of(what.link[1])) == (store.me, store.own.life):
            node.follow([Duty.BEGIN_LIFE], turn)  # a chain names nothing of its own writer's
        tock = what.tock if what.tock <= store.tock + node.settings.limits.tock_jump else store.tock
        applied = store.replace(what.path, what.link, tock, turn.wall)
        node.publish(applied, turn)
        turn.ready.reply = WriteDone(applied.event, before)

    def _retire(self, what: RetireNode, turn: Turn) -> None:
        """The node is gone for good: nothing waits for it any more."""
        node, store, name = self._node, self._node.store, what.node
        here, lives = store.registry.nodes.get(name), store.registry.retired.get(name)
        refused: DistkvError | None = None
        if name == store.me:
            refused = RequestError(f"{name} cannot retire itself: stop it, and ask another node")
        elif here is None and lives is None:
            refused = NotFoundError(f"no node {name} is registered: 'distkv client node list' tells which there are")
        elif here is not None and not what.force and (why := self._why_alive(what, turn)):
            refused = ExistsError(f"{why}, or insist with --force")
        if refused is not None:
            turn.ready.reply = refused
        elif here is None:
            turn.ready.reply = Retired(max(lives or [0]), False)
        else:
            node.begin_life_if_due(turn)
            node.publish(store.retire(name, here.life, turn.wall), turn)
            turn.ready.reply = Retired(here.life, True)

    def _why_alive(self, what: RetireNode, turn: Turn) -> str | None:
        """Why a node counts as alive; None: it does not. What it says itself counts more than what others say of it."""
        node, name = self._node, what.node
        seen_s = ALIVE_CLOCKS * node.settings.clock_ms / 1000
        if what.answers:
            return f"{name} answers at its address: stop it"
        if node.recovery.has_spoken(name, turn.now_ms):
            return f"{name} was heard less than {seen_s:g} s ago: stop it and wait {seen_s:g} s"
        if what.answers is None and node.recovery.is_alive(name, turn.now_ms):
            return f"{name} was not heard for {seen_s:g} s, but an agent says that it is there: stop that agent"
        return None

    def _check_writes(self, ops: tuple[GetValue | SetValue, ...]) -> int:
        """How many writes there are, all of which will succeed: no two are of one path, so that what holds before the
        first one still holds when a later one's turn comes.

        Raises:
            RequestError: the first that would not.
        """
        first: dict[PathKey, int] = {}
        store = self._node.store
        for index, op in enumerate(ops):
            try:
                if isinstance(op, GetValue):
                    if op.path.key not in first:
                        store.check_here(op.path)
                    continue
                if op.path.key in first:
                    raise RequestError(f"{op.path} is written by op {first[op.path.key]} already: write it once")
                refuse_reserved(op.path)
                head = store.tree.head(op.path)
                next_fence(op, head)
                if has_condition(op):
                    store.check_here(op.path)
                    check_conditions(op, head if head is not None and head.kind is Kind.SET else None)
            except RequestError as error:
                raise error.at_op(index) from None
            first[op.path.key] = index
        return len(first)
