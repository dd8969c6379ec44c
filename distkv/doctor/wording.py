"""How several things are put into one sentence.

Knows: words.  Does not know what is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def listed(names: Sequence[str]) -> str:
    """As in a sentence."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def counted(number: int, what: str) -> str:
    """A number of things."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def grouped(values: Mapping[str, str]) -> dict[str, list[str]]:
    """The names by what they have."""
    found = dict[str, list[str]]()
    for name, value in values.items():
        found.setdefault(value, []).append(name)
    return found
