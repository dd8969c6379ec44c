"""`distkv graph --live` with real servers: what is drawn of what they do, and how it ends.

Knows: the command and real servers.  What a trace is made of is in tests/node, what is drawn in tests/unit/graph.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

from distkv.graph.arrows import arrows
from distkv.graph.trace import Moment, read_lines
from tests.process.cluster import open_cluster
from tests.process.forks import Command
from tests.process.servers import Server, Servers, wait_until

END_S = 300.0


@contextmanager
def graphing(servers: Sequence[Server], *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command, when it listens to all of them; it is killed at the end."""
    words = [word for server in servers for word in ("--live", server.address)]
    process = Command(
        [*servers[0].program, "graph", *words, *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=dict(servers[0].environment),
    )  # fmt: skip
    try:
        for server in servers:
            wait_until(lambda server=server: _listeners(server) == 1, f"{server.name} is listened to", END_S)
        yield process
    finally:
        process.kill()
        process.communicate()


def _listeners(server: Server) -> int:
    counters = server.state()["counters"]
    assert isinstance(counters, dict)
    return int(counters["traces"])


def _interrupted(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """After Ctrl-C: the exit code, and what it wrote."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=END_S)
    return process.returncode, out, err


def _moments(text: str) -> list[Moment]:
    return list(read_lines(text.splitlines(), "stdout"))


def test_write_is_followed_from_node_to_node(tmp_path: Path) -> None:
    with open_cluster(tmp_path, ("a", "b")) as cluster, graphing(list(cluster), "-o", "json") as process:
        with cluster["a"].client() as client:
            client.set("k", "v")
        cluster.wait_equal(10)
        code, out, _ = _interrupted(process)
    assert code == 0
    moments = _moments(out)
    assert [moment.at_ms for moment in moments] == sorted(moment.at_ms for moment in moments)
    ways = [
        (moments[arrow.start].kind, arrow.source, arrow.target)
        for arrow in arrows(moments)
        if arrow.start is not None and arrow.end is not None
        if any(event.path == "k" for event in moments[arrow.end].events)
    ]
    assert ("set", "a", "b") in ways


def test_text_is_shown_while_it_happens(servers: Servers) -> None:
    server = servers.start("a", "--init", "1", "--transport", "solo")
    server.wait_ready()
    with graphing([server]) as process, server.client() as client:
        assert process.stdout is not None
        assert process.stdout.readline().endswith(" a is ready\n")
        client.set("k", 1)
        assert process.stdout.readline().endswith(" k = 1\n")
        code, _, err = _interrupted(process)
    assert (code, err) == (0, f"distkv: listening to a at {server.address}; Ctrl-C ends it\n")


def test_picture_is_drawn_at_the_end(servers: Servers, tmp_path: Path) -> None:
    server = servers.start("a", "--init", "1", "--transport", "solo")
    server.wait_ready()
    file = tmp_path / "out"
    with graphing([server], "-o", "svg", "--out", str(file)) as process, server.client() as client:
        client.set("k", 1)
        assert _interrupted(process)[0] == 0
    root = ElementTree.parse(file).getroot()
    assert any(text.endswith(" k = 1") for text in root.itertext())


def test_node_that_restarts_goes_out_of_sight_and_is_back(servers: Servers) -> None:
    server = servers.start("a", "--init", "1", "--transport", "solo")
    server.wait_ready()
    with graphing([server], "-o", "json") as process:
        assert process.stdout is not None
        lines = [process.stdout.readline()]  # the node may count a listener whom it has told nothing yet
        server.kill()
        lines.append(process.stdout.readline())
        server.start("--transport", "solo").wait_ready()
        lines.append(process.stdout.readline())
        with server.client() as client:
            client.set("k", 1)
        lines.append(process.stdout.readline())
        code, rest, _ = _interrupted(process)
    assert (code, rest) == (0, "")
    assert [moment.kind for moment in _moments("".join(lines))] == ["seen", "is out of sight", "seen", "set"]


def test_time_that_is_over_ends_it(servers: Servers) -> None:
    server = servers.start("a", "--init", "1", "--transport", "solo")
    server.wait_ready()
    done = servers.run("graph", "--live", server.address, "--for", "0.5", "-o", "mermaid")
    assert done.code == 0
    assert done.text.startswith("sequenceDiagram\n")
    assert "; for 0.5 s" in done.err


def test_server_that_is_not_there_is_one_line_and_5(servers: Servers) -> None:
    done = servers.run("graph", "--live", "127.0.0.1:1")
    assert (done.code, done.out) == (5, b"")
    assert done.err.startswith("distkv: no server answers at 127.0.0.1:1 ")
    assert done.err.count("\n") == 1


def test_node_that_is_named_twice_is_refused(servers: Servers) -> None:
    server = servers.start("a", "--init", "1", "--transport", "solo")
    server.wait_ready()
    done = servers.run("graph", "--live", server.address, "--live", server.address.replace("127.0.0.1", "localhost"))
    assert (done.code, done.out) == (2, b"")
    assert "are both the node a: name each node once" in done.err
