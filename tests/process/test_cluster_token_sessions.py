"""What a script holds by `token acquire` and `renew` when the server of its token dies: never another one with it.

Knows: the commands as a script types them, and which server a token has.  Does not know how the servers find out who
holds what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

from distkv.model.fence import Fence, read_fence_text
from tests.process.cluster import Cluster
from tests.process.servers import Server
from tests.process.tokens import DEADLINE_S, LONG_S, acquire, ask, left_ready, open_token_servers, show, wait_states

Acquire: TypeAlias = Callable[..., tuple[str, str]]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with open_token_servers(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    with left_ready(shared) as found:
        yield found


@pytest.fixture
def acquire_for_long(cluster: Cluster) -> Iterator[Acquire]:
    """`token acquire` by node a, in sessions that end with the test: a later one would wait for what they say."""
    sessions = set[str]()

    def found(name: str, *arguments: str) -> tuple[str, str]:
        fence, session = acquire(cluster["a"], name, "--ttl", LONG_S, "--wait", str(DEADLINE_S), *arguments)
        sessions.add(session)
        return fence, session

    yield found
    node = next(server.name for server in cluster if server.is_running)
    for session in sessions:
        ask(cluster, node, "token_close", session=session)


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
    early, session = acquire(cluster["a"], "silent", "--ttl", "6")
    node = kill_server_of(cluster, "silent")
    late, _ = acquire(node, "silent", "--wait", str(DEADLINE_S))
    assert fence_of(late) > fence_of(early)
    assert node.run("token", "renew", "--session", session).code == 4


def test_renew_that_names_its_token_keeps_it(cluster: Cluster, acquire_for_long: Acquire) -> None:
    fence, session = acquire_for_long("job")
    node = kill_server_of(cluster, "job")
    assert node.run("token", "renew", "--session", session, "--fence", fence).code == 0
    shown = cluster.wait(lambda: show(node, "job"), "it is known who holds it", DEADLINE_S)
    (holder,) = shown["holders"]
    assert (holder["session"], f"job:{holder['epoch']}.{holder['counter']}") == (session, fence)
    assert node.run("token", "acquire", "job").code == 4
    assert node.run("token", "renew", "--session", session).code == 0  # all is known again


def test_renew_that_names_nothing_gives_nothing_away(cluster: Cluster, acquire_for_long: Acquire) -> None:
    """It fails, and the session goes on: a later one that names the token still keeps it."""
    fence, session = acquire_for_long("job")
    node = kill_server_of(cluster, "job")
    ran = node.run("token", "renew", "--session", session)
    assert (ran.code, ran.err.count("\n")) == (5, 1)
    assert "--fence" in ran.err
    assert node.run("token", "acquire", "other", "--session", session).code == 5
    assert node.run("token", "acquire", "job").code in (4, 5)
    assert node.run("token", "renew", "--session", session, "--fence", fence).code == 0
    shown = cluster.wait(lambda: show(node, "job"), "it is known who holds it", DEADLINE_S)
    assert [holder["session"] for holder in shown["holders"]] == [session]


def test_release_of_another_token_does_not_end_a_session_that_may_hold_more(
    cluster: Cluster, acquire_for_long: Acquire
) -> None:
    fence, session = acquire_for_long("job")
    lost = server_of(cluster, "job")
    other = next(name for name in map(str, range(1000)) if server_of(cluster, name) != lost)
    acquire(cluster["a"], other, "--session", session)
    node = kill_server_of(cluster, "job")
    assert node.run("token", "release", other, "--session", session).code == 0
    assert node.run("token", "renew", "--session", session, "--fence", fence).code == 0
    shown = cluster.wait(lambda: show(node, "job"), "it is known who holds it", DEADLINE_S)
    assert [holder["session"] for holder in shown["holders"]] == [session]


def test_sharers_keep_what_they_name_as_shared(cluster: Cluster, acquire_for_long: Acquire) -> None:
    sharers = [acquire_for_long("job", "--shared") for _ in range(2)]
    node = kill_server_of(cluster, "job")
    for fence, session in sharers:
        assert node.run("token", "renew", "--session", session, "--shared", fence).code == 0
    shown = cluster.wait(lambda: show(node, "job"), "it is known who holds it", DEADLINE_S)
    assert {holder["session"] for holder in shown["holders"]} == {session for _, session in sharers}
