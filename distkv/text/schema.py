"""Which plain (unquoted) words are numbers, true, false or null, on the command line and in YAML files.

Knows: the words.  Does not know documents (`yaml`); apart from them, so that `set PATH 21` need not load a parser.

A number is what JSON calls one; true, false and null are those of the core schema of YAML 1.2. That schema has more
numbers: it makes 1234 of `01234`, and of a telephone number what is left without its plus. YAML 1.1, which the library
follows in parts, makes something of dates, `1_000`, `12:30:45` and `=`, too.

Invariant: a word is never changed silently, but for the ways in which JSON may write one number (`1.10`, `1e5`, `-0`);
a number that no node could keep is an error.
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
    """What a plain (unquoted) word means; most are text.

    Raises:
        YamlError: a number that no node could keep.
    """
    if word in _WORDS:
        return _WORDS[word]
    if not _NUMBER.fullmatch(word):
        return word
    if word.lstrip("-").isdecimal():
        try:
            return int(word)
        except ValueError:  # Python refuses to read integers of thousands of digits
            raise YamlError("an integer needs more than 64 bits", 1) from None
    number = float(word)
    if math.isinf(number):
        raise YamlError(f"the number {word[:40]} is too large for a float", 1)
    return number


_WORDS: Final[dict[str, bool | None]] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True,
    "false": False, "False": False, "FALSE": False,
}
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
