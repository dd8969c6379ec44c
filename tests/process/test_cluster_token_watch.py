"""`distkv client token watch` when the node that it watches by, or all of them, are killed and started again.

Knows: the command as a user types it, and signals.  Does not know how a node learns what changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

import distkv
from distkv.client.blocking import Client
from tests.process.cluster import Cluster
from tests.process.tokens import DEADLINE_S, ask, left_ready, open_token_servers, wait_states
from tests.process.watchers import TokenWatchCommand

LOST, BACK = "trying again", "connected again, and watching"
TTL_S = 600.0
"""A session that answers to a survey, and that no outage in these tests ends."""


@pytest.fixture(scope="module")
def servers_of_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """All tests share them; the names of a test's tokens begin with a word of its own."""
    with open_token_servers(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture
def cluster(servers_of_all: Cluster) -> Iterator[Cluster]:
    with left_ready(servers_of_all) as found:
        yield found


@contextmanager
def holding(cluster: Cluster, name: str) -> Iterator[tuple[str, list[str]]]:
    """A client holds a token, through any node; what a watch tells of it then."""
    with (
        suppress(distkv.TokenLost),
        Client([("127.0.0.1", server.port) for server in cluster]) as client,
        client.token(name, wait_s=DEADLINE_S, ttl_s=TTL_S) as token,
    ):
        yield name, [token.session]


def told(watch: TokenWatchCommand, top: str) -> dict[str, list[str]]:
    """The sessions that hold each token whose name begins so, by the last line about it."""
    lines = [line for line in watch.lines if line["token"].startswith(f"{top}.")]
    return {line["token"]: [holder["session"] for holder in line["holders"]] for line in lines}


def wait_told(cluster: Cluster, watch: TokenWatchCommand, wanted: dict[str, list[str]]) -> None:
    """This of all tokens of the test that wants it."""
    top = next(iter(wanted)).partition(".")[0]

    def is_told() -> bool:
        assert watch.is_running, watch.wait_end()
        return told(watch, top) == wanted

    cluster.wait(is_told, f"the watch has told {wanted}", DEADLINE_S)


def check_ended_by_ctrl_c(watch: TokenWatchCommand) -> None:
    """It said once that it lost the connection, and once that it is back, which is after all that there is was told."""
    watch.wait_said(BACK)
    code, errors = watch.interrupt()
    assert code == 130
    first, second = errors.splitlines()
    assert first.endswith(LOST)
    assert second.endswith(BACK)


def test_watch_by_one_node_shows_what_changed_while_it_was_down(cluster: Cluster) -> None:
    with holding(cluster, "one.kept") as kept, TokenWatchCommand(cluster["a"]) as watch:
        with holding(cluster, "one.freed") as freed:
            wait_told(cluster, watch, dict([kept, freed]))
            cluster["a"].kill()
        with holding(cluster, "one.taken") as taken:
            cluster.start("a")
            wait_told(cluster, watch, dict([kept, ("one.freed", []), taken]))
            check_ended_by_ctrl_c(watch)


def test_watch_goes_on_by_another_node_that_was_named(cluster: Cluster) -> None:
    with TokenWatchCommand(cluster["a"], hosts=[cluster["a"], cluster["b"]]) as watch:
        with holding(cluster, "other.freed") as freed:
            wait_told(cluster, watch, dict([freed]))
            cluster["a"].kill()
        with holding(cluster, "other.taken") as taken:
            wait_told(cluster, watch, dict([("other.freed", []), taken]))
            # What was told may be the first part of all that there is, which waits for the server that is down.
            wait_states(cluster, {"a": "down", "b": "ready", "c": "ready"}, "b")
            with holding(cluster, "other.late") as late:
                wait_told(cluster, watch, dict([("other.freed", []), taken, late]))
            check_ended_by_ctrl_c(watch)


def test_watch_outlives_the_death_of_all_servers(cluster: Cluster) -> None:
    with holding(cluster, "all.kept") as kept, TokenWatchCommand(cluster["a"]) as watch:
        with holding(cluster, "all.freed") as freed:
            wait_told(cluster, watch, dict([kept, freed]))
            for server in cluster:
                server.kill()
            cluster.start("a", "b", "c")
        wait_told(cluster, watch, dict([kept, ("all.freed", [])]))
        code, errors = watch.interrupt()
        assert (code, "Traceback" in errors) == (130, False)


def test_watch_by_a_node_that_hears_no_server_waits_for_them(cluster: Cluster) -> None:
    """That node refuses it after a lease."""
    with TokenWatchCommand(cluster["a"]) as watch:
        with holding(cluster, "none.freed") as freed:
            wait_told(cluster, watch, dict([freed]))
            for name in "bc":
                cluster[name].kill()
            assert ask(cluster, "a", "token_open")["code"] == "no_quorum"
            cluster.start("b", "c")
        wait_told(cluster, watch, {"none.freed": []})
        code, errors = watch.interrupt()
        assert (code, "Traceback" in errors) == (130, False)
