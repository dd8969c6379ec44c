"""Copies of a topic beside plain sets of facts: whatever happens on either side of splits, and in whichever order the
copies are joined.

Knows: the state and its model (`topic_facts`).  Does not know owners, nor how rows travel.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import permutations

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from distkv.core.topics.topic import Topic
from distkv.errors import DecodeError, NotFoundError
from distkv.model.ranges import Ranges
from distkv.wire.topic_bodies import ranges_of
from distkv.wire.topic_errors import StaleOpError, TakenError
from distkv.wire.topic_rows import read_done, read_key, read_message, read_producer, read_subscriber
from distkv.wire.values import pack_value
from tests.profiles import seeds
from tests.property.topic_facts import FactMessage, Facts, FactSubscriber, Identity
from tests.unit.core.topic_copies import Disk, copy_rows, named, put, value_of

PRODUCERS = ("p", "q")
SUBSCRIBERS = ("c", "d")
COUNTERS = 12


class Side:
    """One node: its disk, its copy, and the same as facts."""

    def __init__(self, rng: random.Random) -> None:
        self.disk = Disk()
        self.topic = self.disk.topic()
        self.facts = Facts()
        self._rng = rng

    def act(self) -> None:
        """Something happens here, and only here."""
        rng, name = self._rng, self._rng.choice(SUBSCRIBERS)
        match rng.randrange(12):
            case 0:
                self._change(name, rng.randrange(1, 6), is_subscribed=True)
            case 1:
                self._change(name, rng.randrange(1, 6), is_subscribed=False)
            case 2 | 3:
                self._done(name)
            case 4:
                self._forget()
            case 5:
                self.topic = self.disk.restart(self.disk.now_ms)
            case 6:
                self.topic.digest  # noqa: B018  from now on sums are carried on
            case _:
                self._put()
        self.compare()

    def join(self, other: Side) -> bool:
        """All that the other one has comes here."""
        self.facts.join(other.facts)
        is_changed = copy_rows(other.topic, self.topic, self.disk.now_ms)
        self.compare()
        return is_changed

    def compare(self) -> None:
        """The copy is what the facts say."""
        self.disk.now_ms += 20_000  # nothing waits for lower counters any more
        self.topic.check()
        found = facts_of(self.topic)
        assert found.tags == self.facts.tags
        assert found == self.facts
        for name in SUBSCRIBERS:
            known = self.facts.subscribers.get(name)
            if known is not None and known.is_subscribed:
                self._compare_given(name)

    def _compare_given(self, name: str) -> None:
        owed = self.facts.owed(name)
        found = self.topic.next_messages(name, 1000, self.disk.now_ms)
        assert frozenset(named(found)) == owed
        assert len(found.messages) == self.topic.left(name) == len(owed)
        for producer in PRODUCERS:
            counters = [counter for one, counter in named(found) if one == producer]
            assert counters == sorted(counters)
        gone = frozenset((producer, counter) for producer, some in found.gone.items() for counter in some)
        known = self.facts.subscribers[name]
        assert gone == self.facts.seen - self.facts.here.keys() - known.base - known.done
        for producer, some in found.gone.items():
            self.topic.add_done(name, [(producer, counter) for counter in some])
        known.done |= gone

    def _put(self) -> None:
        rng = self._rng
        identity = rng.choice(PRODUCERS), rng.randrange(1, COUNTERS)
        value = value_of(*identity) if rng.random() < 0.9 else pack_value(rng.randrange(3))
        tag = rng.choice([None, b"a" * 8, b"b" * 8])
        floor, time = rng.randrange(1, identity[1] + 1), float(rng.randrange(5))
        try:
            is_new = self.topic.put(*identity, value, time, floor, tag, self.disk.now_ms)
        except TakenError:
            is_new = False
        assert is_new == (identity not in self.facts.seen)
        self.facts.put(identity, FactMessage(value, time, floor, tag))

    def _change(self, name: str, op: int, *, is_subscribed: bool) -> None:
        known = self.facts.subscribers.get(name)
        is_stale = known is not None and (op < known.op or (op == known.op and is_subscribed != known.is_subscribed))
        change = self.topic.subscribe if is_subscribed else self.topic.unsubscribe
        try:
            if is_subscribed:
                self.topic.subscribe(name, op, None, 0.0)
            else:
                self.topic.unsubscribe(name, op, 0.0)
        except StaleOpError:
            assert is_stale, change
        else:
            assert not is_stale
        (self.facts.subscribe if is_subscribed else self.facts.unsubscribe)(name, op)

    def _done(self, name: str) -> None:
        some = {(self._rng.choice(PRODUCERS), self._rng.randrange(1, COUNTERS)) for _ in range(4)}
        known = self.facts.subscribers.get(name)
        if known is None or not known.is_subscribed:
            with pytest.raises(NotFoundError):
                self.topic.add_done(name, some)
        else:
            self.topic.add_done(name, some)
            self.facts.done(name, frozenset(some))

    def _forget(self) -> None:
        if self.facts.here:
            identity = self._rng.choice(sorted(self.facts.here))
            self.topic.forget(identity[0], [identity[1]])
            self.facts.forget(identity)


def facts_of(topic: Topic) -> Facts:
    """What the rows say that a copy gives to others."""
    found = Facts()
    for key, value in rows_of(topic):
        what = read_key(key)
        match what.kind:
            case "m":
                row = read_message(value)
                found.here[what.name, what.counter] = FactMessage(row.value, row.time, row.floor, row.tag)
            case "p":
                producer = read_producer(value)
                found.seen |= identities({what.name: ranges_of(producer.seen)})
                found.floors[what.name] = producer.floor
                found.tags |= {(what.name, counter): tag for counter, tag in producer.tags}
            case "s":
                subscriber = read_subscriber(value)
                base = identities({name: ranges_of(some) for name, some in subscriber.base.items()})
                found.subscribers.setdefault(what.name, FactSubscriber(subscriber.op, subscriber.is_subscribed, base))
            case "d":
                done = read_done(value)
                known = found.subscribers[what.name]
                assert known.op == done.op
                known.done |= identities({what.producer: ranges_of(done.done)})
    return found


def identities(counters: dict[str, Ranges]) -> frozenset[Identity]:
    return frozenset((producer, counter) for producer, some in counters.items() for counter in some)


def rows_of(topic: Topic) -> Iterator[tuple[str, bytes]]:
    """Subscribers first."""
    rows = [row for bucket in range(256) for row in topic.rows_of(bucket)]
    return iter(sorted(rows, key=lambda row: row[0][0] != "s"))


def sides(rng: random.Random, count: int, steps: int) -> list[Side]:
    """Some that have seen some of the same, and some of their own."""
    found = [Side(rng) for _ in range(count)]
    for _ in range(steps):
        rng.choice(found).act()
        if count > 1 and rng.random() < 0.1:
            one, other = rng.sample(found, 2)
            one.join(other)
    return found


@pytest.mark.parametrize("seed", seeds(12))
def test_copies_are_what_plain_facts_say_through_splits_and_joins(seed: int) -> None:
    rng = random.Random(seed)
    found = sides(rng, 3, 100)
    for one, other in permutations(found, 2):
        one.join(other)
    for one, other in permutations(found, 2):
        one.join(other)
    assert len({side.topic.digest for side in found}) == 1
    assert len({tuple(side.topic.buckets()) for side in found}) == 1


@pytest.mark.parametrize("seed", seeds(8))
def test_join_is_the_same_in_any_order_and_as_often_as_one_likes(seed: int) -> None:
    """STATE-3."""
    rng = random.Random(seed)
    one, two, three = (side.topic for side in sides(rng, 3, 60))
    digests = set()
    for order in permutations([one, two, three]):
        together = Disk().topic()
        for side in order:
            copy_rows(side, together)
        assert not copy_rows(one, together)
        digests.add(together.digest)
    copy_rows(three, two)
    copy_rows(two, one)
    assert digests == {one.digest}


@pytest.mark.parametrize("seed", seeds(8))
def test_rows_of_a_copy_in_any_order_give_the_same(seed: int) -> None:
    rng = random.Random(seed)
    (side,) = found = sides(rng, 1, 60)
    rows = [*rows_of(found[0].topic)]
    rng.shuffle(rows)
    other = Disk().topic()
    other.join_rows(sorted(rows, key=lambda row: row[0][0] != "s"), 0)
    assert other.digest == side.topic.digest


@pytest.mark.parametrize("seed", seeds(8))
def test_digests_that_are_carried_on_are_those_of_a_copy_that_begins(seed: int) -> None:
    rng = random.Random(seed)
    side = Side(rng)
    for _ in range(80):
        side.act()
        if rng.random() < 0.3:
            other = Disk().topic()
            copy_rows(side.topic, other)
            assert side.topic.digest == other.digest


@pytest.mark.parametrize("seed", seeds(10))
def test_what_was_put_behind_a_subscription_is_owed_or_done_however_it_is_repeated(seed: int) -> None:
    """STATE-5. The subscriber is subscribed once, and the same subscription is repeated anywhere at any time."""
    rng = random.Random(seed)
    nodes = [Disk().topic() for _ in range(3)]
    nodes[0].subscribe("c", 1, None, 0.0)
    owed, done = set[Identity](), set[Identity]()
    for counter in range(1, 60):
        node = rng.choice(nodes)
        match rng.randrange(4):
            case 0:
                node.subscribe("c", 1, None, 0.0)
            case 1:
                copy_rows(rng.choice(nodes), node)
            case _:
                put(node, "p", counter)
                if node.is_subscribed("c"):
                    owed.add(("p", counter))
        if node.is_subscribed("c") and rng.random() < 0.3:
            some = named(node.next_messages("c", 3, 0))
            node.add_done("c", some)
            done.update(some)
    for one, other in permutations(nodes, 2):
        copy_rows(other, one)
    left = frozenset(named(nodes[0].next_messages("c", 1000, 20_000)))
    assert owed - done <= left
    assert not left & done


@pytest.mark.parametrize("seed", seeds(10))
def test_bytes_that_were_changed_are_a_row_or_one_error_that_changes_nothing(seed: int) -> None:
    rng = random.Random(seed)
    (side,) = sides(rng, 1, 40)
    target = Disk().topic()
    copy_rows(side.topic, target)
    for key, value in rows_of(side.topic):
        broken = bytearray(value)
        for _ in range(rng.randrange(1, 4)):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        assert_joined_or_refused(target, key, bytes(broken[: rng.randrange(1, len(broken) + 1)]))


def assert_joined_or_refused(topic: Topic, key: str, value: bytes) -> None:
    before, refusal = topic.digest, ""
    try:
        topic.join_row(key, value, 0)
    except DecodeError as error:
        refusal = str(error)
    topic.check()
    assert "\n" not in refusal
    assert not refusal or topic.digest == before


@drawn(st.text(max_size=2), st.lists(st.text(max_size=20), max_size=3), st.binary(max_size=60))
def test_any_key_and_any_bytes_are_a_row_or_one_error(kind: str, parts: list[str], value: bytes) -> None:
    assert_joined_or_refused(Disk().topic(), "\x1f".join([kind, *parts]), value)


KEYS = st.sampled_from(["m\x1fp\x1f0000000000000001", "p\x1fp", "s\x1fc", "d\x1fc\x1fp", "t", "h\x1fc"])


@drawn(KEYS, st.binary(max_size=60))
def test_any_bytes_under_a_key_are_a_row_or_one_error(key: str, value: bytes) -> None:
    topic = Disk().topic()
    topic.subscribe("c", 1, None, 0.0)
    assert_joined_or_refused(topic, key, value)
