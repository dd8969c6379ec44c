"""What a user gets can be copied and sent to another process: values, changes, operations and errors.

Knows: `copy` and `pickle`.  Does not know where such values come from.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any, Final

import pytest

from distkv.client.changes import ChangePage, Located
from distkv.client.conflicts import Loser
from distkv.client.names import Listed
from distkv.client.questions import Delete, Entry, Get, Past, Set, Written
from distkv.client.watch import Change, Contested, Missed, Resync, UpToDate
from distkv.errors import DecodeError, DistkvError, ExistsError
from distkv.model.event import NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.wire.packing import ExtType, Timestamp
from tests.refusals import ERRORS

LINK: Final = (NodeName("a"), Tick(1))
WHERE: Final = Path(["a", 1, None])
VALUES: Final = [
    Entry({"x": [1, b"y", ExtType(5, b"z"), Timestamp(1, 2)]}, (LINK,), Tock(3), 1.5, 2.5),
    Past("x", (LINK,), Tock(3), 1.5, 2.5, 7, True),
    Written(True, LINK, 2),
    Listed("x", True, 0),
    ChangePage(NodeName("a"), b"\1", b"x"),
    Located({NodeName("a"): Ranges([(1, 5)])}, {}),
    Loser(WHERE, "x", False, LINK, Tock(3), 1.5, LINK),
    Change(WHERE, "x", False, LINK, Tock(3), 1.5, b"t"),
    Contested(WHERE, (LINK,)),
    Missed({NodeName("a"): 3}, b"t"),
    Resync(),
    UpToDate(b"t"),
    Get(WHERE),
    Set(WHERE, 1, head=LINK),
    Delete(WHERE),
]

each_way = pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))],
    ids=["copy", "deepcopy", "pickle"],
)


@each_way
@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_copy_of_a_value_is_equal(copied: Callable[[Any], Any], value: object) -> None:
    found = copied(value)
    assert type(found) is type(value)
    assert found == value


@each_way
@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: str(kind.__name__))
def test_copy_of_an_error_says_the_same(copied: Callable[[Any], Any], kind: type[DistkvError]) -> None:
    error = kind("words", "reason") if issubclass(kind, DecodeError) else kind("words")
    found = copied(error)
    assert type(found) is kind
    assert (str(found), vars(found)) == ("words", vars(error))


@each_way
def test_copy_of_a_refusal_in_a_batch_names_the_same_operation(copied: Callable[[Any], Any]) -> None:
    assert copied(ExistsError("words").at_op(3)).op == 3
