"""Topics on three nodes of which one loses its disk, gets an old one, is retired, or has a damaged row.

Knows: what happens to a disk, and what a client with a state and `distkv doctor` see.  Does not know how copies become
equal.

All but those that retire a node share one network: each drops its topic in the end, and leaves all three nodes well.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import attrs
import pytest

import distkv
from distkv.storage.archive import ARCHIVE_NAME
from tests.process.cluster import Cluster, open_cluster
from tests.process.disks import copy_disk, discard
from tests.process.servers import Server, wait_until

pytestmark = pytest.mark.slow

SETTINGS = "topics: {lease: 1}\n"
END_S = 30.0
REPLY_S = 60.0


@attrs.define
class Work:
    """A topic with a producer and a subscriber, each with a state of its own, who ask `at`."""

    cluster: Cluster
    directory: Path
    at: str
    answered: list[int] = attrs.field(factory=list)
    got: list[int] = attrs.field(factory=list)
    gone: list[object] = attrs.field(factory=list)

    def put(self, *numbers: int) -> None:
        state = self.directory / "producer"
        with self.server.client(reply_s=REPLY_S) as client, client.producer("p", state=state) as producer:
            for number in numbers:
                producer.put("work", number)
                self.answered.append(number)

    def subscribe(self) -> None:
        with self.consumer() as consumer:
            consumer.subscribe()

    def take(self) -> None:
        """Until it has all that was answered, and a while longer, so that one that comes twice is seen."""

        def came(consumer: distkv.Consumer) -> bool:
            while (message := consumer.receive(wait_s=1)) is not None:
                with consumer.done(message):
                    self.got.append(int(message.value))
            return set(self.answered) <= set(self.got)

        with self.consumer() as consumer:
            wait_until(lambda: came(consumer), "all that was put came", END_S, self.cluster.dump)

    @contextmanager
    def consumer(self) -> Iterator[distkv.Consumer]:
        state = self.directory / "consumer"
        with (
            self.server.client() as client,
            client.consumer("work", id="s", state=state, when_gone=self.gone.append) as consumer,
        ):
            yield consumer

    @property
    def server(self) -> Server:
        return self.cluster[self.at]

    def shown(self, name: str = "") -> Mapping[str, object]:
        with self.cluster[name or self.at].client() as client:
            return client.request("topic_show", {"topic": "work"})

    def wait_rest(self, *names: str) -> None:
        """Until these name one owner, with one digest; it has two copies, and waits for nobody."""

        def is_at_rest() -> bool:
            first, *others = [self.shown(name) for name in names]
            facts = ("owner", "followers", "digest")
            return (
                all(one[fact] == first[fact] for one in others for fact in facts)
                and first["copies"] == 2
                and first["waits_for"] == []
            )

        wait_until(is_at_rest, "one owner and equal copies", END_S, self.cluster.dump)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with open_cluster(tmp_path_factory.mktemp("disks"), extra=SETTINGS) as found:
        yield found


@contextmanager
def working(cluster: Cluster, directory: Path) -> Iterator[Work]:
    """A topic of which the subscriber had two messages, and is owed two."""
    work = Work(cluster, directory, "a")
    work.subscribe()
    work.put(1, 2)
    work.take()
    work.put(3, 4)
    work.wait_rest("a", "b", "c")
    holders = [str(work.shown()["owner"]), *map(str, work.shown()["followers"])]
    [work.at] = {"a", "b", "c"} - set(holders)
    yield work
    cluster.wait(lambda: dropped(work), "the topic is dropped", 30)


def dropped(work: Work) -> bool:
    """Drop it; whoever is not told whether that was done asks again."""
    try:
        with work.server.client() as client:
            client.request("topic_drop", {"topic": "work"})
    except distkv.NotFound:
        pass
    return True


def complaints(work: Work) -> list[str]:
    """What doctor says of topics that is not well."""
    server = work.server
    words = ["doctor", "-o", "json", server.name, "--data-dir", str(server.data_dir), "--bind", server.address]
    ran = work.cluster.servers.run(*words, DISTKV_CONFIG=server.environment["DISTKV_CONFIG"])
    found = json.loads(ran.text)
    return [one["says"] for one in found if one["check"] == "topics" and one["level"] != "ok"]


def assert_all_is_well(work: Work, *names: str) -> None:
    """Each message came once, and topics go on."""
    work.put(98, 99)
    work.take()
    assert sorted(work.got) == sorted(work.answered)
    assert work.gone == []
    work.wait_rest(*names)
    wait_until(lambda: not complaints(work), "doctor complains of no topic", END_S)
    with work.server.client() as client:
        assert client.conflicts(":n.service.topics") == ()


@pytest.mark.parametrize("which", ["owner", "follower"])
def test_topic_goes_on_when_a_disk_is_wiped(cluster: Cluster, tmp_path: Path, which: str) -> None:
    with working(cluster, tmp_path) as work:
        name = holder(work, which)
        work.cluster[name].kill()
        discard(work.cluster[name].data_dir)
        work.put(5, 6)
        work.cluster.start(name)
        assert_all_is_well(work, "a", "b", "c")


def holder(work: Work, which: str) -> str:
    shown = work.shown()
    return str(shown["owner"]) if which == "owner" else str(shown["followers"][0])


@pytest.mark.parametrize("which", ["owner", "follower"])
def test_topic_goes_on_with_an_old_disk(cluster: Cluster, tmp_path: Path, which: str) -> None:
    with working(cluster, tmp_path) as work:
        server = work.cluster[holder(work, which)]
        server.kill()
        old = copy_disk(server.data_dir, tmp_path / "old")
        work.cluster.start(server.name)
        work.put(5, 6)
        work.take()
        work.put(7)
        server.kill()
        discard(server.data_dir)
        shutil.copytree(old, server.data_dir)
        work.cluster.start(server.name)
        assert_all_is_well(work, "a", "b", "c")


@pytest.mark.parametrize("which", ["owner", "follower"])
def test_message_whose_row_is_damaged_comes_from_the_other_copy(
    cluster: Cluster, tmp_path: Path, which: str
) -> None:
    with working(cluster, tmp_path) as work:
        server = work.cluster[holder(work, which)]
        server.wait_settled()
        server.kill()
        with closing(sqlite3.connect(server.data_dir / ARCHIVE_NAME)) as connection:
            changed = connection.execute(
                "UPDATE data SET checked = checked + 1 WHERE (machine, key) = "
                "(SELECT machine, max(key) FROM data WHERE machine = 'topics' AND key LIKE 'm%')"
            )
            assert changed.rowcount == 1
            connection.commit()
        work.cluster.start(server.name)
        assert_all_is_well(work, "a", "b", "c")
        assert "row_damaged" in server.errors


@pytest.mark.parametrize("which", ["owner", "follower"])
def test_topic_goes_on_when_a_node_is_retired(tmp_path: Path, which: str) -> None:
    with open_cluster(tmp_path / "cluster", extra=SETTINGS) as cluster, working(cluster, tmp_path) as work:
        name = holder(work, which)
        cluster[name].kill()
        assert work.server.run("node", "retire", name, "--force").code == 0
        assert_all_is_well(work, *({"a", "b", "c"} - {name}))


def test_doctor_names_a_topic_while_its_copies_are_too_few(cluster: Cluster, tmp_path: Path) -> None:
    with working(cluster, tmp_path) as work:
        holders = {"a", "b", "c"} - {work.at}
        work.cluster[min(holders)].kill()
        work.wait_rest(work.at)  # the third node has a copy now
        work.cluster[max(holders)].kill()
        says = f"too few nodes have a copy of topics that {work.at} owns: work"
        wait_until(lambda: says in complaints(work), "doctor names it", END_S)
        work.cluster.start(*sorted(holders))
        assert_all_is_well(work, "a", "b", "c")
