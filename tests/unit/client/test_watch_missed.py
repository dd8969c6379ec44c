"""What each client gives of changes that its node missed.

Knows: the frames of a watch.  Does not know when a node sends them.
"""

from __future__ import annotations

import anyio
import pytest

from distkv.client.blocking import connect
from distkv.client.watch import Missed
from distkv.wire.replies import encode_reply
from tests.unit.client.scripted_server import ScriptedServer, open_server
from tests.unit.client.shells import SHELLS, hosts, opened

CHANGE = {"path": ["w"], "value": 1, "node": "a", "tick": 9, "tock": 1, "time": 1.5, "token": b"2"}
FRAMES = ({"state": "start"}, {"missed": {"a": 49}, "token": b"1"}, CHANGE)


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
