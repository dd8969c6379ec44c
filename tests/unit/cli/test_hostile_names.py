"""Whatever a node that lies says, no command gives the terminal a mark that steers it, nor a line without an end.

Knows: a server that answers with hostile names, and every command that shows what nodes say.  Does not know a real
node: tests/process/test_cli_unseen.py has hostile paths and values on one.
"""

from __future__ import annotations

from typing import Any

import pytest

from distkv.cli.main import run
from distkv.cli.output import SAID_CHARS_MAX
from distkv.text.display import CELL_CHARS_MAX
from distkv.wire import packing
from distkv.wire.node_requests import GetState, LookForDamage, Stop
from distkv.wire.replies import encode_end, encode_reply, encode_start
from distkv.wire.subtrees import GetTree, Watch
from distkv.wire.token_requests import TokenKeep, TokenList, TokenServers, TokenShow, TokenWatch
from distkv.wire.value_requests import GetHistory
from tests.unit.client.answering_server import open_answering

Capture = pytest.CaptureFixture[str]

MARKS = "\x1b[31mX\x07\r\n\t\u202e\u2066\x9b\u200f\x7f\u2028"
LONG = 20_000
HOSTILE: dict[str, Any] = {
    "marks": MARKS, "long": "x" * LONG, "both": MARKS * 1000, "number": 7, "list": [MARKS, {MARKS: 1}],
}  # fmt: skip
COMMANDS = (
    ("state",), ("state", "-o", "json"), ("state", "-o", "yaml"), ("state", "--wait", "ready", "--timeout", "0"),
    ("state", "--wait", "converged", "--timeout", "0"), ("state", "--wait", "converged", "--alone", "--timeout", "0"),
    ("node", "list"), ("node", "list", "-o", "json"), ("node", "list", "-o", "yaml"), ("node", "retire", "b"),
    ("token", "list"), ("token", "list", "-o", "json"), ("token", "list", "-o", "yaml"), ("token", "show", "t"),
    ("token", "show", "t", "-o", "yaml"), ("token", "watch", "--count", "1"),
    ("token", "watch", "--count", "1", "-o", "json"), ("token", "servers"), ("token", "servers", "-o", "yaml"),
    ("token", "servers", "--set", "a", "--wait", "0"), ("token", "renew", "--session", "1-x"), ("token", "break", "t"),
    ("aside", "list"), ("aside", "list", "-o", "json"), ("aside", "retry", "x"), ("scrub",), ("scrub", "-o", "json"),
    ("ping", "-n", "1"), ("conflicts",), ("history", "p"), ("list",), ("get", "p", "-m"), ("get", "-r", "p"),
    ("watch", "p", "--count", "1", "-m"), ("set", "p", "1"),
)  # fmt: skip


def answer(request: Any, name: Any) -> bytes:
    """What such a node says to a request."""
    holder = {"session": name, "shared": False, "epoch": 1, "counter": 1, "since": 1.0}
    item = {"token": name, "server": name, "holders": [holder], "waiting": name, "data": name}
    member = {"node": name, "state": name, "addr": name}
    path = [name] if isinstance(name, str) else [MARKS]
    event = {"path": path, "node": "b", "tick": 1, "tock": 1, "time": 1.0, "value": name, "token": b"t"}
    aside = {
        **dict.fromkeys(("id", "path", "error", "at", "release"), name), "first": 1.0, "last": 1.0, "missing": True,
    }  # fmt: skip
    key = name if isinstance(name, str) else MARKS
    state = {
        "node": name, "state": name, "waits_for": name, "addr": name, "nodes": {key: 1}, "missing": {},
        "members": [member, {**member, "state": "away"}, {**member, "node": "b", "state": "alive"}],
        "links": [{**member, "rtt_ms": 1.0}], "transport": {"kind": name, "connected": True}, "aside": [aside],
        "tree": {"announced": {key: {"level": 1, "parent": name, "load": 1, "services": {key: name}}}},
    }  # fmt: skip
    ready = {**state, "state": "ready", "waits_for": None}
    kept = {"version": 1, "ttl": name, "lost": [name]}
    servers = {"servers": [{**member, "life": 1}], "leader": name, "term": 1, "version": 1, "sessions": 1}
    shown = {"last": {"rows": 1, "damaged": 1, "begun": 1.0, "ended": 1.0}, "lost_count": 1, "dropped": 1}
    found = {**shown, "places": [name], "lost": [{"path": name, "place": name}]}
    told: dict[str, Any] = {"of": name, "rows": name, "found": found}
    match request:
        case GetState():
            return encode_reply(request.seq, ready if request.seq % 2 else state)
        case TokenList():
            return encode_reply(request.seq, {"items": [item], "more": False})
        case TokenShow():
            return encode_reply(request.seq, item)
        case TokenWatch():
            return encode_start(request.seq) + encode_reply(request.seq, {"items": [item]})
        case TokenKeep():
            return encode_reply(request.seq, kept)
        case TokenServers():
            return encode_reply(request.seq, {**servers, "list": [name], "next": [name]})
        case LookForDamage():
            return encode_start(request.seq) + encode_reply(request.seq, told) + encode_end(request.seq)
        case _:
            if isinstance(request, GetTree | GetHistory | Watch):
                item = encode_reply(request.seq, event)
                return encode_start(request.seq) + item + encode_end(request.seq)
            return packing.pack({"seq": request.seq, "error": str(name), "code": "no_such_code"})


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_nothing_that_steers_reaches_the_terminal(capsys: Capture, words: tuple[str, ...], kind: str) -> None:
    with open_answering(lambda request: answer(request, HOSTILE[kind])) as server:
        run(["client", "-h", server.host, *words])
    said = capsys.readouterr()
    for shown in (said.out, said.err):
        assert shown.replace("\n", "").isprintable(), ascii(shown[:2000])
    assert said.out or said.err
    assert len(said.err) < 4 * SAID_CHARS_MAX * (1 + said.err.count("\n"))


@pytest.mark.parametrize("words", [("node", "list"), ("token", "servers")], ids=" ".join)
def test_long_name_is_cut_in_a_table(capsys: Capture, words: tuple[str, ...]) -> None:
    with open_answering(lambda request: answer(request, HOSTILE["long"])) as server:
        run(["client", "-h", server.host, *words])
    assert max(map(len, capsys.readouterr().out.splitlines())) < 8 * CELL_CHARS_MAX


@pytest.mark.parametrize("form", ["text", "json", "mermaid"])
def test_live_graph_of_a_node_that_lies_does_not_steer(capsys: Capture, form: str) -> None:
    said = {"kind": "ping", "key": MARKS, "sender": MARKS, "to": MARKS, "about": MARKS, "chain": MARKS}
    moment = {
        "at_ms": 1, "node": MARKS, "kind": "hear", "heard": said, "sent": [said], "notes": [MARKS],
    }  # fmt: skip

    def tell(request: Any) -> bytes:
        if isinstance(request, Stop):
            return encode_end(request.task) + encode_reply(request.seq, {})
        return encode_start(request.seq) + encode_reply(request.seq, {"moment": moment})

    with open_answering(tell) as server:
        run(["graph", "--live", server.host, "--for", "1", "-o", form])
    shown = capsys.readouterr()
    assert (shown.out + shown.err).replace("\n", "").isprintable(), ascii((shown.out + shown.err)[:2000])
    assert "X" in shown.out
