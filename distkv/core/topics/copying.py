"""Operations on copies: each is sent to the followers of its topic, and who waits is told when all have it.

Knows: which rows an operation changed, and which followers have them.  Does not know what a row means, nor who owns a
topic.

A follower that is named anew is sent what is not answered yet, and all that comes; it gets the rest by comparing
(`comparing`). One that takes too long is sent nothing more, until it has compared.

Invariant: an operation that was said to be copied is on the disks of all followers that were named then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

import attrs

from distkv.core.ground.calls import CallKey
from distkv.core.ground.machine import ServiceInput
from distkv.core.ground.node_calls import Replied
from distkv.core.ground.turn import ServiceTurn
from distkv.core.topics.compared_copy import SentRows
from distkv.core.topics.copy_stream import QUEUE_BYTES_MAX, CopyPurpose, CopyStream, size_of
from distkv.errors import DecodeError, NotFoundError, RequestError
from distkv.model.event import NodeName
from distkv.model.invariant import must
from distkv.wire.declared import pack
from distkv.wire.topic_messages import (
    COPY_REPLIES,
    NAMES_MAX,
    CompareWanted,
    Copied,
    CopyBatch,
)

PATIENCE_MS: Final = 60_000
"""How long a batch is told."""


class CopyHost(Protocol):
    """Who owns topics, and keeps copies."""

    def followers_of(self, name: str) -> Collection[NodeName]:
        """Those of a topic that this node owns, as its entry names them now."""

    def copied(self, turn: ServiceTurn, target: object, copies: int) -> None:
        """What waited waits no more: an operation is on so many disks, this one included."""

    def take_copy(
        self, turn: ServiceTurn, name: str, ids: Collection[str], rows: SentRows, sender: NodeName
    ) -> None:
        """Join these rows into this node's copy, in this order, and keep them; None: a message that was forgotten.

        Raises:
            DecodeError: they are no rows of a topic.
            NotFoundError: the topic was dropped.
            RequestError: there is no room for them.
        """

    def replace_follower(self, name: str, node: NodeName) -> None:
        """A follower of a topic that this node owns has no room for it, or cannot read it."""

    def missed(self, turn: ServiceTurn, name: str) -> None:
        """This node did not take rows of a topic: its copy may lack what the owner answers for from now on."""


@attrs.frozen(slots=True)
class _Unwhole:
    """The purpose of telling a node that it lacks something."""

    node: NodeName


@attrs.define(slots=True, eq=False)
class _OpenCopy:
    ids: tuple[str, ...]
    rows: Mapping[str, bytes | None] | None
    """None: there were too many to remember."""
    size: int
    places: dict[NodeName, int] = attrs.field(factory=dict)
    """In the stream of each follower, behind its rows."""
    targets: list[object] = attrs.field(factory=list)
    """What waits for it."""


@attrs.define(slots=True, eq=False)
class _TopicCopies:
    last: int = 0
    """The last operation."""
    open: dict[int, _OpenCopy] = attrs.field(factory=dict)
    """Those that some follower lacks, in their order."""
    sent: dict[NodeName, int] = attrs.field(factory=dict)
    """From which operation on each follower is sent all."""
    whole: set[NodeName] = attrs.field(factory=set)
    """The followers that have what was before, too."""
    behind: set[NodeName] = attrs.field(factory=set)
    """Those that are sent nothing until they have compared."""
    runs: dict[NodeName, int] = attrs.field(factory=dict)
    """In which run each of them compares, or has compared."""

    def leave(self, node: NodeName) -> None:
        """Nothing is sent to a node any more, and what was sent does not count."""
        self.sent.pop(node, None)
        self.whole.discard(node)
        self.runs.pop(node, None)
        for operation in self.open.values():
            operation.places.pop(node, None)


class Copying:
    """That of one node, since its machine began."""

    def __init__(self, host: CopyHost) -> None:
        self._host: Final = host
        self._topics: Final = dict[str, _TopicCopies]()
        self._streams: Final = dict[NodeName, CopyStream]()
        self._where: Final = dict[object, tuple[str, int]]()
        """For which operation of which topic each target waits."""
        self._last = 0
        self._size = 0
        """Of the rows of all operations that are open, in bytes."""
        self._stream_count = 0

    # -- at the owner

    def send(
        self,
        turn: ServiceTurn,
        name: str,
        ids: Iterable[str],
        rows: Mapping[str, bytes | None],
        followers: Collection[NodeName],
    ) -> int:
        """An operation has changed these rows, which are kept in this step: send them to these. Its number."""
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = _TopicCopies()
        self._look_at(turn, name, topic, followers)
        self._last += 1
        topic.last = self._last
        if followers:
            size = sum(size_of(key, value) for key, value in rows.items())
            is_kept = self._size + size <= QUEUE_BYTES_MAX
            operation = _OpenCopy(tuple(sorted(ids)), dict(rows) if is_kept else None, size if is_kept else 0)
            self._size += operation.size
            topic.open[self._last] = operation
            for node in sorted(followers):
                if node not in topic.behind:
                    topic.sent.setdefault(node, self._last)
                    self._queue(turn, name, node, operation, rows)
            self._pump(turn, followers)
        elif topic.open:
            self._finish(turn, name, topic)
        return self._last

    def last_op(self, name: str) -> int:
        """The number of the last operation of a topic; 0: there was none since the start."""
        topic = self._topics.get(name)
        return 0 if topic is None else topic.last

    def wait(self, turn: ServiceTurn, op: int, name: str, target: object, *, is_older: bool = False) -> None:
        """Say when an operation is on all copies; now, if it is. `is_older`: what is asked about was done before it."""
        topic, number = self._topics.get(name), None
        if topic is not None and topic.open:
            self._finish(turn, name, topic)
            number = next((number for number in reversed(topic.open) if number <= op), None)
        if topic is None or number is None:
            self._host.copied(turn, target, self.copies(name, 0 if is_older else op))
            return
        topic.open[number].targets.append(target)
        self._where[target] = name, number

    def copies(self, name: str, op: int = 0) -> int:
        """How many have an operation that is not open, this node included; 0: one that was done before all others."""
        topic, followers = self._topics.get(name), self._host.followers_of(name)
        if topic is None or not followers:
            return 1
        have = [node for node in followers if node in topic.whole or topic.sent.get(node, op + 1) <= op]
        return 1 + len(have)

    def release(self, name: str) -> list[object]:
        """This node does not own the topic any more: what waited, and is not waited for any more."""
        topic = self._topics.pop(name, None)
        if topic is None:
            return []
        self._size -= sum(operation.size for operation in topic.open.values())
        targets = [target for operation in topic.open.values() for target in operation.targets]
        topic.open.clear()
        for target in targets:
            del self._where[target]
        return targets

    def gone(self, target: object) -> None:
        """Nobody waits for this target any more."""
        name, number = self._where.pop(target, ("", 0))
        topic = self._topics.get(name)
        if topic is not None and number in topic.open:
            topic.open[number].targets.remove(target)

    def look(self, turn: ServiceTurn, name: str) -> None:
        """The entry of a topic that this node owns may name other followers."""
        topic = self._topics.get(name)
        if topic is not None:
            self._look_at(turn, name, topic, self._host.followers_of(name))
            self._finish(turn, name, topic)

    def started(self, turn: ServiceTurn, names: Iterable[str]) -> None:
        """This node has started, and owns these topics: their followers are to say what they have."""
        wanted = dict[NodeName, list[str]]()
        for name in names:
            for node in self._host.followers_of(name):
                wanted.setdefault(node, []).append(name)
        for node, theirs in sorted(wanted.items()):
            _want_compared(turn, node, theirs)

    # -- what comparing says

    def begin(self, turn: ServiceTurn, name: str, node: NodeName, run: int) -> None:
        """A node compares its copy: if it is a follower, it is sent what changes from now on."""
        followers = self._host.followers_of(name)
        if node not in followers:
            return
        topic = self._topics.setdefault(name, _TopicCopies())
        topic.behind.discard(node)
        topic.whole.discard(node)
        topic.runs[node] = run
        self._look_at(turn, name, topic, followers)

    def became_whole(self, turn: ServiceTurn, name: str, node: NodeName, run: int) -> None:
        """A follower has all that was here when that run began."""
        topic = self._topics.get(name)
        if topic is not None and node in topic.sent and topic.runs.get(node) == run:
            topic.whole.add(node)
            self._finish(turn, name, topic)

    def is_follower(self, name: str, node: NodeName) -> bool:
        """Whether the entry names a node as a follower of a topic that this one owns."""
        return node in self._host.followers_of(name)

    # -- at the follower

    def asked(self, turn: ServiceTurn, call: CallKey, batch: CopyBatch) -> None:
        """An owner sends rows."""
        refused, dropped = dict[str, None](), dict[str, None]()
        for topic in batch.topics:
            try:
                rows = [(row.key, row.value) for row in topic.rows]
                self._host.take_copy(turn, topic.name, topic.ids, rows, call.peer)
            except (DecodeError, RequestError) as error:
                turn.note("topic_copy_refused", topic=topic.name, node=call.peer, reason=str(error))
                (dropped if isinstance(error, NotFoundError) else refused)[topic.name] = None
                self._host.missed(turn, topic.name)
        turn.answer_node(call, pack(Copied(tuple(refused)[:NAMES_MAX], tuple(dropped)[:NAMES_MAX])))

    # -- what happens

    def step(self, turn: ServiceTurn, what: ServiceInput) -> bool:
        """Whatever the machine is told; whether it was for this."""
        if not isinstance(what, Replied):
            return False
        if isinstance(what.purpose, CopyPurpose):
            self._answered(turn, what.purpose, what.reply)
            return True
        return isinstance(what.purpose, _Unwhole)

    def wake_ms(self) -> int | None:
        """When `step` has something to do: never by itself."""
        return None

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        for stream in self._streams.values():
            stream.check()
        places = {
            target: (name, number)
            for name, topic in self._topics.items()
            for number, operation in topic.open.items()
            for target in operation.targets
        }
        must(places == self._where, "each target waits for one operation")
        for topic in self._topics.values():
            must(not topic.behind & topic.sent.keys(), "who is behind is sent nothing")
            must(topic.whole <= topic.sent.keys(), "who is whole is sent all that comes")
            for one in topic.open.values():
                must(one.places.keys() <= topic.sent.keys(), "only who is sent all that comes counts")
        sizes = [operation.size for topic in self._topics.values() for operation in topic.open.values()]
        must(self._size == sum(sizes), "the size is that of what is open")

    # -- inside

    def _look_at(self, turn: ServiceTurn, name: str, topic: _TopicCopies, followers: Collection[NodeName]) -> None:
        """Begin to send to those that are named now, and leave the others."""
        if not topic.behind and topic.sent.keys() == followers:
            return
        for node in [node for node in (*topic.sent, *topic.behind) if node not in followers]:
            topic.leave(node)
            topic.behind.discard(node)
            self._drop_unused(turn, node)
        added = [node for node in sorted(followers) if node not in topic.sent and node not in topic.behind]
        for node in added:
            for number, operation in topic.open.items():
                if operation.rows is not None and node not in topic.behind:
                    topic.sent.setdefault(node, number)
                    self._queue(turn, name, node, operation, operation.rows)
            if node not in topic.behind:
                topic.sent.setdefault(node, self._last + 1)
        self._pump(turn, added)

    def _queue(
        self, turn: ServiceTurn, name: str, node: NodeName, operation: _OpenCopy, rows: Mapping[str, bytes | None]
    ) -> None:
        stream = self._streams.get(node)
        if stream is None:
            self._stream_count += 1
            stream = self._streams[node] = CopyStream(node, self._stream_count)
        operation.places[node] = stream.add(name, operation.ids, rows)
        if stream.size > QUEUE_BYTES_MAX:
            turn.note("topic_copies_overflow", node=node)
            self._end(turn, node, self._topics)

    def _pump(self, turn: ServiceTurn, nodes: Iterable[NodeName]) -> None:
        """Send what there is room for."""
        for node in sorted(nodes):
            stream = self._streams.get(node)
            while stream is not None and (found := stream.next_batch()) is not None:
                purpose, batch = found
                turn.ask_node(node, pack(batch), purpose, patience_ms=PATIENCE_MS, waits=False)

    def _answered(self, turn: ServiceTurn, purpose: CopyPurpose, reply: object) -> None:
        node, stream = purpose.node, self._streams.get(purpose.node)
        if stream is None:
            return
        said = _read(reply)
        if said is None:
            turn.note("topic_copies_unanswered", node=node, reason=str(reply)[:200])
            self._end(turn, node, self._topics)
            return
        names = stream.answered(purpose)
        if said.refused or said.dropped:
            turn.note("topic_copies_refused", node=node, topics=len(said.refused) + len(said.dropped))
            self._end_some(turn, node, (*said.refused, *said.dropped))
            for name in said.refused:
                if node in self._host.followers_of(name):
                    self._host.replace_follower(name, node)
        for name in sorted(names):
            topic = self._topics.get(name)
            if topic is not None:
                self._finish(turn, name, topic)
        self._pump(turn, (node,))

    def _finish(self, turn: ServiceTurn, name: str, topic: _TopicCopies) -> None:
        """Say what all followers have now."""
        followers = self._host.followers_of(name)
        self._look_at(turn, name, topic, followers)
        while topic.open:
            number, operation = next(iter(topic.open.items()))
            if not all(self._has(topic, node, operation) for node in followers):
                return
            del topic.open[number]
            self._size -= operation.size
            copies = self.copies(name, number)
            for target in operation.targets:
                if self._where.pop(target, None) is not None:
                    self._host.copied(turn, target, copies)

    def _has(self, topic: _TopicCopies, node: NodeName, operation: _OpenCopy) -> bool:
        """Whether a follower has an operation on its disk."""
        place = operation.places.get(node)
        if place is None:
            return node in topic.whole
        stream = self._streams.get(node)
        return stream is not None and stream.done >= place

    def _end(self, turn: ServiceTurn, node: NodeName, names: Iterable[str]) -> None:
        """Nothing more is sent to a node, and what is under way does not count; it is told to compare."""
        stream = self._streams.pop(node, None)
        if stream is not None:
            for purpose in stream.purposes():
                turn.withdraw(purpose)
        self._end_some(turn, node, names)

    def _end_some(self, turn: ServiceTurn, node: NodeName, names: Iterable[str]) -> None:
        """The same of some topics."""
        ended = [name for name in names if name in self._topics and node in self._topics[name].sent]
        for name in ended:
            self._topics[name].leave(node)
            self._topics[name].behind.add(node)
        _want_compared(turn, node, ended)

    def _drop_unused(self, turn: ServiceTurn, node: NodeName) -> None:
        """Nothing is sent any more to a node that follows nothing here."""
        if node in self._streams and not any(node in topic.sent for topic in self._topics.values()):
            for purpose in self._streams.pop(node).purposes():
                turn.withdraw(purpose)


def _want_compared(turn: ServiceTurn, node: NodeName, names: Sequence[str]) -> None:
    """A follower is to compare its copies of these topics."""
    for at in range(0, len(names), NAMES_MAX):
        body = pack(CompareWanted(tuple(names[at : at + NAMES_MAX])))
        turn.ask_node(node, body, _Unwhole(node), patience_ms=PATIENCE_MS)


def _read(reply: object) -> Copied | None:
    """What a follower said; None: nothing that can be read."""
    try:
        return COPY_REPLIES.read(reply) if isinstance(reply, bytes) else None
    except DecodeError:
        return None
