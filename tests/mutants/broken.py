"""A mutant of engine, storage or services, and the tests that notice it.

Knows: what is written down of one.  Does not know which there are (`commits`, `keeping`), nor who judges (`shell`).
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.mutants.run import Mutant


@dataclass(frozen=True)
class Broken:
    """A mutant, and the tests that notice it."""

    mutant: Mutant
    tests: tuple[str, ...]
    """Files, or files and tests as pytest names them."""


def broken(name: str, rule: str, file: str, old: str, new: str, *tests: str) -> Broken:
    """A rule, the source with and without it, and who notices."""
    return Broken(Mutant(name, rule, file, old, new), tests)
