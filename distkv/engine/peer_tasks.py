"""What a node asks of others: each request, and each follow, is a task.

Knows: which follow takes the place of which, and that an answer is durable before the next one is read.  Does not know
whom to ask for what (the core), nor connections (`caller`).
"""

from __future__ import annotations

from typing import Final, Protocol

import trio

from distkv.core.ready import Ask, FollowEnded, FollowFrom, PeerAnswered, PeerDone
from distkv.engine.asking import check_begin, check_part, request_of
from distkv.engine.caller import Caller
from distkv.engine.faults import Faults
from distkv.engine.followed import FollowingNode, OpenLink
from distkv.engine.traffic import LinkTraffic
from distkv.errors import DistkvError, PeerError, RequestError
from distkv.model.event import NodeName
from distkv.wire.codec import Payload


class AskingNode(FollowingNode, Protocol):
    """What the tasks need of their node."""

    faults: Faults
    silent_s: float

    def traffic(self, name: NodeName) -> LinkTraffic:
        """What went between the two."""


class PeerTasks:
    """Those of one node. Before `begin` nothing is asked."""

    def __init__(self, node: AskingNode, caller: Caller) -> None:
        self._node: Final = node
        self._caller: Final = caller
        self._nursery: trio.Nursery | None = None
        self._follows: Final = dict[NodeName, trio.CancelScope]()

    def begin(self, nursery: trio.Nursery) -> None:
        """The tasks run in this nursery."""
        self._nursery = nursery
        self._caller.begin(nursery)

    def ask(self, ask: Ask) -> None:
        """Begin a request."""
        if self._nursery is not None:
            self._nursery.start_soon(self._ask, ask)

    def follow(self, follow: FollowFrom) -> None:
        """Begin to follow a node, in place of an earlier follow of it; of no nodes: only end that one."""
        before = self._follows.pop(follow.name, None)
        if before is not None:
            before.cancel()
        if follow.nodes and self._nursery is not None:
            scope = self._follows[follow.name] = trio.CancelScope()
            self._nursery.start_soon(self._follow, follow, scope)

    async def _follow(self, follow: FollowFrom, scope: trio.CancelScope) -> None:
        """Take what a peer tells, until it ends or another follow takes its place."""
        node = self._node
        followed = OpenLink(node, follow, node.traffic(follow.name))
        with scope:
            try:
                request = followed.request(node.silent_s)
                await self._caller.follow(follow.addr, request, node.silent_s, followed.hooks)
            except (PeerError, RequestError) as error:
                if isinstance(error, PeerError):
                    node.noticing.broke(follow.name)
                node.step(FollowEnded(follow.follow, error))
            except Exception as error:
                node.step(FollowEnded(follow.follow, node.faults.contain(error, "following a node")))
            finally:
                node.commit()

    async def _ask(self, ask: Ask) -> None:
        """Carry one request to a peer; its answers are inputs, each durable before the next is read."""
        node = self._node

        async def take(answer: Payload) -> None:
            check_part(answer, node.has_room_for)
            node.step(PeerAnswered(ask.id, answer))
            await node.committer.wait_durable(node.position)

        error: DistkvError | None = None
        request = request_of(ask, node.replica)
        await node.committer.wait_durable(node.position)  # our tick maps may show more than when the ask was decided
        try:
            check_begin(ask, node.has_room_for)
            await self._caller.call(ask.addr, request, take)
        except (PeerError, RequestError) as cause:
            error = cause
        except Exception as cause:
            error = node.faults.contain(cause, "asking a node")
        node.step(PeerDone(ask.id, error))
