"""Whoever is connected, or resumes, gets each echoed activity once, and each sender's in order, whatever happens.

Knows: seeds.  Does not know what happens in one (`activity_play`).
"""

from __future__ import annotations

import pytest

from tests.property.activity_play import Play, broken_promises

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", range(5))
def test_each_echoed_activity_comes_once_and_in_order(seed: int) -> None:
    fleet, clients = Play(seed, ms=20_000).run()
    assert not broken_promises(fleet, clients)
    assert sum(len(client.echoed) for client in clients) > 100


def test_client_that_connects_twice_after_a_move_loses_nothing() -> None:
    fleet, clients = Play(2270).run()
    assert not broken_promises(fleet, clients)
