#!/usr/bin/env python3
"""Break one rule of engine, storage or services at a time and see that a test of the shell notices it.

Run `python -m tests.mutants.shell [NAME...]`; it prints what killed each mutant.

Knows: for each rule the few words of source that carry it, what they become without it, and which tests are there to
notice.  The core's rules have lists of their own (`run.py`, `simulated.py`).

Invariant: as that of `run.py`: killed is what makes a test fail in a changed copy; all else that goes wrong is an
error.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.run import Mutant, MutantError, change, clean_environment, copy_of_package

TIMEOUT_S = 1800


@dataclass(frozen=True)
class Broken:
    """A mutant, and the tests that notice it."""

    mutant: Mutant
    tests: tuple[str, ...]
    """Files, or files and tests as pytest names them."""


def _of(name: str, rule: str, file: str, old: str, new: str, *tests: str) -> Broken:
    return Broken(Mutant(name, rule, file, old, new), tests)


OVERLAP = (
    "tests/property/test_crash_commits.py::test_nothing_leaves_before_its_own_commit_while_others_are_under_way"
)

BROKEN = (
    # -- commits that overlap
    _of(
        "outbox-appended",
        "a message leaves when what was decided before it is durable",
        "engine/driver.py",
        "self._outbox[0][0] <= self.committer.durable:",
        "self._outbox[0][0] <= self.committer.appended:",
        OVERLAP,
    ),
    _of(
        "mark-of-the-next",
        "the mark of a commit is that of its own last record",
        "engine/commit.py",
        "        self._land(batch, mark)\n\n    def _append",
        "        self._land(batch, self._mark)\n\n    def _append",
        OVERLAP,
    ),
    _of(
        "mark-at-begin",
        "the mark moves when a commit ends",
        "engine/commit.py",
        "        self._flying = batch\n        return batch, self._mark",
        "        self._flying = batch\n        self.durable_mark = self._mark\n        return batch, self._mark",
        OVERLAP,
    ),
    _of(
        "ask-early",
        "an ask leaves when what it shows is durable",
        "engine/driver.py",
        "        await self.committer.wait_durable(self.position)  # our tick maps may show more than when the ask was"
        " decided\n",
        "",
        OVERLAP,
    ),
    _of(
        "token-early",
        "a watch's first token names durable records",
        "services/telling.py",
        "        yield Durable(self._begin)  # until then, its token could name records that a crash takes back\n",
        "",
        OVERLAP,
    ),
    _of(
        "reply-early",
        "a reply leaves when what it shows is durable",
        "services/sender.py",
        "        if self._committer.durable < self.position:\n"
        "            await self._committer.wait_durable(self.position, self)\n",
        "",
        "tests/shell/test_session_durability.py",
    ),
    _of(
        "reply-of-the-last",
        "replies that leave together wait for the latest of them",
        "services/sender.py",
        "        if position > self.position:\n            self.position = position\n",
        "        self.position = position\n",
        "tests/shell/test_session_durability.py",
    ),
    _of(
        "part-early",
        "a part of a long answer leaves when what it shows is durable",
        "services/sender.py",
        "        await committer.wait_durable(committer.appended, self)\n        async with",
        "        async with",
        "tests/shell/test_session_durability.py",
    ),
    _of(
        "greeting-early",
        "the greeting leaves when the tick in it is durable",
        "services/session.py",
        "        await self._driver.committer.wait_durable(self._driver.position, self)\n",
        "",
        "tests/shell/test_engine_order.py",
    ),
    _of(
        "pump-early",
        "a connection at rest is answered when its replies are durable",
        "services/pump.py",
        "        elif guest.connection.sender.position > self._committer.durable:\n",
        "        elif guest.connection.sender.position > self._committer.appended:\n",
        "tests/shell/test_session_durability.py",
    ),
    _of(
        "landing-early",
        "and, while commits overlap, each when its own is done",
        "services/pump.py",
        "        while self._landing and self._landing[0][0] <= self._committer.durable:\n",
        "        while self._landing and self._landing[0][0] <= self._committer.appended:\n",
        "tests/shell/test_pump.py",
        "tests/shell/test_session_durability.py",
    ),
    _of(
        "wait-early",
        "a long poll is answered when what it shows is durable",
        "services/wait.py",
        "                await driver.committer.wait_durable(driver.position)\n",
        "                pass\n",
        "tests/shell/test_wait.py",
    ),
    _of(
        "replica-early",
        "this node counts among the replicas when its commit is done",
        "services/replicas.py",
        "            await self._driver.committer.wait_durable(self._driver.position)\n",
        "",
        "tests/shell/test_replicas.py",
    ),
    _of(
        "part-of-state-early",
        "a watch shows a part of the state when that is durable",
        "services/telling.py",
        "            shown.add(after, position)\n            yield Durable(position)\n",
        "            shown.add(after, position)\n",
        "tests/shell/test_watch_state.py",
        OVERLAP,
    ),
    _of(
        "conflicts-early",
        "and the conflicts that are open likewise",
        "services/telling.py",
        "        yield Durable(position)\n        if found:\n",
        "        if found:\n",
        "tests/shell/test_conflicts.py",
        "tests/shell/test_watch_state.py",
    ),
    # -- group commit
    _of(
        "inline-beside-a-thread",
        "nobody commits inline while a commit is under way",
        "engine/commit.py",
        "        if self._flying is None and self._is_alone(writer):\n            self._commit_inline()\n        else:",
        "        if self._is_alone(writer):\n            self._commit_inline()\n        else:",
        "tests/shell/test_commit_group.py",
    ),
    _of(
        "flying-forgotten",
        "what is on its way to the disk takes room, too",
        "engine/commit.py",
        "return self._next.size + (self._flying.size if self._flying is not None else 0)",
        "return self._next.size",
        "tests/shell/test_commit_group.py",
    ),
    _of(
        "reserve-forgotten",
        "clients leave room for replication control",
        "engine/commit.py",
        "self._log.reserve_nowait(self.waiting_bytes + size + reserve)",
        "self._log.reserve_nowait(self.waiting_bytes + size)",
        "tests/shell/test_commit_group.py",
    ),
    _of(
        "waiters-of-the-next",
        "a failed commit wakes those who wait for the next one",
        "engine/commit.py",
        "        self._next.done.set()\n",
        "",
        "tests/shell/test_commit_group.py",
    ),
    _of(
        "waits-for-the-next",
        "who wrote last into a batch under way waits for that one",
        "engine/commit.py",
        "self.durable + len(self._flying.records) >= position",
        "self.durable + len(self._flying.records) > position",
        "tests/shell/test_commit_group.py",
    ),
    # -- the driver
    _of(
        "ask-dropped",
        "an ask is never dropped from a full outbox",
        "engine/driver.py",
        "if len(self._outbox) >= self.limits.outbox and not isinstance(message, Ask):",
        "if len(self._outbox) >= self.limits.outbox:",
        "tests/shell/test_engine_order.py",
    ),
    _of(
        "updates-unbounded",
        "what a slow disk cannot follow is dropped",
        "engine/driver.py",
        "        if self.committer.waiting_bytes > self.limits.uncommitted_bytes:\n",
        "        if self.committer.waiting_bytes < 0:\n",
        "tests/shell/test_engine_order.py",
        "tests/shell/test_engine_full_disk.py",
    ),
    _of(
        "answers-unbounded",
        "each part of a peer's answer is durable before the next is read",
        "engine/driver.py",
        "            self.step(PeerAnswered(ask.id, answer))\n"
        "            await self.committer.wait_durable(self.position)\n",
        "            self.step(PeerAnswered(ask.id, answer))\n",
        "tests/shell/test_engine_order.py",
    ),
    _of(
        "ttl-late",
        "a write with a ttl may move the timer",
        "engine/driver.py",
        "if what.request.ttl is not None or what.request.value is None:",
        "if what.request.value is None:",
        "tests/shell/test_ttl.py",
    ),
    # -- those who watch, and who wait
    _of(
        "watch-one-less",
        "a watcher is told of the first change after it began",
        "engine/feeds.py",
        "feed[self.next].position <= self._begin:",
        "feed[self.next].position <= self._begin + 1:",
        "tests/property/test_hub.py",
        "tests/shell/test_watch.py",
    ),
    _of(
        "reset-kept",
        "when the tree is emptied every watcher begins anew",
        "engine/feeds.py",
        "        self.first = self.end + 1\n",
        "        self.first = self.end\n",
        "tests/property/test_hub.py",
        "tests/shell/test_hub.py",
    ),
    _of(
        "reserved-shown",
        "who watches the root is not told of the system's own paths",
        "engine/feeds.py",
        "range(int(path.is_reserved), len(key) + 1)",
        "range(len(key) + 1)",
        "tests/property/test_hub.py",
        "tests/shell/test_hub.py",
        "tests/shell/test_watch.py",
    ),
    _of(
        "known-unheard",
        "what a peer calls superseded has come, too",
        "engine/arrivals.py",
        "                        self._came(node, some.last())\n",
        "                        pass\n",
        "tests/property/test_arrivals.py",
    ),
    _of(
        "older-unheard",
        "and what an event has superseded",
        "engine/arrivals.py",
        "for node, tick in event.chain:",
        "for node, tick in event.chain[:1]:",
        "tests/property/test_arrivals.py",
    ),
    _of(
        "wait-one-more",
        "a connection has at most so many waits",
        "services/wait.py",
        "        if len(self._open) >= self._driver.limits.event_waits:",
        "        if len(self._open) > self._driver.limits.event_waits:",
        "tests/shell/test_wait.py",
    ),
    _of(
        "replica-behind",
        "a replica holds the event itself, and not only those before it",
        "services/replicas.py",
        "return ticks is not None and event.tick in ticks",
        "return ticks is not None",
        "tests/shell/test_replicas.py",
    ),
    _of(
        "seq-again",
        "a seq is used once",
        "services/session.py",
        "        if seq <= self._seq:\n",
        "        if seq < self._seq:\n",
        "tests/shell/test_session_requests.py",
    ),
    _of(
        "history-page-repeated",
        "the next page of a history begins behind the last one",
        "services/history.py",
        "        before = rows[-1].lsn\n        left =",
        "        before = rows[-1].lsn + 1\n        left =",
        "tests/shell/test_history.py",
    ),
    # -- the archive
    _of(
        "purged-stays",
        "what was purged leaves the archive",
        "engine/settler.py",
        "        elif isinstance(record, PurgeRecord):\n            self._look(record.path)\n",
        "        elif isinstance(record, PurgeRecord):\n            pass\n",
        "tests/property/test_settler.py",
    ),
    _of(
        "log-first",
        "the log lets go of a record when the archive has it",
        "engine/settler.py",
        "                await self._run_blocking(self._archive.settle, batch)\n",
        "                await self._run_blocking(self._log.drop, batch.lsn)\n"
        "                await self._run_blocking(self._archive.settle, batch)\n",
        "tests/property/test_settler.py",
    ),
    _of(
        "history-twice",
        "a row that is settled is not shown from memory, too",
        "engine/settler.py",
        "row.path == key and settled_lsn <= row.lsn < before",
        "row.path == key and row.lsn < before",
        "tests/property/test_settler.py",
    ),
    _of(
        "loser-told",
        "only what gave its path another value is told to who resumes",
        "engine/settler.py",
        "rows += [row for row in recent if row.won and row.lsn >= begin]",
        "rows += [row for row in recent if row.lsn >= begin]",
        "tests/property/test_settler.py",
    ),
    _of(
        "forgotten-unsaid",
        "who resumes behind what was forgotten begins anew",
        "engine/settler.py",
        "        if self._archive.history_from > lsn:\n            return None\n",
        "",
        "tests/shell/test_watch_since.py",
    ),
    _of(
        "backup-left",
        "the copy for a backup is removed",
        "engine/settler.py",
        "            with suppress(FileNotFoundError):\n                os.unlink(path)  # quick",
        "            with suppress(FileNotFoundError):\n                os.stat(path)  # quick",
        "tests/property/test_settler.py",
    ),
    _of(
        "kept-too-few",
        "what is too old counts among what is removed",
        "storage/archive.py",
        "was.history_rows - len(gone) - keep",
        "was.history_rows - keep",
        "tests/property/test_archive_model.py",
        "tests/unit/storage",
    ),
    _of(
        "forgot-one-less",
        "history is whole from behind the last row that was removed",
        "storage/archive.py",
        "max([was.history_from - 1, *gone]) + 1",
        "max([was.history_from, *gone])",
        "tests/property/test_archive_model.py",
        "tests/unit/storage",
    ),
    _of(
        "tick-too-many",
        "a stretch of ticks ends before its end",
        "storage/archive.py",
        "AND tick >= ? AND tick < ? ORDER",
        "AND tick >= ? AND tick <= ? ORDER",
        "tests/property/test_archive_model.py",
        "tests/unit/storage",
    ),
    _of(
        "loser-at",
        "what a path held at a time is what had won it",
        "storage/archive.py",
        "WHERE path = ? AND lsn < ? AND arrived <= ? AND won ORDER",
        "WHERE path = ? AND lsn < ? AND arrived <= ? ORDER",
        "tests/property/test_archive_model.py",
        "tests/unit/storage",
    ),
    _of(
        "part-left",
        "a copy that failed leaves nothing behind",
        "storage/archive.py",
        "                if os.path.exists(part):\n                    os.unlink(part)\n                raise",
        "                raise",
        "tests/unit/storage",
    ),
    _of(
        "half-a-transaction",
        "a transaction that fails is undone",
        "storage/archive_connection.py",
        '            connection.execute("ROLLBACK")\n',
        '            connection.execute("COMMIT")\n',
        "tests/unit/storage",
    ),
    _of(
        "failure-forgotten",
        "an archive that failed changes nothing more",
        "storage/archive.py",
        "                self._failure = str(error)\n",
        "                pass\n",
        "tests/unit/storage",
    ),
    # -- disks
    _of(
        "short-write",
        "a write that the system cuts short goes on",
        "storage/disk.py",
        "        while written < len(data):  # Seen",
        "        while written < 0:  # Seen",
        "tests/unit/storage",
    ),
    _of(
        "space-kept",
        "a segment for which there was no space gives back what it took",
        "storage/disk.py",
        "                os.ftruncate(self._descriptor, former)\n",
        "                pass\n",
        "tests/unit/storage",
    ),
    _of(
        "pid-joined",
        "the lock names the process that holds it now",
        "storage/disk.py",
        "            os.ftruncate(descriptor, 0)\n",
        "",
        "tests/unit/storage",
    ),
    _of(
        "removal-believed",
        "a name that was removed may be back after a power failure",
        "storage/memory.py",
        "if not keep(name)}",
        "if name in self._files}",
        "tests/unit/storage",
        "tests/property/test_log_drop.py",
    ),
    _of(
        "sync-again",
        "a sync that failed takes its data for written",
        "storage/memory.py",
        "        except OSError:\n            unsynced.clear()\n            raise",
        "        except OSError:\n            raise",
        "tests/unit/storage",
    ),
    _of(
        "spare-short",
        "a spare that was made longer has that length",
        "storage/spare.py",
        "spare.header, spare.size = header, header.length",
        "spare.header = header",
        "tests/unit/storage",
    ),
    _of(
        "spare-number",
        "no two segments have one number",
        "storage/spare.py",
        "            self._next_number += 1\n",
        "",
        "tests/unit/storage",
    ),
    _of(
        "spare-name",
        "a segment's name is durable before it is used",
        "storage/spare.py",
        "            self._disk.sync_directory()\n",
        "",
        "tests/unit/storage",
        "tests/property/test_log_crash.py",
    ),
)


def killer(broken: Broken) -> str | None:
    """The test that notices, None when none does.

    Raises:
        MutantError: its words are not there once, or the tests could not be run.
    """
    with tempfile.TemporaryDirectory(prefix="distkv-mutant-") as name:
        root = Path(name).resolve()
        copy_of_package(root, tests=["tests"])
        change(broken.mutant, root)
        options = ["-x", "-q", "-rf", "-p", "no:cacheprovider", "--hypothesis-profile=ci"]
        command = [sys.executable, "-m", "pytest", *options, *broken.tests]
        env = clean_environment(root)
        try:
            done = subprocess.run(
                command, cwd=root, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise MutantError(f"the tests took longer than {TIMEOUT_S} s") from None
        if done.returncode == 0:
            return None
        found = re.search(r"^FAILED (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
        if done.returncode != 1 or found is None:
            raise MutantError(f"the tests could not be run:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
        return found[1]


def main(names: Iterable[str]) -> int:
    """Print the table; 1 when a mutant lives or could not be judged."""
    wanted = set(names)
    known = {one.mutant.name for one in BROKEN}
    if wanted - known:
        sys.stderr.write(f"no mutant is called {', '.join(sorted(wanted - known))}\n")
        return 2
    chosen = [one for one in BROKEN if not wanted or one.mutant.name in wanted]
    width, ended = max(map(len, known)), 0
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for one, words in zip(chosen, pool.map(_judged, chosen), strict=True):
            ended |= words.startswith(("SURVIVES", "ERROR"))
            sys.stdout.write(f"{one.mutant.name:{width}} | {words}\n")
            sys.stdout.flush()
    return ended


def _judged(one: Broken) -> str:
    try:
        test = killer(one)
    except MutantError as error:
        return f"ERROR {error}"
    return test or f"SURVIVES: no test notices that {one.mutant.rule!r} does not hold"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
