"""What a real server writes to stderr: how much, and in which form.

Knows: options and settings about logs.  Does not know the events of a node, but for a few.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.process.ports import free_port
from tests.process.servers import Servers


def _run_and_stop(servers: Servers, *options: str) -> list[str]:
    """What a server writes that starts, serves and is stopped, with these global options."""
    server = servers.add("solo")
    server.start("--transport", "solo", "--init", "x", options=options).wait_ready()
    assert server.terminate() == 0
    return server.errors.splitlines()


def test_server_that_is_well_says_nothing(servers: Servers) -> None:
    assert _run_and_stop(servers) == []


def test_verbose_server_tells_events_with_their_fields(servers: Servers) -> None:
    lines = _run_and_stop(servers, "-v")
    assert any(" info loaded entries=0 replayed=0 seconds=" in line for line in lines)
    assert lines[-1].endswith(" info stopping signal=SIGTERM")


def test_one_source_can_say_more_than_the_others(servers: Servers) -> None:
    lines = _run_and_stop(servers, "--log", "daemon=info")
    assert [line.split()[2] for line in lines] == ["loaded", "stopping"]


def test_one_source_can_say_less_than_the_others(servers: Servers) -> None:
    lines = _run_and_stop(servers, "-v", "--log", "daemon=error")
    assert "ready" in [line.split()[2] for line in lines]
    assert "stopping" not in [line.split()[2] for line in lines]


def test_json_log_is_an_object_in_each_line(servers: Servers) -> None:
    events = [json.loads(line) for line in _run_and_stop(servers, "-vv", "-C", "log.format=json")]
    assert all(event.keys() == {"time", "level", "source", "id", "fields"} for event in events)
    assert (events[-1]["id"], events[-1]["level"], events[-1]["fields"]) == ("stopping", "info", {"signal": "SIGTERM"})


@pytest.mark.parametrize(("flag", "keys"), [("-v", set()), ("-vvv", {"error", "traceback"})])
def test_failure_of_a_server_that_logs_json_is_an_object_too(
    servers: Servers, tmp_path: Path, flag: str, keys: set[str]
) -> None:
    words = ["--transport", "solo", "--data-dir", str(tmp_path / "a"), "--bind", f"127.0.0.1:{free_port()}"]
    ran = servers.run(flag, "-C", "log.format=json", "server", "a", *words)
    assert ran.code == 2
    *_, event = map(json.loads, ran.err.splitlines())
    assert (event["id"], event["level"]) == ("ended", "critical")
    assert "give --init VALUE" in event["fields"]["reason"]
    assert event.keys() - {"time", "level", "source", "id", "fields"} == keys
