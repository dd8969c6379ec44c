"""Topics that grow without end: a clear refusal, or nothing is left of it; it is shown, and others are served.

Knows: requests as clients send them, what a node shows, its memory and the rows that it keeps.  Does not know which
machine counts.
"""

from __future__ import annotations

import json
import signal
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

import distkv
from distkv.storage.archive import ARCHIVE_NAME
from distkv.wire.services import ServiceRequest
from distkv.wire.topic_requests import TopicDrop, TopicGet, TopicPut, TopicSubscribe
from distkv.wire.values import pack_value
from tests.process.cluster import Cluster, open_cluster
from tests.process.load import Wire
from tests.process.mounts import small_file_system
from tests.process.servers import Server, Servers, open_servers, wait_until
from tests.profiles import size

BACKLOG_BYTES, PRODUCERS, SUBSCRIBERS, TOPICS, AWAY_BYTES = 64 << 10, 20, 5, 30, 32 << 10
OPTIONS: Final = (
    f"topics.backlog_bytes={BACKLOG_BYTES}", f"limits.topic_producers={PRODUCERS}", f"limits.topics={TOPICS}",
    f"limits.topic_subscribers={SUBSCRIBERS}",
)  # fmt: skip
LEASE: Final = f"topics: {{lease: 0.5, away_bytes: {AWAY_BYTES}}}\n"
VALUE: Final = pack_value("x" * 400)
MESSAGE_BYTES: Final = 512
"""What each counts besides its value."""
DEPTH: Final = 100
DATA_BYTES: Final = 1 << 20
DISK_MIB: Final = 208
ALONE: Final = ("--transport", "solo")
GROWTH_MAX: Final = 60 << 20
"""Far more than a node needs for what it shows, and far less than what would be left if something stayed."""
FEW_ROWS: Final = 20


@pytest.fixture
def solo(tmp_path: Path) -> Iterator[Server]:
    """A node alone, with low limits."""
    with open_servers(tmp_path) as servers:
        server = servers.add("solo")
        server.start(*ALONE, "--init", "x", options=[word for one in OPTIONS for word in ("-C", one)])
        server.wait_ready()
        yield server


def ask(server: Server, requests: Sequence[ServiceRequest]) -> list[Mapping[str, Any]]:
    """The replies to all, many under way at a time; the first refusal is raised."""
    with Wire(server, timeout_s=120) as wire:
        parts = [requests[begin : begin + DEPTH] for begin in range(0, len(requests), DEPTH)]
        return [reply for part in parts for reply in wire.ask(part)]  # type: ignore[arg-type]


def put(server: Server, topic: str, count: int) -> None:
    """Messages without a producer of their own."""
    ask(server, [TopicPut(seq, topic, VALUE) for seq in range(1, count + 1)])


def subscribe(server: Server, topic: str, subscriber: str = "s") -> None:
    ask(server, [TopicSubscribe(1, topic, subscriber)])


def get(server: Server, topic: str, limit: int, *, done: Sequence[Sequence[Any]] = ()) -> list[list[Any]]:
    """Producer and counter of each message that `s` gets."""
    [reply] = ask(server, [TopicGet(1, topic, "s", tuple((name, counter) for name, counter in done), limit)])
    return [[one["producer"], one["counter"]] for one in reply["messages"]]


def take_all(server: Server, topic: str) -> None:
    """Until nothing waits for `s`."""
    while messages := get(server, topic, 1000):
        get(server, topic, 1, done=messages)


