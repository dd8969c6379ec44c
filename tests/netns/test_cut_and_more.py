"""Four nodes whose network is cut, and one of them loses its agent, its disk or its life besides.

Knows: what is killed, and when.  Does not know how a node comes back.
"""

from __future__ import annotations

import time
from pathlib import Path
from shutil import rmtree

from distkv.model.event import life_of
from tests.netns.cuts import Record, assert_deaf, cut_and_healed, wait_cut
from tests.netns.lab import NAMES, START_S, Lab, open_lab
from tests.netns.promises import OWN, Written, assert_kept
from tests.process.servers import Server

SIDES = ("ab", "cd")
SOME = 20
TURNS = 3
LOADED = 5_000
"""So many writes on each side take a moment to reach the other."""


def test_agent_that_starts_anew_during_the_cut_loses_nothing(tmp_path: Path, record_property: Record) -> None:
    """It knows nothing of the agents on the other side, until one of them finds it, or its neighbour tells it."""
    written = Written()
    with open_lab(tmp_path) as lab:
        with cut_and_healed(lab, written, SIDES, record_property):
            lab.agent("b").kill()
            lab.wait_state("b", "cut-off", 30)
            lab.agent("b").launch()
            lab.wait_state("b", "ready", 30)
        assert_kept(lab, written)


def test_node_that_lost_its_disk_during_the_cut_gets_all_back(tmp_path: Path, record_property: Record) -> None:
    """What it had written itself its neighbour has. It goes on in a new life, and repeats no tick."""
    written = Written()
    with open_lab(tmp_path) as lab:
        with cut_and_healed(lab, written, SIDES, record_property, written_on="abc"):
            _write_some(lab, written, "d", "before")
            of_d = [link for link in written.acknowledged if link[0] == "d"]
            lab.wait(lambda: not lab.lacks("c", of_d), "c has what d wrote", 30)
            lab["d"].kill()
            rmtree(lab["d"].data_dir)
            lab["d"].start().wait_ready(START_S)
            _write_some(lab, written, "d", "after")
        assert_kept(lab, written)
        assert len({life_of(tick) for name, tick in written.acknowledged if name == "d"}) == 2


def test_node_killed_in_the_midst_of_the_heal_gets_the_rest(tmp_path: Path) -> None:
    """On a busy machine all may have come before the kill does: then it is cut anew."""
    written = Written()
    with open_lab(tmp_path) as lab:
        assert any(_is_killed_in_the_midst(lab, written, f"much{turn}") for turn in range(TURNS)), "b always had all"
        lab["b"].start().wait_ready(START_S)
        assert_kept(lab, written)


def _is_killed_in_the_midst(lab: Lab, written: Written, word: str) -> bool:
    """Cut the network, write much on both sides, heal it, and kill b. Whether b lacks some; else it runs again."""
    is_first, began_s = not written.contested, time.monotonic()
    lab.network.cut(*SIDES)
    if is_first:
        written.contest(lab, "ac")
    for name in "ac":
        _write_fast(lab, written, name, word)
    wait_cut(lab, began_s, SIDES)
    if is_first:
        assert_deaf(lab, written, "ab")
    of_c = f"c-{word}"
    with written.everywhere(lab, NAMES, word):
        lab.network.heal()
        # More than agents repeat of what they heard, which is all that comes before the pull.
        lab.wait(lambda: _on_disk(lab["b"], of_c) > LOADED / 10, "b has a part of it", 30, pause_s=0.0)
        lab["b"].kill()
    if _on_disk(lab["b"], of_c) < _on_disk(lab["c"], of_c):
        return True
    lab["b"].start().wait_ready(START_S)
    lab.wait_together()
    return False


def _write_some(lab: Lab, written: Written, name: str, word: str) -> None:
    with written.everywhere(lab, name, word):
        loads = [load for load in written.loads if load.top.endswith(word)]
        lab.wait(lambda: all(len(load.events) >= SOME for load in loads), f"{name} was written to", 30)


def _write_fast(lab: Lab, written: Written, name: str, word: str) -> None:
    with written.load(lab, name, f"{OWN}.{name}-{word}", depth=100, pause_s=0.0) as load:
        lab.wait(lambda: len(load.events) >= LOADED, f"{name} has taken much", 30)


def _on_disk(server: Server, word: str) -> int:
    """How often the log of this node has the word. The node is not asked: it may be busy, or dead."""
    return sum(segment.read_bytes().count(word.encode()) for segment in server.data_dir.glob("segment-*"))
