"""What watches are told by one node of its part, by the example of tokens.

Knows: the order of changes, and which tokens are known.  Does not know how a watch reaches a client.
"""

from __future__ import annotations

import pytest

from distkv.core.ground import part_changes
from distkv.core.ground.calls import CallKey
from distkv.core.ground.part_changes import ITEMS_AT_ONCE, WATCHES_MAX, PartChanges
from distkv.model.event import NodeName
from distkv.wire.token_messages import WatchedTokens
from distkv.wire.token_replies import TokenItem

ME = NodeName("s")
CALL = CallKey(NodeName("p"), 1, 1)


class Part:
    """The tokens of one server; those of its part begin with `mine`."""

    def __init__(self, first: int = 0) -> None:
        self.known = set[str]()
        self.watches = PartChanges(WatchedTokens, first, self.known, lambda name: name.startswith("mine"), item)

    def taken(self, *names: str) -> None:
        self.known.update(names)
        for name in names:
            self.watches.touched(name)

    def freed(self, *names: str) -> None:
        for name in names:
            self.known.discard(name)
            self.watches.touched(name)

    def told(self, position: int, prefix: str = "", *, is_whole: bool = True) -> WatchedTokens | None:
        """What somebody is told now who knows all up to a position."""
        self.watches.wait(CALL, prefix, position)
        found = dict(self.watches.take(is_whole=is_whole)).get(CALL)
        self.watches.call_gone(CALL)
        return found


def item(name: str) -> TokenItem:
    return TokenItem(name, ME, (), 0, None)


def names(found: WatchedTokens | None) -> list[str]:
    assert found is not None
    return [item.token for item in found.items]


def test_who_knows_nothing_is_told_what_is_known_when_all_of_it_is() -> None:
    part = Part()
    part.taken("mine 1", "mine 2", "other", "mine 3")
    part.freed("mine 2")
    assert part.told(0, is_whole=False) is None
    found = part.told(0)
    assert names(found) == ["mine 1", "mine 3"]
    assert found == WatchedTokens((item("mine 1"), item("mine 3")), 5, is_first=True)


def test_who_knows_some_is_told_the_last_change_of_each_in_their_order() -> None:
    part = Part()
    part.taken("mine 1", "mine 2", "mine 3", "mine 1")
    part.freed("mine 3")
    assert names(part.told(2)) == ["mine 1", "mine 3"]
    assert names(part.told(4)) == ["mine 3"]
    assert part.told(5) is None


def test_change_elsewhere_is_not_told() -> None:
    part = Part()
    part.taken("mine 1", "other", "mine 2")
    assert part.told(1, "mine 1") is None
    assert names(part.told(0, "mine 1")) == ["mine 1"]


@pytest.mark.parametrize("position", [9, 999])
def test_position_of_another_start_is_not_known(position: int) -> None:
    """ROUTE-7."""
    part = Part(10)
    part.taken("mine 1")
    found = part.told(position)
    assert found is not None
    assert found.is_first


def test_many_are_told_in_portions() -> None:
    part = Part()
    part.taken(*[f"mine {number}" for number in range(ITEMS_AT_ONCE + 1)])
    found = part.told(0)
    assert found is not None
    assert (len(found.items), found.is_last) == (ITEMS_AT_ONCE, False)
    rest = part.told(found.position)
    assert names(rest) == [f"mine {ITEMS_AT_ONCE}"]


def test_free_tokens_are_told_up_to_a_number_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_changes, "CHANGES_MAX", 10)
    part = Part()
    part.taken("mine and known")
    free = [f"mine {number}" for number in range(11)]
    part.freed(*free)
    found = part.told(1)
    assert found is not None
    assert found.is_first  # some of what it missed is not known any more
    assert names(found) == ["mine and known"]
    assert names(part.told(6)) == free[5:]


def test_calls_that_wait_have_a_number() -> None:
    part = Part()
    for number in range(WATCHES_MAX):
        assert not part.watches.is_full
        part.watches.wait(CallKey(NodeName("p"), 1, number), "", 0)
    assert part.watches.is_full
    part.watches.call_gone(CallKey(NodeName("p"), 1, 0))
    assert not part.watches.is_full
