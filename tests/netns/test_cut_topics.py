"""Four servers, cut into two and two: both sides take puts and subscriptions, and afterwards each message comes once.

Knows: the Python API, over Unix sockets, which no cut network keeps the tests from.  Does not know how copies become
one.

One play makes all of it, and each test looks at one fact of its end.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path

import attrs
import pytest

import distkv
from tests.netns.lab import Lab, open_lab
from tests.process.servers import Server, wait_until

NAMES = "abcd"
SIDES = ("ab", "cd")
SETTINGS = "topics: {lease: 1}\n"
CUT_S = 20.0
END_S = 30.0
WORK, SPLIT, TWINS = "work", "split", "twins"
"""A topic from before the cut; one that begins on both sides of it at one moment, so it has two owners; and one that
two nodes begin in a whole network."""
TOPICS = (WORK, SPLIT, TWINS)
OP = 1 << 50
"""The number of a subscription that is made on both sides."""

Number = tuple[str, int]
"""A message: who put it, and its how manyth it is."""


@attrs.define
class Producer:
    """Puts numbers by one node, and knows which were answered."""

    name: str
    topic: str
    handle: distkv.Producer
    tried: int = 0
    answered: set[Number] = attrs.field(factory=set)

    def put(self) -> bool:
        self.tried += 1
        try:
            self.handle.put(self.topic, [self.name, self.tried])
        except distkv.DistkvError:
            return False
        self.answered.add((self.name, self.tried))
        return True

    def put_some(self) -> bool:
        return all(self.put() for _ in range(5))

    @property
    def all(self) -> set[Number]:
        return {(self.name, number) for number in range(1, self.tried + 1)}


@contextmanager
def producing(server: Server, topic: str, directory: Path) -> Iterator[Producer]:
    name = f"{topic}-{server.name}"
    with server.client() as client, client.producer(name, state=directory / f"{name}.producer") as handle:
        yield Producer(name, topic, handle)


@attrs.define
class Reader:
    """A subscriber whose client has a state of its own. It may ask any node."""

    id: str
    topic: str
    directory: Path
    owed: set[Number] = attrs.field(factory=set)
    """What has to come to it."""
    got: list[Number] = attrs.field(factory=list)

    def subscribe(self, server: Server) -> None:
        with self.at(server) as consumer:
            consumer.subscribe()

    def take(self, server: Server, wanted: set[Number]) -> None:
        """Until it has all that is wanted, and a while longer, so that one that comes twice is seen."""
        deadline = time.monotonic() + END_S
        with self.at(server) as consumer:
            while (message := received(consumer)) is not None or (
                not wanted <= set(self.got) and time.monotonic() < deadline
            ):
                if message is not None:
                    with consumer.done(message):
                        self.got.append((str(message.value[0]), int(message.value[1])))

    @contextmanager
    def at(self, server: Server) -> Iterator[distkv.Consumer]:
        state = self.directory / f"{self.topic}-{self.id}.consumer"
        with server.client() as client, client.consumer(self.topic, id=self.id, state=state) as consumer:
            yield consumer


def received(consumer: distkv.Consumer) -> distkv.Message | None:
    try:
        return consumer.receive(wait_s=1)
    except (distkv.Away, distkv.NotReady, distkv.Unreachable):
        return None


def ask(server: Server, action: str, topic: str, **fields: object) -> Mapping[str, object]:
    with server.client() as client:
        return client.request(action, {"topic": topic, **fields})


def at_once(*jobs: Callable[[], object]) -> None:
    """Do all of them, each in a thread of its own, from one moment on."""
    start = threading.Barrier(len(jobs))

    def do(job: Callable[[], object]) -> None:
        start.wait()
        job()

    with ThreadPoolExecutor(len(jobs)) as threads:
        for done in [threads.submit(do, job) for job in jobs]:
            done.result()


@attrs.define
class Play:
    """What was done in a lab, and what came of it."""

    lab: Lab
    directory: Path
    readers: dict[tuple[str, str], Reader] = attrs.field(factory=dict)
    producers: list[Producer] = attrs.field(factory=list)
    shown: dict[str, list[Mapping[str, object]]] = attrs.field(factory=dict)
    """What each node shows of a topic when all is over."""
    owners: dict[str, object] = attrs.field(factory=dict)
    """Of SPLIT, as a node of each side saw it in the cut."""
    after: set[Number] = attrs.field(factory=set)
    """What was put in WORK after both sides had taken one subscription."""

    def reader(self, topic: str, id: str) -> Reader:
        return self.readers.setdefault((topic, id), Reader(id, topic, self.directory))

    def of(self, topic: str) -> list[Producer]:
        return [producer for producer in self.producers if producer.topic == topic]

    def begin(self) -> None:
        """Subscribers on both sides, and a message from each."""
        self.reader(WORK, "left").subscribe(self.lab["a"])
        self.reader(WORK, "right").subscribe(self.lab["d"])
        self.reader(WORK, "moves").subscribe(self.lab["b"])
        ask(self.lab["a"], "topic_subscribe", WORK, subscriber="ends")
        assert all(producer.put() for producer in self.of(WORK))
        self.reader(WORK, "moves").take(self.lab["a"], set().union(*(one.answered for one in self.of(WORK))))

    def begin_twins(self) -> None:
        """Two nodes, of which each knows nothing of what the other one begins."""
        subscribe = self.reader(TWINS, "one").subscribe, self.reader(TWINS, "two").subscribe
        at_once(lambda: subscribe[0](self.lab["b"]), lambda: subscribe[1](self.lab["c"]))
        at_once(*(producer.put_some for producer in self.of(TWINS)))

    def act_in_the_cut(self) -> None:
        """What both sides do for themselves."""
        self.lab.wait(lambda: all(one.put() for one in self.of(WORK)), "both sides take puts", END_S)
        subscribe = self.reader(SPLIT, "left").subscribe, self.reader(SPLIT, "right").subscribe
        at_once(lambda: subscribe[0](self.lab["b"]), lambda: subscribe[1](self.lab["c"]))
        for name in "ad":
            ask(self.lab[name], "topic_subscribe", WORK, subscriber="twice", op=OP)
        self.unsubscribe("ends")
        at_once(*(producer.put_some for producer in self.of(SPLIT)))
        self.owners = {name: ask(self.lab[name], "topic_show", SPLIT)["owner"] for name in "bc"}

    def unsubscribe(self, id: str) -> None:
        """Without a number, on one side: that which has a copy from before the cut, if only one has. A side says that
        others are away as long as they may know more."""
        sides = cycle("db")
        wait_until(lambda: ask(self.lab[next(sides)], "topic_unsubscribe", WORK, subscriber=id), f"{id} is out", END_S)

    def put_for(self, seconds: float) -> None:
        """Both sides put; the one that moves gets some on the side that it came from, and then some on the other."""
        moves, deadline = self.reader(WORK, "moves"), time.monotonic() + seconds
        for name in "bc":
            moves.take(self.lab[name], set())  # it is owed there what is put from now on
        sides = [(self.lab["b"], self.of(WORK)[0]), (self.lab["c"], self.of(WORK)[1])]
        is_over = False
        while not is_over:
            is_over = time.monotonic() > deadline
            for server, producer in sides:
                assert producer.put_some()
                self.after |= {(producer.name, producer.tried - number) for number in range(5)}
                moves.take(server, {(producer.name, producer.tried)})

    def end(self) -> None:
        """All is to be as if there had been no cut; then everybody gets what is owed, on the side it was not on."""
        self.lab.wait(lambda: all(map(self.is_at_rest, TOPICS)), "one owner of each topic, and equal copies", END_S)
        self.lab.wait_equal(END_S)
        for (topic, id), reader in self.readers.items():
            place = "b" if id in ("right", "two") else "c"
            reader.take(self.lab[place], set().union(*(one.answered for one in self.of(topic))))
        self.shown = {topic: [ask(self.lab[name], "topic_show", topic) for name in NAMES] for topic in TOPICS}

    def is_at_rest(self, topic: str) -> bool:
        """Whether all nodes name one owner, with one digest; it has its copies, and waits for nobody."""
        first, *others = [ask(self.lab[name], "topic_show", topic) for name in NAMES]
        facts = ("owner", "followers", "digest")
        return (
            all(one[fact] == first[fact] for one in others for fact in facts)
            and first["copies"] == 2
            and first["waits_for"] == []
        )


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    """It is over, and the lab still runs."""
    directory = tmp_path_factory.mktemp("topics")
    with open_lab(directory / "lab", NAMES, extra=SETTINGS) as lab, ExitStack() as stack:
        play = Play(lab, directory)
        for topic in TOPICS:
            play.producers += [stack.enter_context(producing(lab[name], topic, directory)) for name in "ad"]
        play.begin()
        lab.wait(lambda: play.is_at_rest(WORK), "one owner of what was begun, and equal copies", END_S)
        play.begin_twins()
        began = time.monotonic()
        lab.network.cut(*SIDES)
        play.act_in_the_cut()
        play.put_for(began + CUT_S - time.monotonic())
        lab.network.heal()
        play.end()
        yield play


READERS = [(WORK, "left"), (WORK, "right"), (WORK, "moves"), *((SPLIT, id) for id in ("left", "right"))]
READERS += [(TWINS, id) for id in ("one", "two")]


@pytest.mark.parametrize(("topic", "id"), READERS)
def test_each_answered_put_comes_once_to_a_client_with_a_state(play: Play, topic: str, id: str) -> None:
    counts = Counter(play.reader(topic, id).got)
    assert {one for one, count in counts.items() if count > 1} == set()
    for producer in play.of(topic):
        found = {one for one in counts if one[0] == producer.name}
        assert producer.answered <= found <= producer.all


def test_play_put_enough_to_mean_something(play: Play) -> None:
    assert all(len(producer.answered) > 5 for producer in play.of(WORK))


def test_two_nodes_gave_a_new_topic_to_two_owners(play: Play) -> None:
    assert [str(play.owners[name]) in side for name, side in zip("bc", SIDES, strict=True)] == [True, True]


@pytest.mark.parametrize("topic", TOPICS)
def test_topic_has_one_owner_and_waits_for_nobody(play: Play, topic: str) -> None:
    assert {(one["owner"], str(one["waits_for"])) for one in play.shown[topic]} in ({(name, "[]")} for name in NAMES)


def test_subscription_that_ended_on_one_side_is_ended(play: Play) -> None:
    with pytest.raises(distkv.NotFound):
        ask(play.lab["a"], "topic_get", WORK, subscriber="ends")


def test_subscription_that_both_sides_took_gets_what_came_after_either(play: Play) -> None:
    found, done = set[Number](), list[tuple[str, int]]()
    while True:
        reply = ask(play.lab["c"], "topic_get", WORK, subscriber="twice", done=done, limit=100)
        if not reply["messages"]:
            break
        done = [(one["producer"], one["counter"]) for one in reply["messages"]]
        values = [tuple(one["value"]) for one in reply["messages"]]
        assert not found & set(values)
        found |= set(values)
    assert play.after <= found


def test_no_entry_of_a_topic_is_in_conflict(play: Play) -> None:
    with play.lab["b"].client() as client:
        assert client.conflicts(":n.service.topics") == ()


def test_follower_that_takes_over_has_what_the_owner_had(play: Play) -> None:
    before = ask(play.lab["a"], "topic_show", WORK)
    owner, [follower] = str(before["owner"]), list(map(str, before["followers"]))
    play.lab[owner].kill()
    play.lab.wait(lambda: ask(play.lab[follower], "topic_show", WORK)["owner"] == follower, "it took over", END_S)
    assert ask(play.lab[follower], "topic_show", WORK)["digest"] == before["digest"]
