"""What the row of each request says of its answer is what a connection does.

Knows: an example of each request.  Does not know what is in the answers.
"""

# ruff: noqa: ARG001  # asking for the clock is what makes time virtual

from __future__ import annotations

import random
from pathlib import Path as FilePath
from typing import Any, Final

import pytest
import trio
from trio.testing import MockClock

from distkv.core.accounts.machine import AccountMachine
from distkv.core.accounts.requests import ACCOUNTS
from distkv.core.accounts.settings import AccountSettings
from distkv.core.activity.machine import ActivityMachine
from distkv.core.activity.settings import ACTIVITY, ActivitySettings
from distkv.core.ground.machine import ServiceMachine
from distkv.core.tokens.machine import TOKENS, TokenMachine
from distkv.core.tokens.token_settings import TokenSettings
from distkv.core.topics.machine import TopicMachine
from distkv.core.topics.settings import TOPICS, TopicSettings
from distkv.model.event import NodeName
from distkv.wire import packing
from distkv.wire.codec import tick_maps_map
from distkv.wire.frames import ROWS, BadRequest, decode_request
from distkv.wire.row import AnyRow, ReplyForm, When
from tests.node.nodes import Client, Reply, new_replica, solo_node
from tests.node.test_session_requests import waiting_node

MAPS: Final = tick_maps_map(new_replica("q").maps())
EXAMPLES: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("get_value", {"path": ["x"]}),
    ("get_value", {"path": ["x"], "at": 1.7e9}),
    ("set_value", {"path": ["x"], "value": 1}),
    ("set_value", {"path": ["x"], "value": 1, "replicas": 2, "timeout": 1.0}),
    ("delete_value", {"path": ["x"]}),
    ("delete_value", {"path": ["x"], "replicas": 2, "timeout": 1.0}),
    ("history", {"path": ["x"]}),
    ("batch", {"ops": [{"action": "get_value", "path": ["x"]}]}),
    ("get_tree", {"path": []}),
    ("list", {"path": []}),
    ("delete_tree", {"path": ["x"]}),
    ("watch", {"path": []}),
    ("conflicts", {}),
    ("restore", {"id": "a:1"}),
    ("dismiss", {"id": "a:1"}),
    ("backup", {}),
    ("scrub", {}),
    ("trace", {}),
    ("stop", {"task": 1}),
    ("get_state", {}),
    ("get_members", {}),
    ("get_keys", {}),
    ("change_key", {"change": "use", "key": b"1234"}),
    ("retire_node", {"node": "z"}),
    ("aside", {"id": "b:5"}),
    ("ping", {}),
    ("get_events", {"nodes": {"a": [1]}}),
    ("get_pages", {"size": 1}),
    ("events_wait", {"nodes": {"a": 1000}, "timeout": 1.0}),
    ("follow", {"nodes": {"a": 0}}),
    ("held", {"task": 1, "nodes": {"a": 1}}),
    ("attach", {"as": {"node": "z", "life": 1}}),
    ("tree_say", {"task": 1, "ping": True}),
    ("lend", {"as": {"node": "z", "life": 1}, "network": bytes(8)}),
    ("node_tell", {"service": "x", "as": {"node": "z", "life": 1}, "bodies": [b"y"]}),
    ("token_open", {}),
    ("token_close", {"session": "1-a"}),
    ("token_keep", {"session": "1-a", "version": 1, "held": []}),
    ("token_acquire", {"session": "1-a", "token": "t"}),
    ("token_release", {"session": "1-a", "token": "t"}),
    ("token_data", {"session": "1-a", "token": "t", "data": 1}),
    ("token_show", {"token": "t"}),
    ("token_list", {}),
    ("token_watch", {}),
    ("token_break", {"token": "t"}),
    ("token_servers", {}),
    ("token_set_servers", {"servers": ["a"]}),
    ("token_reset", {"force": True}),
    ("token_reset", {"force": True, "servers": ["a"]}),
    ("topic_subscribe", {"topic": "log", "subscriber": "s"}),
    ("topic_unsubscribe", {"topic": "log", "subscriber": "s"}),
    ("topic_put", {"topic": "log", "value": 1}),
    ("topic_get", {"topic": "log", "subscriber": "s"}),
    ("topic_show", {"topic": "log"}),
    ("topic_list", {}),
    ("topic_set", {"topic": "log", "keep_s": 60.0}),
    ("topic_drop", {"topic": "log"}),
    ("account_list", {}),
    ("account_remove", {"name": "ann"}),
    ("activity_who", {}),
    ("activity_place", {}),
    ("get_changes", {"nodes": {"a": [1]}}),
    ("get_snapshot", {"node": "z", "created": 1.0, "addr": "z:1"}),
    ("exchange", {"maps": MAPS}),
)

