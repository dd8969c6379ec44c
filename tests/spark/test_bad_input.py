"""What no job may stumble over: values at the limits, and machines and folders that are not what a job needs.

Knows: the command and a node.  Does not know options that are refused before Spark is started (tests/unit/cli).
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
from pyspark.sql import SparkSession

from distkv.model.path import Path as KeyPath
from tests.process.servers import Server, wait_until
from tests.spark.jobs import end_of, run_here, run_job, running, start_job, tree_of
from tests.spark.moments import NAMES, archived

LARGEST = (1 << 20) - 200
"""Bytes in a value whose request has one MiB, nearly, which is what a node takes."""


def nested(depth: int) -> object:
    found: object = 1
    for _ in range(depth):
        found = [found]
    return found


def test_values_at_the_limits_and_names_of_every_kind_come_back_as_the_node_dumps_them(
    spark: SparkSession, solo: Server, tmp_path: Path
) -> None:
    values = {"deep": nested(256), "large": bytes(LARGEST), "text": "ü" * (LARGEST // 2), "no number": float("nan")}
    with solo.client() as client:
        for name, value in values.items():
            for _ in range(2):  # superseded, too
                client.set(KeyPath(["t", name]), value)
        for name in NAMES:
            client.set(KeyPath(["n", name]), {"nan": [float("nan"), float("-inf")]})
    table = archived(spark, solo, tmp_path / "table")
    wanted = solo.run("dump", "-o", "json", ":")
    assert wanted.code == 0
    found = run_here(spark, [], "asof", table, "--latest")
    assert (found.code, found.err) == (0, "")
    assert found.out.splitlines() == wanted.text.splitlines()


@pytest.mark.parametrize("home", [None, "/nonexistent"], ids=["no Java", "JAVA_HOME is wrong"])
def test_machine_without_java_is_told_in_a_line(tmp_path: Path, home: str | None) -> None:
    """`distkv` runs by its full path; what else PATH has are Spark's own needs."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("bash", "dirname", "readlink", "ps", "cat", "env"):
        if (place := shutil.which(tool)) is not None:
            (tools / tool).symlink_to(place)
    told = run_job(
        [], "asof", str(tmp_path), "--latest", environment={"PATH": str(tools), "JAVA_HOME": home or ""}
    ).complaint
    assert "Java" in told or "java" in told
    assert "Traceback" not in told


def test_interrupt_while_spark_starts_leaves_no_java(tmp_path: Path) -> None:
    """It would hold the pipe that the next command reads."""
    with running(start_job([], "asof", str(tmp_path), "--latest")) as job:
        wait_until(lambda: any(map(is_java, tree_of(job.pid))), "Java starts")
        tree = tree_of(job.pid)
        os.killpg(job.pid, signal.SIGINT)
        ended = end_of(job)
    assert (ended.code, ended.out) == (130, "")
    assert not any(map(is_java, tree))


def is_java(pid: int) -> bool:
    try:
        return b"java" in (Path("/proc") / str(pid) / "cmdline").read_bytes().partition(b"\0")[0]
    except OSError:
        return False


def test_hosts_that_are_none_end_with_5_and_a_foreign_folder_with_1(
    spark: SparkSession, solo: Server, tmp_path: Path
) -> None:
    (tmp_path / "letter.txt").write_text("hello")
    with web_server() as address:
        ended = run_here(spark, ["127.0.0.1:1", address], "archive", "--to", str(tmp_path / "table"), "--once")
    assert (ended.code, ended.out, ended.err.count("\n")) == (5, "", 1), ended
    assert address in ended.err
    assert not (tmp_path / "table").exists()
    told = run_here(spark, [solo.address], "archive", "--to", str(tmp_path), "--once").complaint
    assert "is no event table, and not empty" in told
    assert (tmp_path / "letter.txt").read_text() == "hello"


@contextmanager
def web_server() -> Iterator[str]:
    """Something else that answers at an address."""

    def answer() -> None:
        while True:
            try:
                one, _ = listener.accept()
            except OSError:
                return
            with one:
                one.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=answer)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
