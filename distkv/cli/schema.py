"""The core schema of YAML 1.2: which plain (unquoted) words are numbers, true, false or null.

Knows: the words.  Does not know documents (`yaml`); apart from them, so that `set PATH 21` need not load a parser.
The library's own reading is not used, because it follows YAML 1.1 in parts, where dates, `1_000`, `12:30:45` and `=`
are more than text.

Invariant: a word is never changed silently: a number that no node could keep is an error.
"""

from __future__ import annotations

import math
import re
from typing import Final, TypeAlias

Scalar: TypeAlias = str | int | float | bool | None


class YamlError(Exception):
    """Text that cannot be read. `str()` is what is wrong, in a few words; `line` counts from 1."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.line = line


def scalar(word: str) -> Scalar:
    """What a plain (unquoted) word means in the core schema of YAML 1.2; most are text.

    Raises:
        YamlError: a number that no node could keep.
    """
    if word in _WORDS:
        return _WORDS[word]
    if not _NUMBER.fullmatch(word):
        return word
    try:
        if word[:2] in _BASES:
            return int(word[2:], _BASES[word[:2]])
        if word.lstrip("+-").isdecimal():
            return int(word)
    except ValueError:  # Python refuses to read integers of thousands of digits
        raise YamlError("an integer needs more than 64 bits", 1) from None
    number = float(word.lower().replace(".inf", "inf").replace(".nan", "nan"))
    if math.isinf(number) and "inf" not in word.lower():
        raise YamlError(f"the number {word[:40]} is too large for a float", 1)
    return number


_WORDS: Final[dict[str, bool | None]] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True,
    "false": False, "False": False, "FALSE": False,
}
_BASES: Final = {"0o": 8, "0x": 16}
_NUMBER: Final = re.compile(
    r"0o[0-7]+|0x[0-9a-fA-F]+|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
