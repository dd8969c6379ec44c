"""A node that froze while a message was put there, the same for each client.

Knows: what such a node, and the next one, is asked.  Does not know real nodes, nor how long anything takes.
"""

from __future__ import annotations

import anyio
import pytest

from distkv.client.blocking import connect
from distkv.errors import UnreachableError
from distkv.wire.node_requests import PingRequest
from distkv.wire.replies import encode_reply
from distkv.wire.topic_requests import TopicPut
from tests.unit.client.answering_server import open_answering
from tests.unit.client.scripted_server import ScriptedServer, Step, open_server, silence
from tests.unit.client.shells import SHELLS, hosts, opened

REPLY_S = 20.0
"""Each of two nodes may take half of it; a sign of life is asked for after two seconds."""


def stored(server: list[ScriptedServer], seqs_ago: int = 0) -> Step:
    """The first put that came is stored."""

    def step(seq: int) -> bytes:
        [put, *_] = [one for one in server[0].requests if isinstance(one, TopicPut)]
        done = {"producer": put.producer, "counter": put.counter, "duplicate": False, "copies": 1}
        return encode_reply(seq - seqs_ago, done)

    return step


def put(shell: str, servers: list[ScriptedServer]) -> int:
    """Put a message; its counter."""
    if shell != "blocking":
        return anyio.run(_put, shell, servers, backend=shell)
    with connect(hosts(servers), reply_s=REPLY_S) as client:
        return client.producer("p").put("bills", 1).counter


async def _put(loop: str, servers: list[ScriptedServer]) -> int:
    async with opened(loop, *servers, reply_s=REPLY_S) as client:
        done = await client.producer("p").put("bills", 1)
        return done.counter


@pytest.mark.parametrize("shell", SHELLS)
def test_node_that_gives_no_sign_of_life_is_left_for_the_next_one(shell: str) -> None:
    there = list[ScriptedServer]()
    with open_server(silence, silence) as first, open_server(stored(there)) as second:
        there.append(second)
        assert put(shell, [first, second]) == 1
    assert [type(one) for one in first.requests] == [TopicPut, PingRequest]


@pytest.mark.parametrize("shell", SHELLS)
def test_node_that_gives_a_sign_of_life_is_waited_for(shell: str) -> None:
    there = list[ScriptedServer]()
    late = stored(there, 1)
    with open_server(silence, lambda seq: encode_reply(seq, {}) + late(seq)) as first, open_server() as second:
        there.append(first)
        assert put(shell, [first, second]) == 1
    assert second.requests == []


@pytest.mark.parametrize(("lives", "says"), [(True, "lives, and did not answer in time"), (False, "does not answer")])
def test_error_says_whether_the_node_that_did_not_answer_lives(*, lives: bool, says: str) -> None:
    def answer(request: object) -> bytes:
        return encode_reply(request.seq, {}) if lives and isinstance(request, PingRequest) else b""

    with (
        open_answering(answer) as server,
        connect([server.host] * 2, reply_s=2.0) as client,
        client.consumer("bills", id="s") as consumer,
        pytest.raises(UnreachableError, match=says),
    ):
        consumer.receive()
