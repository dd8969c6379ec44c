"""What a node held at a moment, to compare with what is made of its events later; and event tables of nodes.

Knows: how a node is asked, and archived.  Does not know what is compared.
"""

from __future__ import annotations

import random
from pathlib import Path as FilePath

import attrs
from pyspark.sql import SparkSession

from distkv.client.addresses import read_address
from distkv.client.blocking import Client
from distkv.client.changes import as_ticks
from distkv.model.path import ROOT, Path
from distkv.model.tick_ranges import TickRanges
from distkv.spark.archive import Wishes, archive_once
from distkv.wire.values import pack_value
from tests.process.servers import Server

NAMES = ("k", "two words", "a.b", 7, 1.5, True, None, b"\xff", "ü", "")
VALUES = ({"v": 1}, [1, b"\x01", float("inf")], "text", -0.0, 2**64 - 1, {"$bytes": "no"}, {1: [None, True]})


@attrs.frozen
class Moment:
    """A node at rest."""

    held: TickRanges
    digest: str
    conflicts: int
    tree: list[tuple[Path, bytes]]
    """As `get_tree` gave it, the values packed."""


def moment(client: Client, path: Path = ROOT) -> Moment:
    """What the node holds now; nobody writes meanwhile."""
    state = client.state()
    tree = [(place, pack_value(entry.value)) for place, entry in client.get_tree(path)]
    return Moment(as_ticks("held", state["held"]), str(state["digest"]), len(client.conflicts()), tree)


def archived(spark: SparkSession, server: Server, directory: FilePath, path: Path = ROOT) -> str:
    """The folder of an event table that has all that a node holds."""
    archive_once(spark, str(directory), Wishes((read_address(server.address),), path))
    return str(directory)


def write_some(client: Client, seed: int, count: int) -> None:
    """Sets and deletes of paths of every kind of name."""
    chance = random.Random(seed)
    for _ in range(count):
        path = Path(["t", chance.choice(NAMES), chance.choice(NAMES)][: chance.randrange(1, 4)])
        if chance.random() < 0.3:
            client.delete(path)
        else:
            client.set(path, chance.choice(VALUES), ttl=chance.choice([None, None, 1e6]))
