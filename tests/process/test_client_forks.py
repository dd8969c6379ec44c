"""Programs that fork while they have a client: multiprocessing, gunicorn, `os.fork`.

Knows: programs as users write them, and a real node.  Does not know how a client learns of a fork.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.servers import Server
from tests.process.tokens import open_token_node

BEGIN = """
import multiprocessing, os, sys, threading, traceback
import distkv

port = int(sys.argv[1])

def forked(work):
    "Run it in a child; its exit code."
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = work() or 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""

WORKERS = """
client = distkv.connect("127.0.0.1", port)
client.set("fork.shared", "parent")

def work(name, count=50):
    for number in range(count):
        path = f"fork.{name}.{number}"
        assert client.set(path, f"{name} {number}").changed
        assert client.get(path).value == f"{name} {number}", path
        assert client.get("fork.shared").value == "parent"

fork = multiprocessing.get_context("fork")
children = [fork.Process(target=work, args=(f"child{number}",)) for number in range(4)]
for child in children:
    child.start()
work("parent", 200)
for child in children:
    child.join()
print([child.exitcode for child in children], len(list(client.get_tree("fork"))))
"""

BUSY = """
client = distkv.connect("127.0.0.1", port)
is_over = False

def ask():
    while not is_over:
        client.get("fork.busy")

threads = [threading.Thread(target=ask) for _ in range(4)]
for thread in threads:
    thread.start()

def child():
    return 0 if client.set("fork.busy", os.getpid()).changed else 1

print([forked(child) for _ in range(20)])
is_over = True
for thread in threads:
    thread.join()
"""

WATCH = """
client = distkv.connect("127.0.0.1", port)
client.set("fork.watched", 0)
changes = client.watch("fork.watched", fetch=True)
first = next(changes).value

def child():
    client.set("fork.watched", 7)
    return next(seen for seen in changes if isinstance(seen, distkv.Change) and seen.value == 7).value

print(first, forked(child), next(changes).value)
"""

CLOSED = """
client = distkv.connect("127.0.0.1", port)

def child():
    client.close()
    try:
        client.get("fork")
    except distkv.Unreachable:
        return 7

print(forked(child), client.ping())
"""

TOKEN = """
client = distkv.connect("127.0.0.1", port)

def child():
    try:
        with token:
            pass
    except distkv.DistkvError as error:
        print(error)
    try:
        token.check()
    except distkv.TokenLost as error:
        print(error)
    token.__exit__(ValueError, ValueError(), None)
    with client.token("fork.other", wait_s=30) as other:
        return 7 if token.is_lost and not other.is_lost else 1

with client.token("fork.token", wait_s=30) as token:
    code = forked(child)
    token.set_data("still held")
    print(code, token.is_lost, token.data)
"""

ASYNC = """
import asyncio

async def main():
    async with distkv.open_client(f"127.0.0.1:{port}") as client:
        await client.set("fork.async", 1)

        def child():
            async def ask():
                try:
                    await client.get("fork.async")
                except distkv.Unreachable:
                    await client.aclose()
                    return 7

            return asyncio.run(ask())

        code = await asyncio.to_thread(forked, child)
        print(code, (await client.get("fork.async")).value)

asyncio.run(main())
"""


ASYNC_SOCKETS = """
import socket

def connections():
    "How many of our descriptors lead to the node."
    found = 0
    for file in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(file))) as copy:
                found += copy.getpeername() == ("127.0.0.1", port)
        except OSError:
            pass
    return found

async def main(loop):
    async with distkv.open_client(f"127.0.0.1:{port}") as client, client.token(f"fork.{loop}", wait_s=30) as token:
        await client.set("fork.sockets", 1)
        async with client.watch("fork.sockets") as changes:
            there, code = connections() > 2, forked(lambda: 10 * token.is_lost + connections())
            await client.set("fork.sockets", 2)
            print(there, code, (await anext(changes)).value, token.is_lost)

import asyncio, trio
asyncio.run(main("asyncio"))
trio.run(main, "trio")
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for all tests."""
    with open_token_node(tmp_path_factory.mktemp("node")) as found:
        yield found


def printed(node: Server, tmp_path: Path, program: str) -> str:
    """What the program prints; it must end well, and say nothing on stderr."""
    file = tmp_path / "program.py"
    file.write_text(BEGIN + program, encoding="utf-8")
    command = [sys.executable, str(file), str(node.port)]
    done = subprocess.run(command, env=dict(node.environment), capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_workers_that_were_forked_and_their_parent_each_get_their_own_answers(node: Server, tmp_path: Path) -> None:
    assert printed(node, tmp_path, WORKERS) == f"[0, 0, 0, 0] {1 + 4 * 50 + 200}\n"


def test_child_of_a_process_whose_threads_ask_has_a_turn(node: Server, tmp_path: Path) -> None:
    assert printed(node, tmp_path, BUSY) == f"{[0] * 20}\n"


def test_watch_goes_on_in_both_each_on_a_connection_of_its_own(node: Server, tmp_path: Path) -> None:
    assert printed(node, tmp_path, WATCH) == "0 7 7\n"


def test_child_that_closes_the_client_closes_its_own(node: Server, tmp_path: Path) -> None:
    assert printed(node, tmp_path, CLOSED).startswith("7 ")


def test_token_stays_with_the_parent_and_the_child_can_hold_others(node: Server, tmp_path: Path) -> None:
    *said, last = printed(node, tmp_path, TOKEN).splitlines()
    assert "entered once" in said[0]
    assert "is lost: this process is a fork of the one that holds it" in said[1]
    assert last == "7 False still held"


def test_async_client_is_refused_to_a_child(node: Server, tmp_path: Path) -> None:
    assert printed(node, tmp_path, ASYNC) == "7 1\n"


def test_child_has_none_of_the_connections_of_an_async_client(node: Server, tmp_path: Path) -> None:
    assert printed(node, tmp_path, ASYNC_SOCKETS) == "True 10 2 False\n" * 2
