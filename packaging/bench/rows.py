"""What rows of data of a service, and messages that wait, cost a node beside as many entries of the store: memory, and
the time of a start.

    PYTHONPATH=packaging python -m bench.rows --directory /var/tmp/rows

Knows: how an archive gets rows, and what topics keep.  Does not know any other service: a node holds the rows of one
that it does not have, too.

Invariant: the starts of the nodes alternate; each is one whose log has nothing that the archive has not.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Final, TypeAlias

import attrs

import distkv
from bench.figures import table
from bench.rounds import wait_rest
from bench.servers import Server
from bench.servers import distkv as distkv_server
from distkv.client.blocking import Client
from distkv.storage.archive import ARCHIVE_NAME, Settlement, open_archive
from distkv.wire.declared import pack
from distkv.wire.topic_rows import (
    TOPIC,
    MessageRow,
    ProducerRow,
    SubscriberRow,
    TopicRow,
    kept_key,
    message_key,
    producer_key,
    subscriber_key,
)
from distkv.wire.values import pack_value

VALUE: Final = b"v" * 100
BATCH: Final = 1000
AIM: Final = 1.2
ID: Final = "0" * 16
"""Of the topic."""
Rows: TypeAlias = dict[tuple[str, str], bytes | None]
"""By services and keys."""


@attrs.frozen
class Starts:
    """One node that was started again and again; medians."""

    name: str
    ready_s: float
    resident_bytes: int


def measure(directory: Path, rows: int, starts: int) -> list[Starts]:
    """An empty node, one with so many rows, one with so many messages, and one with so many entries.

    Raises:
        ServerError: one of them did not start.
    """
    nodes = {name: distkv_server(directory, name) for name in ("empty", "rows", "messages", "entries")}
    for node in nodes.values():
        node.start()
    _fill_entries(nodes["entries"], rows)
    for node in nodes.values():
        wait_rest([node])
        node.end(signal.SIGTERM)
    _fill_rows(nodes["rows"], {("bench", f"k{number:06d}"): VALUE for number in range(rows)})
    _fill_rows(nodes["messages"], _messages(rows))
    seconds: dict[str, list[float]] = {name: [] for name in nodes}
    sizes: dict[str, list[int]] = {name: [] for name in nodes}
    for _ in range(starts):
        for name, node in nodes.items():
            seconds[name].append(node.start())
            wait_rest([node])
            sizes[name].append(node.resident_bytes())
            node.end(signal.SIGTERM)
    return [Starts(name, median(seconds[name]), round(median(sizes[name]))) for name in nodes]


def starts_table(found: Sequence[Starts]) -> str:
    """One line for each node, and whether rows and messages cost as little as they are to."""
    lines = [[one.name, f"{one.ready_s:.2f}", f"{one.resident_bytes / 1e6:.1f}"] for one in found]
    empty, *others, entries = found
    ratios = []
    for one in others:
        memory = (one.resident_bytes - empty.resident_bytes) / (entries.resident_bytes - empty.resident_bytes)
        start = one.ready_s / entries.ready_s
        verdict = "met" if max(memory, start) <= AIM else "missed"
        aim = f"{one.name} to entries, <= {AIM}: memory above an empty node {memory:.2f}, start {start:.2f}"
        ratios.append(f"{aim}: {verdict}")
    return "\n".join([table(["node", "ready s", "MB"], lines), *ratios])


def _fill_entries(node: Server, count: int) -> None:
    with Client([("127.0.0.1", node.port)]) as client:
        for begin in range(0, count, BATCH):
            names = range(begin, min(begin + BATCH, count))
            client.batch([distkv.Set(f"entries.k{number:06d}", VALUE.decode()) for number in names])


def _messages(count: int) -> Rows:
    """Of one topic, with a subscriber that is owed all of them."""
    rows = {
        TOPIC: pack(TopicRow("bench", (ID,))),
        producer_key("p"): pack(ProducerRow((), 0)),
        subscriber_key("c"): pack(SubscriberRow(1, True)),
    }
    value = pack_value(VALUE.decode())
    rows |= {message_key("p", number): pack(MessageRow(value, 1.0, number)) for number in range(1, count + 1)}
    return {("topics", kept_key(ID, key)): row for key, row in rows.items()}


def _fill_rows(node: Server, rows: Rows) -> None:
    """Into the archive of a node that stands."""
    with closing(open_archive(str(node.directory / "data" / ARCHIVE_NAME))) as archive:
        archive.settle(Settlement(archive.settled_lsn, state_rows=archive.state_rows, data=rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--directory", type=Path, required=True, help="where the data goes: empty, or not there")
    parser.add_argument("--rows", type=int, default=100_000, help="of 100 bytes")
    parser.add_argument("--starts", type=int, default=5, help="of each node")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    sys.stdout.write(starts_table(measure(options.directory, options.rows, options.starts)) + "\n")


if __name__ == "__main__":
    main()
