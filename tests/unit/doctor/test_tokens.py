"""What `distkv doctor` says of token servers.

Knows: facts and findings.  Does not ask any node.
"""

from __future__ import annotations

import attrs
import pytest

from distkv.doctor import tokens
from distkv.doctor.facts import NodeFacts
from distkv.doctor.tokens import TokenServerFacts
from tests.unit.doctor.test_checks import FAIL, OK, WARN, A, B, judged

SERVED = TokenServerFacts("a", {"a": "ready", "b": "ready"})


def serving(
    node: NodeFacts, server: TokenServerFacts = SERVED, lists: tuple[tuple[str, ...], ...] = ()
) -> NodeFacts:
    return attrs.evolve(node, services={tokens.TOKENS: tokens.TokenFacts(server, lists)})


def test_node_that_hears_no_token_server_fails() -> None:
    a = attrs.evolve(A, settings={"tokens.servers": "b, c, d"})
    (found,) = tokens.check([a])
    assert (found.level, found.says) == (FAIL, "no token works at a: it hears none of the servers b, c, d")
    assert judged(tokens.check([a, serving(B)])) == [("tokens", OK)]


def test_nodes_without_tokens_are_not_judged_for_them() -> None:
    assert [*tokens.check([A, B])] == []


def test_token_servers_that_are_ready_are_well() -> None:
    assert judged([*tokens.check([serving(A), B])]) == [("tokens", OK)]


@pytest.mark.parametrize(
    "server",
    [
        attrs.evolve(SERVED, leader=None),
        attrs.evolve(SERVED, states={}),
        attrs.evolve(SERVED, differing=("b",), states={}),
        attrs.evolve(SERVED, states={"a": "ready", "b": "down"}),
    ],
    ids=["no-leader", "not-begun", "other-list", "down"],
)
def test_token_servers_that_are_not_well_are_told(server: TokenServerFacts) -> None:
    (found,) = tokens.check([serving(A, server), B])
    assert (found.check, found.level) == ("tokens", WARN)
    assert found.do


OLD, NEW = ("a", "b", "c"), ("a", "b", "d")


def listed(name: str, *lists: tuple[str, ...], setting: tuple[str, ...] = OLD) -> NodeFacts:
    """A node that knows these lists of token servers."""
    settings = {"tokens.servers": ", ".join(setting)}
    return attrs.evolve(serving(A, SERVED, lists), name=name, settings=settings)


def test_nodes_that_know_different_lists_of_token_servers_are_named() -> None:
    found = [*tokens.check([listed("a", OLD), listed("b", OLD), listed("c", OLD, NEW)])]
    assert [one.level for one in found] == [WARN, WARN]
    assert "(a and b: a, b, c; c: a, b, c and a, b, d)" in found[0].says


def test_change_of_the_token_servers_is_told_once() -> None:
    both = [listed(name, OLD, NEW, setting=NEW) for name in "ab"]
    (found,) = tokens.check(both)
    assert found.says == "the token servers change from a,b,c to a,b,d"
    assert "--set a,b,d" in found.do


def test_setting_that_differs_from_the_list_in_force_is_told() -> None:
    (found,) = tokens.check([listed("a", NEW), listed("b", NEW, setting=NEW)])
    assert found.says == "tokens.servers is a, b, c in the settings of a, and the list in force is a, b, d"
    assert "'distkv client token servers --set a,b,c'" in found.do
