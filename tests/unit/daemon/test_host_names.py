"""Names of hosts are looked up on threads; when there is none, that name cannot be reached, and nothing else ends."""

from __future__ import annotations

import subprocess
import sys

import pytest
import trio

from distkv.daemon.host_names import HostNames
from tests.unit.daemon.test_forced_end import WITHOUT_THREADS

DIALS = """
import trio
from distkv.daemon.host_names import HostNames

async def main():
    trio.socket.set_custom_hostname_resolver(HostNames())
    try:
        await trio.open_tcp_stream({host!r}, 1)
    except OSError as error:
        print(error)

trio.run(main)
"""


def test_name_is_looked_up_as_trio_does_it() -> None:
    async def looked_up() -> list[object]:
        trio.socket.set_custom_hostname_resolver(HostNames())
        return [await trio.socket.getaddrinfo("localhost", 80), await trio.socket.getnameinfo(("127.0.0.1", 80), 0)]

    async def of_trio() -> list[object]:
        return [await trio.socket.getaddrinfo("localhost", 80), await trio.socket.getnameinfo(("127.0.0.1", 80), 0)]

    assert trio.run(looked_up) == trio.run(of_trio)


@pytest.mark.parametrize(
    ("host", "says"), [("localhost", "no thread can be begun"), ("127.0.0.1", "connect"), ("::1", "connect")]
)
def test_without_threads_only_names_cannot_be_dialled(host: str, says: str) -> None:
    program = WITHOUT_THREADS + DIALS.format(host=host)
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert says in ran.stdout
