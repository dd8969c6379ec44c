"""Five nodes with listeners, cut into three and two: each side talks among its own, and later all of it comes to all.

Knows: lines of JSON, within each host.  Does not know how nodes find each other again, nor what they ask.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from tests.netns.lab import Lab, open_lab
from tests.netns.test_cut_tokens import wait_states
from tests.process.activities import Stranger

NAMES = "abcde"
SIDES = ("abc", "de")
PORT = 27600
SETTINGS = (
    f"activity: {{listen: '0.0.0.0:{PORT}', keep: 600}}\n"
    "tokens: {servers: [a, b, c, d, e], lease: 2, ttl: 6}\n"
)  # fmt: skip
DEADLINE_S = 120.0


@attrs.define
class Guest:
    """Somebody at one node, and what he has heard."""

    line: Stranger
    heard: list[tuple[str, str]] = attrs.field(factory=list)
    """Who said it, as it says, and what."""

    def say(self, name: str, text: str) -> None:
        self.line.say("ACTIVITY_MESSAGE", username="anonymous", activity={"by": name, "text": text})

    def listen_until(self, *wanted: tuple[str, str]) -> None:
        """Until he has heard all of this."""
        while not set(wanted) <= set(self.heard):
            message = self.line.hear()
            assert message["command"] == "ACTIVITY_BROADCAST", message
            self.heard.append((message["activity"]["by"], message["activity"]["text"]))


def stranger(lab: Lab, name: str) -> Stranger:
    return Stranger(lab.network.hosts[name].connect(PORT, DEADLINE_S))


def answer(lab: Lab, name: str, command: str, username: str, secret: str) -> Mapping[str, Any]:
    """What a node says to somebody."""
    with stranger(lab, name) as one:
        return one.say(command, username=username, secret=secret).hear()


def guest(lab: Lab, name: str) -> Guest:
    line = stranger(lab, name)
    assert line.say("LOGIN", username="anonymous").hear()["command"] == "LOGIN_SUCCESS"
    return Guest(line)


def loads(lab: Lab, name: str) -> list[int]:
    """Of the listeners that a node knows, how many clients each has."""
    with lab[name].client() as client:
        found = client.request("activity_who", is_read=True)["nodes"]
    assert isinstance(found, list)
    return [one["clients"] for one in found]


def test_each_side_talks_among_its_own_and_the_smaller_one_registers_nobody(tmp_path: Path) -> None:
    with open_lab(tmp_path, NAMES, extra=SETTINGS) as lab:
        for name in NAMES:
            wait_states(lab, name, dict.fromkeys(NAMES, "ready"))
            lab.wait(lambda name=name: len(loads(lab, name)) == len(NAMES), f"{name} knows all", DEADLINE_S)
        assert answer(lab, "a", "REGISTER", "ann", "right")["command"] == "REGISTER_SUCCESS"
        assert answer(lab, "e", "LOGIN", "ann", "right")["command"] == "LOGIN_SUCCESS"
        for name in NAMES:  # so nobody is sent to another node
            lab.wait(lambda name=name: loads(lab, name) == [0] * len(NAMES), f"{name} knows of no client", DEADLINE_S)
        guests = {name: guest(lab, name) for name in NAMES}
        guests["a"].say("a", "before")
        for one in guests.values():
            one.listen_until(("a", "before"))

        lab.network.cut(*SIDES)
        lab.wait(lambda: refusal(lab, "e") == "no_majority", "the smaller side says why", DEADLINE_S)
        assert "majority" in str(answer(lab, "e", "REGISTER", "eve", "right")["info"])
        lab.wait(
            lambda: answer(lab, "a", "REGISTER", "bob", "right")["command"] == "REGISTER_SUCCESS",
            "the larger side registers",
            DEADLINE_S,
        )
        outcomes = [answer(lab, "d", "LOGIN", "ann", secret)["command"] for secret in ("right", "wrong")]
        assert outcomes == ["LOGIN_SUCCESS", "LOGIN_FAILED"]
        for side in SIDES:
            for number in range(3):
                guests[side[0]].say(side[0], f"cut {number}")
        for side in SIDES:
            for name in side:
                guests[name].listen_until((side[0], "cut 2"))
                assert {by for by, text in guests[name].heard if text != "before"} == {side[0]}

        lab.network.heal()
        for name in NAMES:
            lab.wait(lambda name=name: len(loads(lab, name)) == len(NAMES), f"{name} knows all again", DEADLINE_S)
        lab.wait(lambda: answer(lab, "e", "LOGIN", "bob", "right")["command"] == "LOGIN_SUCCESS", "bob", DEADLINE_S)
        for side in SIDES:
            guests[side[0]].say(side[0], "after")
        ends = [(side[0], text) for side in SIDES for text in ("cut 0", "cut 1", "cut 2", "after")]
        threads = [threading.Thread(target=one.listen_until, args=ends) for one in guests.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for one in guests.values():
            of = {by: [text for other, text in one.heard if other == by] for by in ("a", "d")}
            told = ["cut 0", "cut 1", "cut 2", "after"]
            assert of == {"a": ["before", *told], "d": told}
            one.line.close()


def refusal(lab: Lab, name: str) -> object:
    """Why nobody is registered there; never because it was done."""
    found = answer(lab, name, "REGISTER", "eve", "right")
    assert found["command"] == "REGISTER_FAILED"
    return found.get("code")
