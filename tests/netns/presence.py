"""The table of docs/operations.rst that says what the others say of a node to which something happened.

Knows: how it is written.  Does not know how anything is done to a node.
"""

from __future__ import annotations

from pathlib import Path

import attrs

PAGE = Path(__file__).parents[2] / "docs" / "operations.rst"
HEAD = "what happened to *b*"


@attrs.frozen
class Row:
    """What the others say."""

    state: str | None
    """As `node list` shows it; None: it is in no list."""
    converged: int
    """The exit code of `state --wait converged`."""
    doctor: str
    """The worst level of `distkv doctor`."""


def table() -> dict[str, Row]:
    """What happened, and what the others say of it."""
    lines = PAGE.read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith(HEAD))
    found = dict[str, Row]()
    for line in lines[at + 2 :]:
        if line.startswith("==="):
            return found
        what, state, converged, doctor = (part.strip() for part in line.split("  ") if part.strip())
        found[what] = Row(None if state == "not there" else state, int(converged), doctor)
    raise AssertionError(f"the table of {PAGE.name} has no end")
