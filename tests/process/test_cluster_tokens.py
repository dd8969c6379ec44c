"""Tokens on three real servers one of which, or all, are killed: whoever holds one keeps it. Bad input.

Knows: the Python API, requests as a client sends them, and signals.  Does not know how servers agree.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from tests.process.cluster import Cluster
from tests.process.servers import Ran
from tests.process.tokens import (
    DEADLINE_S,
    LEASE_S,
    TTL_S,
    ask,
    clients,
    leader,
    left_ready,
    open_token_servers,
    pause,
    show,
    wait_states,
)

PATIENT_TTL_S = 12.0
"""Of a session that has to live through a change of the leader: of the shortest ttl too little is left for that where
the processors are busy with something else for a second or two."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three token servers; each test leaves them ready, and no session of long."""
    with open_token_servers(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    with left_ready(shared) as found:
        yield found


def keep(cluster: Cluster, node: str, session: str, held: list[dict[str, Any]]) -> None:
    """Say of a session what it holds, by the present version of the servers, as its client does all the time."""
    told = ask(cluster, node, "token_keep", session=session, version=0, held=held)
    if "version" in told:
        ask(cluster, node, "token_keep", session=session, version=told["version"], held=held)


def test_no_session_is_lost_when_the_leader_is_killed(cluster: Cluster) -> None:
    lost = leader(cluster, "a")
    others = [name for name in "abc" if name != lost]
    with clients(cluster, *others) as client, client.token("kept", wait_s=DEADLINE_S, ttl_s=PATIENT_TTL_S) as token:
        cluster[lost].kill()
        cluster.wait(lambda: leader(cluster, others[0]) in others, "another one leads", DEADLINE_S)
        wait_states(cluster, {lost: "down", **dict.fromkeys(others, "ready")}, others[0])
        assert not token.is_lost
        (holder,) = cluster.wait(
            lambda: ask(cluster, others[1], "token_show", token="kept").get("holders"), "it is known", DEADLINE_S
        )
        assert (holder["epoch"], holder["counter"]) == (token.fence.epoch, token.fence.counter)


@attrs.frozen
class Outlived:
    """A client of the library and a command that held tokens while the node that they talk to was killed."""

    is_lost: bool
    """What the client said when its session would have been over."""
    ran: Ran


@pytest.fixture(scope="module")
def outlived(shared: Cluster) -> Outlived:
    hosts = [word for name in "abc" for word in ("-h", f"127.0.0.1:{shared[name].port}")]
    script = f"echo $DISTKV_FENCE; sleep {PATIENT_TTL_S + TTL_S:g}; echo done"
    options = ("--wait", str(DEADLINE_S), "--ttl", f"{PATIENT_TTL_S:g}")
    words = ("client", *hosts, "token", "run", "by.command", *options, "--", "sh", "-c", script)
    commands = list[Ran]()
    command = threading.Thread(target=lambda: commands.append(shared.servers.run(*words)))
    with (
        left_ready(shared),
        clients(shared) as client,
        client.token("by.client", wait_s=DEADLINE_S, ttl_s=PATIENT_TTL_S) as token,
    ):
        command.start()
        shared.wait(lambda: show(shared["b"], "by.command").get("holders"), "the command has its token", DEADLINE_S)
        shared["a"].kill()
        pause(PATIENT_TTL_S + LEASE_S)
        is_lost = token.is_lost
        command.join()
    return Outlived(is_lost, commands[0])


def test_killing_the_node_that_a_client_talks_to_costs_it_nothing(outlived: Outlived) -> None:
    assert not outlived.is_lost


def test_command_under_a_token_outlives_the_node_that_it_talks_to(outlived: Outlived) -> None:
    assert (outlived.ran.code, outlived.ran.err) == (0, "")
    assert outlived.ran.text.splitlines()[1:] == ["done"]


def test_all_servers_killed_at_once_come_back_with_sessions_tokens_and_data(cluster: Cluster) -> None:
    opened = ask(cluster, "a", "token_open", ttl=60.0)
    wanted = {"session": opened["session"], "token": "restarted", "data": {"who": "me"}}
    got = cluster.wait(  # a server that was away for a moment may have to find out who holds what
        lambda: found if "epoch" in (found := ask(cluster, "b", "token_acquire", **wanted)) else None,
        "it is granted",
        DEADLINE_S,
    )
    assert got is not None
    for server in cluster:
        server.kill()
    cluster.start("a", "b", "c")
    wait_states(cluster, {"a": "ready", "b": "ready", "c": "ready"})
    held = [{name: got[name] for name in ("token", "epoch", "counter", "shared")}]

    def is_known() -> dict[str, Any] | None:
        keep(cluster, "a", opened["session"], held)  # who was away for long is asked what it holds
        found = ask(cluster, "c", "token_show", token="restarted")
        return found if found.get("holders") else None

    shown = cluster.wait(is_known, "it is known who holds the token", DEADLINE_S)
    assert shown is not None
    assert [holder["session"] for holder in shown["holders"]] == [opened["session"]]
    assert [(holder["epoch"], holder["counter"]) for holder in shown["holders"]] == [(got["epoch"], got["counter"])]
    assert shown["data"] == {"who": "me"}
    ask(cluster, "a", "token_close", session=opened["session"])


@pytest.mark.alone
def test_command_under_a_token_outlives_the_leader_though_the_ttl_is_three_leases(cluster: Cluster) -> None:
    """The grace of the command is no part of the ttl. A session not kept would be over a ttl after the kill."""
    lost = leader(cluster, "a")
    hosts = [word for name in "abc" for word in ("-h", f"127.0.0.1:{cluster[name].port}")]
    killer = threading.Timer(TTL_S / 2, cluster[lost].kill)
    killer.start()
    ran = cluster.servers.run("client", *hosts, "token", "run", "granted", "--", "sleep", f"{2.5 * TTL_S:g}")
    killer.join()
    assert (ran.code, ran.err) == (0, "")


# -- bad input ----------------------------------------------------------------------------------------------------


def held(**changed: Any) -> dict[str, Any]:
    return {"token": "job", "epoch": 1, "counter": 1, "shared": False, **changed}


@pytest.mark.parametrize(
    ("action", "fields", "code"),
    [
        ("token_acquire", {"session": "1-a", "token": ""}, "bad_request"),
        ("token_acquire", {"session": "1-a", "token": "a\nb"}, "bad_request"),
        ("token_acquire", {"session": "1-a", "token": "x" * 256}, "bad_request"),
        ("token_acquire", {"session": "1-a", "token": "job"}, "session_expired"),
        ("token_acquire", {"session": 7, "token": "job"}, "bad_request"),
        ("token_acquire", {"session": "1-a", "token": "job", "ticket": "x"}, "bad_request"),
        ("token_acquire", {"session": "1-a", "token": "job", "data": b"x" * 70_000}, "too_large"),
        ("token_release", {"session": "1-a", "token": "job"}, "session_expired"),
        ("token_keep", {"session": "1-a", "version": 2**63, "held": []}, "bad_request"),
        ("token_keep", {"session": "1-a", "version": 1, "held": []}, "session_expired"),
        ("token_keep", {"session": "1-a", "version": 1, "held": [{"token": "x"}]}, "bad_request"),
        ("token_keep", {"session": "1-a", "version": 1, "held": [held(epoch=2**63)]}, "bad_request"),
        ("token_keep", {"session": "1-a", "version": 1, "held": [held(counter=2**62)]}, "bad_request"),
        ("token_keep", {"session": "1-a", "version": 1, "held": [held(epoch=-1)]}, "bad_request"),
        ("token_keep", {"session": "1-a", "version": 1, "held": [held(token="")]}, "bad_request"),
        ("token_release", {"session": "1-a", "token": "job", "epoch": 2**63, "counter": 1}, "bad_request"),
        ("token_release", {"session": f"{2**70}-a", "token": "job"}, "bad_request"),
        ("token_show", {"token": "\x1b"}, "bad_request"),
        ("token_break", {"token": "x" * 256}, "bad_request"),
        ("token_list", {"prefix": "x" * 256}, "bad_request"),
        ("token_list", {"limit": 2**63}, "bad_request"),
        ("token_watch", {"prefix": "a\nb"}, "bad_request"),
        ("token_open", {"ttl": 1e300}, "bad_request"),
        ("token_open", {"ttl": -1}, "bad_request"),
        ("token_reset", {}, "bad_request"),
        ("set_value", {"path": ["x"], "value": 1, "fence": ["t", 2**63, 1]}, "bad_request"),
        ("set_value", {"path": ["x"], "value": 1, "fence": "t:1.1"}, "bad_request"),
        ("set_value", {"path": ["x"], "value": 1, "fence": ["t", 1, 1], "refence": True}, "bad_request"),
    ],
)
def test_bad_input_is_refused_by_one_line(shared: Cluster, action: str, fields: dict[str, Any], code: str) -> None:
    refused = ask(shared, "b", action, **fields)
    assert refused.get("code") == code, refused
    assert "\n" not in refused["error"]


def test_session_of_another_holds_nothing(shared: Cluster) -> None:
    mine, other = (ask(shared, "a", "token_open")["session"] for _ in range(2))
    assert "epoch" in ask(shared, "a", "token_acquire", session=mine, token="owned")
    assert ask(shared, "c", "token_release", session=other, token="owned")["code"] == "not_held"
    assert ask(shared, "c", "token_data", session=other, token="owned", data=1)["code"] == "not_held"
    assert ask(shared, "c", "token_acquire", session=other, token="owned")["code"] == "held"
    for session in (mine, other):
        ask(shared, "b", "token_close", session=session)
    assert ask(shared, "a", "token_acquire", session=mine, token="owned")["code"] == "session_expired"
