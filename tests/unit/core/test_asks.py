"""The requests to other nodes that are under way.

Knows: which of them is under way for a reason.  Does not know what they ask.
"""

from __future__ import annotations

from distkv.core.asks import Asked, Asks, Why
from distkv.core.ready import AskEvents
from distkv.model.event import NodeName

A, B = NodeName("a"), NodeName("b")


def _pull(asks: Asks, name: NodeName, now_ms: int, *left: NodeName) -> Asked:
    """A pull of all but these writers."""
    ask = asks.begin(name, f"{name}:1", AskEvents({}), Why.PULL, now_ms, missing={}, left=frozenset(left))
    asked = asks.get(ask.id)
    assert asked is not None
    return asked


def test_pull_that_follows_one_whose_connection_is_still_open_is_the_one_under_way() -> None:
    """Else the links would go by what the first one left to them, and by when its peer was heard."""
    asks = Asks()
    first = _pull(asks, A, 0, B)
    first.ended = True
    second = _pull(asks, B, 5000)
    assert asks.find(Why.PULL) is second
    asks.check()
