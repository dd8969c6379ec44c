"""Mutants of the rows of data that services keep."""

from __future__ import annotations

from tests.mutants.broken import broken

_DATA = "tests/unit/core/test_data.py"
_SERVICES = "tests/unit/core/test_services.py"
_ARCHIVE = "tests/unit/storage/test_archive_data.py"
_NODE = "tests/node/test_data_rows.py"

DATA_ROWS = (
    broken(
        "data-gone-with-a-download",
        "rows of data stay when the node starts anew",
        "core/update.py",
        "        self.kept.reset()\n",
        "        self.kept.reset()\n        self.data.__init__()\n",
        _DATA,
    ),
    broken(
        "old-disk-untold",
        "a service is told that the disk is an old one",
        "core/ground/services.py",
        "[*self._slots.void(), *self._footing.data.mark_old()]",
        "self._slots.void()",
        _SERVICES,
    ),
    broken(
        "doubt-for-ever",
        "what is made good is in doubt no more",
        "core/ground/data.py",
        "DataRecord(machine, mark, None) for mark in self.of(machine).marks]",
        "DataRecord(machine, mark, b\"\") for mark in self.of(machine).marks]",
        _DATA,
    ),
    broken(
        "replayed-row-still-lost",
        "what the log has came after what was lost",
        "core/ground/data.py",
        "        if rows.marks and not record.key.startswith(MARK):\n",
        "        if False:\n",
        _DATA,
    ),
    broken(
        "no-bound-of-data",
        "all rows together have a bound",
        "core/ground/data.py",
        "    if row_size(key, value) > room:\n",
        "    if False:\n",
        _DATA,
    ),
    broken(
        "bound-of-one-row",
        "a bound counts what the same step keeps",
        "core/ground/turn.py",
        "            self.data_bytes = size\n",
        "            pass\n",
        _DATA,
    ),
    broken(
        "row-on-a-full-disk",
        "a row for which the disk has no room is refused",
        "core/ground/turn.py",
        "            self.data.check_room(size)\n",
        "",
        _NODE,
    ),
    broken(
        "rows-in-no-order",
        "rows are read in the order of their keys",
        "model/sorted_keys.py",
        "            insort(piece, key)\n",
        "            piece.append(key)\n",
        "tests/unit/model/test_sorted_keys.py",
    ),
    broken(
        "all-rows-of-one",
        "a damaged row takes no other one",
        "storage/archive_data.py",
        "            if machine in self._nameless or not is_whole:\n",
        "            if self.damaged:\n",
        _ARCHIVE,
    ),
    broken(
        "old-page-unnoticed",
        "rows that are missing, or older than they were, are told",
        "storage/archive_data.py",
        "            if machine in self._nameless or not is_whole:\n",
        "            if machine in self._nameless:\n",
        _ARCHIVE,
    ),
    broken(
        "wrong-key-believed",
        "the key of a damaged row is named only if it is right",
        "storage/archive_data.py",
        "key if _is_intact_key(machine, key, key_checked) else None, due",
        "key, due",
        _ARCHIVE,
    ),
    broken(
        "sum-of-removed-rows",
        "a sum is that of the rows that are there",
        "storage/archive_data.py",
        "sums[machine] = sums.get(machine, 0) - total",
        "sums[machine] = sums.get(machine, 0)",
        _ARCHIVE,
    ),
    broken(
        "nothing-behind-a-page",
        "rows behind a page that cannot be read are found",
        "storage/archive_data.py",
        "connection.execute(_BACKWARDS)",
        "connection.execute(_ROWS)",
        _ARCHIVE,
    ),
    broken(
        "copy-without-data",
        "a backup has the rows",
        "storage/archive_copy.py",
        'target.execute("DELETE FROM slots")\n',
        'target.execute("DELETE FROM slots"), target.execute("DELETE FROM data")\n',
        _ARCHIVE,
    ),
    broken(
        "scrub-passes-data-over",
        "the check of the disk looks at rows of data",
        "storage/archive_scrub.py",
        "        yield from _readable(DATA, _look_at_data(connection))\n",
        "",
        _ARCHIVE,
    ),
    broken(
        "lost-row-untold",
        "a service is told which rows are lost",
        "daemon/directory.py",
        "        state.data.lose(archive.lost_data)\n",
        "",
        _NODE,
    ),
    broken(
        "lost-row-told-once",
        "a service is told so at each start until it has made that good",
        "core/ground/data.py",
        "        yield from self._marks.items()\n",
        "",
        _NODE,
    ),
    broken(
        "lost-row-shown-for-ever",
        "what is made good is not shown as lost",
        "engine/settler.py",
        "            return damage not in {data_damage(machine, key) for machine, key in lost}\n",
        "            return not lost\n",
        _NODE,
    ),
)
