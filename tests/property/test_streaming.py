"""Whatever comes, in whatever order, and however slowly a follower reads: it is told each tick that is held."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from distkv.config import Limits
from distkv.core.update import Store
from distkv.engine.followers import Followers
from distkv.engine.shared_queue import News
from distkv.model.event import Event, Kind, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges, is_within, joined
from distkv.model.tree import Tree
from distkv.services.streaming import Streaming
from distkv.services.telling import Durable, Send, Wait
from distkv.wire.following import read_item
from distkv.wire.framing import FrameReader
from distkv.wire.message import EventRecord, Record
from distkv.wire.records import encode_record
from distkv.wire.replies import decode_reply, is_end
from distkv.wire.request import Follow

A, B, C = NodeName("a"), NodeName("b"), NodeName("c")


class World:
    """A node, its disk, and one who follows a and b there."""

    def __init__(self, limits: Limits, told: dict[NodeName, Tick]) -> None:
        self.store = Store(A, 5)
        self.position = self.durable = 0
        self.counters = Counter[str]()
        self.news = News()
        self.followers = Followers(limits, self.news)
        self.is_slow = False
        self.heard: TickRanges = {}
        self.ends = 0
        self.reader = FrameReader()
        self.streaming = Streaming(self, self.followers, Follow(7, told), self.push)
        self.effect = self.streaming.go_on()

    @property
    def tree(self) -> Tree:
        return self.store.tree

    @property
    def replica(self) -> World:
        return self

    def write(self, path: str) -> None:
        applied = self.store.write(Path([path]), Kind.SET, b"\x01", 1.0)
        self.log([EventRecord(applied.event, 1.0)])

    def remote(self, node: NodeName, tick: int, path: str) -> None:
        event = Event(Path([path]), Kind.SET, b"\x01", ((node, Tick(tick)),), Tock(tick), 1.0, False)
        if self.store.remote(event).changed:
            self.log([EventRecord(event, 1.0)])

    def learn(self, node: NodeName, begin: int, end: int) -> None:
        records, _ = self.store.learn_known({node: Ranges([(begin, end)])})
        self.log(records)

    def log(self, records: list[Record]) -> None:
        self.position += len(records)
        self.followers.note(records, [encode_record(record) for record in records], self.position)

    def commit(self) -> None:
        self.durable = self.position
        self.followers.deliver(self.durable)
        for _ in self.news.turns():
            pass

    def read(self, count: int) -> None:
        """The follower has time for some effects."""
        for _ in range(count):
            match self.effect:
                case Durable(position=position) if position > self.durable:
                    return
                case Send(data=data):
                    self.take(data)
                case Wait():
                    follower = self.streaming.follower
                    if not follower.has_news:
                        follower.is_waiting = True
                        return
                case None:
                    return
            self.streaming.follower.is_waiting = False
            self.effect = self.streaming.go_on()

    def push(self, data: bytes) -> bool:
        if not self.is_slow:
            self.take(data)
        return not self.is_slow

    def take(self, data: bytes) -> None:
        self.reader.feed(data)
        for frame in self.reader:
            fields = decode_reply(frame)
            assert fields["seq"] == 7
            if is_end(fields):
                self.ends += 1
                continue
            item = read_item(fields)
            shown: TickRanges = {}
            for event in item.events:
                shown.setdefault(event.node, Ranges()).add(event.tick)
            self.heard = joined(self.heard, joined(shown, item.known))


paths = st.sampled_from(["x", "y", "z"])
deeds = st.lists(
    st.one_of(
        st.tuples(st.just("write"), paths),
        st.tuples(st.just("remote"), st.sampled_from([B, C]), st.integers(1, 30), paths),
        st.tuples(st.just("learn"), st.just(B), st.integers(1, 30), st.integers(1, 5)),
        st.tuples(st.just("commit")),
        st.tuples(st.just("read"), st.integers(1, 5)),
        st.tuples(st.just("slow"), st.booleans()),
    ),
    max_size=120,
)


@given(deeds, st.integers(1, 8), st.integers(0, 5))
def test_each_tick_that_is_held_above_the_named_one_is_told(
    deeds: list[tuple[object, ...]], room: int, above: int
) -> None:
    world = World(Limits(follow_events=room), {A: Tick(above), B: Tick(0)})
    begun = False
    for deed in deeds:
        match deed:
            case ("write", str(path)):
                world.write(path)
            case ("remote", str(node), int(tick), str(path)):
                if begun and NodeName(node) == B and _is_late(world, tick):
                    continue  # it fills a gap, of which a follower that catches up is not told (`pulls` find it)
                world.remote(NodeName(node), tick, path)
            case ("learn", str(node), int(begin), int(size)):
                if not _is_late(world, begin):
                    world.learn(NodeName(node), begin, begin + size)
            case ("commit",):
                world.commit()
            case ("read", int(count)):
                begun = True
                world.read(count)
            case ("slow", bool(is_slow)):
                world.is_slow = is_slow
        assert world.followers.queue.end - world.followers.queue.first <= room
    world.is_slow = False
    for _ in range(200):
        world.commit()
        world.read(10)
    held = world.tree.ledger.held({A, B})
    wanted = {node: ticks - Ranges([(0, above + 1 if node == A else 1)]) for node, ticks in held.items()}
    assert is_within(wanted, world.heard)
    assert is_within(world.heard, held)
    world.streaming.follower.stop()
    world.read(10)
    assert world.ends == 1
    assert world.effect is None


def _is_late(world: World, tick: int) -> bool:
    book = world.tree.ledger.book((B, 0))
    return book is not None and tick <= book.last
