"""Four nodes, and a firewall that lets connections to one of them through one way only: all agree, and say it.

Knows: which connections are refused, and what operators see.  Does not know by which way changes come.
"""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

from tests.netns.lab import NAMES, PORT, Lab, open_lab
from tests.netns.promises import Written, assert_kept
from tests.process.servers import run_command

SOON_S = 60.0
LARGE = 20_000
"""Bytes that no gossip carries: they come over TCP."""


def test_node_that_cannot_be_dialled_by_one_is_named_and_all_agree(tmp_path: Path) -> None:
    written = Written()
    with open_lab(tmp_path) as lab:
        lab.network.forbid("a", of="b", port=PORT)
        lab.wait(lambda: "no answer within" in _reason(lab, "b", "a"), "b cannot dial a", SOON_S)
        with written.everywhere(lab, NAMES):
            for name in NAMES:
                with lab[name].client() as client:
                    client.set(f"large.{name}", "x" * LARGE)
        lab.wait_equal(SOON_S)
        assert_kept(lab, written)
        assert [pair for pair in permutations(NAMES, 2) if _reason(lab, *pair)] == [("b", "a")]
        says = f"b cannot reach a at {lab['a'].address}: cannot connect: no answer within 3 s"
        assert _complaints(lab, "a") == [says]
        assert _complaints(lab, "c") == [says]


def test_node_that_nobody_can_dial_converges_both_ways_and_is_named(tmp_path: Path) -> None:
    others, written = "abc", Written()
    with open_lab(tmp_path) as lab:
        lab.network.forbid("d", of=others, port=PORT)
        lab.wait(lambda: all(_link(lab, name, "d").get("lent") for name in others), "d lends to all others", SOON_S)
        with written.everywhere(lab, NAMES):
            for name in NAMES:
                with lab[name].client() as client:
                    for number in range(20):
                        client.set(f"large.{name}.{number}", "x" * LARGE)
        lab.wait_equal(SOON_S)
        assert_kept(lab, written)
        address = lab["d"].address
        for name in others:
            link = _link(lab, name, "d")
            why = f"{address}: cannot connect: no answer within 3 s"
            assert (link["state"], link["lent"], link["reason"], link["writers"]) == ("up", True, why, ["d"])
        assert [pair for pair in permutations(NAMES, 2) if _reason(lab, *pair)] == [(name, "d") for name in others]
        says = [f"{name} cannot reach d at {address}: cannot connect: no answer within 3 s" for name in others]
        assert sorted(_complaints(lab, "d")) == says
        lab.network.heal()
        lab.wait(lambda: not any(_is_lent_or_down(lab, name, "d") for name in others), "all dial d", 2 * SOON_S)
        assert _complaints(lab, "d") == []


def _reason(lab: Lab, name: str, other: str) -> str:
    """Why this node has no link to that one."""
    reason = _link(lab, name, other).get("reason", "")
    assert isinstance(reason, str)
    return reason


def _is_lent_or_down(lab: Lab, name: str, other: str) -> bool:
    """Whether this node does not follow that one on a connection that it opened itself."""
    link = _link(lab, name, other)
    return link.get("lent", False) or link.get("state") != "up"


def _link(lab: Lab, name: str, other: str) -> dict[str, Any]:
    """What this node says of its link to that one."""
    links: Any = lab[name].state()["links"]
    return next((link for link in links if link["node"] == other), {})


def _complaints(lab: Lab, name: str) -> list[str]:
    """What doctor, on the host of a node, complains of in links."""
    server = lab[name]
    options = ("--data-dir", str(server.data_dir), "--bind", server.address)
    command = ("doctor", "-o", "json", name, *options)
    ran = run_command(*command, environment=server.environment, program=server.program)
    return [one["says"] for one in json.loads(ran.text) if one["check"] == "links" and one["level"] == "warn"]
