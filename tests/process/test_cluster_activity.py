"""The activity network of three real servers: accounts, nodes that are killed or end, and clients that go elsewhere.

Knows: clients of ours, and strangers.  Does not know how activities travel: the simulator has every way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import distkv
from distkv.client.activity_registration import register
from distkv.client.addresses import read_hosts
from distkv.errors import DistkvError
from distkv.wire.account_errors import WrongSecretError
from tests.process.activities import Stranger, listener_port, logged_in, shown
from tests.process.activity_crowd import open_crowd, wait_whole
from tests.process.cluster import NAMES, Cluster, open_cluster

DEADLINE_S = 60.0
SETTINGS = "activity: {listen: '127.0.0.1:0'}\ntokens: {servers: [a, b, c]}\n"
CLIENTS = 12
SENDERS = 4


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes that know each other's listeners; each test leaves them so."""
    with open_cluster(tmp_path_factory.mktemp("activity") / "cluster", extra=SETTINGS) as found:
        wait_whole(found)
        yield found


def _clients(cluster: Cluster) -> dict[str, int]:
    return {server.name: int(shown(server)["clients"]) for server in cluster if server.is_running}


def test_strangers_at_all_nodes_hear_everything(cluster: Cluster) -> None:
    found = [logged_in(listener_port(cluster[name])) for name in NAMES]
    for at, one in enumerate(found):
        one.say("ACTIVITY_MESSAGE", username="anonymous", activity={"at": at})
        assert [other.hear()["activity"]["at"] for other in found] == [at] * len(NAMES)
    for one in found:
        one.close()


def test_users_of_all_nodes_are_named_at_each(cluster: Cluster) -> None:
    found = [logged_in(listener_port(cluster[name])) for name in NAMES]
    said = json.loads(cluster["a"].run("activity", "who", "--names", "-o", "json").out)
    assert said["names"] == {name: ["anonymous"] for name in NAMES}
    for one in found:
        one.close()


def test_clients_are_spread_over_the_nodes(cluster: Cluster) -> None:
    with open_crowd([cluster["a"]], CLIENTS, 0):
        cluster.wait(lambda: max(_clients(cluster).values()) <= CLIENTS // 3 + 1, "each node has a third", DEADLINE_S)


def test_name_is_given_once_and_its_secret_logs_in_everywhere(cluster: Cluster) -> None:
    outcomes = list[str]()
    for name in NAMES:
        with cluster[name].client() as client:
            address = client.address
        try:
            register(read_hosts(address, 1), "aaron", f"secret {name}")
            outcomes.append("registered")
        except DistkvError as error:
            outcomes.append(error.code)
    assert outcomes == ["registered", "name_taken", "name_taken"]
    for name in NAMES:
        with Stranger(listener_port(cluster[name])) as one:
            one.say("LOGIN", username="aaron", secret="secret a")
            assert one.hear()["command"] == "LOGIN_SUCCESS"
        with pytest.raises(WrongSecretError):
            distkv.connect_activity("127.0.0.1", cluster[name].port, "aaron", "secret b")


def test_node_that_ends_in_order_loses_nothing_of_its_clients(cluster: Cluster) -> None:
    with open_crowd([*cluster], CLIENTS, SENDERS) as crowd:
        crowd.wait_echoes(100)
        cluster["b"].terminate()
        assert sum(_clients(cluster).values()) == CLIENTS
        crowd.wait_echoes(100)
        crowd.end()
        cluster.start("b")
        assert (crowd.wrong(), crowd.unknown) == ([], 0)
    wait_whole(cluster)


def test_node_that_is_killed_and_comes_back_loses_nothing_that_was_echoed(cluster: Cluster) -> None:
    with open_crowd([*cluster], CLIENTS, SENDERS) as crowd:
        crowd.wait_echoes(100)
        cluster["b"].kill()
        cluster.start("b")
        crowd.wait_echoes(200)
        crowd.end()
        assert crowd.wrong() == []
    wait_whole(cluster)


def test_root_of_the_tree_that_is_killed_loses_nothing_that_was_echoed(cluster: Cluster) -> None:
    tree = cluster["a"].state()["tree"]
    assert isinstance(tree, dict)
    root = str(tree["root"])
    with open_crowd([*cluster], CLIENTS, SENDERS) as crowd:
        crowd.wait_echoes(100)
        cluster[root].kill()
        crowd.wait_echoes(200)
        crowd.end()
        cluster.start(root)
        assert crowd.wrong() == []
    wait_whole(cluster)