AT_ONCE: Final = {"topic_get", "topic_show", "topic_list", "topic_set", "topic_drop"}
AT_ONCE |= {"account_list", "activity_who", "activity_place"}
"""Of a topic that there is not, or of what this node knows: nothing has to be waited for."""


def _row(action: str, fields: dict[str, Any]) -> AnyRow[Any]:
    request = decode_request(packing.pack({"seq": 1, "action": action, **fields}))
    assert not isinstance(request, BadRequest), request.error
    (row,) = (row for row in ROWS if (row.action, row.type) == (action, type(request)))
    return row


ASKED: Final = [pytest.param(*example, id="-".join(map(str, [example[0], *example[1]]))) for example in EXAMPLES]


def test_there_is_an_example_of_each_request() -> None:
    assert {_row(*example) for example in EXAMPLES} == {*ROWS}


@pytest.mark.trio
@pytest.mark.parametrize("state", ["passive", "recovering"])
@pytest.mark.parametrize(("action", "fields"), ASKED)
async def test_node_that_does_not_serve_refuses_what_the_row_says(
    autojump_clock: MockClock, action: str, fields: dict[str, Any], state: str
) -> None:
    row = _row(action, fields)
    async with waiting_node(state) as node, node.client() as client:
        reply = await client.ask(action, **fields)
    if row.when is When.SPONSORING:
        assert reply["code"] == {"passive": "not_ready", "recovering": "busy"}[state]
    else:
        assert (reply.get("code") == "not_ready") == (row.when is When.SERVING)


@pytest.mark.trio
@pytest.mark.parametrize(("action", "fields"), ASKED)
async def test_answer_has_the_form_that_the_row_says(
    autojump_clock: MockClock, tmp_path: FilePath, action: str, fields: dict[str, Any]
) -> None:
    row = _row(action, fields)
    server = NodeName("a" if action == "token_watch" else "absent")  # what nobody answers at once is refused in the end
    services: dict[str, ServiceMachine] = {
        TOKENS: TokenMachine(TokenSettings((server,)), random.Random(1)),
        TOPICS: TopicMachine(TopicSettings(), random.Random(2)),
        ACCOUNTS: AccountMachine(AccountSettings(), random.Random(3)),
        ACTIVITY: ActivityMachine(ActivitySettings(), random.Random(4)),
    }
    async with solo_node(archive=str(tmp_path / "archive"), services=services) as node, node.client() as client:
        await client.set("x", 0)
        form = await _form(client, action, fields)
        assert form is row.form or (action in AT_ONCE and form is ReplyForm.SIMPLE)


async def _form(client: Client, action: str, fields: dict[str, Any]) -> ReplyForm:
    """Of the answer, found out by a ping that is sent behind the request."""
    request, ping = client.frame(action, **fields), client.frame("ping")
    seq = client.seq - 1
    await client.stream.send_all(request + ping)
    first = before = await client.receive()
    while first is not None and first["seq"] != seq:
        before, first = first, await client.receive()
    assert first is not None
    if first.get("state") != "start":
        return ReplyForm.SIMPLE if before is first else ReplyForm.LATER
    with trio.move_on_after(600):
        while (reply := await _next(client, seq)).get("state") != "end":
            assert "error" not in reply
        return ReplyForm.LONG
    return ReplyForm.OPEN


async def _next(client: Client, seq: int) -> Reply:
    while (reply := await client.receive()) is not None:
        if reply["seq"] == seq:
            return reply
    raise EOFError("the server closed the connection")
