"""Topics on three nodes that are killed, frozen and started again, with clients that are killed, too.

Knows: what is done to nodes and clients, and what came of it.  Does not know how a message travels.
"""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs
import pytest

from tests.process.cluster import Cluster, open_cluster
from tests.process.tokens import pause
from tests.profiles import seeds, size

pytestmark = pytest.mark.slow

PRODUCERS = ("p", "q", "r")
CONSUMERS = ("s", "t")
WITHOUT_STATE = ("u",)
END_S = 120.0
ROOT = Path(__file__).parents[2]


@attrs.define
class Puts:
    """What a producer wrote down."""

    answered: list[int] = attrs.field(factory=list)
    tried: set[int] = attrs.field(factory=set)


@attrs.define
class Program:
    """One that may be killed and started again."""

    kind: str
    id: str
    directory: Path
    hosts: Sequence[str]
    process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        words = [sys.executable, "-m", "tests.process.topic_workers", self.kind, self.id, str(self.directory)]
        with (self.directory / f"{self.id}.stderr").open("a") as stderr:
            self.process = subprocess.Popen(
                [*words, *self.hosts], cwd=ROOT, stdout=subprocess.PIPE, stderr=stderr, text=True
            )

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()

    def wait(self) -> int:
        """Until it ends by itself."""
        assert self.process is not None
        self.process.communicate(timeout=END_S)
        return self.process.returncode

    def wait_open(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "open\n"


@contextmanager
def opened(program: Program) -> Iterator[Program]:
    """A program that is killed in the end, if it still runs."""
    program.start()
    try:
        yield program
    finally:
        program.kill()


def harm(cluster: Cluster, programs: Sequence[Program], chance: random.Random, seconds: float) -> None:
    """One fault after the other: a node is killed, or frozen for a while; or a client is killed. All go on."""
    names = [server.name for server in cluster]
    for number in range(max(6, int(seconds / 4))):
        name = names[number % len(names)]
        match number % 3:
            case 0:
                cluster[name].kill()
                pause(chance.uniform(0, 4))
                cluster.start(name)
            case 1:
                cluster[name].send_signal(signal.SIGSTOP)
                pause(chance.choice([1, 5]))
                cluster[name].send_signal(signal.SIGCONT)
            case _:
                program = chance.choice(programs)
                program.kill()
                program.start()
        pause(chance.uniform(0, 1))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where all wrote down what they saw, when it is over."""
    [seed, *_] = seeds(1)
    directory = tmp_path_factory.mktemp("topics")
    with open_cluster(directory / "nodes") as cluster, ExitStack() as stack:
        hosts = [f"127.0.0.1:{server.port}" for server in cluster]
        stateless = [Program("stateless", id, directory, hosts) for id in WITHOUT_STATE]
        consumers = [Program("consumer", id, directory, hosts) for id in CONSUMERS]
        for program in (*stateless, *consumers):
            stack.enter_context(opened(program)).wait_open()
        pause(1)  # they are subscribed when they have asked once
        producers = [stack.enter_context(opened(Program("producer", id, directory, hosts))) for id in PRODUCERS]
        harm(cluster, [*producers, *consumers], random.Random(seed), size(20, 60))
        for server in cluster:
            cluster.wait_state(server.name, "ready", END_S)
        (directory / "stop").touch()
        assert [program.wait() for program in producers] == [0] * len(producers)
        wait_all_came(directory)
        (directory / "end").touch()
        assert [program.wait() for program in (*consumers, *stateless)] == [0] * (len(consumers) + len(stateless))
        yield directory


def wait_all_came(directory: Path) -> None:
    """Every subscriber got each answered put; a while later, so that one that comes twice is seen."""
    wanted = {(id, number) for id, puts in put(directory).items() for number in puts.answered}
    for _ in range(int(END_S)):
        missing = {id: wanted - set(got(directory, id)) for id in (*CONSUMERS, *WITHOUT_STATE)}
        if not any(missing.values()):
            break
        threading.Event().wait(1)
    else:
        assert not any(missing.values()), f"answered puts did not come: {missing}"
    pause(2)


def put(directory: Path) -> Mapping[str, Puts]:
    """What the producers wrote down."""
    found = {id: Puts() for id in PRODUCERS}
    for id, puts in found.items():
        for line in (directory / f"{id}.puts").read_text().splitlines():
            what, number, *_ = line.split()
            puts.tried.add(int(number))
            if what == "ok":
                puts.answered.append(int(number))
    return found


def got(directory: Path, id: str) -> list[tuple[str, int]]:
    """What a consumer got, in its order."""
    if id in WITHOUT_STATE:
        lines = (directory / f"{id}.got").read_text().splitlines()
        return [(producer, int(number)) for producer, number in map(str.split, lines)]
    with sqlite3.connect(directory / f"{id}.db") as db:
        return [(producer, number) for producer, number in db.execute("SELECT producer, number FROM got ORDER BY at")]


@pytest.mark.parametrize("id", [*CONSUMERS, *WITHOUT_STATE])
def test_each_answered_put_comes_once_whatever_is_killed(place: Path, id: str) -> None:
    counts = Counter(got(place, id))
    answered = {(producer, number) for producer, puts in put(place).items() for number in puts.answered}
    assert {one for one, count in counts.items() if count > 1} == set()
    assert answered - counts.keys() == set()


@pytest.mark.parametrize("id", [*CONSUMERS, *WITHOUT_STATE])
def test_nothing_comes_but_what_was_put(place: Path, id: str) -> None:
    tried = {(producer, number) for producer, puts in put(place).items() for number in puts.tried}
    assert set(got(place, id)) - tried == set()


@pytest.mark.parametrize("id", [*CONSUMERS, *WITHOUT_STATE])
def test_messages_of_each_producer_come_in_its_order(place: Path, id: str) -> None:
    for producer in PRODUCERS:
        numbers = [number for name, number in got(place, id) if name == producer]
        assert numbers == sorted(numbers)


def test_play_put_enough_to_mean_something(place: Path) -> None:
    assert all(len(puts.answered) > 20 for puts in put(place).values())
