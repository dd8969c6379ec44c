"""The state of a producer or a consumer in SQLite: whole changes, one process, and files that are none."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from distkv.client.consuming import ConsumerChange, ConsumerState
from distkv.client.producing import OpenPut, ProducerChange, ProducerState, Stream
from distkv.client.topic_state import BadStateError, adopted_state, open_state
from distkv.errors import RequestError
from distkv.model.ranges import Ranges

NOBODY = 65534
PUT = OpenPut("log", "meter~1", 1, b"12345678", b"\x01")
CHANGE = ProducerChange({"log": Stream("meter~1", 2)}, {PUT.key: PUT})
DONE = ConsumerChange(7, True, {"a": Ranges([(1, 2)])})


def test_what_was_written_is_there_again(tmp_path: Path) -> None:
    file = tmp_path / "state"
    state = open_state(file, "meter")
    state.consumer("log")
    state.write_producer(CHANGE)
    state.write_consumer("log", DONE)
    state.close()
    state = open_state(file, "meter")
    assert state.producer() == ProducerState({"log": Stream("meter~1", 2)}, {PUT.key: PUT})
    assert state.consumer("log") == ConsumerState(7, True, {"a": Ranges([(1, 2)])})
    state.close()


def test_file_is_a_file_whatever_its_name_means_to_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    open_state(":memory:", "meter").close()
    assert (tmp_path / ":memory:").exists()


def test_second_user_of_a_file_is_refused(tmp_path: Path) -> None:
    state = open_state(tmp_path / "state", "meter")
    with pytest.raises(BadStateError, match="in use"):
        open_state(tmp_path / "state", "meter")
    state.close()
    open_state(tmp_path / "state", "meter").close()


def test_file_of_another_id_is_refused(tmp_path: Path) -> None:
    open_state(tmp_path / "state", "meter").close()
    with pytest.raises(BadStateError, match="is the state of 'meter', not of 'bill'"):
        open_state(tmp_path / "state", "bill")
    open_state(tmp_path / "state", "meter").close()


def test_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadStateError, match="there is no directory"):
        open_state(tmp_path / "none" / "state", "meter")


@contextmanager
def _without_rights() -> Iterator[None]:
    """Root may write any file: meanwhile it is somebody else."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


def test_file_that_may_not_be_written_is_refused() -> None:
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        state = Path(name) / "state"
        open_state(state, "meter").close()
        state.chmod(0o444)
        with _without_rights(), pytest.raises(BadStateError, match="may not be written"):
            open_state(state, "meter")


def test_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(b"something else" * 1000)
    with pytest.raises(BadStateError, match="no state"):
        open_state(tmp_path / "state", "meter")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE distkv_topic_streams SET counter = 0",
        "UPDATE distkv_topic_streams SET producer = char(7)",
        "UPDATE distkv_topic_puts SET tag = 'x'",
        "UPDATE distkv_topic_puts SET value = x'c1'",
        "UPDATE distkv_topic_puts SET counter = 9",
    ],
)
def test_row_that_was_not_written_by_us_is_refused(tmp_path: Path, statement: str) -> None:
    db = sqlite3.connect(tmp_path / "db")
    adopted_state(db, "meter").write_producer(CHANGE)
    db.execute(statement)
    db.commit()
    with pytest.raises(BadStateError, match="damaged"):
        adopted_state(db, "meter").producer()
    db.close()


def test_block_that_raises_leaves_neither_effect_nor_done(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "db")
    db.execute("CREATE TABLE bills (text)")
    state = adopted_state(db, "bill")
    state.consumer("log")

    def fail() -> None:
        with state.writing("log", DONE) as connection:
            connection.execute("INSERT INTO bills VALUES ('x')")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert db.execute("SELECT count(*) FROM bills").fetchone() == (0,)
    assert state.consumer("log").done == {}
    db.close()


def test_transaction_that_is_ended_inside_its_block_is_refused(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "db")
    state = adopted_state(db, "bill")
    state.consumer("log")
    with pytest.raises(RequestError, match="ended inside"), state.writing("log", DONE) as connection:
        connection.commit()
    assert state.consumer("log").done == {}
    db.close()


def test_consumer_that_began_earlier_writes_no_more(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "db")
    first, second = adopted_state(db, "bill"), adopted_state(db, "bill")
    first.consumer("log")
    second.consumer("log")
    second.write_consumer("log", DONE)
    with pytest.raises(BadStateError, match="began after this one"):
        first.write_consumer("log", DONE)
    db.close()
