"""`distkv server` and its service manager, whose part the tests play: sd_notify(3) over a real socket.

Knows: the messages of that protocol.  Does not know systemd; `systemd-analyze` judges the unit file where it is there.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.process.ports import free_port
from tests.process.servers import Server, Servers, wait_until

UNIT = Path(__file__).parents[2] / "packaging" / "systemd" / "distkv@.service"
INTERVAL_S = 0.4
PATIENCE_S = 300.0


class Manager:
    """A service manager that hears one server."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address.replace("@", "\0", 1))

    def start(self, servers: Servers, *arguments: str, **variables: str) -> Server:
        server = servers.add("a")
        server.environment = {**server.environment, "NOTIFY_SOCKET": self.address, **variables}
        return server.start("--transport", "solo", *(arguments or ("--init", "hello")))

    def hear(self, within_s: float = PATIENCE_S) -> list[str]:
        """The lines of the next message; none when nothing comes in time."""
        self._socket.settimeout(within_s)
        try:
            return self._socket.recv(1 << 16).decode().split("\n")
        except TimeoutError:
            return []

    def wait(self, line: str) -> list[str]:
        """All lines until one begins so, that one included."""
        heard: list[str] = []
        deadline = time.monotonic() + PATIENCE_S
        while not any(found.startswith(line) for found in heard):
            assert time.monotonic() < deadline, f"nothing begins with {line!r} in {heard}"
            heard += self.hear()
        return heard

    def fill(self) -> None:
        """Leave no room for messages."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            with suppress(BlockingIOError):
                while True:
                    sender.sendto(b"x", self.address)

    def forget(self) -> None:
        """Drop what has come already."""
        self._socket.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                self._socket.recv(1 << 16)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    found = Manager(str(tmp_path / "notify"))
    yield found
    found.close()


def test_server_that_serves_says_ready_after_its_line(servers: Servers, manager: Manager) -> None:
    server = manager.start(servers)
    heard = manager.wait("READY=1")
    assert heard[-1] == "READY=1"
    wait_until(lambda: server.printed, "the line that says where is read")


def test_server_tells_its_state_in_a_line(servers: Servers, manager: Manager) -> None:
    server = manager.start(servers)
    assert f"STATUS=ready on {server.address}" in manager.wait("STATUS=ready")


def test_server_that_is_stopped_says_so(servers: Servers, manager: Manager) -> None:
    server = manager.start(servers)
    manager.wait("READY=1")
    assert server.terminate() == 0
    assert "STOPPING=1" in manager.wait("STOPPING=1")


def test_server_that_fails_tells_why(servers: Servers, manager: Manager) -> None:
    server = manager.start(servers, "--data-dir", str(servers.directory))  # no data, no --init, nobody to ask
    assert server.wait_end() == 2
    assert "without a transport there is nobody to get it from" in manager.wait("STATUS=failed")[-1]


def test_name_that_is_no_file_is_found(servers: Servers) -> None:
    manager = Manager(f"@distkv-test-{free_port()}-{os.getpid()}")
    try:
        manager.start(servers)
        assert "READY=1" in manager.wait("READY=1")
    finally:
        manager.close()


def test_watchdog_hears_again_and_again(servers: Servers, manager: Manager) -> None:
    manager.start(servers, WATCHDOG_USEC="4000000")  # how often: tests/unit/daemon/test_notify.py
    for _ in range(3):
        manager.wait("WATCHDOG=1")
        manager.forget()


def test_server_that_hangs_says_nothing_until_it_goes_on(servers: Servers, manager: Manager) -> None:
    server = manager.start(servers, WATCHDOG_USEC=str(int(INTERVAL_S * 1e6)))
    manager.wait("READY=1")
    manager.wait("WATCHDOG=1")
    server.send_signal(signal.SIGSTOP)
    manager.forget()
    silence = manager.hear(3 * INTERVAL_S)
    server.send_signal(signal.SIGCONT)
    assert silence == []
    assert "WATCHDOG=1" in manager.wait("WATCHDOG=1")


def test_watchdog_of_another_process_is_not_ours(servers: Servers, manager: Manager) -> None:
    manager.start(servers, WATCHDOG_USEC="100000", WATCHDOG_PID="1")
    manager.wait("READY=1")
    assert "WATCHDOG=1" not in manager.hear(0.5)


def test_service_manager_that_is_gone_ends_nobody(servers: Servers, manager: Manager) -> None:
    manager.close()
    server = manager.start(servers)
    assert server.wait_ready()
    assert server.run("get", ":").text == "hello\n"
    assert "notify_failed" in server.errors


def test_server_whose_manager_reads_nothing_serves(servers: Servers, manager: Manager) -> None:
    server = manager.start(servers, WATCHDOG_USEC="20000")  # the queue of an unread socket is soon full
    server.wait_ready()
    deadline = time.monotonic() + PATIENCE_S
    while "reason=its queue is full" not in server.errors:
        assert server.run("get", ":").text == "hello\n"
        assert time.monotonic() < deadline, "the queue is still not full"


def test_manager_that_reads_late_still_hears_that_the_server_is_ready(servers: Servers, manager: Manager) -> None:
    manager.fill()
    server = manager.start(servers)
    server.wait_ready()
    threading.Event().wait(1.5)  # nobody sets it; longer than one message waits
    manager.forget()
    assert "READY=1" in manager.wait("READY=1")


def test_without_a_service_manager_the_watchdog_is_nobody(servers: Servers) -> None:
    server = servers.add("a")
    server.environment = {**server.environment, "WATCHDOG_USEC": "100000"}
    server.start("--transport", "solo", "--init", "hello").wait_ready()
    assert server.terminate() == 0
    assert "notify" not in server.errors


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze on PATH")
def test_unit_file_is_one(tmp_path: Path) -> None:
    unit = tmp_path / "distkv@a.service"
    unit.write_text(UNIT.read_text().replace("/usr/bin/distkv ", f"{shutil.which('true')} "))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
