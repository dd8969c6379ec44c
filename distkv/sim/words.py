"""The words of one line of a scenario file: nodes, paths, values, numbers, times and settings, taken one by one.

Knows: how each of them is written.  Does not know verbs, nor which words belong together (`grammar`).

Invariant: a word that cannot be meant is a ValueError that says what it should be.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeAlias

from distkv.errors import BadPathError
from distkv.model.path import Path
from distkv.sim.actions import Setting, SettingMap

SETTLE_CLOCKS: Final = 12
"""How long `settle` and `wait` wait, if they do not say."""

Known: TypeAlias = Mapping[str, tuple[str, Setting]]
"""Settings by the name that a file has for each: their field, and what holds when a file does not say."""

_NODE: Final = re.compile(r"[A-Za-z0-9._-]{1,63}")
_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?")
_TIME: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|clocks?)")
_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Words:
    """The words of one line behind its verb; each is taken once.

    All that take a word raise ValueError when there is none, or when it cannot be meant.
    """

    def __init__(self, words: list[str], clock_ms: int) -> None:
        self._words = words
        self._clock_ms = clock_ms

    def __bool__(self) -> bool:
        return bool(self._words)

    def take(self, what: str) -> str:
        if not self._words:
            raise ValueError(f"{what} is missing")
        return self._words.pop(0)

    def takes(self, word: str) -> bool:
        """Whether the next word is this one; then it is taken."""
        return self.next_is(lambda found: found == word) and bool(self._words.pop(0))

    def next_is(self, test: Callable[[str], bool]) -> bool:
        """Whether there is a next word, for which this holds."""
        return bool(self._words) and test(self._words[0])

    def until(self, *ends: str) -> list[str]:
        """The words before the first of `ends`, or all."""
        at = next((at for at, word in enumerate(self._words) if word in ends), len(self._words))
        taken, self._words = self._words[:at], self._words[at:]
        return taken

    def node(self) -> str:
        return _node(self.take("the node"))

    def nodes(self, *ends: str) -> tuple[str, ...]:
        """At least one."""
        found = tuple(map(_node, self.until(*ends)))
        if not found:
            raise ValueError("the node is missing")
        return found

    def nodes_before(self, test: Callable[[str], bool]) -> tuple[str, ...]:
        """At least one, up to the first word for which this holds."""
        taken = []
        while self._words and not test(self._words[0]):
            taken.append(self.node())
        if not taken:
            raise ValueError("the node is missing")
        return tuple(taken)

    def pairs(self, names: Collection[str]) -> Mapping[str, Words]:
        """All that is left: words such as `name=word`, by their names."""
        found: dict[str, Words] = {}
        for word in self.until():
            name, _, text = word.partition("=")
            if name not in names:
                raise ValueError(f"{name} is not known here; there are {', '.join(sorted(names))}")
            found[name] = Words([text], self._clock_ms)
        return found

    def path(self) -> Path:
        try:
            return Path.parse(self.take("the path"))
        except BadPathError as error:
            raise ValueError(str(error)) from None

    def value(self) -> object:
        """As JSON, or else as text."""
        return _value(self.take("the value"))

    def integer(self, what: str) -> int:
        return _integer(self.take(what), what)

    def number(self, what: str) -> float:
        """It may have a fraction, and be negative."""
        text = self.take(what)
        if not _NUMBER.fullmatch(text):
            raise ValueError(f"{what} is a number, not {text}")
        return float(text)

    def chance(self, what: str) -> float:
        found = self.number(what)
        if not 0 <= found <= 1:
            raise ValueError(f"{what} is from 0 to 1, not {found:g}")
        return found

    def span_ms(self) -> tuple[int, int]:
        """Two times, such as `1ms..2s`."""
        low, dots, high = self.take("the span of times").partition("..")
        low_ms = _time_ms(low, self._clock_ms)
        high_ms = _time_ms(high, self._clock_ms) if dots else low_ms
        if high_ms < low_ms:
            raise ValueError(f"a span of times does not run from {low} to {high}")
        return low_ms, high_ms

    def time_ms(self) -> int:
        return _time_ms(self.take("the time"), self._clock_ms)

    def within_ms(self) -> int:
        """Also when it is not said."""
        return self.time_ms() if self.takes("within") else SETTLE_CLOCKS * self._clock_ms

    def settings(self, known: Known) -> SettingMap:
        """All that is left."""
        return {field: value for word in self.until() for field, value in [_setting(word, known, self._clock_ms)]}


# -- written ------------------------------------------------------------------------------------------------------


def quoted(word: str) -> tuple[str, ...]:
    """A word that may have spaces."""
    return (shlex.quote(word),)


def value_words(value: object) -> tuple[str, ...]:
    """A value as text where that reads as the same value, else as JSON."""
    if isinstance(value, str):
        try:
            json.loads(value)
        except json.JSONDecodeError:
            return quoted(value)
    return quoted(json.dumps(value))


def time_of(ms: int) -> str:
    return f"{ms}ms" if ms % 1000 else f"{ms // 1000}s"


# -- inside -------------------------------------------------------------------------------------------------------


def _node(text: str) -> str:
    if not _NODE.fullmatch(text):
        raise ValueError(f"{text} is no name of a node")
    return text


def _integer(text: str, what: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{what} is a number, not {text}")
    return int(text)


def _time_ms(text: str, clock_ms: int) -> int:
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(f"{text} is no time, as 300ms, 5s or 2clocks are")
    number, unit = found.groups()
    return int(float(number) * _UNITS_MS.get(unit, clock_ms))


def _value(text: str) -> object:
    try:
        found: object = json.loads(text)
    except json.JSONDecodeError:
        return text
    return found


def _setting(word: str, known: Known, clock_ms: int) -> tuple[str, Setting]:
    name, _, text = word.partition("=")
    if name not in known:
        raise ValueError(f"{name} is no setting; there are {', '.join(known)}")
    field, default = known[name]
    if isinstance(default, bool):
        if text not in ("yes", "no"):
            raise ValueError(f"{name} is yes or no")
        return field, text == "yes"
    value = _time_ms(text, clock_ms) if field.endswith("_ms") else _integer(text, name)
    if value == 0 and default != 0:
        raise ValueError(f"{name} is more than 0")
    return field, value
