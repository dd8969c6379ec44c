"""What a worker of the job `archive` does: read, and write files that may become part of an event table.

Knows: one task.  Does not know what is new, nor what is committed: a file counts when the driver says so.

Invariant: what a task tells is what it wrote (`spark.table.parts`), not what it was to read.
"""

from __future__ import annotations

import attrs

from distkv.client.addresses import Address
from distkv.errors import NoSpaceError, StorageFailedError
from distkv.model.path import Path
from distkv.spark.nodes.hosts import Hosts
from distkv.spark.nodes.planning import Read
from distkv.spark.nodes.reading import Reading
from distkv.spark.nodes.rows import ValueForm
from distkv.spark.table.folder import translated
from distkv.spark.table.parts import Part, PartWriter


@attrs.frozen
class Task:
    """What one worker reads and writes."""

    reads: tuple[Read, ...]
    folder: str
    """Where its files go, on a disk that driver and workers share."""
    addresses: tuple[Address, ...]
    path: Path


def write(task: Task) -> list[Part | NoSpaceError | StorageFailedError]:
    """Read, and write what came; or why it could not be written, since Spark would try that again, and hide it."""
    hosts, files = Hosts(task.addresses), PartWriter(task.folder)
    try:
        with translated(task.folder):
            for read in task.reads:
                reading = Reading(read, ValueForm.BOTH)
                for page in reading.pages(lambda addr, ticks: hosts.pages(addr, ticks, task.path)):
                    files.add(page.batch, {read.node: page.ticks})
            return [*files.finish()]
    except (NoSpaceError, StorageFailedError) as error:
        return [error]
