"""Nodes without agents where the network misbehaves: who is there is known, and whom only datagrams do not reach lives.

Knows: what is dropped, and what operators see.  Does not know how nodes find out.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.netns.recorded import Recorder
from tests.netns.swim_lab import SwimLab, open_swim_lab
from tests.process.servers import Server, run_command, wait_until
from tests.process.swim_fleet import member_maps, members, transport

NAMES = "abc"
ALIVE = dict.fromkeys(NAMES, "alive")
KNOWN_S = 15.0
QUIET_S = 15.0
SHORT_S = 0.1
"""The shortest interval that may be set."""
SLEPT_S = 20.0
AWAKE_S = 10.0
OUTSIDE = 30_000
"""The port of a router."""


def test_one_whose_datagrams_do_not_pass_is_called_dead_by_nobody_and_doctor_names_it(tmp_path: Path) -> None:
    with open_swim_lab(tmp_path, NAMES) as lab:
        lab.block_datagrams("b")
        lab.wait(lambda: transport(lab["a"])["udp_blocked"] == ["b"], "a hears b on links only", KNOWN_S)
        stays_alive(lab, QUIET_S)
        assert transport(lab["a"])["udp_blocked"] == ["b"]
        (says,) = [one for one in complaints(lab, "a") if one.startswith("a ")]
        assert says == "a hears b by TCP only: UDP does not pass"
        lab.network.heal()
        lab.wait(lambda: transport(lab["a"])["udp_blocked"] == [], "a hears b again", KNOWN_S)


def test_one_behind_a_mapped_port_is_alive_everywhere_and_doctor_names_it(tmp_path: Path) -> None:
    with open_swim_lab(tmp_path, NAMES) as lab:
        lab["c"].terminate()
        lab.wait_members({**ALIVE, "c": "left"}, KNOWN_S)
        lab.map_port("c", OUTSIDE)
        lab["c"].start("--advertise", f"{lab.network.addresses['c']}:{OUTSIDE}").wait_ready()
        lab.wait_members(ALIVE, KNOWN_S)
        lab.wait(lambda: any("c" in mapped(lab[name]) for name in "ab"), "somebody hears c from elsewhere", KNOWN_S)
        stays_alive(lab, QUIET_S)
        (seen, *_) = [name for name in "ab" if "c" in mapped(lab[name])]
        assert any(
            one.startswith(f"{seen} hears c") and one.endswith("an address that is not advertised: something maps it")
            for one in complaints(lab, seen)
        )
        assert [one["addr"] for one in member_maps(lab["a"])][2] == f"{lab.network.addresses['c']}:{OUTSIDE}"
        with lab["c"].client() as client:
            client.set("from.c", 1)
        lab.wait_equal(30)


@pytest.mark.parametrize("share", [0.05, 0.2])
def test_datagrams_that_are_lost_make_nobody_dead(tmp_path: Path, share: float) -> None:
    with open_swim_lab(tmp_path, NAMES) as lab:
        lab.lose_datagrams(share)
        stays_alive(lab, QUIET_S)
        for name in NAMES:
            with lab[name].client() as client:
                client.set(f"from.{name}", name)
        lab.wait_equal(30)


def test_a_way_that_is_cut_in_one_direction_between_two_makes_nobody_dead(tmp_path: Path) -> None:
    with open_swim_lab(tmp_path, NAMES) as lab:
        lab.network.drop("a", of="b")
        stays_alive(lab, QUIET_S)
        with lab["b"].client() as client:
            client.set("from.b", 1)
        lab.wait_equal(30)


def test_one_whose_host_slept_tells_nobody_dead_and_is_alive_again(tmp_path: Path) -> None:
    with open_swim_lab(tmp_path, NAMES, settings=f"swim: {{interval: {SHORT_S}}}\n") as lab:
        lab["b"].send_signal(signal.SIGSTOP)
        try:
            pass_time(lambda: None, SLEPT_S)  # many intervals, and longer than links may be silent
            lab.wait_members({**ALIVE, "b": "dead"}, 10, at="ac")
        finally:
            lab["b"].send_signal(signal.SIGCONT)
        lab.wait_members(ALIVE, AWAKE_S)
        assert [transport(lab[name])["told_dead"] for name in "ac"] == [0, 0]
        assert "state=dead" not in lab["b"].errors
        with lab["b"].client() as client:
            client.set("from.b", 1)
        lab.wait_equal(30)


def test_sides_of_a_split_call_each_other_dead_and_meet_again(tmp_path: Path) -> None:
    with open_swim_lab(tmp_path, "abcd") as lab:
        all_alive = dict.fromkeys("abcd", "alive")
        lab.network.cut("ab", "cd")
        lab.wait_members({**all_alive, "c": "dead", "d": "dead"}, 30, at="ab")
        lab.wait_members({**all_alive, "a": "dead", "b": "dead"}, 30, at="cd")
        for name in "abcd":
            with lab[name].client() as client:
                client.set(f"from.{name}", name)
        lab.network.heal()
        lab.wait_members(all_alive, KNOWN_S)
        lab.wait_equal(30)


def test_all_that_was_ever_said_is_said_again_and_nothing_comes_of_it(tmp_path: Path) -> None:
    with open_swim_lab(tmp_path, NAMES) as lab:
        with Recorder(lab.network) as before:
            lab["b"].terminate()
            lab.wait_members({**ALIVE, "b": "left"}, KNOWN_S)
            lab["b"].start().wait_ready()
            lab.wait_members(ALIVE, KNOWN_S)
            lab["c"].kill()
            lab.wait_members({**ALIVE, "c": "dead"}, KNOWN_S)
            lab["c"].start().wait_ready()
            lab.wait_members(ALIVE, KNOWN_S)
        lab.wait_equal(30)
        said = list(before.arrived)
        assert len(said) > 50
        views = {name: view(lab[name]) for name in NAMES}
        dropped = {name: unopened(lab[name]) for name in NAMES}
        with Recorder(lab.network) as after:
            after.send_again(said)
            for name in NAMES:
                after.send_again(said, name)
            lab.wait(
                lambda: all(unopened(lab[name]) - dropped[name] >= len(said) // 2 for name in NAMES),
                "those are counted that the kernel delivers", KNOWN_S,
            )  # fmt: skip  # what comes under a host's own address it does not take
            stays_alive(lab, 5)
            assert {datagram.receiver for datagram in after.left} <= {*lab.network.addresses.values()}
        assert {name: view(lab[name]) for name in NAMES} == views


def mapped(server: Server) -> list[str]:
    """Whom it hears from elsewhere."""
    found = transport(server)["mapped"]
    assert isinstance(found, list)
    return found


def view(server: Server) -> list[tuple[object, ...]]:
    return [(one["node"], one["state"], one["generation"], one["addr"]) for one in member_maps(server)]


def unopened(server: Server) -> int:
    """How many did not open, or had done so before."""
    shown = transport(server)
    return sum(int(str(shown[f"dropped_{reason}"])) for reason in ("seal", "replay", "stranger"))


def stays_alive(lab: SwimLab, for_s: float) -> None:
    """For so long no node calls another one anything but alive, or suspect for a moment."""

    def look() -> None:
        for server in lab:
            assert set(members(server).values()) <= {"alive", "suspect"}, lab.servers.dump()

    pass_time(look, for_s)
    assert [transport(server)["told_dead"] for server in lab] == [0] * len(list(lab))


def pass_time(look: Callable[[], None], for_s: float) -> None:
    """For so long somebody looks, now and then."""
    end = time.monotonic() + for_s

    def is_over() -> bool:
        look()
        return time.monotonic() > end

    wait_until(is_over, "some time is over", for_s, pause_s=0.3)


def complaints(lab: SwimLab, name: str) -> list[str]:
    """What doctor, on the host of a node, complains of in the group."""
    server = lab[name]
    command = ("doctor", "-o", "json", name, "--data-dir", str(server.data_dir), "--bind", server.address)
    ran = run_command(*command, environment=server.environment, program=server.program)
    return [one["says"] for one in json.loads(ran.text) if one["check"] == "group" and one["level"] == "warn"]
