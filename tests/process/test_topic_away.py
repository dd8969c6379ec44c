"""Topics while one of three nodes is away: what is kept for it and its subscribers, how much, and until when.

Knows: the Python API, what `topic show` says, and the rows on a disk.  Does not know how a node learns what it missed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

import distkv
from distkv.model.ranges import Ranges
from distkv.storage.archive import ARCHIVE_NAME
from tests.process.cluster import Cluster, open_cluster
from tests.process.servers import Server

pytestmark = pytest.mark.slow

AWAY_BYTES = 32 << 10
SETTINGS = f"topics: {{lease: 0.5, away_bytes: {AWAY_BYTES}}}\n"
COUNT = 200
"""So many messages are several times what may be kept for a node that is away."""
MESSAGE_BYTES = 512 + 400
END_S = 30.0
FEW_ROWS = 40


@attrs.define
class Place:
    """A topic, and what was put and got."""

    cluster: Cluster
    directory: Path
    at: str = "a"
    """Who is asked: the owner."""
    third: str = ""
    """Who has no copy."""
    put_last: int = 0
    gone: list[Mapping[str, Ranges]] = attrs.field(factory=list)

    def put(self, count: int) -> None:
        with self.cluster[self.at].client() as client, client.producer("p", state=self.directory / "p") as producer:
            for _ in range(count):
                self.put_last += 1
                producer.put("work", f"{self.put_last:0400}")

    @contextmanager
    def consumer(self, id: str, at: str) -> Iterator[distkv.Consumer]:
        with (
            self.cluster[at].client(reply_s=60) as client,
            client.consumer("work", id=id, state=self.directory / id, when_gone=self.gone.append) as consumer,
        ):
            yield consumer

    def subscribe(self, id: str, at: str) -> None:
        with self.consumer(id, at) as consumer:
            consumer.subscribe()

    def take(self, id: str, wanted: Collection[int]) -> list[int]:
        """All that comes, until what is wanted came or was said to be gone, and a while longer."""
        got = list[int]()

        def came(consumer: distkv.Consumer) -> bool:
            while (message := consumer.receive(wait_s=1)) is not None:
                with consumer.done(message):
                    got.append(int(str(message.value)))
            return set(wanted) <= {*got, *self.told_gone()}

        with self.consumer(id, self.at) as consumer:
            self.cluster.wait(lambda: came(consumer), "what is owed came", END_S)
        return got

    def told_gone(self) -> set[int]:
        """The producer is one, so its counters are the numbers of the messages."""
        return {number for gone in self.gone for ranges in gone.values() for number in ranges}

    def shown(self) -> Any:
        with self.cluster[self.at].client() as client:
            return client.request("topic_show", {"topic": "work"})

    def wait_little_kept(self) -> None:
        """As much as may be for a node that is away, and it is named."""

        def is_little() -> bool:
            found = self.shown()
            return bool(found["waits_for"] == [self.third] and found["bytes"] <= AWAY_BYTES + MESSAGE_BYTES)

        self.cluster.wait(is_little, "little is kept for it", END_S)
        assert self.shown()["messages"] > 0

    def wait_nothing_kept(self) -> None:
        self.cluster.wait(lambda: self.shown()["messages"] == 0, "nothing is kept any more", END_S)
        self.cluster.wait(lambda: self.shown()["waits_for"] == [], "nobody is waited for", END_S)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with open_cluster(tmp_path / "cluster", extra=SETTINGS) as cluster:
        place = Place(cluster, tmp_path)
        place.subscribe("s", "a")
        cluster.wait(lambda: place.shown()["copies"] == 2, "two nodes have a copy", END_S)
        found = place.shown()
        place.at = found["owner"]
        [place.third] = {server.name for server in cluster} - {place.at, *found["followers"]}
        yield place


def rows(server: Server) -> int:
    """How many rows of services it has on its disk; it is ended for that."""
    assert server.terminate() == 0
    with closing(sqlite3.connect(server.data_dir / ARCHIVE_NAME)) as connection:
        [count] = connection.execute("SELECT count(*) FROM data").fetchone()
        return int(count)


def test_what_a_subscriber_is_owed_is_kept_while_a_node_is_away_and_the_rest_goes_when_it_is_retired(
    place: Place,
) -> None:
    others = place.cluster.others(place.third)
    place.cluster[place.third].kill()
    place.put(COUNT)
    assert place.shown()["messages"] == COUNT
    assert place.take("s", range(1, COUNT + 1)) == [*range(1, COUNT + 1)]
    place.wait_little_kept()
    assert place.cluster[place.at].run("node", "retire", place.third, "--force").code == 0
    place.wait_nothing_kept()
    assert place.gone == []
    assert [rows(server) < FEW_ROWS for server in others] == [True, True]


def test_who_subscribed_at_a_node_that_was_away_is_told_what_was_not_kept(place: Place) -> None:
    cluster, holders = place.cluster, place.cluster.others(place.third)
    for server in holders:
        server.kill()
    place.subscribe("late", place.third)
    cluster[place.third].kill()
    cluster.start(*(server.name for server in holders))
    place.put(COUNT)
    place.take("s", range(1, COUNT + 1))
    place.wait_little_kept()
    cluster.start(place.third)
    got = place.take("late", range(1, COUNT + 1))
    assert 0 < len(got) <= AWAY_BYTES // MESSAGE_BYTES + 1
    assert got == [*range(COUNT - len(got) + 1, COUNT + 1)]
    assert sorted([*got, *place.told_gone()]) == [*range(1, COUNT + 1)]
    place.wait_nothing_kept()
