"""The table in docs/protocol, 'What one message may raise': each row has tests, and the steps are those of the code.

Knows: the page, and where the rows are tested.
"""

from __future__ import annotations

import re
from pathlib import Path

from distkv.core.gossip import BASES_AHEAD, TICKS_AHEAD
from distkv.core.ground.calls import BOOT_JUMP
from distkv.core.jump_limit import JUMP
from distkv.core.server_tree.flood import START_JUMP

ROOT = Path(__file__).parents[2]
HOSTILE, LINKS, JUMPS, FORGED = (
    "tests/unit/core/test_gossip_hostile.py", "tests/unit/core/test_links.py", "tests/unit/core/test_number_jumps.py",
    "tests/property/test_token_forged.py",
)  # fmt: skip
ROWS = {
    "tock": HOSTILE, "tick": LINKS, "life": "tests/unit/core/test_lives.py", "base of a fence": JUMPS,
    "epoch, counter": "tests/unit/core/test_fences.py", "start of a tree frame": JUMPS,
    "number of a tree frame": JUMPS, "term": FORGED, "version": FORGED, "generation": FORGED, "round": FORGED,
    "acknowledged round": FORGED, "start of a call": JUMPS, "number of a call": JUMPS, "version of a session": FORGED,
}  # fmt: skip


def test_table_has_a_row_for_each_number() -> None:
    page = (ROOT / "docs" / "protocol.rst").read_text(encoding="utf-8")
    table = page.partition("What one message may raise\n")[2].partition("\n* [JUMP-2]")[0]
    assert re.findall(r"^(\w[\w ,]*?)  +\S", table, re.MULTILINE) == ["number", *ROWS]
    assert all((ROOT / file).exists() for file in ROWS.values())


def test_steps_are_those_of_the_code() -> None:
    assert (TICKS_AHEAD, BASES_AHEAD, JUMP, START_JUMP, BOOT_JUMP) == (10**6, 2**32, 2**32, 2**40, 2**42)
