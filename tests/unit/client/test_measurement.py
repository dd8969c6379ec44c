"""How a node is measured, against a server that answers as the test says.

Knows: what counts and what does not.  The figures themselves are for tests/process.
"""

from __future__ import annotations

import threading

import pytest

from distkv.client.addresses import address_text
from distkv.client.measurement import BenchKind, measure
from distkv.errors import NotReadyError
from distkv.model.path import Path
from distkv.wire.replies import encode_reply
from tests.unit.client.scripted_server import open_server, refusal, reply

PATHS = [Path(["x"])]
DONE = {"changed": True, "tick": 8, "tock": 9}


def test_what_is_under_way_at_the_end_is_awaited_and_not_counted() -> None:
    is_answered = threading.Event()

    def answer_late(seq: int) -> bytes:
        threading.Event().wait(0.3)  # nobody sets it
        is_answered.set()
        return encode_reply(seq, DONE)

    with open_server(reply(DONE), answer_late) as server:
        found = measure(BenchKind.SET, address_text(server.address), PATHS, 1, 0.1)
        assert is_answered.is_set(), "a write that is not awaited could take place after its value was deleted"
    assert found.count == 1


def test_refusal_ends_the_measurement() -> None:
    with open_server(refusal(NotReadyError("not yet"))) as server, pytest.raises(NotReadyError, match="not yet"):
        measure(BenchKind.GET, address_text(server.address), PATHS, 1, 1.0)


def test_each_connection_has_one_request_under_way() -> None:
    both = threading.Barrier(2)

    def answer_together(seq: int) -> bytes:
        both.wait(10)
        return encode_reply(seq, DONE)

    with open_server(answer_together, answer_together, *[reply(DONE)] * 100_000) as server:
        found = measure(BenchKind.SET, address_text(server.address), PATHS, 2, 0.1)
    assert (found.connections, server.connections) == (2, 2)
