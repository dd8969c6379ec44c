"""Kill the job `archive` again and again while a fleet is written to, and see that nothing is lost or there twice.

    python -m tests.spark.kills --count 10 --seed 1

Knows: what each moment after a kill must look like.  Does not know how a job is killed (`jobs`), nor how a commit
becomes whole.

Invariant: whatever was started has ended when `hunt` returns, by its pid or its process group.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from distkv.client.questions import Delete, Set
from distkv.errors import DistkvError
from tests.process.cluster import Cluster, open_cluster
from tests.process.servers import Server, wait_until
from tests.spark.exact import root_of
from tests.spark.jobs import end_of, kill, start_job
from tests.spark.tables import check_whole, manifest, ticks_in

EARLY_S: Final = 12.0
"""A kill within so long meets the start of Spark, or the first commit, which has most to do."""
LATE_S: Final = 3.0
"""A kill so long after a commit was seen meets another one, or the pause between two."""


@attrs.define
class Writing:
    """A client that writes some hundred changes a second to one node, until it is told to end."""

    server: Server
    acknowledged: set[tuple[str, int]] = attrs.field(factory=set)
    failure: BaseException | None = None
    _is_over: threading.Event = attrs.field(factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        chance, count = random.Random(self.server.name), 0
        try:
            with self.server.client() as client:
                while not self._is_over.wait(0.1):
                    paths = chance.sample(range(60), 20)
                    value = {"n": count, "by": self.server.name}
                    for done in client.batch([Set(f"{chance.choice('ab')}.k{path}", value) for path in paths]):
                        if done.link is not None:
                            self.acknowledged.add((done.link[0], done.link[1]))
                    (gone,) = client.batch([Delete(f"a.k{chance.randrange(60)}")])
                    if gone.changed and gone.link is not None:
                        self.acknowledged.add((gone.link[0], gone.link[1]))
                    count += 1
        except DistkvError as error:
            self.failure = error


def hunt(folder: Path, count: int, seed: int, environment: Mapping[str, str] | None = None) -> str:
    """So many kills; what it came to, in a line. Raises AssertionError when something is not as it must be.
    `environment`: what jobs that are not killed have besides."""
    chance, table = random.Random(seed), folder / "table"
    with open_cluster(folder / "cluster", links="follow: false") as cluster:
        writers = [Writing(server) for server in cluster]
        for writer in writers:
            writer.start()
        commits = []
        try:
            for _ in range(count):
                _kill_some_time(_job(cluster, table, "--every", "1"), table, chance)
                check_whole(table)
                commits.append(_commit_of(table))
        finally:
            for writer in writers:
                writer.end()
        acknowledged = set().union(*(writer.acknowledged for writer in writers))
        cluster.wait_equal(60)
        first = _once(cluster, table, environment)
        check_whole(table)
        there = ticks_in(table)
        own = {(node, tick) for node, tick in there if (node, tick) not in acknowledged}
        assert acknowledged <= set(there), f"{len(acknowledged - set(there))} acknowledged events are not in the table"
        assert own <= root_of(next(iter(cluster))), f"rows that nobody wrote: {sorted(own)[:5]}"
        assert manifest(table)["gaps"] == {}
        again = _once(cluster, table, environment)
        assert (again["events"], again["commit"]) == (0, first["commit"])
        return f"{count} kills, {len(acknowledged)} writes answered, commits after each kill: {commits}"


def _job(
    cluster: Cluster, table: Path, *options: str, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    addresses = [server.address for server in cluster]
    return start_job(addresses, "archive", "--to", str(table), "-o", "json", *options, environment=environment)


def _commit_of(table: Path) -> object:
    return manifest(table)["commit"] if (table / "manifest.json").exists() else 0


def _kill_some_time(job: subprocess.Popen[bytes], table: Path, chance: random.Random) -> None:
    """Of four kills one comes early, the others when a commit was made."""
    before, seconds = _commit_of(table), chance.uniform(0, LATE_S)
    try:
        if chance.random() < 0.25:
            seconds = chance.uniform(0, EARLY_S)
        else:
            wait_until(lambda: _commit_of(table) != before or job.poll() is not None, "a commit")
        job.wait(seconds)
        raise AssertionError(f"the job ended by itself: {job.communicate()}")
    except subprocess.TimeoutExpired:
        pass
    finally:
        kill(job)


def _once(cluster: Cluster, table: Path, environment: Mapping[str, str] | None) -> dict[str, object]:
    return end_of(_job(cluster, table, "--once", environment=environment)).result


def main() -> None:
    """By hand."""
    parser = argparse.ArgumentParser(description="Kill archive jobs, and look at the table.")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        line = hunt(Path(folder), told.count, told.seed)
        sys.stdout.write(f"{line}; {time.monotonic() - begun:.0f} s\n")


if __name__ == "__main__":
    main()
