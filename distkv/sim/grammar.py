"""The language of scenario files (docs/scenarios): from text to a `Script`.

Knows: how each verb is written; `USAGE` is the whole grammar.  Does not know what an action does.

Invariant: a file that was read can be carried out, as far as that can be seen without doing it; a mistake is reported
with file, line and what is expected there.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from typing import Final

import attrs

from distkv.core.ready import CoreSettings
from distkv.errors import BadPathError, SettingsError
from distkv.model.path import Path
from distkv.sim.script import (
    EXPECTED,
    Action,
    Block,
    Cluster,
    Command,
    Cut,
    Decide,
    Deed,
    Divert,
    Fill,
    Retire,
    Run,
    Script,
    Setting,
    SettingMap,
    Settings,
    Settle,
    Show,
    ShowState,
    Split,
    StartNode,
    ToNode,
    Wait,
    Write,
)
from distkv.transport.diversion import ANY, Diversion
from distkv.wire.message import State

USAGE: Final[dict[str, str]] = {
    "cluster": "cluster NODE…",
    "start": "start NODE [as NODE] [init [VALUE]] [SETTING=…]…",
    **{deed.value: f"{deed.value} NODE" for deed in Deed},
    "set": "set NODE PATH VALUE [new] [ttl TIME]",
    "delete": "delete NODE PATH",
    "fill": "fill NODE PATH COUNT",
    "restore": "restore NODE PATH of NODE",
    "dismiss": "dismiss NODE PATH of NODE",
    "retire": "retire NODE NODE [force]",
    "split": "split NODE… | NODE… [| NODE…]…",
    "cut": "cut NODE > NODE",
    "heal": "heal",
    "drop": "drop [COUNT] update|ping|info|gossip [of NODE…] [to NODE…]",
    "delay": "delay [COUNT] update|ping|info|gossip [of NODE…] [to NODE…] by TIME",
    "deliver": "deliver",
    "run": "run TIME",
    "wait": "wait NODE STATE [within TIME]",
    "settle": "settle [within TIME]",
    "show": "show all|nothing|[sent|heard] KIND… [at NODE…]",
    "state": "state",
    "settings": "settings SETTING=…",
}
"""Each verb, with what follows it."""
SETTLE_CLOCKS: Final = 12
"""How long `settle` and `wait` wait, if they do not say."""

GOSSIP: Final = ("update", "ping", "info")
TCP: Final = ("ask", "maps", "events", "known", "snapshot", "pages", "done")
OTHER: Final = ("write", "note", "state", "missing", "members")
"""What else a moment may be shown for: an own write, a note, another state, other ticks missing, other members."""
WAYS: Final = ("sent", "heard")
ALL: Final = frozenset([f"{way} {kind}" for way in WAYS for kind in (*GOSSIP, *TCP)] + [*OTHER])
"""Every tag that a moment may have, besides `outside`."""

WORLD: Final[dict[str, tuple[str, Setting]]] = {
    "seed": ("seed", 0),
    "members": ("members", True),
    "delay": ("delay_ms", 10),
    "answer": ("answer_ms", 5),
    "silence": ("silence_ms", 0),
}
"""What the network can be told, and what holds else: the seed of chance, whether agents say who is there, how long
gossip and each part of an answer take, how long a peer that does not answer is waited for (0: one knows at once)."""
CORE: Final[dict[str, tuple[str, Setting]]] = {
    field.name.removesuffix("_ms").removesuffix("_max").replace("_", "-"): (field.name, field.default)
    for field in attrs.fields(CoreSettings)
    if isinstance(field.default, int)
}
"""What a node can be told."""

_NODE: Final = re.compile(r"[A-Za-z0-9._-]{1,63}")
_TIME: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|clocks?)")
_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_script(text: str, name: str) -> Script:
    """Read a scenario file; `name` is what it is called in errors.

    Raises:
        SettingsError: with file, line and what is expected there.
    """
    return _Parser(name).parse(text)


class _Parser:
    """Reads one file."""

    def __init__(self, name: str) -> None:
        self._name = PurePath(name).name
        self._nodes: dict[str, None] = {}
        self._mentions: list[tuple[int, str]] = []
        self._settings: dict[str, Setting] = dict((CORE | WORLD).values())

    def parse(self, text: str) -> Script:
        blocks: list[Block] = []
        source: list[str] = []
        commands: list[Command] = []
        lines = enumerate(text.splitlines(), 1)
        number = 0
        for number, line in lines:
            if line.rstrip() != EXPECTED:
                source.append(line.rstrip())
                commands += self._commands(number, line)
                continue
            expected: list[str] = []
            for _, shown in lines:
                if not shown.strip():
                    break
                expected.append(shown.rstrip())
            blocks.append(Block("\n".join(source).strip("\n"), tuple(commands), tuple(expected)))
            source, commands = [], []
        for at, node in self._mentions:
            if node not in self._nodes:
                raise self._error(at, f"nothing else is said of {node}; there are {', '.join(self._nodes)}")
        if commands or not blocks:
            what = f"the file ends without {EXPECTED}: the trace that is expected follows it"
            raise self._error(max(number, 1), what)
        world = {field: self._settings[field] for field, _ in WORLD.values()}
        return Script(self._name, tuple(blocks), tuple(self._nodes), world, "\n".join(source).strip("\n"))

    def _commands(self, number: int, line: str) -> list[Command]:
        """The one command of a line, or none."""
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise self._error(number, f"the line cannot be split into words: {error}") from None
        if not words:
            return []
        verb, *arguments = words
        if verb not in USAGE:
            raise self._error(number, f"{verb} is no verb; there are {', '.join(USAGE)}")
        rest = _Words(arguments, int(self._settings["clock_ms"]))
        try:
            action = ToNode(rest.node(), Deed(verb)) if verb in _DEEDS else _READERS[verb](rest)
            if rest:
                raise ValueError(f"{rest.take('')} is one word too many")
        except ValueError as error:
            raise self._error(number, f"{error}; expected: {USAGE[verb]}") from None
        self._note(action)
        self._mentions += [(number, node) for node in _mentioned(action)]
        return [Command(number, " ".join(words), action)]

    def _note(self, action: Action) -> None:
        match action:
            case Settings(values=values):
                self._settings |= values
            case Cluster(nodes=nodes):
                self._nodes |= dict.fromkeys(nodes)
            case Split(sides=sides):
                self._nodes |= {node: None for side in sides for node in side}
            case StartNode(node=node) | ToNode(node=node) | Write(node=node) | Fill(node=node) | Wait(node=node):
                self._nodes.setdefault(node)
            case Decide(node=node) | Retire(node=node):
                self._nodes.setdefault(node)

    def _error(self, number: int, what: str) -> SettingsError:
        return SettingsError(f"{self._name}, line {number}: {what}")


def _mentioned(action: Action) -> Iterable[str]:
    """Nodes that must be named elsewhere, too: here a name written wrong would do nothing."""
    match action:
        case Cut(sender=sender, receiver=receiver):
            return (sender, receiver)
        case Divert(diversion=Diversion(senders=senders, receivers=receivers)):
            return sorted(senders | receivers)
        case Show(nodes=nodes):
            return sorted(nodes)
        case Decide(loser_of=node) | Retire(other=node):
            return (node,)
    return ()


class _Words:
    """The words of one line behind its verb; each is taken once. What cannot be meant is a ValueError."""

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

    def path(self) -> Path:
        try:
            return Path.parse(self.take("the path"))
        except BadPathError as error:
            raise ValueError(str(error)) from None

    def integer(self, what: str) -> int:
        return _integer(self.take(what), what)

    def time_ms(self) -> int:
        return _time_ms(self.take("the time"), self._clock_ms)

    def within_ms(self) -> int:
        """Also when it is not said."""
        return self.time_ms() if self.takes("within") else SETTLE_CLOCKS * self._clock_ms

    def settings(self, known: Mapping[str, tuple[str, Setting]]) -> SettingMap:
        """All that is left."""
        return {field: value for word in self.until() for field, value in [_setting(word, known, self._clock_ms)]}


# -- words --------------------------------------------------------------------------------------------------------


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
    """As JSON, or else as text."""
    try:
        found: object = json.loads(text)
    except json.JSONDecodeError:
        return text
    return found


def _setting(word: str, known: Mapping[str, tuple[str, Setting]], clock_ms: int) -> tuple[str, Setting]:
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


# -- verbs --------------------------------------------------------------------------------------------------------


def _start(words: _Words) -> Action:
    node, init = words.node(), None
    named = words.node() if words.takes("as") else ""
    if words.takes("init"):
        init = _value(words.take("")) if words.next_is(lambda word: "=" not in word) else "root"
    return StartNode(node, init, words.settings(CORE), named)


def _set(words: _Words) -> Action:
    node, path, value = words.node(), words.path(), _value(words.take("the value"))
    if value is None:
        raise ValueError("a value is not null: use delete")
    is_new, ttl_ms = words.takes("new"), words.time_ms() if words.takes("ttl") else None
    if ttl_ms == 0:
        raise ValueError("a ttl is more than 0")
    return Write(node, path, value, is_new, None if ttl_ms is None else ttl_ms / 1000)


def _decide(words: _Words, *, is_restored: bool) -> Action:
    node, path = words.node(), words.path()
    if not words.takes("of"):
        raise ValueError("of is missing")
    return Decide(node, path, words.node(), is_restored)


def _split(words: _Words) -> Action:
    sides = [words.nodes("|")]
    while words.takes("|"):
        sides.append(words.nodes("|"))
    if len(sides) < 2:
        raise ValueError("there is one side only")
    names = [name for side in sides for name in side]
    if len(set(names)) < len(names):
        raise ValueError("a node is on one side only")
    return Split(tuple(sides))


def _cut(words: _Words) -> Action:
    sender = words.node()
    if not words.takes(">"):
        raise ValueError("> is missing")
    return Cut(sender, words.node())


def _diversion(words: _Words) -> Diversion:
    count = words.integer("the count") if words.next_is(str.isdecimal) else None
    kind = words.take("the kind of message")
    if kind not in (*GOSSIP, ANY):
        raise ValueError(f"{kind} is no kind of gossip")
    senders = words.nodes("to", "by") if words.takes("of") else ()
    receivers = words.nodes("by") if words.takes("to") else ()
    return Diversion(kind, frozenset(senders), frozenset(receivers), count)


def _delay(words: _Words) -> Action:
    diversion = _diversion(words)
    if not words.takes("by"):
        raise ValueError("by is missing")
    return Divert(attrs.evolve(diversion, delay_ms=words.time_ms()))


def _wait(words: _Words) -> Action:
    node, state = words.node(), words.take("the state")
    if state not in list(State):
        raise ValueError(f"{state} is no state; there are {', '.join(State)}")
    return Wait(node, State(state), words.within_ms())


def _show(words: _Words) -> Action:
    shown = words.until("at")
    nodes = words.nodes() if words.takes("at") else ()
    if not shown:
        raise ValueError("a kind is missing")
    tags: set[str] = set()
    ways: tuple[str, ...] = WAYS
    for word in shown:
        if word in WAYS:
            ways = (word,)
            continue
        kinds = {"gossip": GOSSIP, "tcp": TCP}.get(word, (word,))
        if word == "all":
            tags |= ALL
        elif word in OTHER:
            tags.add(word)
        elif not {*kinds} <= {*GOSSIP, *TCP, "nothing"}:
            raise ValueError(f"{word} is no kind; there are {', '.join((*GOSSIP, 'gossip', *TCP, 'tcp', *OTHER))}")
        elif word != "nothing":
            tags |= {f"{way} {kind}" for way in ways for kind in kinds}
        ways = WAYS
    return Show(frozenset(tags), frozenset(nodes))


def _settings(words: _Words) -> Action:
    if not words:
        raise ValueError("the setting is missing")
    return Settings(words.settings(CORE | WORLD))


_DEEDS: Final = frozenset(Deed)
_READERS: Final[dict[str, Callable[[_Words], Action]]] = {
    "cluster": lambda words: Cluster(words.nodes()),
    "start": _start,
    "set": _set,
    "delete": lambda words: Write(words.node(), words.path(), None),
    "fill": lambda words: Fill(words.node(), words.path(), words.integer("the count")),
    "restore": lambda words: _decide(words, is_restored=True),
    "dismiss": lambda words: _decide(words, is_restored=False),
    "retire": lambda words: Retire(words.node(), words.node(), words.takes("force")),
    "split": _split,
    "cut": _cut,
    "heal": lambda _: Split(()),
    "drop": lambda words: Divert(_diversion(words)),
    "delay": _delay,
    "deliver": lambda _: Divert(None),
    "run": lambda words: Run(words.time_ms()),
    "wait": _wait,
    "settle": lambda words: Settle(words.within_ms()),
    "show": _show,
    "state": lambda _: ShowState(),
    "settings": _settings,
}
