"""Who waits for a token goes on waiting when all servers stood still for longer than a session lives.

Knows: the command, the blocking client and the one for asyncio, against a real server.  Does not know sessions.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from distkv.client.async_client import open_client
from distkv.client.blocking import Client
from tests.process.forks import CHECKOUT, Command
from tests.process.servers import Server, open_servers, wait_until
from tests.process.tokens import DEADLINE_S, LEASE_S, LONG_S, TTL_S, acquire, pause, show

WAIT_S = 3600.0


@pytest.fixture
def solo(tmp_path: Path) -> Iterator[Server]:
    with open_servers(tmp_path) as servers:
        server = servers.add("a")
        options = [f"tokens.{name}" for name in ("servers=[a]", f"lease={LEASE_S:g}", f"ttl={TTL_S:g}")]
        given = [word for option in options for word in ("-C", option)]
        server.start("--init", "hello", "--transport", "solo", options=given).wait_ready()
        wait_until(lambda: server.run("token", "servers").code == 0, "tokens are served", DEADLINE_S, server.dump)
        yield server


def test_who_waits_gets_the_token_after_an_outage_that_was_longer_than_the_ttl(solo: Server) -> None:
    """docs/protocol, SESSION-13; in the issue it was `session_expired` after 4 s of 60."""
    fence, session = acquire(solo, "job", "--ttl", LONG_S)
    got = list[str]()

    def block() -> None:
        with Client([("127.0.0.1", solo.port)]) as client, client.token("job", wait_s=WAIT_S) as token:
            got.append(str(token.fence))

    async def await_it() -> None:
        async with open_client("127.0.0.1", solo.port) as client, client.token("job", wait_s=WAIT_S) as token:
            got.append(str(token.fence))

    threads = [threading.Thread(target=block), threading.Thread(target=asyncio.run, args=(await_it(),))]
    for thread in threads:
        thread.start()
    command = [*CHECKOUT, "client", "-p", str(solo.port), "token", "run", "job", "--wait", f"{WAIT_S:g}", "--"]
    command += ["sh", "-c", "echo $DISTKV_FENCE"]
    with Command(command, stdout=subprocess.PIPE, env=dict(solo.environment)) as run:
        wait_until(lambda: show(solo, "job").get("waiting") == 3, "all wait", DEADLINE_S)
        solo.send_signal(signal.SIGSTOP)
        pause(2 * TTL_S)
        solo.send_signal(signal.SIGCONT)
        wait_until(lambda: show(solo, "job").get("waiting") == 3, "all wait again", DEADLINE_S)
        assert solo.run("token", "release", "job", "--session", session).code == 0
        for thread in threads:
            thread.join(DEADLINE_S)
        out, _ = run.communicate(timeout=DEADLINE_S)
    assert run.returncode == 0
    got.append(out.decode().strip())
    assert len({*got, fence}) == 4
