"""The scenario files.

Knows: where they are, and how their heads cite labels.  Does not know what they show.
"""

from __future__ import annotations

import re
from pathlib import Path

from distkv.sim.grammar import parse_script
from distkv.sim.script import Script

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("*.txt"))
"""Each shows a rule of the protocol."""
FOUND = sorted(FOLDER.glob("found/*.txt"))
"""What seeds found, as `distkv sim` printed it: no rule is broken any more when it is played."""
_LABEL = re.compile(r"\b[A-Z]{2,}-[0-9]+\b")


def read(path: Path) -> Script:
    return parse_script(path.read_text(encoding="utf-8"), path.name)


def cited(path: Path) -> set[str]:
    """The labels of docs/protocol that a file shows: those with which a line of a comment begins."""
    found = re.findall(r"^# ([A-Z]+-[0-9]+(?:, [A-Z]+-[0-9]+)*):", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {label for group in found for label in _LABEL.findall(group)}
