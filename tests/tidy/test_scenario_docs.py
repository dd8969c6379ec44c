"""The page on scenario files says what the grammar says, and shows a file that is there.

Knows: how the page is marked up.  Does not know what scenarios mean.
"""

from __future__ import annotations

import re
from pathlib import Path

from distkv.sim.settings import world_known
from distkv.sim.verbs import ALL, GOSSIP, OTHER, TCP, verbs

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "scenarios.rst").read_text(encoding="utf-8")


def test_page_has_every_command() -> None:
    assert re.findall(r"^``([a-z].*?)`` ", PAGE, re.MULTILINE) == [row.usage for row in verbs().values()]


def test_page_names_every_kind_that_can_be_shown() -> None:
    _, _, kinds = PAGE.partition("Kinds that can be shown")
    assert {*GOSSIP, *TCP, *OTHER} - set(re.findall(r"``(\w+)``", kinds)) == set()
    assert {tag.split()[-1] for tag in ALL} == {*GOSSIP, *TCP, *OTHER}


def test_page_names_every_setting_of_the_network() -> None:
    _, _, settings = PAGE.partition("Settings are what the core is told")
    assert world_known().keys() - set(re.findall(r"``([\w-]+)``", settings)) == set()
