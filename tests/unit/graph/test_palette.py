"""Which kinds of moments have one colour."""

from __future__ import annotations

import pytest

from distkv.graph.palette import LIFE, group_of
from distkv.graph.trace import ENDED, StepKind


@pytest.mark.parametrize("kind", [StepKind.SET, StepKind.DELETE, StepKind.BATCH, StepKind.REQUEST])
def test_what_clients_want_done_has_one_colour(kind: StepKind) -> None:
    assert group_of(kind) == "client"  # a decision about an open loser, and a retirement, too


@pytest.mark.parametrize("kind", [StepKind.STARTED, StepKind.UP, StepKind.DOWN, ENDED, "heal"])
def test_what_befalls_a_node_or_the_network_has_another_one(kind: str) -> None:
    assert group_of(kind) == LIFE
