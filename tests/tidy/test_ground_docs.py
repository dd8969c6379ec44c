"""The page on services has all that a machine is told, and all that it can want.

Knows: the two tables, the union of inputs, and the methods of a turn.  Does not know what any of them does.
"""

from __future__ import annotations

import inspect
from typing import get_args

from distkv.core.ground.machine import ServiceInput
from distkv.core.ground.turn import ServiceTurn
from tests.tidy.documents import DOCS, rows, section

TITLE = "What a service is told"


def _names() -> list[str]:
    """The first column of both tables."""
    return [row[0] for row in rows(section(DOCS / "architecture.rst", TITLE))]


def test_page_has_all_inputs_of_a_machine() -> None:
    told = [name for name in _names() if not name.startswith("turn.")]
    assert sorted(told) == sorted(kind.__name__ for kind in get_args(ServiceInput))


def test_page_has_all_that_a_turn_takes() -> None:
    methods = [name for name, _ in inspect.getmembers(ServiceTurn, inspect.isfunction) if not name.startswith("_")]
    wanted = [name.removeprefix("turn.") for name in _names() if name.startswith("turn.")]
    assert sorted(wanted) == sorted(methods)
