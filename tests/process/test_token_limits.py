"""Sessions, tokens and waits without end, and a client that never reads: a clear refusal, and others are served.

Knows: requests as a client sends them, and the limits.  Does not know where the server keeps what waits.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

import distkv
from distkv.client.blocking import Client
from distkv.wire import packing
from tests.process.servers import Server, open_servers, wait_until

SESSIONS, TOKENS, WAITERS = 24, 8, 3
OPTIONS = (
    "tokens.servers=[solo]", "tokens.lease=1.0", f"limits.token_sessions={SESSIONS}", f"limits.tokens={TOKENS}",
    f"limits.token_waiters={WAITERS}",
)  # fmt: skip
TTL_S = 3600.0
CHANGES = 400
DATA_BYTES = 60_000


@pytest.fixture
def solo(tmp_path: Path) -> Iterator[Server]:
    with open_servers(tmp_path) as servers:
        server = servers.add("solo")
        server.start("--transport", "solo", "--init", "x", options=[word for one in OPTIONS for word in ("-C", one)])
        server.wait_ready()
        with server.client() as client:
            wait_until(lambda: grants(client), "tokens are granted", 60, server.dump)
        yield server


def grants(client: Client) -> bool:
    with suppress(distkv.NoQuorum):
        session = open_session(client)
        found = ask(client, "token_acquire", session=session, token="first")
        client.request("token_close", {"session": session})
        return "epoch" in found
    return False


def open_session(client: Client) -> str:
    return str(client.request("token_open", {"ttl": TTL_S})["session"])


def ask(client: Client, action: str, **fields: object) -> Mapping[str, object]:
    return client.request(action, fields)


def send(line: socket.socket, seq: int, action: str, **fields: object) -> None:
    line.sendall(packing.pack({"seq": seq, "action": action, **fields}))


def read_until(line: socket.socket, is_enough: Callable[[Mapping[str, Any]], bool]) -> list[Mapping[str, Any]]:
    """What comes, up to the first frame that is enough."""
    data, found = b"", list[Mapping[str, Any]]()
    while not (found and is_enough(found[-1])):
        part = line.recv(1 << 20)
        assert part, "the server closed the connection"
        data += part
        while (end := whole(data)) is not None:
            found.append(cast("Mapping[str, Any]", packing.unpack(data[:end])))
            data = data[end:]
            if is_enough(found[-1]):
                break
    return found


def whole(data: bytes) -> int | None:
    skipper = packing.Skipper()
    skipper.feed(data)
    return skipper.skip() if data else None


def open_all(client: Client) -> list[str]:
    """As many sessions as this connection gets."""
    found, refusal = list[str](), ""
    while not refusal:
        try:
            found.append(open_session(client))
        except distkv.Busy as error:
            refusal = str(error)
    assert "limits.token_sessions" in refusal
    return found


def test_connection_that_wants_all_sessions_leaves_some_to_others(solo: Server) -> None:
    """docs/protocol, SESSION-14."""
    with solo.client() as client, solo.client() as other:
        sessions = open_all(client)
        assert len(sessions) == SESSIONS // 2  # a third, if other nodes belonged to the network
        assert solo.run("token", "run", "t", "--", "true").code == 0
        assert open_all(other)
        for session in sessions[: len(sessions) // 2]:
            ask(client, "token_close", session=session)
        open_session(client)


def test_clients_of_one_node_that_want_all_sessions_are_refused_in_one_line(solo: Server) -> None:
    clients, counts = list[Client](), [1]
    try:
        while counts[-1]:
            clients.append(solo.client())
            counts.append(len(open_all(clients[-1])))
        assert sum(counts) == 1 + SESSIONS
        ran = solo.run("token", "run", "t", "--", "true")
        assert (ran.code, ran.err.count("\n")) == (1, 1)
        assert "limits.token_sessions" in ran.err
    finally:
        for client in clients:
            client.close()


def test_tokens_and_waits_beyond_the_limits_are_refused(solo: Server) -> None:
    with solo.client() as client, solo.dial(60) as line:
        holder, *waiters, late = [open_session(client) for _ in range(WAITERS + 2)]
        for number in range(TOKENS):
            ask(client, "token_acquire", session=holder, token=f"t{number}")
        with pytest.raises(distkv.Busy, match=r"limits\.tokens"):
            ask(client, "token_acquire", session=holder, token="more")
        for number, session in enumerate(waiters, 1):
            send(line, number, "token_acquire", session=session, token="t0", wait=TTL_S)
        wait_until(lambda: ask(client, "token_show", token="t0")["waiting"] == WAITERS, "they wait", 60, solo.dump)
        with pytest.raises(distkv.Busy, match=f"{WAITERS} sessions wait for"):
            ask(client, "token_acquire", session=late, token="t0", wait=1.0)
        ask(client, "token_release", session=holder, token="t0")
        assert "epoch" in read_until(line, lambda frame: frame["seq"] == 1)[-1]


def test_client_that_never_reads_costs_nobody_anything_and_is_told_the_last_state(solo: Server) -> None:
    """It watches, and waits for the token on the same connection, while the token changes faster than any buffer."""
    with solo.client() as client, solo.dial(60) as deaf:
        holder, *waiters = [open_session(client) for _ in range(WAITERS + 1)]
        ask(client, "token_acquire", session=holder, token="t")
        send(deaf, 1, "token_watch")
        for number, session in enumerate(waiters, 2):
            send(deaf, number, "token_acquire", session=session, token="t", wait=TTL_S)
        wait_until(lambda: ask(client, "token_show", token="t")["waiting"] == WAITERS, "they wait", 60, solo.dump)
        for number in range(CHANGES):
            ask(client, "token_data", session=holder, token="t", data=[number, b"x" * DATA_BYTES], keep_data=True)
        ask(client, "token_release", session=holder, token="t")
        for session in waiters:
            wait_until(lambda one=session: holds(client, one), "the next one has it", 60, solo.dump)  # type: ignore[misc]
            ask(client, "token_close", session=session)
        frames = read_until(deaf, lambda frame: frame["seq"] == 1 and frame.get("holders") == [])
        states = [frame["data"][0] for frame in frames if frame["seq"] == 1 and frame.get("data") is not None]
        assert states == sorted(states)
        assert states[-1] == CHANGES - 1
        assert len(states) < CHANGES
        assert [frame["token"] for frame in frames if frame["seq"] > 1] == ["t"] * WAITERS


def holds(client: Client, session: str) -> bool:
    holders = cast("list[Mapping[str, object]]", ask(client, "token_show", token="t")["holders"])
    return session in [one["session"] for one in holders]
