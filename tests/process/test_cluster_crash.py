"""kill -9 of one server or of all during loads, and a lost disk: nothing acknowledged is lost, no tick is used twice.

Knows: that an answer is a promise.  Does not know how it is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from shutil import rmtree

import pytest

from distkv.model.event import life_of
from tests.process.cluster import NAMES, Cluster, open_cluster
from tests.process.load import Load, events_of, get_many

LOADED = 1_500
"""So many writes are acknowledged before anybody is killed."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes; every test leaves them ready and equal."""
    with open_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


def _loaded(cluster: Cluster, names: str, top: str) -> list[Load]:
    """Load some, all at once, until each has acknowledged enough; kill them in the midst of it, all at once."""
    with ExitStack() as stack:
        loads = [stack.enter_context(Load(cluster[name], f"{top}.{name}")) for name in names]
        cluster.wait(lambda: all(len(load.acknowledged) >= LOADED for load in loads), "the loads are under way", 30)
        for name in names:
            cluster[name].kill()
    return loads


def _assert_whole(cluster: Cluster, load: Load) -> None:
    for server in cluster:
        assert get_many(server, load.acknowledged) == load.acknowledged


def test_killed_server_comes_back_with_all_it_acknowledged_and_tells_the_others(cluster: Cluster) -> None:
    (load,) = _loaded(cluster, "a", "one")
    cluster["a"].start().wait_ready()
    assert get_many(cluster["a"], load.acknowledged) == load.acknowledged
    cluster.wait_equal(30)
    _assert_whole(cluster, load)


def test_all_three_killed_at_once_are_ready_again_and_lost_nothing(cluster: Cluster) -> None:
    loads = _loaded(cluster, "abc", "all")
    cluster.start(*NAMES)
    cluster.wait_equal(30)
    for load in loads:
        _assert_whole(cluster, load)


@pytest.mark.slow
def test_wiped_node_joins_the_restarting_others_and_repeats_no_tick(cluster: Cluster) -> None:
    loads = _loaded(cluster, "abc", "wiped")
    before = {link: content for load in loads for link, content in load.events.items()}
    lives_before = {life_of(tick) for node, tick in before if node == "c"}
    rmtree(cluster["c"].data_dir)
    cluster.start(*NAMES)

    with Load(cluster["c"], "after.c") as after:
        cluster.wait(lambda: len(after.acknowledged) >= LOADED, "c writes again", 30)
    assert {life_of(tick) for _, tick in after.events} == {cluster["c"].state()["life"]}
    assert lives_before < {*lives_before, cluster["c"].state()["life"]}
    cluster.wait_equal(60)
    for load in (*loads[:2], after):
        _assert_whole(cluster, load)
    first = events_of(cluster["a"])
    assert {link: first[link] for link in before if link in first}.items() <= before.items()
    for server in cluster.others("a"):
        assert events_of(server) == first
