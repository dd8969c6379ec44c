"""Both sides of a real break write: three nodes list equal conflicts, and who decides on one has decided on all.

Knows: the command line, and an agent that is frozen, as if its cable were pulled.  Does not know how a conflict is
closed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import attrs
import pytest

from distkv.client.conflicts import Loser
from tests.process.cluster import Cluster, open_cluster
from tests.process.servers import Server
from tests.process.watchers import CommandWatch

DEADLINE_S = 300.0
PATHS = ("equal.x", "equal.y", "equal.z", "restored.x", "restored.y", "dismissed.x", "dismissed.y", "told.x")


@attrs.frozen
class Healed:
    """A network after a break, in which both sides had written all `PATHS`, and paths of their own."""

    cluster: Cluster
    watches: list[CommandWatch]
    """Of `told`, one on each node, since before the break."""


@pytest.fixture(scope="module")
def healed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Healed]:
    """Every test has paths of its own, and leaves all nodes ready."""
    with open_cluster(tmp_path_factory.mktemp("cluster"), links="follow: false") as cluster, ExitStack() as stack:
        watches = [stack.enter_context(CommandWatch(server, "told")) for server in cluster]
        for watch in watches:
            watch.wait_watching()
        cluster.agent("c").freeze()
        try:
            for name, side in (("c", "c"), ("a", "ab")):
                with cluster[name].client() as client:
                    client.set(f"only.{name}", name)
                    for path in PATHS:
                        client.set(path, f"of {side}")
        finally:
            cluster.agent("c").thaw()
        cluster.wait_equal(DEADLINE_S)
        yield Healed(cluster, watches)


def printed(server: Server, path: str) -> list[dict[str, Any]]:
    """What the command prints."""
    ran = server.run("conflicts", path, "-o", "json")
    assert (ran.code, ran.err) == (0, "")
    found = json.loads(ran.out)
    assert isinstance(found, list)
    return found


def listed(server: Server, path: str, *, closed: bool = False) -> tuple[Loser, ...]:
    with server.client() as client:
        return client.conflicts(path, closed=closed)


def value(server: Server, path: str) -> object:
    with server.client() as client:
        entry = client.get(path)
    return None if entry is None else entry.value


def test_writes_on_both_sides_are_equal_conflicts_on_all_nodes(healed: Healed) -> None:
    found = [printed(server, "equal") for server in healed.cluster]
    assert found[1:] == found[:1] * 2
    assert [item["path"] for item in found[0]] == [f"equal.{name}" for name in "xyz"]
    for item in found[0]:
        held = value(healed.cluster["a"], item["path"])
        assert {held, item["value"]} == {"of ab", "of c"}
        assert item["winner"]["value"] == held


def test_write_on_one_side_only_is_no_conflict(healed: Healed) -> None:
    for server in healed.cluster:
        assert listed(server, "only") == ()
        assert [value(server, f"only.{name}") for name in "ac"] == ["a", "c"]


@pytest.mark.parametrize(("option", "at"), [("--restore", "c"), ("--dismiss", "b")])
def test_decision_on_one_node_closes_the_conflict_on_all(healed: Healed, option: str, at: str) -> None:
    cluster, top = healed.cluster, {"--restore": "restored", "--dismiss": "dismissed"}[option]
    first, second = listed(cluster[at], top)
    before = value(cluster[at], f"{top}.x")
    assert cluster[at].run("conflicts", option, first.id).code == 0
    cluster.wait_equal(DEADLINE_S)
    for server in cluster:
        assert listed(server, top) == (second,)
        assert value(server, f"{top}.x") == (first.value if option == "--restore" else before)
        (closed,) = listed(server, f"{top}.x", closed=True)
        assert (closed.id, closed.value) == (first.id, first.value)
    again = cluster[at].run("conflicts", option, first.id)
    assert again.code == 3
    assert again.err.count("\n") == 1


def test_watchers_of_all_nodes_are_told_when_a_conflict_opens_and_when_it_is_over(healed: Healed) -> None:
    cluster, watches = healed.cluster, healed.watches
    (item,) = listed(cluster["b"], "told")
    opened, over = {"path": "told.x", "conflict": [item.id]}, {"path": "told.x", "conflict": []}
    cluster.wait(lambda: all(opened in watch.lines for watch in watches), "all are told that it opens", DEADLINE_S)
    assert cluster["b"].run("conflicts", "told", "--dismiss", item.id).code == 0
    cluster.wait(lambda: all(over in watch.lines for watch in watches), "all are told that it is over", DEADLINE_S)
