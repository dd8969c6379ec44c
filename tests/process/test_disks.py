"""Reading the directory of a server that does not use it: settled or not, all that was acknowledged is found.

Knows: one server.  Does not know what is judged by that.
"""

from __future__ import annotations

import signal

from distkv.model.path import Path
from distkv.wire.values import pack_value
from tests.process.disks import Disk, copy_disk, read_disk
from tests.process.servers import Server, Servers

X = Path(["x"])


def _start(servers: Servers) -> Server:
    server = servers.start("solo", "--transport", "solo", "--init", "hello")
    server.wait_ready()
    return server


def _values(disk: Disk) -> list[bytes]:
    return [row.event.value for row in disk.at(X)]


def test_what_is_settled_and_what_only_the_log_has_are_both_read(servers: Servers) -> None:
    server = _start(servers)
    with server.client() as client:
        first = client.set(X, 1)
        server.wait_settled()
        second = client.set(X, 2)
    server.kill()
    disk = read_disk("solo", server.data_dir)
    assert _values(disk) == [pack_value(1), pack_value(2)]
    assert all(row.won for row in disk.at(X))
    assert disk.links >= {first.link, second.link}
    assert disk.life == 0


def test_copy_of_a_disk_whose_server_stands_still_has_what_was_acknowledged(servers: Servers) -> None:
    server = _start(servers)
    with server.client() as client:
        client.set(X, 1)
        server.send_signal(signal.SIGSTOP)
        copy = copy_disk(server.data_dir, server.directory / "copy")
        server.send_signal(signal.SIGCONT)
        client.set(X, 2)
    assert _values(read_disk("solo", copy)) == [pack_value(1)]
