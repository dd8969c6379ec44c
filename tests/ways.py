"""`python -m tests.ways`: through which modules a set and a token acquire go, and how large the parts of the code are.

Knows: calls, and lines of Python.  Does not know what any of them does.

Invariant: what is counted is the step of the core for one request, on one node that serves tokens alone, in virtual
time: the same at each run.
"""

from __future__ import annotations

import ast
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, TypeGuard

import attrs
import trio

from distkv.core.replica import Replica
from distkv.core.tokens.machine import TOKENS, TokenMachine
from distkv.core.tokens.token_settings import TokenSettings
from distkv.model.event import NodeName
from tests.node.nodes import OVER_SOCKETS, Client, run, solo_node

CODE: Final = Path(__file__).parents[1] / "distkv"
ASKED_DUE: Final = ("wake_ms", "next_ms", "is_over", "due", "earliest")
"""How functions are called that say whether, or when, something is due."""
PARTS: Final = ("core", "wire", "sim", "client")
SERVING_S: Final = 10.0
"""After so long a token server that is alone grants."""


@attrs.define
class Way:
    """The calls in the steps of the core for one request."""

    modules: list[str] = attrs.field(factory=list)
    """Each that was entered from another one, in their order."""
    calls: int = 0
    asked_due: int = 0
    """Calls that ask whether something is due."""

    @property
    def returns(self) -> int:
        """How often a module was entered that had been left."""
        return len(self.modules) - len(set(self.modules))

    def enter(self, code: CodeType) -> None:
        """A function is called."""
        path = Path(code.co_filename)
        if not path.is_relative_to(CODE) or code.co_name.startswith("<"):
            return
        self.calls += 1
        self.asked_due += code.co_name in ASKED_DUE
        name = str(path.relative_to(CODE))
        if not self.modules or self.modules[-1] != name:
            self.modules.append(name)


def way_of(action: str) -> Way:
    """Of a `set_value` or `token_acquire` that is the only request, after some like it."""
    found, depth = Way(), 0

    def look(frame: FrameType, event: str, _: object) -> None:
        nonlocal depth
        is_step = frame.f_code is Replica.step.__code__
        depth += is_step * {"call": 1, "return": -1}.get(event, 0)
        if event == "call" and depth:
            found.enter(frame.f_code)

    async def main() -> None:
        machine = TokenMachine(TokenSettings((NodeName("a"),)), random.Random(1))
        async with solo_node(services={TOKENS: machine}) as node, node.client() as client:
            await trio.sleep(SERVING_S)
            ask = await _asking(client, action)
            for number in range(3):
                await ask(number)
            await trio.sleep(0.1)
            sys.setprofile(look)
            try:
                await ask(3)
            finally:
                sys.setprofile(None)

    OVER_SOCKETS.set(True)
    run(main)
    return found


async def _asking(client: Client, action: str) -> Any:
    if action == "set_value":
        return lambda number: client.ask(action, path=["k", number], value=number)
    session = (await client.ask("token_open", ttl=60.0))["session"]
    return lambda number: client.ask(action, session=session, token=f"t{number}")


def lines_of(part: str) -> int:
    """Lines of code of a folder: no docstring, comment or empty line, and nothing of a method `check`, nor of what
    `packaging/blocking_client.py` generates."""
    return sum(_lines(path.read_text()) for path in sorted((CODE / part).rglob("*.py")))


def _lines(text: str) -> int:
    left = set[int]()
    for node in ast.walk(ast.parse(text)):
        if _is_docstring(node) or (isinstance(node, ast.FunctionDef) and node.name == "check"):
            left.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return sum(1 for number, line in _written(text) if number not in left)


def _is_docstring(node: ast.AST) -> TypeGuard[ast.Expr]:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _written(text: str) -> Iterator[tuple[int, str]]:
    is_generated = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("#"):
            is_generated = (is_generated or "-- begin generated" in line) and "-- end generated" not in line
        elif line.strip() and not is_generated:
            yield number, line


def main() -> None:
    """Print what was counted."""
    for action in ("set_value", "token_acquire"):
        way = way_of(action)
        modules = len(set(way.modules))
        ways = f"{modules} modules, {way.returns} returns, {way.calls} calls, {way.asked_due} ask what is due"
        sys.stdout.write(f"{action}: {ways}\n")
    sizes = {part: lines_of(part) for part in PARTS}
    named = ", ".join(f"{part} {size}" for part, size in sizes.items())
    sys.stdout.write(f"lines: {named} = {sum(sizes.values())}\n")


if __name__ == "__main__":
    main()
