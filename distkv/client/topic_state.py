"""What producers and consumers of topics keep: tables in an SQLite file of ours, or in a user's own database.

Knows: the tables, who may use a file, and what stands in it that cannot be.  Does not know what the states mean
(`producing`, `consuming`).

Invariant: a change is written whole or not at all, and with the effect of a message in one transaction. A file belongs
to one ID, and to one process at a time: from its opening on the file is locked. In a user's own database the consumer
that began last is the one that writes; an older one is refused, and its effect is rolled back.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from distkv.client.consuming import ConsumerChange, ConsumerState
from distkv.client.producing import TAG_BYTES, OpenPut, ProducerChange, ProducerState, Stream
from distkv.errors import DecodeError, DistkvError, RequestError, SettingsError
from distkv.model.ranges import Ranges
from distkv.wire.topic_fields import COUNTER_MAX, OP_MAX, is_name, read_counters
from distkv.wire.values import unpack_value

FORMAT: Final = 1
MEMORY: Final = ":memory:"
SAVEPOINT: Final = "distkv_done"
_SESSION_BYTES: Final = 8

_TABLES: Final = {
    "distkv_topic_clients": "id TEXT PRIMARY KEY, format INTEGER",
    "distkv_topic_streams": "id TEXT, topic TEXT, producer TEXT, counter INTEGER, PRIMARY KEY (id, topic)",
    "distkv_topic_puts": "id TEXT, topic TEXT, producer TEXT, counter INTEGER, tag BLOB, value BLOB, "
    "PRIMARY KEY (id, topic, producer, counter)",
    "distkv_topic_consumers": "id TEXT, topic TEXT, op INTEGER, subscribed INTEGER, session BLOB, "
    "PRIMARY KEY (id, topic)",
    "distkv_topic_done": "id TEXT, topic TEXT, producer TEXT, ranges TEXT, PRIMARY KEY (id, topic, producer)",
}
"""Each with its columns."""


class BadStateError(SettingsError):
    """The state of a producer or a consumer cannot be used."""


class TopicState:
    """The state of one ID. `open_state`, `adopted_state` and `passing_state` make it."""

    def __init__(self, connection: sqlite3.Connection, id: str, where: str, *, is_ours: bool) -> None:
        self.id: Final = id
        self._connection: Final = connection
        self._where: Final = where
        self._is_ours: Final = is_ours
        self._process: Final = os.getpid()
        self._sessions: Final[dict[str, bytes]] = {}
        self._is_open = True

    @property
    def is_open(self) -> bool:
        return self._is_open

    def close(self) -> None:
        """Give up the file. May be called again."""
        if self._is_open and self._process == os.getpid():
            self._is_open = False
            if self._is_ours:
                self._connection.close()

    # -- producers

    def producer(self) -> ProducerState:
        """What was written.

        Raises:
            BadStateError: it cannot be read, or is nothing that was written.
        """
        with self.judged():
            streams = {
                _name(topic): Stream(_name(producer), _number(counter))
                for topic, producer, counter in self._rows("topic, producer, counter", "streams")
            }
            puts = [
                OpenPut(_name(topic), _name(producer), _number(counter), _tag(tag), _value(value))
                for topic, producer, counter, tag, value in self._rows("topic, producer, counter, tag, value", "puts")
            ]
            for put in puts:
                stream = streams.get(put.topic)
                if stream is None or (stream.producer == put.producer and put.counter >= stream.counter):
                    raise _bad("a message that was not put")
            return ProducerState(streams, {put.key: put for put in puts})

    def write_producer(self, change: ProducerChange) -> None:
        """Write a change, durably; raises as `producer`."""
        with self.transaction() as connection, self.judged():
            for topic, stream in change.streams.items():
                row = (self.id, topic, stream.producer, stream.counter)
                execute(connection, "INSERT OR REPLACE INTO distkv_topic_streams VALUES (?, ?, ?, ?)", row)
            for key, put in change.puts.items():
                if put is None:
                    place = "id = ? AND topic = ? AND producer = ? AND counter = ?"
                    execute(connection, f"DELETE FROM distkv_topic_puts WHERE {place}", (self.id, *key))
                else:
                    row5 = (self.id, *key, put.tag, put.value)
                    execute(connection, "INSERT OR REPLACE INTO distkv_topic_puts VALUES (?, ?, ?, ?, ?, ?)", row5)

    # -- consumers

    def consumer(self, topic: str) -> ConsumerState:
        """What was written of a topic. From now on it is this process that writes there; raises as `producer`."""
        with self.judged():
            found = ConsumerState(None, False, self._done(topic))
            for op, is_subscribed in self._rows("op, subscribed", "consumers", topic):
                found = ConsumerState(None if op is None else _number(op, OP_MAX), _flag(is_subscribed), found.done)
        self._sessions[topic] = session = os.urandom(_SESSION_BYTES)
        with self.transaction() as connection, self.judged():
            row = (self.id, topic, found.op, found.is_subscribed, session)
            execute(connection, "INSERT OR REPLACE INTO distkv_topic_consumers VALUES (?, ?, ?, ?, ?)", row)
        return found

    def write_consumer(self, topic: str, change: ConsumerChange) -> None:
        """Write a change, durably; raises as `producer`."""
        with self.writing(topic, change):
            pass

    @contextmanager
    def writing(self, topic: str, change: ConsumerChange) -> Iterator[sqlite3.Connection]:
        """What is written in the block and the change: both, durably, or neither.

        Raises:
            RequestError: a transaction is open before the block, or was ended in it.
            BadStateError: as `producer`; or another process goes on with this state.
        """
        with self.transaction() as connection:
            with self.judged():
                self._check_session(connection, topic)
                execute(connection, f"SAVEPOINT {SAVEPOINT}")
            yield connection
            with self.judged():
                self._leave_savepoint(connection)
                self._write_change(connection, topic, change)

    # -- for those who make one

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """What is written in the block is written when it is left, or not at all."""
        connection = self._connection
        with self.judged():
            is_open_always = getattr(connection, "autocommit", None) is False  # from Python 3.12 on
            if connection.in_transaction and not is_open_always:
                raise RequestError(
                    "a transaction is open on the connection: end it before, and give each message a block of its own"
                )
            if not is_open_always:
                execute(connection, "BEGIN IMMEDIATE")
        try:
            yield connection
            with self.judged():
                connection.commit()
        except BaseException:
            with suppress(sqlite3.Error):
                connection.rollback()
            raise

    @contextmanager
    def judged(self) -> Iterator[None]:
        """What SQLite, or the reader of a row, says, in words for the user."""
        if self._process != os.getpid():
            raise RequestError(f"{self._where}: this process is a fork of the one that opened the state: open another")
        if not self._is_open:
            raise RequestError(f"{self._where} is closed: make another producer or consumer")
        try:
            yield
        except sqlite3.Error as error:
            raise BadStateError(f"{self._where}: {_said(error)}") from None
        except DecodeError as error:
            raise BadStateError(f"{self._where} is damaged ({error}): {_ADVICE}") from None

    # -- inside

    def _check_session(self, connection: sqlite3.Connection, topic: str) -> None:
        found = execute(
            connection, "SELECT session FROM distkv_topic_consumers WHERE id = ? AND topic = ?", (self.id, topic)
        ).fetchone()
        if found is None or found[0] != self._sessions.get(topic):
            raise BadStateError(
                f"{self._where}: another consumer of {topic!r} with the id {self.id!r} began after this one: "
                "let only one run"
            )

    def _write_change(self, connection: sqlite3.Connection, topic: str, change: ConsumerChange) -> None:
        place = (self.id, topic)
        if change.op is not None:
            row = (change.op, *place)
            execute(connection, "UPDATE distkv_topic_consumers SET op = ? WHERE id = ? AND topic = ?", row)
        if change.is_subscribed is not None:
            row = (int(change.is_subscribed), *place)
            execute(connection, "UPDATE distkv_topic_consumers SET subscribed = ? WHERE id = ? AND topic = ?", row)
        for producer, more in change.done.items():
            ranges = self._done(topic, producer).get(producer, Ranges()) | more
            text = json.dumps(ranges.to_list(), separators=(",", ":"))
            execute(
                connection, "INSERT OR REPLACE INTO distkv_topic_done VALUES (?, ?, ?, ?)", (*place, producer, text)
            )

    def _leave_savepoint(self, connection: sqlite3.Connection) -> None:
        try:
            execute(connection, f"RELEASE {SAVEPOINT}")
        except sqlite3.OperationalError:
            raise RequestError(
                "the transaction of the message was ended inside its block: leave 'commit' and 'rollback' out of it, "
                "and 'with db'"
            ) from None

    def _done(self, topic: str, producer: str | None = None) -> Mapping[str, Ranges]:
        """What is done, of one producer or of all."""
        rows = self._rows("producer, ranges", "done", topic)
        if producer is not None:
            query = "SELECT producer, ranges FROM distkv_topic_done WHERE id = ? AND topic = ? AND producer = ?"
            rows = execute(self._connection, query, (self.id, topic, producer))
        found: dict[str, Ranges] = {}
        for name, text in rows:
            found |= read_counters({_name(name): _listed(text)}, "done")
        return found

    def _rows(self, columns: str, table: str, topic: str | None = None) -> Iterator[tuple[object, ...]]:
        query = f"SELECT {columns} FROM distkv_topic_{table} WHERE id = ?"
        if topic is None:
            return execute(self._connection, query, (self.id,))
        return execute(self._connection, f"{query} AND topic = ?", (self.id, topic))


def execute(connection: sqlite3.Connection, query: str, values: tuple[object, ...] = ()) -> sqlite3.Cursor:
    """As the method of the connection, whatever rows the user wants to see there."""
    cursor = connection.cursor()
    cursor.row_factory = None
    return cursor.execute(query, values)


# -- how a state is come by ---------------------------------------------------------------------------------------

_ADVICE: Final = "bring back a copy, or delete it and begin anew"
_READ_ONLY: Final = "the file may not be written: change its rights"
_NOT_OURS: Final = (
    "this is no state of a topic's client: move it away, or give another file, or its connection where a consumer is"
    " made"
)


def open_state(path: str | os.PathLike[str], id: str) -> TopicState:
    """The state of an ID in a file, which is made when it is not there, and is locked from now on.

    Raises:
        BadStateError: there is no directory; it is in use; it is something else, or that of another ID.
    """
    where = os.fspath(path)
    if not Path(where).parent.is_dir():
        raise BadStateError(f"{where}: there is no directory {os.fspath(Path(where).parent)!r}: make it first")
    if Path(where).exists() and not os.access(where, os.R_OK | os.W_OK, effective_ids=True):
        raise BadStateError(f"{where}: {_READ_ONLY}")
    try:
        connection = sqlite3.connect(os.path.abspath(where), timeout=0, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise BadStateError(f"{where}: {_said(error)}") from None
    state = TopicState(connection, id, where, is_ours=True)
    try:
        with state.judged():
            execute(connection, "PRAGMA locking_mode = EXCLUSIVE")
            execute(connection, "BEGIN EXCLUSIVE")
            _check_ours(connection, where)
            _prepare(connection, id, where)
            _check_id(connection, id, where)
            execute(connection, "COMMIT")
            execute(connection, "PRAGMA journal_mode = WAL")
            execute(connection, "PRAGMA synchronous = FULL")
    except BaseException:
        state.close()
        raise
    return state


def adopted_state(connection: sqlite3.Connection, id: str) -> TopicState:
    """The state of an ID in a database of the user's.

    Raises:
        RequestError: a transaction is open on it.
        BadStateError: as `open_state`.
    """
    where = "the database of the state"
    state = TopicState(connection, id, where, is_ours=False)
    with state.transaction(), state.judged():
        _prepare(connection, id, where)
    return state


def passing_state(id: str) -> TopicState:
    """A state that ends with the process."""
    connection = sqlite3.connect(MEMORY, isolation_level=None, check_same_thread=False)
    _prepare(connection, id, "the state")
    return TopicState(connection, id, "the state", is_ours=True)


# -- inside -------------------------------------------------------------------------------------------------------


def _check_ours(connection: sqlite3.Connection, where: str) -> None:
    """A file that is there is whole, and was made by us."""
    tables = [str(row[0]) for row in execute(connection, "SELECT name FROM sqlite_master WHERE type = 'table'")]
    if tables and "distkv_topic_clients" not in tables:
        raise BadStateError(f"{where}: {_NOT_OURS}")
    (found,) = execute(connection, "PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise sqlite3.DatabaseError("malformed")


def _prepare(connection: sqlite3.Connection, id: str, where: str) -> None:
    """See that the tables are there, and of this format."""
    for table, columns in _TABLES.items():
        execute(connection, f"CREATE TABLE IF NOT EXISTS {table} ({columns})")
        there = [str(row[1]) for row in execute(connection, f"PRAGMA table_info({table})")]
        ours = [column.split()[0] for column in columns.split(", PRIMARY KEY (")[0].split(", ")]
        if there != ours:
            raise BadStateError(f"{where}: the table {table} is of another format: give another file")
    row = execute(connection, "SELECT format FROM distkv_topic_clients WHERE id = ?", (id,)).fetchone()
    if row is None:
        execute(connection, "INSERT INTO distkv_topic_clients VALUES (?, ?)", (id, FORMAT))
    elif row[0] != FORMAT:
        raise BadStateError(f"{where} has the format {str(row[0])[:20]}, and not {FORMAT}: use a newer release")


def _check_id(connection: sqlite3.Connection, id: str, where: str) -> None:
    """A file of ours is that of one ID."""
    for (other,) in execute(connection, "SELECT id FROM distkv_topic_clients WHERE id IS NOT ?", (id,)):
        raise BadStateError(f"{where} is the state of {str(other)[:80]!r}, not of {id!r}: give each its own file")


def _said(error: sqlite3.Error) -> str:
    """One line for what SQLite says."""
    text = str(error).lower()
    if "locked" in text or "busy" in text:
        return (
            "the state is in use by another process, or another producer or consumer: end that one, or give this one"
            " another id and another file"
        )
    if "not a database" in text:
        return _NOT_OURS
    if "malformed" in text or "corrupt" in text:
        return f"the state is damaged: {_ADVICE}"
    if "unable to open" in text:
        return "the file cannot be opened: it is no file, or may not be written"
    if "readonly" in text:
        return _READ_ONLY
    if "full" in text:
        return "the disk is full: make room"
    return f"the state cannot be used ({text})"


def _bad(what: str) -> DecodeError:
    return DecodeError(f"there is {what}", "bad_state")


def _name(value: object) -> str:
    if type(value) is not str or not is_name(value):
        raise _bad("a name that none can have")
    return value


def _number(value: object, most: int = COUNTER_MAX) -> int:
    if type(value) is not int or not 1 <= value <= most:
        raise _bad("a number that none can have")
    return value


def _flag(value: object) -> bool:
    if value not in (0, 1):
        raise _bad("a mark that is neither yes nor no")
    return bool(value)


def _tag(value: object) -> bytes:
    if type(value) is not bytes or len(value) != TAG_BYTES:
        raise _bad("a tag of another size")
    return value


def _value(value: object) -> bytes:
    if type(value) is not bytes:
        raise _bad("a message that is no value")
    try:
        unpack_value(value)
    except DistkvError:
        raise _bad("a message that is no value") from None
    return value


def _listed(text: object) -> object:
    try:
        return json.loads(text) if type(text) is str else None
    except (ValueError, RecursionError):
        return None