def shown(server: Server, topic: str) -> Mapping[str, Any]:
    """As `topic show` prints it."""
    ran = server.run("topic", "show", topic, "-o", "json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.text)
    assert isinstance(found, dict)
    return found


def in_state(server: Server) -> Mapping[str, Any]:
    found = server.state()["topics"]
    assert isinstance(found, dict)
    return found


def memory(server: Server) -> int:
    """What the process uses of the machine's memory, in bytes."""
    assert server.process is not None
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS:"))


def rows_at_end(server: Server) -> int:
    """How many rows of services its data has; it is ended for that."""
    assert server.terminate() == 0
    with closing(sqlite3.connect(server.data_dir / ARCHIVE_NAME)) as connection:
        [count] = connection.execute("SELECT count(*) FROM data").fetchone()
        return int(count)


def fill(server: Server, topic: str) -> str:
    """Put into a topic until it takes no more; what is said then."""
    with pytest.raises(distkv.Backlog) as refused:
        put(server, topic, 2 * BACKLOG_BYTES // len(VALUE))
    return str(refused.value)


# -- subscribers --------------------------------------------------------------------------------------------------


def test_subscriber_that_never_comes_costs_the_limit_and_is_named(solo: Server) -> None:
    subscribe(solo, "t")
    subscribe(solo, "other")
    said = fill(solo, "t")
    assert "its subscriber 's' has left" in said
    assert "topic drop TOPIC --subscriber NAME" in said
    found = shown(solo, "t")
    assert found["bytes"] <= BACKLOG_BYTES
    assert [(one["subscriber"], one["left"]) for one in found["subscribers"]] == [("s", found["messages"])]
    put(solo, "other", 10)
    assert len(get(solo, "other", 100)) == 10


def test_topic_takes_messages_again_when_the_subscriber_that_never_comes_is_dropped(solo: Server) -> None:
    subscribe(solo, "t")
    fill(solo, "t")
    assert solo.run("topic", "drop", "t", "--subscriber", "s").code == 0
    put(solo, "t", 10)
    wait_until(lambda: shown(solo, "t")["messages"] == 0, "nobody is owed anything", 30, solo.dump)
    assert rows_at_end(solo) < FEW_ROWS


def test_subscriber_that_says_of_nothing_that_it_is_done_costs_the_limit(solo: Server) -> None:
    subscribe(solo, "t")
    put(solo, "t", 20)
    first = get(solo, "t", 20)
    before = memory(solo)
    for _ in range(size(50, 2000)):
        assert get(solo, "t", 20) == first
    assert memory(solo) - before < GROWTH_MAX
    assert "its subscriber 's' has left" in fill(solo, "t")
    put(solo, "other", 10)
    messages = get(solo, "t", 1000)
    assert get(solo, "t", 1, done=messages) == []
    put(solo, "t", 10)


def test_subscribers_beyond_the_limit_are_refused_and_told_what_to_do(solo: Server) -> None:
    for number in range(SUBSCRIBERS):
        subscribe(solo, "t", f"s{number}")
    ran = solo.run("topic", "subscribe", "t", "--id", "more")
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "limits.topic_subscribers" in ran.err
    assert "topic drop TOPIC --subscriber NAME" in ran.err
    assert solo.run("topic", "drop", "t", "--subscriber", "s0").code == 0
    assert solo.run("topic", "subscribe", "t", "--id", "more").code == 0


# -- producers ----------------------------------------------------------------------------------------------------


def test_puts_without_a_producer_leave_nothing_behind(solo: Server) -> None:
    put(solo, "t", 100)
    before = memory(solo)
    put(solo, "t", size(2_000, 100_000))
    wait_until(lambda: shown(solo, "t")["messages"] == 0, "nobody is owed anything", 30, solo.dump)
    assert shown(solo, "t")["producers"] == 1
    assert memory(solo) - before < GROWTH_MAX
    assert rows_at_end(solo) < FEW_ROWS


def test_producers_beyond_the_limit_are_refused_and_told_what_to_do(solo: Server) -> None:
    with pytest.raises(distkv.TooLarge, match=r"limits\.topic_producers.*topic drop TOPIC --producer NAME"):
        ask(solo, [TopicPut(n, "t", VALUE, f"p{n}", 1) for n in range(1, size(2 * PRODUCERS, 100_000))])
    assert shown(solo, "t")["producers"] == PRODUCERS
    put(solo, "t", 1)  # the producer of a node counts for nothing there
    put(solo, "other", 1)
    assert solo.run("topic", "drop", "t", "--producer", "p1").code == 0
    ask(solo, [TopicPut(1, "t", VALUE, "more", 1)])


# -- topics -------------------------------------------------------------------------------------------------------


def test_topic_that_is_made_and_dropped_again_and_again_leaves_nothing_behind(solo: Server) -> None:
    """Under one name, and under a new name each time."""
    subscribe(solo, "other")
    put(solo, "other", 10)
    before, entries = memory(solo), int(str(solo.state()["entries"]))
    for number in range(size(150, 10_000)):
        name = "t" if number % 2 else f"t{number}"
        ask(solo, [TopicSubscribe(1, name, "s"), TopicPut(2, name, VALUE), TopicDrop(3, name)])
    wait_until(lambda: solo.state()["entries"] == entries, "no entry says what was dropped", 30, solo.dump)
    assert (in_state(solo)["topics"], in_state(solo)["messages"]) == (1, 10)
    assert memory(solo) - before < GROWTH_MAX
    assert len(get(solo, "other", 100)) == 10
    assert rows_at_end(solo) < 10 + FEW_ROWS


def test_topics_beyond_the_limit_are_refused_and_told_what_to_do(solo: Server) -> None:
    for number in range(TOPICS):
        put(solo, f"t{number}", 1)
    ran = solo.run("topic", "put", "more", "hello")
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "limits.topics" in ran.err
    assert "topic drop TOPIC" in ran.err
    put(solo, "t1", 1)
    assert in_state(solo)["topics"] == TOPICS
    assert solo.run("topic", "drop", "t0").code == 0
    assert solo.run("topic", "put", "more", "hello").code == 0


# -- disks -------------------------------------------------------------------------------------------------------


def test_node_that_is_full_takes_what_lets_messages_go(servers: Servers) -> None:
    solo = servers.add("solo")
    solo.start(*ALONE, "--init", "x", options=("-C", f"limits.data_bytes={DATA_BYTES}")).wait_ready()
    subscribe(solo, "t")
    subscribe(solo, "other")
    with pytest.raises(distkv.NoSpace, match=r"limits\.data_bytes"):
        put(solo, "t", 2 * DATA_BYTES // len(VALUE))
    take_all(solo, "t")
    assert solo.run("topic", "unsubscribe", "other", "--id", "s").code == 0
    wait_until(lambda: shown(solo, "t")["messages"] == 0, "what is done goes", 30, solo.dump)
    put(solo, "t", 100)


def set_forever(server: Server, size: int) -> None:
    """New entries, until one is refused."""
    with server.client() as client:
        for number in count():
            client.set(f"full.n{size}-{number}", "x" * size)


def test_put_that_an_owner_has_no_room_for_is_refused_at_once_through_any_node(tmp_path: Path) -> None:
    with ExitStack() as stack:
        ballast = list[Path]()

        def narrow(server: Server) -> None:
            """Its disk has room for two segments of the log, beside what somebody else keeps there."""
            server.data_dir.mkdir()
            disk = stack.enter_context(small_file_system(server.data_dir, DISK_MIB))
            ballast.append(disk.seen_from_here / "ballast")
            ballast[0].write_bytes(bytes(DISK_MIB - 48 << 20))
            server.program = (*disk.entering, *server.program)

        cluster = stack.enter_context(open_cluster(tmp_path / "cluster", extra=LEASE, prepare={"a": narrow}))
        first, other, _ = cluster
        subscribe(first, "t")
        assert copied(cluster, "t")["owner"] == "a"
        for size in (200_000, 500):
            with pytest.raises(distkv.NoSpace):
                set_forever(first, size)
        for size in (100, 100_000):  # a long one goes in parts
            with pytest.raises(distkv.NoSpace, match="disk is full"):
                ask(other, [TopicPut(1, "t", pack_value("x" * size))])
        ballast[0].unlink()

        def is_taken() -> bool:
            put(other, "t", 1)
            return True

        cluster.wait(is_taken, "there is room again", 30)


# -- followers ----------------------------------------------------------------------------------------------------


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Three nodes; each topic is on two of them."""
    with open_cluster(tmp_path / "cluster", extra=LEASE) as found:
        yield found


def shrink(server: Server) -> None:
    """Its services keep less than what is put."""
    file = Path(server.environment["DISTKV_CONFIG"])
    file.write_text(f"{file.read_text()}limits: {{data_bytes: {DATA_BYTES // 8}}}\n")


def copied(cluster: Cluster, topic: str) -> Mapping[str, Any]:
    """What is shown of a topic that is on two nodes."""
    first, *_ = cluster

    def is_copied() -> Mapping[str, Any]:
        found = shown(first, topic)
        return found if found["copies"] == 2 else {}

    return cluster.wait(is_copied, "two nodes have it", 30)


def test_follower_that_stands_still_holds_up_no_put_and_costs_the_limit(cluster: Cluster) -> None:
    first, *_ = cluster
    subscribe(first, "t")
    place = copied(cluster, "t")
    [follower], owner = place["followers"], cluster[place["owner"]]
    cluster[follower].send_signal(signal.SIGSTOP)
    before = memory(owner)
    for number in range(size(500, 20_000) // DEPTH):
        put(owner, "t", DEPTH)
        put(owner, f"other{number % 2}", 10)
        take_all(owner, "t")
    assert memory(owner) - before < GROWTH_MAX
    assert follower not in copied(cluster, "t")["followers"]

    def waits() -> bool:
        put(owner, "t", 1)
        take_all(owner, "t")
        return shown(owner, "t")["waits_for"] == [follower] and in_state(owner)["bytes"] <= 2 * AWAY_BYTES

    cluster.wait(waits, "little is kept for it", 30, pause_s=0.5)
    assert in_state(owner)["waits_for"] == [follower]
    doctor = ("doctor", owner.name, "--data-dir", str(owner.data_dir), "--bind", owner.address)
    ran = cluster.servers.run(*doctor, DISTKV_CONFIG=owner.environment["DISTKV_CONFIG"])
    assert f"messages are kept until these nodes are heard again: {follower}" in ran.text
    cluster[follower].send_signal(signal.SIGCONT)
    cluster.wait(lambda: shown(owner, "t")["messages"] == 0, "nothing is kept for it any more", 60)
    assert shown(owner, "t")["waits_for"] == []


def test_follower_that_is_full_holds_up_no_put_and_goes_on(tmp_path: Path) -> None:
    puts = DATA_BYTES // 4 // len(VALUE)
    with open_cluster(tmp_path / "cluster", extra=LEASE, prepare={"b": shrink}) as cluster:
        first, *_ = cluster
        names = [f"t{number}" for number in range(4)]
        for name in names:
            subscribe(first, name)
        owned = [name for name in names if copied(cluster, name)["owner"] != "b"]
        assert owned
        for name in owned:
            put(first, name, puts)
            found = copied(cluster, name)
            assert "b" not in found["followers"]
            assert found["messages"] == puts
        assert in_state(cluster["b"]), "its service goes on"
