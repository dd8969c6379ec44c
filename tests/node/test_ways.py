"""What `python -m tests.ways` counts.

Knows: a set and a token acquire.  Does not know how few modules are few enough.
"""

from __future__ import annotations

import pytest

from tests.ways import PARTS, lines_of, way_of


@pytest.mark.parametrize(("action", "module"), [("set_value", "core/update.py"), ("token_acquire", "core/replica.py")])
def test_way_of_a_request_is_the_same_each_time(action: str, module: str) -> None:
    way = way_of(action)
    assert module in way.modules
    assert way.modules == way_of(action).modules
    assert 0 < way.returns < len(way.modules) <= way.calls
    assert way.asked_due < way.calls


def test_lines_of_each_part_are_counted() -> None:
    assert all(lines_of(part) > 1000 for part in PARTS)
