"""A fleet without agents: who is there is known, and values reach all, with a secret and without.

Knows: real servers on loopback.  Does not know datagrams.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.process.ports import free_port
from tests.process.servers import Server, open_servers
from tests.process.swim_fleet import Fleet, member_maps, members, new_secret, open_fleet, transport

ALL_ALIVE = {"a": "alive", "b": "alive", "c": "alive"}
KNOWN_DEAD_S = 10.0
BACK_S = 20.0
LEFT_S = 3.0
MOVED_S = 5.0


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """With a secret. Each test leaves all three alive."""
    with open_fleet(tmp_path_factory.mktemp("fleet"), secret=new_secret()) as found:
        yield found


def test_what_is_written_on_one_is_read_on_all(fleet: Fleet) -> None:
    for name in "abc":
        with fleet[name].client() as client:
            client.set(f"from.{name}", name)
    fleet.wait_equal(20)
    with fleet["b"].client() as client:
        assert [client.get(f"from.{name}").value for name in "abc"] == ["a", "b", "c"]
    shown = transport(fleet["a"])
    assert (shown["kind"], shown["connected"], shown["told_dead"]) == ("swim", True, 0)


def test_one_that_is_killed_is_dead_and_alive_again_after_a_restart_without_join(fleet: Fleet) -> None:
    fleet["b"].kill()
    fleet.wait_members({**ALL_ALIVE, "b": "dead"}, KNOWN_DEAD_S)
    with fleet["a"].client() as client:
        client.set("k", "while it was away")
    fleet["b"].start().wait_ready()
    fleet.wait_members(ALL_ALIVE, BACK_S)
    fleet.wait_equal(20)


def test_one_that_is_told_to_end_has_left(fleet: Fleet) -> None:
    assert fleet["b"].terminate() == 0
    fleet.wait_members({**ALL_ALIVE, "b": "left"}, LEFT_S)
    fleet["b"].start().wait_ready()
    fleet.wait_members(ALL_ALIVE, BACK_S)


def test_all_that_are_killed_find_each_other_again_without_join(fleet: Fleet) -> None:
    for name in "abc":
        fleet[name].kill()
    for name in "abc":
        fleet[name].start()
    for name in "abc":
        fleet[name].wait_ready()
    fleet.wait_members(ALL_ALIVE, BACK_S)
    fleet.wait_equal(20)


def test_a_damaged_peers_file_is_a_warning(fleet: Fleet) -> None:
    fleet["b"].kill()
    (fleet["b"].data_dir / "peers.json").write_bytes(b"\xff\x00 no file of peers")
    fleet["b"].start().wait_ready()  # the registry knows where the others are
    fleet.wait_members(ALL_ALIVE, BACK_S)
    assert "peers_file_damaged" in fleet["b"].errors


def test_a_taken_name_is_refused_with_the_address_of_its_holder(fleet: Fleet) -> None:
    twin = fleet.add("twin")
    twin.name = "b"
    twin.start("--join", fleet["a"].address)
    assert twin.wait_end() == 1
    (line,) = [line for line in twin.errors.splitlines() if line.startswith("distkv: ")]
    assert fleet["b"].address in line
    assert members(fleet["a"]) == ALL_ALIVE


def test_one_with_another_secret_is_in_nobodys_list_and_says_what_it_waits_for(fleet: Fleet) -> None:
    stranger = fleet.add("d", new_secret()).start("--join", fleet["a"].address)
    fleet.wait(lambda: transport(fleet["a"])["dropped_seal"], "a drops what d says", 10)
    says = f"nobody of the group answers at {fleet['a'].address}: no node is there, or the secret is another one"
    fleet.wait(lambda: says in str(stranger.state()["waits_for"]), "d says what it waits for", 10)
    fleet.wait(lambda: f"not_joined: {says}" in stranger.errors, "d logs it", 10)
    assert members(fleet["a"]) == ALL_ALIVE
    assert members(stranger) == {"d": "alive"}
    assert (stranger.state()["state"], stranger.state()["entries"]) == ("passive", 0)
    stranger.kill()


def test_members_are_shown_with_address_and_generation(fleet: Fleet) -> None:
    found = member_maps(fleet["b"])
    assert [(one["node"], one["addr"]) for one in found] == [(name, fleet[name].address) for name in "abc"]
    assert all(int(str(one["generation"])) >> 16 for one in found)
    text = fleet["b"].run("members").text
    assert [line.split()[:3] for line in text.splitlines()[1:]] == [
        [name, "alive", fleet[name].address] for name in "abc"
    ]


def test_one_that_moved_to_another_address_is_alive_there(fleet: Fleet) -> None:
    moved = fleet["b"]
    moved.kill()
    moved.port = free_port()
    moved.start().wait_ready()
    wanted = [("b", "alive", moved.address)]
    for name in "ac":
        fleet.wait(lambda s=fleet[name]: places(s, "b") == wanted, f"{name} knows where b is", MOVED_S)  # type: ignore[misc]
    fleet.wait_equal(20)


def test_nodes_find_each_other_by_ipv6(tmp_path: Path) -> None:
    with open_servers(tmp_path) as servers:
        fleet = Fleet(servers, new_secret())
        addresses = {name: f"[::1]:{fleet.add(name).port}" for name in "ab"}
        for name, more in (("a", ("--init", "1")), ("b", ("--join", addresses["a"]))):
            fleet[name].host = "::1"
            fleet[name].start("--bind", addresses[name], *more).wait_ready()
        fleet.wait_members({"a": "alive", "b": "alive"}, 20)
        assert places(fleet["a"], "b") == [("b", "alive", addresses["b"])]


def places(server: Server, name: str) -> list[tuple[object, ...]]:
    """What it believes of one node."""
    return [(one["node"], one["state"], one["addr"]) for one in member_maps(server) if one["node"] == name]


def test_without_a_secret_one_that_is_killed_is_dead_and_comes_back(tmp_path: Path) -> None:
    with open_fleet(tmp_path) as fleet:
        fleet["b"].kill()
        fleet.wait_members({**ALL_ALIVE, "b": "dead"}, KNOWN_DEAD_S)
        fleet["b"].start().wait_ready()
        fleet.wait_members(ALL_ALIVE, BACK_S)


# -- starts that end ----------------------------------------------------------------------------------------------


def ended(tmp_path: Path, *arguments: str, secret: str | None = None) -> str:
    """The one line with which a start ends that cannot be meant."""
    with open_servers(tmp_path) as servers:
        server = Fleet(servers, secret).add("a")
        server.start(*arguments)
        assert server.wait_end() == 2
        assert not server.data_dir.exists() or not any(server.data_dir.glob("*.json"))
        (line,) = [line for line in server.errors.splitlines() if " info " not in line]
        return line


def test_one_without_data_and_with_nobody_to_ask_ends(tmp_path: Path) -> None:
    assert "holds no data, and there is nobody to get it from: name a node that is there with --join" in ended(tmp_path)


def test_without_a_secret_one_that_others_could_reach_ends(tmp_path: Path) -> None:
    line = ended(tmp_path, "--bind", f"0.0.0.0:{free_port()}", "--advertise", "127.0.0.1:1", "--init", "1")
    assert "0.0.0.0 can be reached from other hosts, and there is no secret: set cluster.secret" in line


def test_one_with_a_malformed_secret_ends(tmp_path: Path) -> None:
    assert "cluster.secret is no secret" in ended(tmp_path, "--init", "1", secret="abc")


def test_one_whose_secret_all_may_read_ends(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(new_secret())
    file.chmod(0o644)
    assert f"all users may read or write {file}" in ended(tmp_path, "--init", "1", secret=f"file:{file}")


@pytest.mark.parametrize("transport", ["serf", "solo"])
def test_join_over_another_transport_ends(tmp_path: Path, transport: str) -> None:
    line = ended(tmp_path, "--transport", transport, "--join", "127.0.0.1:9", "--init", "1")
    assert f"--join 127.0.0.1:9 is for the transport swim, and this is {transport}: add --transport swim" in line


@pytest.mark.parametrize("transport", ["serf", "solo"])
def test_secret_that_would_seal_nothing_ends(tmp_path: Path, transport: str) -> None:
    line = ended(tmp_path, "--transport", transport, "--init", "1", secret=new_secret())
    assert f"cluster.secret seals what nodes of the transport swim send, and this is {transport}" in line


def test_one_whose_port_is_taken_for_datagrams_ends(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        line = ended(tmp_path, "--bind", address, "--init", "1")
    assert f"cannot listen on {address} for datagrams (UDP): Address already in use; name another" in line


# -- a start anew in the same process -----------------------------------------------------------------------------


def test_one_that_was_given_up_while_it_stood_still_begins_again_at_the_same_port_and_has_not_left(
    tmp_path: Path,
) -> None:
    with open_fleet(tmp_path, ("a", "b"), settings="links: {follow: false}\ndelete: {retention: 1}\n") as fleet:
        a, b = fleet["a"], fleet["b"]
        with a.client() as client:
            client.set("gone", 1)
        fleet.wait_equal(20)
        b.send_signal(signal.SIGSTOP)
        try:
            fill(b)  # else it finds there, when it goes on, what it must not hear
            fleet.wait_members({"a": "alive", "b": "dead"}, KNOWN_DEAD_S, at="a")
            with a.client() as client:
                client.retire_node("b", force=True)
                client.delete("gone")
            fleet.wait(lambda: counters(a)["tombstones"] == 0, "the deletion is forgotten", 30)
        finally:
            b.send_signal(signal.SIGCONT)
        fleet.wait(lambda: "begins_again" in b.errors, "b starts anew", 30)
        fleet.wait_members({"a": "alive", "b": "alive"}, BACK_S)
        fleet.wait_equal(30)
        assert "state=left" not in a.errors
        assert b.is_running


def fill(server: Server) -> None:
    """Send so much that the kernel has no room for more."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        for _ in range(5000):
            other.sendto(bytes(1000), (server.host, server.port))


def counters(server: Server) -> Mapping[str, object]:
    found = server.state()["counters"]
    assert isinstance(found, dict)
    return found
