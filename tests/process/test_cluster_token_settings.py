"""A node whose `tokens.servers` differ from the list in force: that changes nothing, and doctor tells.

Knows: the settings of real nodes, which are changed by a restart.  Does not know how servers compare them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from distkv.client.blocking import Client
from tests.process.cluster import Cluster
from tests.process.tokens import DEADLINE_S, SETTINGS, acquire, open_token_servers, wait_states


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Each test leaves all with the same list, and ready; tokens have names of their own in each."""
    with open_token_servers(tmp_path_factory.mktemp("cluster")) as found:
        yield found


def restart(cluster: Cluster, name: str, servers: str) -> None:
    """With this list of token servers in its file from now on; the file of each node says the same at first."""
    file = cluster[name].directory / "config.yaml"
    kept = [line for line in file.read_text().splitlines(keepends=True) if not line.startswith("tokens:")]
    cluster[name].kill()
    file.write_text("".join(kept) + SETTINGS.replace("[a, b, c]", servers))
    cluster.start(name)


def told(cluster: Cluster, name: str) -> list[str]:
    """What `doctor` beside a node has to say of the settings that differ."""
    node = cluster[name]
    words = ("-o", "json", name, "--data-dir", str(node.data_dir), "--bind", node.address)
    ran = cluster.servers.run("doctor", *words, DISTKV_CONFIG=node.environment["DISTKV_CONFIG"])
    found = json.loads(ran.out)
    return [one["says"] for one in found if (one["check"], one["level"]) == ("settings", "warn")]


@pytest.mark.parametrize("servers", ["[c]", "[a, c, d]", "[d]"])
def test_setting_that_names_other_servers_changes_nothing(cluster: Cluster, servers: str) -> None:
    """(docs/protocol, QUORUM-20)"""
    with Client([("127.0.0.1", cluster[name].port) for name in "ab"]) as client:
        name = f"set{len(servers)}{servers[1]}"
        with client.token(name, wait_s=DEADLINE_S, ttl_s=600.0) as token:
            restart(cluster, "c", servers)
            wait_states(cluster, dict.fromkeys("abc", "ready"))
            cluster.wait(lambda: cluster["c"].run("token", "acquire", name).code == 4, "c knows it", DEADLINE_S)
            assert not token.is_lost
        (says,) = told(cluster, "a")
        assert says.startswith("tokens.servers is ")
        assert "token_setting_differs" in cluster["c"].errors
    restart(cluster, "c", "[a, b, c]")
    wait_states(cluster, dict.fromkeys("abc", "ready"))


def test_rolling_restart_with_another_list_leaves_the_tokens_served(cluster: Cluster) -> None:
    """(docs/protocol, QUORUM-20)"""
    with (
        Client([("127.0.0.1", cluster[name].port) for name in "abc"]) as client,
        client.token("rolled", wait_s=DEADLINE_S, ttl_s=600.0) as token,
    ):
        for servers in ("[a, b, d]", "[a, b, c]"):
            for name in "abc":
                restart(cluster, name, servers)
                wait_states(cluster, dict.fromkeys("abc", "ready"), name)
        assert not token.is_lost


@pytest.mark.parametrize("servers", ["[]"])
def test_node_without_tokens_grants_nothing(cluster: Cluster, servers: str) -> None:
    with (
        Client([("127.0.0.1", cluster[name].port) for name in "ab"]) as client,
        client.token(f"job{len(servers)}", wait_s=DEADLINE_S, ttl_s=600.0) as token,
    ):
        restart(cluster, "c", servers)
        wait_states(cluster, {"a": "ready", "b": "ready", "c": "down"})
        refused = cluster["c"].run("token", "acquire", token.name)
        assert refused.code in (1, 4, 5)
        assert refused.err.count("\n") == 1
        for name in "ac":
            (says,) = told(cluster, name)
            assert says.startswith("tokens.servers is ")
        fence, _ = acquire(cluster["a"], f"other{len(servers)}", "--wait", str(DEADLINE_S))
        assert fence.startswith(f"other{len(servers)}:")
        restart(cluster, "c", "[a, b, c]")
        wait_states(cluster, dict.fromkeys("abc", "ready"))
        cluster.wait(lambda: cluster["c"].run("token", "acquire", token.name).code == 4, "c knows it", DEADLINE_S)
        assert not token.is_lost


def test_list_of_an_even_number_is_refused_at_the_start(cluster: Cluster) -> None:
    with pytest.raises(ChildProcessError, match=r"tokens\.servers"):
        restart(cluster, "c", "[a, b]")
    restart(cluster, "c", "[a, b, c]")
    wait_states(cluster, dict.fromkeys("abc", "ready"))
