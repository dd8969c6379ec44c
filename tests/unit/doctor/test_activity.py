"""What `distkv doctor` says of the activity network.

Knows: facts and findings.  Does not ask any node.
"""

from __future__ import annotations

import attrs
import pytest

from distkv.doctor import activity
from distkv.doctor.activity import ActivityFacts
from distkv.doctor.facts import NodeFacts
from distkv.errors import DecodeError
from tests.unit.doctor.test_checks import OK, WARN, A, B, judged, said


def listening(node: NodeFacts, clients: int = 0) -> NodeFacts:
    return attrs.evolve(node, services={activity.ACTIVITY: ActivityFacts(clients)})


def test_state_is_read() -> None:
    assert activity.read({"clients": 3, "kept": 1}) == ActivityFacts(3)


def test_state_of_a_node_without_a_listener_is_nothing() -> None:
    assert activity.read({}) is None


@pytest.mark.parametrize("clients", ["3", -1, None])
def test_state_that_cannot_be_meant_is_refused(clients: object) -> None:
    with pytest.raises(DecodeError):
        activity.read({"clients": clients})


def test_nothing_is_said_where_no_node_has_a_listener() -> None:
    assert [*activity.check([A, B])] == []


def test_nodes_that_all_have_one_are_well() -> None:
    (found,) = activity.check([listening(A, 2), listening(B, 1)])
    assert (found.level, found.says) == (OK, "3 clients at 2 nodes")


def test_node_without_a_listener_is_named_where_others_have_one() -> None:
    found = [*activity.check([listening(A), B])]
    assert judged(found) == [("activity", WARN)]
    assert "which others have: b" in said(found)
