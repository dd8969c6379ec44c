"""The language of scenario files (docs/scenarios): from text to a `Script`.

Knows: lines, blocks and expected traces.  Does not know what follows which verb (`verbs`), nor what an action does.

Invariant: a file that was read can be carried out, as far as that can be seen without doing it; a mistake is reported
with file, line and what is expected there.
"""

from __future__ import annotations

import shlex
from pathlib import PurePath

from distkv.errors import SettingsError
from distkv.sim.actions import Setting, Settings
from distkv.sim.script import EXPECTED, Block, Command, Script
from distkv.sim.settings import CORE, world_known
from distkv.sim.verbs import mentioned_nodes, named_nodes, verbs
from distkv.sim.words import Words


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
        self._settings: dict[str, Setting] = dict({**CORE, **world_known()}.values())

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
        world = {field: self._settings[field] for field, _ in world_known().values()}
        return Script(self._name, tuple(blocks), tuple(self._nodes), world, "\n".join(source).strip("\n"))

    def _commands(self, number: int, line: str) -> list[Command]:
        """The one command of a line, or none."""
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise self._error(number, f"the line cannot be split into words: {error}") from None
        if not words:
            return []
        name, *arguments = words
        verb = verbs().get(name)
        if verb is None:
            raise self._error(number, f"{name} is no verb; there are {', '.join(verbs())}")
        rest = Words(arguments, int(self._settings["clock_ms"]))
        try:
            action = verb.read(rest)
        except ValueError as error:
            raise self._error(number, f"{error}; expected: {verb.usage}") from None
        if isinstance(action, Settings):
            self._settings |= action.values
        self._nodes |= dict.fromkeys(named_nodes(action))
        self._mentions += [(number, node) for node in mentioned_nodes(action)]
        return [Command(number, " ".join(words), action)]

    def _error(self, number: int, what: str) -> SettingsError:
        return SettingsError(f"{self._name}, line {number}: {what}")

