"""The language of scenario files (docs/scenarios): from text to a `Script`.

Knows: how each verb is written; `USAGE` is the whole grammar.  Does not know what an action does.

Invariant: a file that was read can be carried out, as far as that can be seen without doing it; a mistake is reported
with file, line and what is expected there.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import Final, assert_never

import attrs

from distkv.core.ready import CoreSettings
from distkv.errors import SettingsError
from distkv.sim.actions import (
    Action,
    Agents,
    Cluster,
    Condition,
    CutWay,
    Decide,
    DecideAny,
    Deed,
    Disks,
    Disturb,
    Divert,
    Fill,
    Foreign,
    Gather,
    Happening,
    Later,
    Lie,
    Move,
    PassTime,
    Recover,
    Retire,
    Rot,
    RotSome,
    SetClock,
    Setting,
    Settings,
    Settle,
    Show,
    ShowState,
    Split,
    StartNode,
    Swap,
    ToNode,
    Untruth,
    WaitState,
    Write,
)
from distkv.sim.agent import STREAM_EVENTS
from distkv.sim.network import NetworkFaults
from distkv.sim.script import EXPECTED, Block, Command, Script
from distkv.sim.words import Known, Words
from distkv.sim.world import DEFAULTS
from distkv.transport.diversion import ANY, Diversion
from distkv.wire.gossip import GossipKind
from distkv.wire.message import State

GOSSIP: Final = tuple(GossipKind)
_DIVERTED: Final = "|".join((*GOSSIP, ANY))

USAGE: Final[dict[str, str]] = {
    "cluster": "cluster NODE…",
    "gather": "gather NODE…",
    "start": "start NODE [as NODE] [init [VALUE]] [SETTING=…]…",
    **{deed.value: f"{deed.value} NODE" for deed in Deed},
    "clock": "clock NODE [rate NUMBER] [jump NUMBER]",
    "move": "move NODE to NODE",
    "rot": "rot NODE PATH",
    "rot-some": "rot-some NODE [NODE] COUNT",
    "set": f"set NODE PATH VALUE [{'|'.join(Condition)}] [ttl TIME]",
    "delete": "delete NODE PATH",
    "fill": "fill NODE PATH COUNT [from NUMBER] [over COUNT] [at-once]",
    "swap": "swap NODE NUMBER",
    "restore": "restore NODE PATH of NODE",
    "dismiss": "dismiss NODE PATH of NODE",
    "restore-any": "restore-any NODE NUMBER [if-won]",
    "dismiss-any": "dismiss-any NODE NUMBER [if-won]",
    "retire": "retire NODE NODE [force]",
    "retire-any": "retire-any NODE",
    "split": "split NODE… | NODE… [| NODE…]…",
    "cut": "cut NODE > NODE",
    "heal": "heal",
    "drop": f"drop [COUNT] {_DIVERTED} [of NODE…] [to NODE…]",
    "delay": f"delay [COUNT] {_DIVERTED} [of NODE…] [to NODE…] by TIME",
    "deliver": "deliver",
    "foreign": "foreign",
    "foreign-gone": "foreign-gone",
    "lie": f"lie NODE {'|'.join(Untruth)}",
    "agents": "agents NODE… [stream=COUNT] [doubts=TIME] [packets=NUMBER]",
    "disturb": "disturb [loss=…] [update-loss=…] [copies=…] [gossip=…] [answers=…] [late=…] [breaks=…] [silence=…]",
    "disks": "disks TIME..TIME [stalls NUMBER]",
    "later": "later TIME COMMAND",
    "run": "run TIME",
    "wait": "wait NODE STATE [within TIME]",
    "settle": "settle [within TIME]",
    "recover": "recover [within TIME]",
    "show": "show all|nothing|[sent|heard] KIND… [at NODE…]",
    "state": "state",
    "settings": "settings SETTING=…",
}
"""Each verb, with what follows it."""

TCP: Final = ("ask", "maps", "events", "known", "snapshot", "pages", "done")
OTHER: Final = ("write", "note", "state", "missing", "members")
"""What else a moment may be shown for: an own write, a note, another state, other ticks missing, other members."""
WAYS: Final = ("sent", "heard")
ALL: Final = frozenset([f"{way} {kind}" for way in WAYS for kind in (*GOSSIP, *TCP)] + [*OTHER])
"""Every tag that a moment may have, besides `outside`."""

WORLD: Final[Known] = {
    field.removesuffix("_ms").removesuffix("_every"): (field, default) for field, default in DEFAULTS.items()
}
"""What can be said of the whole run."""
CORE: Final[Known] = {
    field.name.removesuffix("_ms").removesuffix("_max").replace("_", "-"): (field.name, field.default)
    for field in attrs.fields(CoreSettings)
    if isinstance(field.default, int)
}
"""What a node can be told."""


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
        self._settings: dict[str, Setting] = dict({**CORE, **WORLD}.values())

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
        rest = Words(arguments, int(self._settings["clock_ms"]))
        try:
            action = _action(verb, rest)
        except ValueError as error:
            raise self._error(number, f"{error}; expected: {USAGE[verb]}") from None
        self._note(action)
        self._mentions += [(number, node) for node in _mentioned(action)]
        return [Command(number, " ".join(words), action)]

    def _note(self, action: Action) -> None:
        """Which nodes there are, and what was set."""
        match action:
            case Settings(values=values):
                self._settings |= values
            case Cluster(nodes=nodes) | Gather(nodes=nodes) | Agents(nodes=nodes) | RotSome(nodes=nodes):
                self._nodes |= dict.fromkeys(nodes)
            case Split(sides=sides):
                self._nodes |= {node: None for side in sides for node in side}
            case Later(action=happening):
                self._note(happening)
            case Retire(node=""):
                pass
            case StartNode(node=node) | ToNode(node=node) | Write(node=node) | Fill(node=node) | WaitState(node=node):
                self._nodes.setdefault(node)
            case Decide(node=node) | DecideAny(node=node) | Retire(node=node) | Rot(node=node) | Swap(node=node):
                self._nodes.setdefault(node)
            case SetClock(node=node) | Move(node=node) | Lie(node=node):
                self._nodes.setdefault(node)
            case CutWay() | Divert() | Foreign() | Disturb() | Disks() | PassTime() | Settle() | Recover():
                pass
            case Show() | ShowState():
                pass
            case _:
                assert_never(action)

    def _error(self, number: int, what: str) -> SettingsError:
        return SettingsError(f"{self._name}, line {number}: {what}")


def _mentioned(action: Action) -> Iterable[str]:
    """Nodes that must be named elsewhere, too: here a name written wrong would do nothing."""
    match action:
        case CutWay(sender=sender, receiver=receiver):
            return (sender, receiver)
        case Divert(diversion=Diversion(senders=senders, receivers=receivers)):
            return sorted(senders | receivers)
        case Show(nodes=nodes):
            return sorted(nodes)
        case Decide(loser_of=node) | Retire(other=node) | Move(other=node):
            return (node,)
        case Later(action=happening):
            return _mentioned(happening)
        case ToNode() | StartNode() | SetClock() | Rot() | RotSome() | Split() | Divert() | Foreign() | Lie():
            return ()
        case Write() | Fill() | Swap() | DecideAny() | Settings() | Agents() | Disturb() | Disks():
            return ()
        case Cluster() | Gather() | PassTime() | Settle() | WaitState() | Recover() | ShowState():
            return ()
    assert_never(action)


def _action(verb: str, words: Words) -> Action:
    """The action that a whole line says."""
    action = ToNode(words.node(), Deed(verb)) if verb in _DEEDS else _READERS[verb](words)
    if words:
        raise ValueError(f"{words.take('')} is one word too many")
    return action


# -- verbs --------------------------------------------------------------------------------------------------------


def _start(words: Words) -> Action:
    node, init = words.node(), None
    named = words.node() if words.takes("as") else ""
    if words.takes("init"):
        init = words.value() if words.next_is(lambda word: "=" not in word) else "root"
    return StartNode(node, init, words.settings(CORE), named)


def _clock(words: Words) -> Action:
    node = words.node()
    rate = words.number("the rate") if words.takes("rate") else None
    if rate is not None and rate <= 0:
        raise ValueError("a rate is more than 0")
    return SetClock(node, rate, words.number("the jump") if words.takes("jump") else 0.0)


def _move(words: Words) -> Action:
    node = words.node()
    if not words.takes("to"):
        raise ValueError("to is missing")
    return Move(node, words.node())


def _rot_some(words: Words) -> Action:
    nodes = [words.node()]
    if not words.next_is(str.isdecimal):
        nodes.append(words.node())
    return RotSome(tuple(nodes), words.integer("the count"))


def _set(words: Words) -> Action:
    node, path, value = words.node(), words.path(), words.value()
    if value is None:
        raise ValueError("a value is not null: use delete")
    condition = Condition(words.take("")) if words.next_is(lambda word: word in list(Condition)) else None
    ttl_ms = words.time_ms() if words.takes("ttl") else None
    if ttl_ms == 0:
        raise ValueError("a ttl is more than 0")
    return Write(node, path, value, condition, None if ttl_ms is None else ttl_ms / 1000)


def _fill(words: Words) -> Action:
    node, path, count = words.node(), words.path(), words.integer("the count")
    first = words.integer("the first number") if words.takes("from") else 0
    over = words.integer("the count") if words.takes("over") else None
    if over == 0:
        raise ValueError("the numbers begin again after 1 or more")
    return Fill(node, path, count, first, over, words.takes("at-once"))


def _decide_any(words: Words, *, is_restored: bool) -> Action:
    node, number = words.node(), words.integer("the number")
    return DecideAny(node, number, is_restored, words.takes("if-won"))


def _decide(words: Words, *, is_restored: bool) -> Action:
    node, path = words.node(), words.path()
    if not words.takes("of"):
        raise ValueError("of is missing")
    return Decide(node, path, words.node(), is_restored)


def _split(words: Words) -> Action:
    sides = [words.nodes("|")]
    while words.takes("|"):
        sides.append(words.nodes("|"))
    if len(sides) < 2:
        raise ValueError("there is one side only")
    names = [name for side in sides for name in side]
    if len(set(names)) < len(names):
        raise ValueError("a node is on one side only")
    return Split(tuple(sides))


def _cut(words: Words) -> Action:
    sender = words.node()
    if not words.takes(">"):
        raise ValueError("> is missing")
    return CutWay(sender, words.node())


def _diversion(words: Words) -> Diversion:
    count = words.integer("the count") if words.next_is(str.isdecimal) else None
    kind = words.take("the kind of message")
    if kind not in (*GOSSIP, ANY):
        raise ValueError(f"{kind} is no kind of gossip")
    senders = words.nodes("to", "by") if words.takes("of") else ()
    receivers = words.nodes("by") if words.takes("to") else ()
    return Diversion(kind, frozenset(senders), frozenset(receivers), count)


def _delay(words: Words) -> Action:
    diversion = _diversion(words)
    if not words.takes("by"):
        raise ValueError("by is missing")
    return Divert(attrs.evolve(diversion, delay_ms=words.time_ms()))


def _lie(words: Words) -> Action:
    node, what = words.node(), words.take("the untruth")
    if what not in list(Untruth):
        raise ValueError(f"{what} is no untruth; there are {', '.join(Untruth)}")
    return Lie(node, Untruth(what))


def _agents(words: Words) -> Action:
    nodes = words.nodes_before(lambda word: "=" in word)
    given = words.pairs({"stream", "doubts", "packets"})
    stream = given["stream"].integer("the stream") if "stream" in given else STREAM_EVENTS
    doubts_ms = given["doubts"].time_ms() if "doubts" in given else 0
    packets = given["packets"].number("the packets") if "packets" in given else None
    if packets is not None and packets <= 0:
        raise ValueError("packets are more than 0")
    return Agents(nodes, stream, doubts_ms, packets)


def _disturb(words: Words) -> Action:
    given, faults = words.pairs({*_CHANCES, *_SPANS, "silence"}), NetworkFaults()
    for name, field in _CHANCES.items():
        if name in given:
            setattr(faults, field, given[name].chance(name))
    for name, field in _SPANS.items():
        if name in given:
            setattr(faults, field, given[name].span_ms())
    faults.silence_ms = given["silence"].time_ms() if "silence" in given else 0
    return Disturb(faults)


def _disks(words: Words) -> Action:
    return Disks(words.span_ms(), words.chance("stalls") if words.takes("stalls") else 0.0)


def _later(words: Words) -> Action:
    after_ms, verb = words.time_ms(), words.take("the command")
    if verb not in USAGE:
        raise ValueError(f"{verb} is no verb")
    action = _action(verb, words)
    if not isinstance(action, Happening):
        raise ValueError(f"{verb} takes time, or is about the whole file")
    return Later(after_ms, action)


def _wait(words: Words) -> Action:
    node, state = words.node(), words.take("the state")
    if state not in list(State):
        raise ValueError(f"{state} is no state; there are {', '.join(State)}")
    return WaitState(node, State(state), words.within_ms())


def _show(words: Words) -> Action:
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


def _settings(words: Words) -> Action:
    if not words:
        raise ValueError("the setting is missing")
    return Settings(words.settings({**CORE, **WORLD}))


_DEEDS: Final = frozenset(Deed)
_CHANCES: Final = {
    "loss": "loss", "update-loss": "update_loss", "copies": "duplication", "late": "late", "breaks": "breaks"
}  # fmt: skip
_SPANS: Final = {"gossip": "delay_ms", "answers": "answer_ms"}
_READERS: Final[dict[str, Callable[[Words], Action]]] = {
    "cluster": lambda words: Cluster(words.nodes()),
    "gather": lambda words: Gather(words.nodes()),
    "start": _start,
    "clock": _clock,
    "move": _move,
    "rot-some": _rot_some,
    "rot": lambda words: Rot(words.node(), words.path()),
    "set": _set,
    "delete": lambda words: Write(words.node(), words.path(), None),
    "fill": _fill,
    "swap": lambda words: Swap(words.node(), words.integer("the number")),
    "restore-any": lambda words: _decide_any(words, is_restored=True),
    "dismiss-any": lambda words: _decide_any(words, is_restored=False),
    "retire-any": lambda words: Retire("", words.node(), is_forced=True),
    "foreign": lambda _: Foreign(is_there=True),
    "foreign-gone": lambda _: Foreign(is_there=False),
    "lie": _lie,
    "agents": _agents,
    "disturb": _disturb,
    "disks": _disks,
    "later": _later,
    "restore": lambda words: _decide(words, is_restored=True),
    "dismiss": lambda words: _decide(words, is_restored=False),
    "retire": lambda words: Retire(words.node(), words.node(), words.takes("force")),
    "split": _split,
    "cut": _cut,
    "heal": lambda _: Split(()),
    "drop": lambda words: Divert(_diversion(words)),
    "delay": _delay,
    "deliver": lambda _: Divert(None),
    "run": lambda words: PassTime(words.time_ms()),
    "wait": _wait,
    "settle": lambda words: Settle(words.within_ms()),
    "recover": lambda words: Recover(words.within_ms()),
    "show": _show,
    "state": lambda _: ShowState(),
    "settings": _settings,
}
