"""What each client gives of changes that its node missed, and of values that its disk lost.

Knows: the frames of a watch.  Does not know when a node sends them.
"""

from __future__ import annotations

import anyio
import pytest

from distkv.client.blocking import connect
from distkv.client.watch import Lost, Missed
from distkv.model.path import Path
from distkv.wire.replies import addressed, encode_reply
from distkv.wire.watch import encode_lost
from tests.unit.client.scripted_server import ScriptedServer, open_server
from tests.unit.client.shells import SHELLS, hosts, opened

CHANGE = {"path": ["w"], "value": 1, "node": "a", "tick": 9, "tock": 1, "time": 1.5, "token": b"2"}
FRAMES = ({"state": "start"}, {"missed": {"a": 49}, "token": b"1"}, CHANGE)


def lost(seq: int) -> bytes:
    return encode_reply(seq, {"state": "start"}) + addressed(encode_lost(Path(["x"])), seq) + encode_reply(seq, CHANGE)


def answer(seq: int) -> bytes:
    return b"".join(encode_reply(seq, fields) for fields in FRAMES)


def first(shell: str, server: ScriptedServer, method: str) -> object:
    """What a watch gives first."""
    if shell != "blocking":
        return anyio.run(_first, shell, server, method, backend=shell)
    with connect(hosts([server])) as client:
        return next(getattr(client, method)("w"))


async def _first(shell: str, server: ScriptedServer, method: str) -> object:
    async with opened(shell, server) as client, getattr(client, method)("w") as watch:
        return await anext(aiter(watch))


@pytest.mark.parametrize("shell", SHELLS)
def test_what_was_missed_is_one_of_all_events(shell: str) -> None:
    with open_server(answer) as server:
        assert first(shell, server, "watch_events") == Missed({"a": 49}, b"1")  # type: ignore[dict-item]


@pytest.mark.parametrize("shell", SHELLS)
def test_what_was_missed_is_no_change(shell: str) -> None:
    with open_server(answer) as server:
        assert getattr(first(shell, server, "watch"), "value", None) == 1


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("method", ["watch", "watch_events"])
def test_what_the_disk_lost_is_told_by_every_watch(shell: str, method: str) -> None:
    with open_server(lost) as server:
        assert first(shell, server, method) == Lost(Path(["x"]))
