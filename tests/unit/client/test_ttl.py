"""Values with a ttl, the same for each client.

Knows: what a user asks and sees.  Does not know real nodes.
"""

from __future__ import annotations

import pytest

from distkv.client.questions import Delete, Entry, Set
from distkv.errors import RequestError
from distkv.model.event import NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.wire.value_requests import Batch, SetValue
from distkv.wire.values import pack_value
from tests.unit.client.scripted_server import open_server, reply
from tests.unit.client.shells import SHELLS, Named, perform

CHAIN = {"node": "a", "tick": 2, "prev": None}
DONE = {"changed": True, "chain": CHAIN}
HERE = Path(("a",))

each_shell = pytest.mark.parametrize("shell", SHELLS)


@each_shell
def test_write_carries_its_ttl(shell: str) -> None:
    with open_server(reply(DONE), reply(DONE)) as server:
        perform(shell, [server], ("set", "a", 1, Named(ttl=2.5)), ("set_packed", "a", b"\x01", Named(ttl=3)))
    assert [getattr(request, "ttl", None) for request in server.requests] == [2.5, 3.0]


@each_shell
def test_batch_carries_the_ttl_of_each_write(shell: str) -> None:
    with open_server(reply({"results": [DONE, DONE]})) as server:
        perform(shell, [server], ("batch", [Set("a", 1, ttl=2.5), Delete("b")]))
    one = SetValue(0, HERE, pack_value(1), nchain=1, ttl=2.5)
    assert server.requests == [Batch(1, (one, SetValue(0, Path(("b",)), None, nchain=1)))]


@each_shell
@pytest.mark.parametrize("ttl", [0, -1.0, float("nan"), 2e9])
def test_ttl_that_is_none_is_not_sent(shell: str, ttl: float) -> None:
    with open_server() as server:
        failures = perform(
            shell, [server], ("set", "a", 1, Named(ttl=ttl)), ("batch", [Set("a", 1, ttl=ttl)])
        )
    assert [type(failure) for failure in failures] == [RequestError] * 2
    assert server.requests == []


@each_shell
@pytest.mark.parametrize("ttl", [None, 2.5])
def test_entry_tells_its_ttl(shell: str, ttl: float | None) -> None:
    fields = {"chain": CHAIN, "tock": 9, "time": 1.5, **({} if ttl is None else {"ttl": ttl})}
    with open_server(reply(fields, pack_value(1))) as server:
        found = perform(shell, [server], ("get", "a"))
    assert found == [Entry(1, ((NodeName("a"), Tick(2)),), Tock(9), 1.5, ttl)]
