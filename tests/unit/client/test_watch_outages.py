"""What a watch tells of its connection, to those who ask, the same for each client.

Knows: when a server leaves and comes back, and what is called then.  Does not know what the watch is told meanwhile;
that is `test_watching`.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from distkv.client.blocking import connect
from distkv.client.failures import silent
from distkv.client.watch import Watching
from distkv.errors import BusyError, UnreachableError
from distkv.wire.replies import encode_end, encode_error, encode_hello, encode_reply
from tests.unit.client.scripted_server import HELLO, Last, ScriptedServer, Step, open_server
from tests.unit.client.shells import SHELLS, hosts, opened

FULL = encode_error(0, BusyError("full"))

each_shell = pytest.mark.parametrize("shell", SHELLS)


def watched(value: int, *, last: bool = False, end: bool = False) -> Step:
    """The start of a watch and a change; then the end of the connection, or of the watch."""

    def answer(seq: int) -> bytes:
        change = {"path": ["w"], "value": value, "node": "a", "tick": value, "tock": 1, "time": 1.5, "token": b"t"}
        frames = encode_reply(seq, {"state": "start"}) + encode_reply(seq, change) + (encode_end(seq) if end else b"")
        return Last(frames) if last else frames

    return answer


def follow(shell: str, server: ScriptedServer, count: int, *, is_asked: bool = True) -> list[object]:
    """What happens until so many changes were told: their values, reasons of breaks, and True for a return."""
    found: list[object] = []
    told: dict[str, Callable[..., None]] = {}
    if is_asked:
        told = {"on_disconnect": found.append, "on_connect": lambda: found.append(True)}
    if shell != "blocking":
        anyio.run(_follow, shell, server, count, found, told, backend=shell)
        return found
    with connect(hosts([server])) as client:
        for change in client.watch("w", **told):
            found.append(getattr(change, "value", change))
            if (count := count - 1) == 0:
                break
    return found


async def _follow(
    shell: str, server: ScriptedServer, count: int, found: list[object], told: dict[str, Callable[..., None]]
) -> None:
    async with opened(shell, server) as client, client.watch("w", **told) as watch:
        async for change in watch:
            found.append(getattr(change, "value", change))
            if (count := count - 1) == 0:
                break


@each_shell
def test_break_is_told_with_its_reason_and_then_the_return(shell: str) -> None:
    with open_server(watched(1, last=True), watched(2)) as server:
        one, reason, is_back, two = follow(shell, server, 2)
    assert (one, is_back, two) == (1, True, 2)
    assert "closed the connection" in str(reason)


@each_shell
def test_watch_that_its_node_ends_is_told_as_a_break(shell: str) -> None:
    with open_server(watched(1, end=True), watched(2)) as server:
        one, reason, is_back, two = follow(shell, server, 2)
    assert (one, is_back, two) == (1, True, 2)
    assert "ended the watch" in str(reason)


@each_shell
def test_attempts_that_fail_are_one_break(shell: str) -> None:
    greetings = [encode_hello(HELLO)] * 2 + [FULL] * 3
    with open_server(watched(1, last=True), watched(2), greetings=greetings) as server:
        found = follow(shell, server, 2)
    assert (len(found), server.connections) == (4, 6)


@each_shell
def test_stream_of_who_does_not_ask_has_changes_alone(shell: str) -> None:
    with open_server(watched(1, last=True), watched(2)) as server:
        assert follow(shell, server, 2, is_asked=False) == [1, 2]


def test_watch_that_never_breaks_tells_nothing() -> None:
    with open_server(watched(1)) as server:
        assert follow("blocking", server, 1) == [1]


def test_error_of_the_callback_comes_out_of_the_watch() -> None:
    def refuse(reason: str) -> None:
        raise KeyError(reason)

    with open_server(watched(1, last=True)) as server, connect(hosts([server])) as client:
        watch = client.watch("w", on_disconnect=refuse)
        next(watch)
        with pytest.raises(KeyError, match="closed the connection"):
            next(watch)


def listened() -> tuple[Watching, list[object]]:
    found: list[object] = []
    watching = Watching(
        "w", fetch=False, since=None, min_depth=0, max_depth=None, on_disconnect=found.append,
        on_connect=lambda: found.append(True),
    )  # fmt: skip
    return watching, found


def test_silence_of_a_watch_is_no_break_when_the_node_still_answers() -> None:
    watching, found = listened()
    watching.meet()
    watching.lose(silent("a:1"))
    watching.meet()
    assert found == []


@pytest.mark.parametrize("next_failure", [silent("a:1"), UnreachableError("gone")], ids=["hangs", "is gone"])
def test_silence_of_a_watch_is_a_break_when_the_next_attempt_fails(next_failure: UnreachableError) -> None:
    watching, found = listened()
    watching.meet()
    watching.lose(silent("a:1"))
    watching.lose(next_failure)
    watching.meet()
    assert found == [str(next_failure), True]
