"""The garbage collector beside a large store: a walk that took long is not repeated over the same objects."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator

import pytest

from distkv.daemon import collector


@pytest.fixture
def thawed() -> Iterator[None]:
    """Nothing is frozen when the test begins, nor after it."""
    gc.unfreeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("thawed")
@pytest.mark.parametrize(("walk_s", "freezes"), [(-1.0, True), (math.inf, False)], ids=["slow", "quick"])
def test_what_a_slow_walk_went_through_is_frozen(
    monkeypatch: pytest.MonkeyPatch, walk_s: float, freezes: bool
) -> None:
    monkeypatch.setattr(collector, "WALK_S", walk_s)
    before = len(gc.callbacks)
    with collector.short_walks():
        gc.collect(0)
        assert gc.get_freeze_count() == 0  # a walk through new objects only
        gc.collect()
        assert (gc.get_freeze_count() > 0) is freezes
    assert len(gc.callbacks) == before
