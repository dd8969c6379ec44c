"""What a script holds by `token acquire` and `renew` when the server of its token dies: never another one with it.

Knows: the commands as a script types them, and which server a token has.  Does not know how the servers find out who
holds what.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from distkv.model.fence import Fence, read_fence_text
from tests.process.cluster import Cluster
from tests.process.servers import Server
from tests.process.tokens import DEADLINE_S, LONG_S, acquire, ask, open_token_servers, show, wait_states


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with open_token_servers(tmp_path / "cluster") as found:
        yield found


def server_of(cluster: Cluster, token: str) -> str:
    return str(ask(cluster, "a", "token_show", token=token)["server"])


def fence_of(text: str) -> Fence:
    found = read_fence_text(text)
    assert found is not None
    return found


def kill_server_of(cluster: Cluster, token: str) -> Server:
    """Another node, which knows that the token's server is down."""
    lost = server_of(cluster, token)
    cluster[lost].kill()
    left = cluster.others(lost)
    wait_states(cluster, {lost: "down", **{one.name: "ready" for one in left}}, left[0].name)
    return left[0]


def test_token_goes_to_another_one_only_after_the_session_of_a_silent_script(cluster: Cluster) -> None:
    early, session = acquire(cluster["a"], "job", "--ttl", "6")
    node = kill_server_of(cluster, "job")
    late, _ = acquire(node, "job", "--wait", str(DEADLINE_S))
    assert fence_of(late) > fence_of(early)
    assert node.run("token", "renew", "--session", session).code == 4


def test_renew_that_names_its_token_keeps_it(cluster: Cluster) -> None:
    fence, session = acquire(cluster["a"], "job", "--ttl", LONG_S)
    node = kill_server_of(cluster, "job")
    assert node.run("token", "renew", "--session", session, "--fence", fence).code == 0
    shown = cluster.wait(lambda: show(node, "job"), "it is known who holds it", DEADLINE_S)
    (holder,) = shown["holders"]
    assert (holder["session"], f"job:{holder['epoch']}.{holder['counter']}") == (session, fence)
    assert node.run("token", "acquire", "job").code == 4
    assert node.run("token", "renew", "--session", session).code == 0  # all is known again


def test_renew_that_names_nothing_gives_nothing_away(cluster: Cluster) -> None:
    """It fails, and the session goes on: a later one that names the token still keeps it."""
    fence, session = acquire(cluster["a"], "job", "--ttl", LONG_S)
    node = kill_server_of(cluster, "job")
    ran = node.run("token", "renew", "--session", session)
    assert (ran.code, ran.err.count("\n")) == (5, 1)
    assert "--fence" in ran.err
    assert node.run("token", "acquire", "other", "--session", session).code == 5
    assert node.run("token", "acquire", "job").code in (4, 5)
    assert node.run("token", "renew", "--session", session, "--fence", fence).code == 0
    shown = cluster.wait(lambda: show(node, "job"), "it is known who holds it", DEADLINE_S)
    assert [holder["session"] for holder in shown["holders"]] == [session]


def test_release_of_another_token_does_not_end_a_session_that_may_hold_more(cluster: Cluster) -> None:
    fence, session = acquire(cluster["a"], "job", "--ttl", LONG_S)
    lost = server_of(cluster, "job")
    other = next(name for name in map(str, range(1000)) if server_of(cluster, name) != lost)
    acquire(cluster["a"], other, "--session", session)
    node = kill_server_of(cluster, "job")
    assert node.run("token", "release", other, "--session", session).code == 0
    assert node.run("token", "renew", "--session", session, "--fence", fence).code == 0
    shown = cluster.wait(lambda: show(node, "job"), "it is known who holds it", DEADLINE_S)
    assert [holder["session"] for holder in shown["holders"]] == [session]


def test_sharers_keep_what_they_name_as_shared(cluster: Cluster) -> None:
    sharers = [acquire(cluster["a"], "job", "--shared", "--ttl", LONG_S) for _ in range(2)]
    node = kill_server_of(cluster, "job")
    for fence, session in sharers:
        assert node.run("token", "renew", "--session", session, "--shared", fence).code == 0
    shown = cluster.wait(lambda: show(node, "job"), "it is known who holds it", DEADLINE_S)
    assert {holder["session"] for holder in shown["holders"]} == {session for _, session in sharers}
