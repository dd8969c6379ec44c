"""A watcher that reads late, over a real socket: what the socket took in part is finished, in order and never torn.

Knows: frames.  Does not know which part of the server sent them.
"""

from __future__ import annotations

from distkv.model.path import Path
from distkv.wire.asking import encode_request
from distkv.wire.node_requests import PingRequest
from distkv.wire.subtrees import Watch
from tests.process.load import Wire, set_many
from tests.process.servers import Server, Servers

COUNT = 2000
VALUE_BYTES = 10_000
"""All of them are more than the kernel keeps for a connection that nobody reads."""


def start_server(servers: Servers) -> Server:
    """One that keeps as much for a watcher as these tests write."""
    server = servers.add("solo")
    file = server.directory / "config.yaml"
    file.write_text("limits: {watch_bytes: 100000000}\n")
    server.environment = {**server.environment, "DISTKV_CONFIG": str(file)}
    server.start("--transport", "solo", "--init", "hello").wait_ready()
    return server


def test_watcher_that_reads_late_gets_every_change_whole_and_its_replies_between_them(servers: Servers) -> None:
    server = start_server(servers)
    values: dict[str, object] = {f"w.n{number}": f"{number} {'x' * VALUE_BYTES}" for number in range(COUNT)}
    with Wire(server) as late, Wire(server) as other:
        for wire in (late, other):
            wire.send(encode_request(Watch(wire.next_seq(), Path(["w"]))))
            assert (wire.receive() or {})["state"] == "start"
        late.send(encode_request(PingRequest(late.next_seq())))
        set_many(server, values)
        late.send(encode_request(PingRequest(late.next_seq())))
        for wire, seqs in ((other, {1}), (late, {1, 2, 3})):
            found = []
            seen = set()
            while len(found) < COUNT or seen < seqs:
                frame = wire.receive()
                assert frame is not None
                seen.add(frame["seq"])
                if "path" in frame:
                    found.append(frame["value"])
            assert found == list(values.values())
