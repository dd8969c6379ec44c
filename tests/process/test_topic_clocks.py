"""The clocks of a node that keeps topics jump: each message comes once, in its order.

Knows: how a clock of one process is set.  Does not know what a node does by its clocks.

A jump of the clock of the time since the start is what a machine shows that slept.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.process.cluster import Cluster, open_cluster
from tests.process.servers import Server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: apt-get install gcc libc6-dev"),
]

SOURCE = Path(__file__).parent / "stand_ins" / "clocks.c"
SETTINGS = "topics: {lease: 1}\n"
PUTS = 10
END_S = 30.0
DAY_S = 86_400


def jump(server: Server, clock: Literal["wall", "boot"], seconds: int) -> None:
    """From where it is now."""
    with (server.directory / "jumps").open("r+b") as file:
        wall, boot = struct.unpack("dd", file.read())
        file.seek(0)
        file.write(struct.pack("dd", wall + seconds * (clock == "wall"), boot + seconds * (clock == "boot")))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("clocks")
    library = directory / "clocks.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)

    def set_up(server: Server) -> None:
        file = server.directory / "jumps"
        file.write_bytes(struct.pack("dd", 0, 0))
        server.environment = {**server.environment, "LD_PRELOAD": str(library), "JUMPS": str(file)}

    with open_cluster(directory / "cluster", extra=SETTINGS, prepare=dict.fromkeys("abc", set_up)) as found:
        yield found


@pytest.mark.parametrize("which", ["owner", "follower"])
@pytest.mark.parametrize(("clock", "seconds"), [("wall", 400 * DAY_S), ("wall", -DAY_S), ("boot", 60)])
def test_each_message_comes_once_when_a_clock_jumps(
    cluster: Cluster, which: str, clock: Literal["wall", "boot"], seconds: int
) -> None:
    topic, got = f"{which}.{clock}.{seconds}", list[object]()
    with (
        cluster["a"].client(reply_s=60) as client,
        client.consumer(topic, id="s") as consumer,
        client.producer("p") as producer,
    ):
        consumer.subscribe()

        def shown() -> Mapping[str, Any]:
            return client.request("topic_show", {"topic": topic})

        def take(count: int) -> bool:
            while (message := consumer.receive(wait_s=0.5)) is not None:
                with consumer.done(message):
                    got.append(message.value)
            return len(got) >= count

        cluster.wait(lambda: shown()["copies"] == 2, "it is copied", END_S)
        server = cluster[shown()["owner"] if which == "owner" else shown()["followers"][0]]
        for number in range(1, PUTS + 1):
            producer.put(topic, number)
        take(PUTS)
        jump(server, clock, seconds)
        for number in range(PUTS + 1, 2 * PUTS + 1):
            producer.put(topic, number)
        cluster.wait(lambda: take(2 * PUTS), "all that was put came", END_S)
    assert got == [*range(1, 2 * PUTS + 1)]
