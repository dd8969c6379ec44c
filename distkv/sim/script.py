"""Scripts as values: commands in blocks, and the trace that is expected of each block.

Knows: what a file holds.  Does not know how actions are written (`grammar`), how they are carried out (`player`), nor
whether what is expected is right.

Invariant: a script never changes; `text` gives the file it was read from, but for the expected traces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from distkv.sim.actions import Action, SettingMap

EXPECTED: Final = "----"
"""The line after which the expected trace stands, up to an empty line."""

@attrs.frozen
class Command:
    """One line of a script."""

    line: int
    text: str
    action: Action


@attrs.frozen
class Block:
    """Some commands, and what is expected of them."""

    source: str
    """As it is written, comments included, up to the line before `----`."""
    commands: tuple[Command, ...]
    expected: tuple[str, ...]


@attrs.frozen
class Script:
    """A whole file."""

    name: str
    blocks: tuple[Block, ...]
    nodes: tuple[str, ...]
    """All that are named, in the order of their first mention."""
    world: SettingMap
    """Seed, members, and how long things take."""
    rest: str
    """Comments behind the last block."""

    def text(self, outputs: Sequence[Sequence[str]]) -> str:
        """The file with these traces in place of the expected ones."""
        parts = [
            "\n".join([block.source, EXPECTED, *output]) for block, output in zip(self.blocks, outputs, strict=True)
        ]
        return "\n\n".join([*parts, self.rest] if self.rest else parts) + "\n"
