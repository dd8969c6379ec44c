"""Texts in order, against a sorted list.

Knows: `SortedKeys`.  Does not know who uses it.
"""

from __future__ import annotations

import random
from itertools import islice

import pytest

from distkv.model.sorted_keys import PIECE_MAX, SortedKeys
from tests.profiles import seeds


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("order", ["rising", "falling", "any"])
def test_texts_come_in_order_whatever_is_added_and_removed(seed: int, order: str) -> None:
    rng = random.Random(seed)
    added = [f"{number:05d}" for number in rng.sample(range(100_000), 3 * PIECE_MAX)]
    if order != "any":
        added.sort(reverse=order == "falling")
    keys, expected = SortedKeys(), set[str]()
    for key in added:
        keys.add(key)
        expected.add(key)
        if rng.random() < 0.3:
            gone = rng.choice(added[: added.index(key) + 1])
            if gone in expected:
                keys.remove(gone)
                expected.discard(gone)
    keys.check()
    assert [*keys.begin()] == sorted(expected)
    for first in [*rng.sample(added, 20), "", "z"]:
        wanted = [key for key in sorted(expected) if key >= first]
        assert [*islice(keys.begin(first), 5)] == wanted[:5]
        assert len([*keys.begin(first)]) == len(wanted)
    for key in rng.sample(sorted(expected), len(expected)):
        keys.remove(key)
    keys.check()
    assert [*keys.begin()] == []
