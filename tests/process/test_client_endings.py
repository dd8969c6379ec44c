"""Programs that end while tasks of theirs hold tokens, wait for them, or ask.

Knows: asyncio programs as users write them, Ctrl-C, and a real node.  Does not know what a client does then.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.servers import Server
from tests.process.tokens import open_token_node

BEGIN = """
import asyncio, sys
import distkv

where = f"127.0.0.1:{sys.argv[1]}"
tasks, held = [], []

async def hold(client, name):
    async with client.token(name, wait_s=1000):
        print("held", flush=True)
        held.append(name)
        await asyncio.sleep(1000)

async def until_held():
    while not held:
        await asyncio.sleep(0.01)

async def wait_for(client, name):
    async with client.token(name, wait_s=1000):
        print("never", flush=True)

def start(work):
    tasks.append(asyncio.get_running_loop().create_task(work))
"""

HELD = """
async def main():
    client = await distkv.open_client(where).__aenter__()
    start(hold(client, "end.held"))
    await until_held()

asyncio.run(main())
"""

HELD_IN_BLOCK = """
async def main():
    async with distkv.open_client(where) as client:
        start(hold(client, "end.block"))
        await until_held()

asyncio.run(main())
"""

JUST_BEGUN = """
async def main():
    client = await distkv.open_client(where).__aenter__()
    start(hold(client, "end.begun"))
    await asyncio.sleep(0)

asyncio.run(main())
"""

WAITING = """
async def main():
    client = await distkv.open_client(where).__aenter__()
    start(hold(client, "end.waiting"))
    await until_held()
    for _ in range(3):
        start(wait_for(client, "end.waiting"))
    await asyncio.sleep(0.5)

asyncio.run(main())
"""

FAILING = """
async def wait_behind(client):
    await until_held()
    await wait_for(client, "end.failing")

async def fail():
    await until_held()
    await asyncio.sleep(0.3)
    raise ValueError("as it has to be")

async def main():
    async with distkv.open_client(where) as client:
        await asyncio.gather(hold(client, "end.failing"), wait_behind(client), fail())

try:
    asyncio.run(main())
except ValueError as error:
    print(error)
"""

AT_ONCE = """
async def main(turns, asks):
    client = await distkv.open_client(where)
    if asks:
        start(client.get("end.once"))
    for _ in range(turns):
        await asyncio.sleep(0)

for turns in range(5):
    asyncio.run(main(turns, asks=False))
    asyncio.run(main(turns, asks=True))
"""

GATHERED = """
async def main():
    async with distkv.open_client(where) as client:
        await asyncio.gather(hold(client, "end.gathered"), hold(client, "end.gathered.too"))

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for all tests."""
    with open_token_node(tmp_path_factory.mktemp("node")) as found:
        yield found


def program(node: Server, tmp_path: Path, text: str) -> subprocess.Popen[str]:
    file = tmp_path / "program.py"
    file.write_text(BEGIN + text, encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, str(file), str(node.port)],
        env=dict(node.environment), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def assert_free(node: Server, name: str) -> None:
    """Others get the token at once: the session was closed, and did not only end with its time."""
    with node.client() as client, client.token(name) as token:
        assert not token.is_lost


@pytest.mark.parametrize(
    ("text", "name", "printed"),
    [
        (HELD, "end.held", "held\n"),
        (HELD_IN_BLOCK, "end.block", "held\n"),
        (JUST_BEGUN, "end.begun", ""),
        (WAITING, "end.waiting", "held\n"),
        (FAILING, "end.failing", "held\nas it has to be\n"),
    ],
    ids=["held", "held in the block of the client", "just begun", "waiting", "failing"],
)
def test_program_ends_whatever_its_tasks_do_with_tokens(
    node: Server, tmp_path: Path, text: str, name: str, printed: str
) -> None:
    with program(node, tmp_path, text) as process:
        try:
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()
    assert (process.returncode, out) == (0, printed), err
    assert_free(node, name)


def test_ctrl_c_ends_a_program_whose_tasks_hold_tokens(node: Server, tmp_path: Path) -> None:
    with program(node, tmp_path, GATHERED) as process:
        try:
            assert process.stdout is not None
            assert [process.stdout.readline(), process.stdout.readline()] == ["held\n"] * 2
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGINT
    for name in ("end.gathered", "end.gathered.too"):
        assert_free(node, name)


def test_program_that_ends_as_soon_as_it_has_a_client_prints_nothing(node: Server, tmp_path: Path) -> None:
    """Whether the tasks of the client have begun or not."""
    with program(node, tmp_path, AT_ONCE) as process:
        try:
            said = process.communicate(timeout=120)
        finally:
            process.kill()
    assert (process.returncode, said) == (0, ("", ""))
