"""Memory or threads run out: what is scarce refuses a request or ends its connection, and the server goes on.

Knows: real servers, and limits of the kernel upon them.  Does not know what asks for memory.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import distkv
from distkv.daemon.forced_end import END_S
from distkv.wire import packing
from tests.process.servers import Server, open_servers

BIG = b"y" * 900_000
SMALL_BYTES = 4000
MANY = 40


def address_space(server: Server) -> int:
    """Of its process, in bytes."""
    assert server.process is not None
    text = Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
    return int(text.partition("VmSize:")[2].split()[0]) << 10


def limit(server: Server, size: int) -> None:
    assert server.process is not None
    resource.prlimit(server.process.pid, resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))


def send_many_at_once(server: Server) -> None:
    """Large writes on connections of their own, of which the node can take a few only."""
    lines = [server.dial(60) for _ in range(MANY)]
    for number, line in enumerate(lines):
        with suppress(OSError):  # it has ended, which is what may happen to it
            line.recv(1 << 16)
            line.sendall(packing.pack({"seq": 1, "action": "set_value", "path": [f"z{number}"], "value": BIG}))
    for line in lines:
        with suppress(OSError):
            line.settimeout(60)
            line.recv(1 << 16)
        line.close()


@pytest.mark.parametrize("room", [1 << 20, 6 << 20, 30 << 20])
def test_server_whose_memory_runs_out_refuses_what_is_large_and_loses_nothing(tmp_path: Path, room: int) -> None:
    with open_servers(tmp_path) as servers:
        server = servers.add("a")
        server.start("--init", "hello", "--transport", "solo").wait_ready()
        written = dict[str, int]()
        with server.client() as client:
            for number in range(50):
                client.set(f"x{number}", number)
                written[f"x{number}"] = number
        limit(server, address_space(server) + room)
        for number in range(20):
            with suppress(distkv.DistkvError), server.client() as client:
                client.set("big", BIG)
            with suppress(distkv.DistkvError), server.client() as client:
                client.set(f"y{number}", number)
                written[f"y{number}"] = number
        with suppress(ConnectionRefusedError):  # it has ended already, which is judged below
            send_many_at_once(server)
        limit(server, resource.RLIM_INFINITY)
        try:
            with server.client() as client:
                assert client.set("after", 1).changed
                assert {name: client.get(name).value for name in written} == written
            server.kill()
        except distkv.Unreachable:  # memory ran out where nothing can be refused: it ends, and is not left deaf
            assert server.wait_end(2 * END_S) == 1
        server.start().wait_ready()
        with server.client() as client:
            assert {name: client.get(name).value for name in written} == written, "nothing that was answered is lost"


WITHOUT_THREADS = """
import resource, threading, trio
from distkv.engine.scarce import on_a_thread
threading.stack_size(1 << 30)
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
try:
    threading.Thread(target=print).start()
except RuntimeError:
    print(trio.run(on_a_thread, sum, [1, 2]))
"""


def test_what_a_thread_would_do_is_done_without_one_when_none_can_be_begun() -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT_THREADS], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "3\n"), ran.stderr
    assert "few_threads" in ran.stderr


def test_error_of_what_a_thread_does_is_not_taken_for_a_lack_of_threads() -> None:
    code = WITHOUT_THREADS.replace("sum, [1, 2]", "int, 'x'")
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ValueError" in ran.stderr
