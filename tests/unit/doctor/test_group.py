"""What doctor says of the transport swim."""

from __future__ import annotations

import attrs
import pytest

from distkv.doctor.facts import Finding, GroupFacts, Level, NodeFacts
from distkv.doctor.group import GROUP, check_group, read_group
from distkv.errors import DecodeError

A = NodeFacts("127.0.0.1:1", name="a", group=GroupFacts())
B = NodeFacts("127.0.0.1:2", name="b", group=GroupFacts())


def says(*nodes: NodeFacts) -> list[str]:
    findings = list(check_group(nodes))
    assert {found.level for found in findings} == {Level.WARN}
    return [found.says for found in findings]


def having(node: NodeFacts, **facts: object) -> NodeFacts:
    return attrs.evolve(node, group=GroupFacts(**facts))  # type: ignore[arg-type]


def test_nodes_that_hear_each_other_well_are_one_line() -> None:
    assert list(check_group([A, B])) == [Finding(GROUP, Level.OK, "datagrams pass, as 2 nodes say")]


def test_nodes_that_are_heard_on_links_only_are_named() -> None:
    assert says(having(A, udp_blocked=("b", "c")), B) == ["a hears b and c by TCP only: UDP does not pass"]


def test_nodes_whose_address_is_mapped_are_named() -> None:
    says_so = "a hears b and c from an address that is not advertised: something maps it"
    assert says(having(A, mapped=("b", "c")), B) == [says_so]


def test_datagrams_that_did_not_open_are_a_secret_that_is_not_alike() -> None:
    assert says(A, having(B, dropped_seal=3)) == ["b could not open 3 datagrams"]


def test_a_node_that_was_told_dead_while_it_lived_is_named() -> None:
    assert says(having(A, told_dead=1), B) == ["a was told 1 time that it was dead, while it lived"]


def test_why_a_node_hears_nobody_is_said() -> None:
    assert says(having(A, reason="nobody answers")) == ["a: nobody answers"]


def test_what_another_transport_shows_is_nothing() -> None:
    assert read_group({"kind": "solo"}) is None
    assert read_group({}) is None


def test_what_a_node_shows_is_read() -> None:
    shown = {"kind": "swim", "udp_blocked": ["b"], "dropped_seal": 1, "told_dead": 2, "reason": "x", "mapped": ["c"]}
    assert read_group(shown) == GroupFacts(("b",), 1, 2, "x", ("c",))


def test_nonsense_is_refused() -> None:
    with pytest.raises(DecodeError):
        read_group({"kind": "swim", "dropped_seal": "many"})
