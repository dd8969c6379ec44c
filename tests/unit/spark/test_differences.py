"""A tree on its way back to what it was, of a server that says what the test wants: what is left alone.

Knows: `carry_out`.  Does not know how trees are compared (tests/property/test_spark_restore.py), nor real nodes
(tests/spark/test_restore.py).
"""

from __future__ import annotations

import pytest

from distkv.client.blocking import Client
from distkv.client.questions import Entry
from distkv.errors import FencedError
from distkv.model.event import NodeName, Tick, Tock
from distkv.model.fence import Fence
from distkv.model.path import Path
from distkv.spark.nodes.differences import Difference, Restored, carry_out
from distkv.wire.values import pack_value
from tests.unit.client.scripted_server import open_server, refusal, reply

X, Y = Path(["x"]), Path(["y"])
HELD, LIFTED = Fence(1, 4, 2, "t"), Fence(1, 0, 0, "")


def changed(path: Path, fence: Fence | None = None) -> Difference:
    """A value that is another one now."""
    now = Entry(2, ((NodeName("a"), Tick(5)),), Tock(5), 1.0, fence=fence)
    return Difference(path, pack_value(1), now)


@pytest.mark.parametrize(
    ("fence", "expected"),
    [(HELD, Restored(0, 0, 0, 0, (), 1, (X,))), (LIFTED, Restored(1, 0, 0, 0)), (None, Restored(1, 0, 0, 0))],
    ids=["held", "lifted", "none"],
)
def test_value_that_a_token_holds_is_left_alone_without_being_asked_for(
    fence: Fence | None, expected: Restored
) -> None:
    assert carry_out(None, [changed(X, fence)]) == expected


def test_path_that_came_under_a_token_since_it_was_compared_is_left_and_told_apart_from_changed_ones() -> None:
    written = reply({"results": [{"changed": True, "chain": {"node": "a", "tick": 9}}]})
    with open_server(refusal(FencedError("a token").at_op(0)), written) as server, Client((server.address,)) as client:
        found = carry_out(client, [changed(X), changed(Y)])
    assert found == Restored(1, 0, 0, 0, (), 1, (X,))
