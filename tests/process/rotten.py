"""Rows of a server's archive that rot.

Knows: how the checksum of a row becomes wrong.  Does not know what a server makes of it.

Invariant: one row rots, no more and no less.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing

from distkv.storage.archive import ARCHIVE_NAME, open_archive
from tests.process.servers import Server


def rot(server: Server, table: str, name: str, where: str = "1") -> None:
    """Let the checksum be wrong of the one row of a table that has this name in its path."""
    with closing(sqlite3.connect(server.data_dir / ARCHIVE_NAME)) as connection:
        changed = connection.execute(
            f"UPDATE {table} SET checked = checked + 1 WHERE instr(path, CAST('{name}' AS BLOB)) AND {where}"
        )
        assert changed.rowcount == 1
        connection.commit()


def rot_the_path(server: Server, name: str) -> None:
    """The same of a value of a server that stands, and nothing tells what its path was: of the past one row is left."""
    with closing(open_archive(str(server.data_dir / ARCHIVE_NAME))) as archive:
        archive.prune_history(keep=1)
    with closing(sqlite3.connect(server.data_dir / ARCHIVE_NAME)) as connection:
        changed = connection.execute("UPDATE state SET path = x'c1' WHERE instr(path, CAST(? AS BLOB))", (name,))
        assert changed.rowcount == 1
        connection.commit()


def lose(server: Server, *names: str) -> None:
    """A server alone is started anew, and lacks the values that have these names in their paths."""
    assert server.terminate() == 0
    for name in names:
        rot(server, "state", name)
    server.start("--transport", "solo").wait_ready()
