"""The language of scenario files (docs/scenarios): from text to a `Script`.

Knows: lines, blocks and expected traces.  Does not know what follows which verb (`verbs`), nor what an action does.

Invariant: a file that was read can be carried out, as far as that can be seen without doing it; a mistake is reported
with file, line and what is expected there.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import PurePath
from typing import assert_never

from distkv.errors import SettingsError
from distkv.sim.actions import (
    Action,
    Agents,
    BreakToken,
    Cluster,
    CutWay,
    Decide,
    DecideAny,
    Disks,
    Disturb,
    Divert,
    Fill,
    Foreign,
    Gather,
    Later,
    Lie,
    Move,
    PassTime,
    Recover,
    ResetTokens,
    Retire,
    Rot,
    RotSome,
    SetClock,
    SetServers,
    Setting,
    Settings,
    Settle,
    Show,
    ShowServers,
    ShowState,
    Split,
    StartClient,
    StartNode,
    Swap,
    TellAll,
    TokenAction,
    ToNode,
    WaitState,
    Write,
)
from distkv.sim.script import EXPECTED, Block, Command, Script
from distkv.sim.verbs import CORE, VERBS, WORLD, read_action
from distkv.sim.words import Words
from distkv.transport.diversion import Diversion


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
        if verb not in VERBS:
            raise self._error(number, f"{verb} is no verb; there are {', '.join(VERBS)}")
        rest = Words(arguments, int(self._settings["clock_ms"]))
        try:
            action = read_action(verb, rest)
        except ValueError as error:
            raise self._error(number, f"{error}; expected: {VERBS[verb].usage}") from None
        self._note(action)
        self._mentions += [(number, node) for node in _mentioned(action)]
        return [Command(number, " ".join(words), action)]

    def _note(self, action: Action) -> None:
        """Which nodes there are, and what was set."""
        if isinstance(action, TokenAction):
            return
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
            case SetClock(node=node) | Move(node=node) | Lie(node=node) | TellAll(node=node):
                self._nodes.setdefault(node)
            case CutWay() | Divert() | Foreign() | Disturb() | Disks() | PassTime() | Settle() | Recover():
                pass
            case Show() | ShowState() | ShowServers():
                pass
            case _:
                assert_never(action)

    def _error(self, number: int, what: str) -> SettingsError:
        return SettingsError(f"{self._name}, line {number}: {what}")


def _mentioned(action: Action) -> Iterable[str]:
    """Nodes that must be named elsewhere, too: here a name written wrong would do nothing."""
    if isinstance(action, TokenAction):
        return (action.node,) if isinstance(action, StartClient | BreakToken | ResetTokens | SetServers) else ()
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
        case Write() | Fill() | Swap() | DecideAny() | TellAll() | Settings() | Agents() | Disturb() | Disks():
            return ()
        case Cluster() | Gather() | PassTime() | Settle() | WaitState() | Recover() | ShowState() | ShowServers():
            return ()
    assert_never(action)
