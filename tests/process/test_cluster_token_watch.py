"""`distkv client token watch` when the node that it watches by, or all of them, are killed and started again.

Knows: the command as a user types it, and signals.  Does not know how a node learns what changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import distkv
from distkv.client.blocking import Client
from tests.process.cluster import Cluster
from tests.process.tokens import DEADLINE_S, ask, open_token_servers
from tests.process.watchers import TokenWatchCommand

LOST, BACK = "trying again", "connected again, and watching"
TTL_S = 600.0
"""A session that answers to a survey, and that no outage in these tests ends."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with open_token_servers(tmp_path / "cluster") as found:
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


def told(watch: TokenWatchCommand) -> dict[str, list[str]]:
    """The sessions that hold each token, by the last line about it."""
    return {line["token"]: [holder["session"] for holder in line["holders"]] for line in watch.lines}


def wait_told(cluster: Cluster, watch: TokenWatchCommand, wanted: dict[str, list[str]]) -> None:
    cluster.wait(lambda: told(watch) == wanted, f"the watch has told {wanted}", DEADLINE_S)


def check_ended_by_ctrl_c(watch: TokenWatchCommand) -> None:
    """It said once that it lost the connection, and once that it is back."""
    code, errors = watch.interrupt()
    assert code == 130
    first, second = errors.splitlines()
    assert first.endswith(LOST)
    assert second.endswith(BACK)


def test_watch_by_one_node_shows_what_changed_while_it_was_down(cluster: Cluster) -> None:
    with holding(cluster, "kept") as kept, TokenWatchCommand(cluster["a"]) as watch:
        with holding(cluster, "freed") as freed:
            wait_told(cluster, watch, dict([kept, freed]))
            cluster["a"].kill()
        with holding(cluster, "taken") as taken:
            cluster.start("a")
            wait_told(cluster, watch, dict([kept, ("freed", []), taken]))
            check_ended_by_ctrl_c(watch)


def test_watch_goes_on_by_another_node_that_was_named(cluster: Cluster) -> None:
    with TokenWatchCommand(cluster["a"], hosts=[cluster["a"], cluster["b"]]) as watch:
        with holding(cluster, "freed") as freed:
            wait_told(cluster, watch, dict([freed]))
            cluster["a"].kill()
        with holding(cluster, "taken") as taken:
            wait_told(cluster, watch, dict([("freed", []), taken]))
            check_ended_by_ctrl_c(watch)


def test_watch_outlives_the_death_of_all_servers(cluster: Cluster) -> None:
    with holding(cluster, "kept") as kept, TokenWatchCommand(cluster["a"]) as watch:
        with holding(cluster, "freed") as freed:
            wait_told(cluster, watch, dict([kept, freed]))
            for server in cluster:
                server.kill()
            cluster.start("a", "b", "c")
        wait_told(cluster, watch, dict([kept, ("freed", [])]))
        code, errors = watch.interrupt()
        assert (code, "Traceback" in errors) == (130, False)


def test_watch_by_a_node_that_hears_no_server_waits_for_them(cluster: Cluster) -> None:
    """That node refuses it after a lease."""
    with TokenWatchCommand(cluster["a"]) as watch:
        with holding(cluster, "freed") as freed:
            wait_told(cluster, watch, dict([freed]))
            for name in "bc":
                cluster[name].kill()
            assert ask(cluster, "a", "token_open")["code"] == "no_quorum"
            cluster.start("b", "c")
        wait_told(cluster, watch, {"freed": []})
        code, errors = watch.interrupt()
        assert (code, "Traceback" in errors) == (130, False)
