"""Tokens on three real servers that are killed, frozen, restarted and wiped: one holder at a time, by one clock.

Knows: the Python API, requests as a client sends them, and signals.  Does not know how servers agree.
"""

from __future__ import annotations

import itertools
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import pytest

import distkv
from distkv.client.blocking import Client
from tests.process.cluster import Cluster
from tests.process.tokens import DEADLINE_S, LEASE_S, TTL_S, ask, leader, open_token_servers, wait_states

LOCK_DELAY_S = LEASE_S / 2
BOUND_S = 3 * LEASE_S + TTL_S + LOCK_DELAY_S
"""After so long without faults somebody has every token that is wanted (docs/tokens)."""
SLOW_S = 10.0
"""What a slow machine may add to that."""
PATIENT_TTL_S = 12.0
"""Of a session that has to live through a change of the leader: of the shortest ttl too little is left for that where
the processors are busy with something else for a second or two."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with open_token_servers(tmp_path / "cluster") as found:
        yield found


def pause(seconds: float) -> None:
    """Let time pass in which nothing is to happen but faults."""
    threading.Event().wait(seconds)


def keep(cluster: Cluster, node: str, session: str, held: list[dict[str, Any]]) -> None:
    """Say of a session what it holds, by the present version of the servers, as its client does all the time."""
    told = ask(cluster, node, "token_keep", session=session, version=0, held=held)
    if "version" in told:
        ask(cluster, node, "token_keep", session=session, version=told["version"], held=held)


def clients(cluster: Cluster, *names: str) -> Client:
    return Client([("127.0.0.1", cluster[name].port) for name in names or ("a", "b", "c")])


# -- one holder at a time -----------------------------------------------------------------------------------------


@attrs.define
class Hold:
    """From when to when somebody held the token, by the clock of this process."""

    begin: float
    end: float
    fence: distkv.Fence
    value: int
    """What it wrote under its fence."""


@attrs.define
class Contender:
    """Somebody who wants the token again and again, through all nodes."""

    cluster: Cluster
    first: str
    is_over: threading.Event
    holds: list[Hold] = attrs.field(factory=list)
    failures: list[str] = attrs.field(factory=list)
    lost: int = 0

    def run(self) -> None:
        others = [name for name in "abc" if name != self.first]
        with clients(self.cluster, self.first, *others) as client:
            while not self.is_over.is_set():
                try:
                    self._hold(client)
                except (distkv.TokenLost, distkv.Ungranted, distkv.SessionExpired, distkv.Unreachable, distkv.NotReady):
                    self.lost += 1
                except distkv.DistkvError as error:
                    self.failures.append(f"{type(error).__name__}: {error}")
                    return

    def _hold(self, client: Client) -> None:
        with client.token("job", wait_s=5.0) as token:
            begin = end = time.monotonic()
            found = Hold(begin, end, token.fence, 0)
            while time.monotonic() - begin < 0.1:
                pause(0.01)
                now = time.monotonic()
                if token.is_lost:
                    break
                found.end = now  # it was held then: the clock was read before
            self.holds.append(found)


def test_holders_never_overlap_while_servers_are_killed_and_frozen(cluster: Cluster) -> None:
    """Six contenders; each server in turn is killed and started again, and stopped for longer than a session lives."""
    is_over = threading.Event()
    contenders = [Contender(cluster, "abc"[number % 3], is_over) for number in range(6)]
    threads = [threading.Thread(target=one.run) for one in contenders]
    for thread in threads:
        thread.start()
    try:
        pause(1)
        for name in (leader(cluster, "a"), "a", "b", "c"):
            cluster[name].kill()
            pause(LEASE_S)
            cluster.start(name)
            pause(2 * LEASE_S)
            cluster[name].send_signal(signal.SIGSTOP)
            pause(TTL_S + LEASE_S)
            cluster[name].send_signal(signal.SIGCONT)
            pause(2 * LEASE_S)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert [failure for one in contenders for failure in one.failures] == []
    holds = sorted((hold for one in contenders for hold in one.holds), key=lambda hold: hold.begin)
    assert len(holds) > 20
    assert [(one, two) for one, two in itertools.pairwise(holds) if two.begin < one.end] == []
    assert [(one, two) for one, two in itertools.pairwise(holds) if two.fence <= one.fence] == []
    pauses = [two.begin - one.end for one, two in itertools.pairwise(holds)]
    assert max(pauses) < BOUND_S + SLOW_S


def test_no_session_is_lost_when_the_leader_is_killed(cluster: Cluster) -> None:
    lost = leader(cluster, "a")
    others = [name for name in "abc" if name != lost]
    with clients(cluster, *others) as client, client.token("job", ttl_s=PATIENT_TTL_S) as token:
        cluster[lost].kill()
        cluster.wait(lambda: leader(cluster, others[0]) in others, "another one leads", DEADLINE_S)
        wait_states(cluster, {lost: "down", **dict.fromkeys(others, "ready")}, others[0])
        assert not token.is_lost
        (holder,) = cluster.wait(
            lambda: ask(cluster, others[1], "token_show", token="job").get("holders"), "it is known", DEADLINE_S
        )
        assert (holder["epoch"], holder["counter"]) == (token.fence.epoch, token.fence.counter)


def test_killing_the_node_that_a_client_talks_to_costs_it_nothing(cluster: Cluster) -> None:
    with clients(cluster) as client, client.token("job", ttl_s=PATIENT_TTL_S) as token:
        cluster["a"].kill()
        pause(PATIENT_TTL_S + LEASE_S)
        assert not token.is_lost


def test_command_under_a_token_outlives_the_node_that_it_talks_to(cluster: Cluster) -> None:
    hosts = [word for name in "abc" for word in ("-h", f"127.0.0.1:{cluster[name].port}")]
    killer = threading.Timer(TTL_S / 2, cluster["a"].kill)
    killer.start()
    script = f"echo $DISTKV_FENCE; sleep {PATIENT_TTL_S + TTL_S:g}; echo done"
    ttl = f"{PATIENT_TTL_S:g}"
    ran = cluster.servers.run("client", *hosts, "token", "run", "job", "--ttl", ttl, "--", "sh", "-c", script)
    killer.join()
    assert (ran.code, ran.err) == (0, "")
    assert ran.text.splitlines()[1:] == ["done"]


@pytest.mark.alone
def test_command_under_a_token_outlives_the_leader_though_the_ttl_is_three_leases(cluster: Cluster) -> None:
    """The grace of the command is no part of the ttl."""
    lost = leader(cluster, "a")
    hosts = [word for name in "abc" for word in ("-h", f"127.0.0.1:{cluster[name].port}")]
    killer = threading.Timer(TTL_S / 2, cluster[lost].kill)
    killer.start()
    ran = cluster.servers.run("client", *hosts, "token", "run", "job", "--", "sleep", f"{4 * TTL_S:g}")
    killer.join()
    assert (ran.code, ran.err) == (0, "")


def test_reset_founds_anew_with_higher_fences_and_needs_a_majority(cluster: Cluster) -> None:
    with clients(cluster) as client, client.token("job") as token:
        before = token.fence
    for name in "bc":
        cluster[name].kill()
    pause(2 * LEASE_S)
    assert cluster["a"].run("token", "reset").code == 2
    refused = cluster.wait(
        lambda: ran if (ran := cluster["a"].run("token", "reset", "--force")).code else None, "b and c are missed",
        DEADLINE_S,
    )
    assert refused is not None
    assert (refused.code, refused.err.count("\n")) == (5, 1)
    cluster.start("b", "c")
    wait_states(cluster, {"a": "ready", "b": "ready", "c": "ready"})
    cluster.wait(lambda: cluster["a"].run("token", "reset", "--force").code == 0, "it founds anew", DEADLINE_S)

    def is_granted() -> distkv.Fence | None:
        with suppress(distkv.Ungranted, distkv.TokenLost), clients(cluster) as client, client.token("job") as token:
            return token.fence
        return None

    after = cluster.wait(is_granted, "the servers grant again", DEADLINE_S)
    assert after is not None
    assert after > before


def test_all_servers_killed_at_once_come_back_with_sessions_tokens_and_data(cluster: Cluster) -> None:
    opened = ask(cluster, "a", "token_open", ttl=60.0)
    got = ask(cluster, "b", "token_acquire", session=opened["session"], token="job", data={"who": "me"})
    for server in cluster:
        server.kill()
    cluster.start("a", "b", "c")
    wait_states(cluster, {"a": "ready", "b": "ready", "c": "ready"})
    held = [{name: got[name] for name in ("token", "epoch", "counter", "shared")}]

    def is_known() -> dict[str, Any] | None:
        keep(cluster, "a", opened["session"], held)  # who was away for long is asked what it holds
        found = ask(cluster, "c", "token_show", token="job")
        return found if found.get("holders") else None

    shown = cluster.wait(is_known, "it is known who holds the token", DEADLINE_S)
    assert shown is not None
    assert [holder["session"] for holder in shown["holders"]] == [opened["session"]]
    assert [(holder["epoch"], holder["counter"]) for holder in shown["holders"]] == [(got["epoch"], got["counter"])]
    assert shown["data"] == {"who": "me"}


def test_without_a_majority_no_leader_is_shown(cluster: Cluster) -> None:
    assert ask(cluster, "a", "token_servers")["leader"] in ("a", "b", "c")
    for name in "bc":
        cluster[name].kill()
    cluster.wait(lambda: ask(cluster, "a", "token_servers")["leader"] is None, "no leader is shown", DEADLINE_S)
    ran = cluster["a"].run("token", "servers")
    assert (ran.code, ran.err.count("\n")) == (0, 1)
    assert "yes" not in ran.text


def test_without_a_majority_nothing_is_granted_and_it_is_said(cluster: Cluster) -> None:
    opened = ask(cluster, "a", "token_open")
    for name in "bc":
        cluster[name].kill()
    pause(2 * LEASE_S)
    refused = ask(cluster, "a", "token_acquire", session=opened["session"], token="job", wait=30.0)
    assert refused["code"] == "no_quorum"
    assert "\n" not in refused["error"]
    with clients(cluster, "a") as client:
        client.set("x", 1)  # the store takes writes all the same
    cluster.start("b", "c")
    wait_states(cluster, {"a": "ready", "b": "ready", "c": "ready"})

    def is_granted() -> bool:
        with suppress(distkv.Ungranted, distkv.TokenLost), clients(cluster, "a") as client, client.token("job"):
            return True
        return False

    cluster.wait(is_granted, "it is granted", DEADLINE_S)


def test_server_whose_disk_was_wiped_serves_again_when_it_was_admitted(cluster: Cluster) -> None:
    before = {server["node"]: server["life"] for server in ask(cluster, "a", "token_servers")["servers"]}
    cluster["c"].kill()
    shutil.rmtree(cluster["c"].data_dir)
    cluster.start("c")
    wait_states(cluster, {"a": "ready", "b": "ready", "c": "ready"})
    cluster.wait(
        lambda: {s["node"]: s["life"] for s in ask(cluster, "a", "token_servers")["servers"]}["c"] != before["c"],
        "the new life of c was admitted",
        DEADLINE_S,
    )
    wait_states(cluster, {"a": "ready", "b": "ready", "c": "ready"})
    with clients(cluster) as client, client.token("job") as token:
        assert not token.is_lost


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
def test_bad_input_is_refused_by_one_line(one_cluster: Cluster, action: str, fields: dict[str, Any], code: str) -> None:
    refused = ask(one_cluster, "b", action, **fields)
    assert refused.get("code") == code, refused
    assert "\n" not in refused["error"]


@pytest.fixture(scope="module")
def one_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Of which no test leaves anything."""
    with open_token_servers(tmp_path_factory.mktemp("cluster")) as found:
        yield found


def test_session_of_another_holds_nothing(one_cluster: Cluster) -> None:
    mine, other = (ask(one_cluster, "a", "token_open")["session"] for _ in range(2))
    assert "epoch" in ask(one_cluster, "a", "token_acquire", session=mine, token="owned")
    assert ask(one_cluster, "c", "token_release", session=other, token="owned")["code"] == "not_held"
    assert ask(one_cluster, "c", "token_data", session=other, token="owned", data=1)["code"] == "not_held"
    assert ask(one_cluster, "c", "token_acquire", session=other, token="owned")["code"] == "held"
    for session in (mine, other):
        ask(one_cluster, "b", "token_close", session=session)
    assert ask(one_cluster, "a", "token_acquire", session=mine, token="owned")["code"] == "session_expired"
