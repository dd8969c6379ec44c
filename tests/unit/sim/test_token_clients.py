"""Clients of tokens in the simulator: what they hold, by their own clocks, and what a freeze does to them.

Knows: scenario files and the `token_*` modules of `distkv.sim`.
"""

from __future__ import annotations

import pytest

from distkv.core.tokens.machine import TOKENS
from distkv.sim.draft import draw
from distkv.sim.grammar import parse_script
from distkv.sim.network import Network, NetworkFaults
from distkv.sim.player import ScriptFailedError, play
from distkv.sim.tokens.rules import OneHolder
from tests.profiles import size

HEAD = """
settings tokens=3 lease=1s ttl=6s seed=3
cluster a b c
show nothing
open b u
open c v
run 2s
"""


def _state(commands: str) -> list[str]:
    """What `state` shows of clients after these commands."""
    script = parse_script(f"{HEAD}{commands}\nstate\n----\n", "test")
    return [line for line in play(script).outputs[-1] if line.startswith(("u:", "v:"))]


def test_client_gets_a_free_token() -> None:
    (line,) = _state("acquire u job\nrun 1s")
    assert line.startswith("u: holds job:")


def test_second_client_waits() -> None:
    (line,) = _state("acquire u job\nrun 1s\nacquire v job wait 20s\nrun 5s")
    assert line.startswith("u: holds job:")


def test_waiting_client_gets_what_is_released() -> None:
    (line,) = _state("acquire u job\nrun 1s\nacquire v job wait 20s\nrun 1s\nrelease u job\nrun 1s")
    assert line.startswith("v: holds job:")


def test_shared_token_has_two_holders() -> None:
    assert len(_state("acquire u job shared\nacquire v job shared wait 5s\nrun 2s")) == 2


def test_client_holds_a_token_only_for_the_time_that_it_wants() -> None:
    assert _state("acquire u job for 3s\nrun 4s") == []


def test_broken_token_is_held_no_more() -> None:
    assert _state("acquire u job\nrun 1s\nbreak a job\nrun 3s") == []


def test_closed_session_holds_nothing() -> None:
    assert _state("acquire u job\nrun 1s\nclose u\nrun 1s") == []


def test_frozen_client_may_not_count_on_its_token_after_its_ttl() -> None:
    assert _state("acquire u job\nrun 1s\nfreeze u 30s\nrun 7s") == []


def test_client_whose_node_ends_goes_on_with_another_one() -> None:
    (line,) = _state("acquire u job\nrun 1s\nstop b\nrun 20s")
    assert line.startswith("u: holds job:")


def test_next_holder_has_the_data_of_the_last_one() -> None:
    script = parse_script(
        f"{HEAD}show note\nacquire u job\nrun 1s\ndata u job 7 keep\nrun 1s\nrelease u job\n"
        "acquire v job wait 5s\nrun 1s\n----\n",
        "test",
    )
    (line,) = [line for line in play(script).outputs[-1] if "v holds" in line]
    assert line.endswith(", with 7")


def test_only_a_holder_sets_data() -> None:
    script = parse_script(f"{HEAD}show note\ndata u job 7\nrun 1s\n----\n", "test")
    assert play(script).outputs[-1][-1].endswith("u does not set the data of job: not_held")


def test_servers_are_shown_in_groups_that_know_the_same() -> None:
    script = parse_script(f"{HEAD}isolate c\nrun 3s\nservers\n----\n", "test")
    most, rest, granting = play(script).outputs[-1]
    assert most.startswith("a b: version ")
    assert "c down" in most
    assert rest.startswith("c: version ")
    assert "c ready" in rest
    assert granting == "may grant: a b"


def test_servers_of_a_network_without_tokens_are_none() -> None:
    assert play(parse_script("cluster a b\nservers\n----\n", "test")).outputs[-1] == ()


def test_reset_ends_all_sessions() -> None:
    assert _state("acquire u job\nrun 1s\nreset a\nrun 8s") == []


def test_clients_need_token_servers() -> None:
    with pytest.raises(ScriptFailedError, match="settings tokens=3"):
        play(parse_script("cluster a b\nopen a u\nstate\n----\n", "test"))


def test_tell_on_a_cut_way_is_lost() -> None:
    network = Network(1)
    network.cut.add(("b", "a"))
    assert list(network.told("a", "b")) == []


def test_tells_get_lost_and_come_twice_as_gossip_does() -> None:
    network = Network(1, NetworkFaults(loss=0.3, duplication=0.3))
    assert {len(list(network.told("a", "b"))) for _ in range(100)} == {0, 1, 2}


def test_one_seed_in_five_has_tokens() -> None:
    count = size(100, 1000)
    assert 0.14 <= sum(TOKENS in draw(seed).parts for seed in range(count)) / count <= 0.26


SET_BACK = "backup c\nacquire u boat\nrun 500ms\nroll-back c\nstart c{how}\nrun 2s\nacquire v boat wait 5s\nrun 3s"
"""c serves boat, and has forgotten that u holds it."""


def test_server_whose_disk_was_set_back_may_grant_again() -> None:
    assert len(_state(SET_BACK.format(how=""))) == 2


def test_rules_see_both_holders_of_a_server_whose_disk_was_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OneHolder, "is_forgotten", lambda *_: False)
    with pytest.raises(ScriptFailedError, match="one holds a token"):
        _state(SET_BACK.format(how=""))


def test_server_that_is_told_that_its_disk_was_set_back_counts_as_lost() -> None:
    (line,) = _state(SET_BACK.format(how=" restored=yes"))
    assert line.startswith("u: holds boat:")
