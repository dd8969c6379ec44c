"""What tests of sessions share: both ways in which a connection is served.

Knows: that there are two.  Does not know how they differ.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.node.nodes import OVER_SOCKETS


@pytest.fixture(params=[False, True], ids=["memory", "sockets"])
def both_ways(request: pytest.FixtureRequest) -> Iterator[None]:
    """The test is run with connections in memory, and again with pairs of sockets."""
    token = OVER_SOCKETS.set(request.param)
    yield
    OVER_SOCKETS.reset(token)
