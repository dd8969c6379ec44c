"""Write the methods of the blocking client from those of the async one: `python packaging/blocking_client.py`.

    # -- begin generated from async_values.AsyncValueMethods: python packaging/blocking_client.py
    # -- end generated

Between two such lines of a module in `distkv/client` come the methods of that class, or the one method that is named
behind it. What stands outside of them is written by hand.

    # -- begin generated from async_client.open_client, its head: python packaging/blocking_client.py
    # -- end generated

Between these come the signature and the docstring of a function; its body stands below, and is written by hand.

Knows: in which words the two clients differ.  Does not know what a method does.

Invariant: what is generated and kept is what the async client says now; tests/tidy/test_blocking_client.py looks.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

CLIENT: Final = Path(__file__).parents[1] / "distkv" / "client"

WORDS: Final[Sequence[tuple[str, str]]] = (
    # what docstrings say
    ("from any task", "from any thread"),
    ("from where `async with` enters it until", "from this call on, until"),
    (
        "When the token is lost the block is cancelled.",
        "When the token is lost the block goes on: ask `token.is_lost`, or `token.check`.",
    ),
    # how a client is opened
    (
        (
            ": `async with open_client() as client`, until the\n"
            "    block is left; or `client = await open_client()`, until `client.aclose()`, from whichever task."
        ),
        ".",
    ),
    ("a host, a port, a time or a bound that is none", "a host, a port or a time that is none"),
    ("open_client", "connect"),
    ("-> Opening:", "-> Client:"),
    # what waits
    ("async def ", "def "),
    ("await ", ""),
    ("aclose", "close"),
    # what belongs to an event loop
    ("        self._client.check_here()\n", ""),
    ("        self._connection.check_here()\n", ""),
    ("locked until the producer or the client is closed", "locked until the producer is closed"),
    ("locked until the consumer or the client is closed", "locked until the consumer is closed"),
    # the classes below
    ("AsyncTokenHold", "TokenHold"),
    ("async_token", "blocking_token"),
    ("AsyncProducer", "Producer"),
    ("AsyncConsumer", "Consumer"),
    ("async_topic", "blocking_topic"),
    ("Items(self._connection, ", "self._connection.items("),
    ("Watch(self._connection, ", "self._connection.begin_watch("),
)
"""What the async client says, and what the blocking one says instead. Each is said somewhere."""

ASYNC_ONLY: Final = re.compile(r"^ +open_max:.*\n", re.MULTILINE)
"""An argument that only the async client has, as it is declared and as it is explained."""

RESULTS: Final = re.compile(r"-> (?:Items|Watch)\[(.+)\]:$", re.MULTILINE)
"""What is iterated over, which is a generator here."""

LATE: Final = ("distkv.client.changes", "distkv.client.conflicts", "distkv.client.watch")
"""Modules that a method imports when it is called: most clients of a command ask for one value."""

KEPT: Final = re.compile(
    r"^(    # -- begin generated from (\w+)\.(\w+)(?:\.(\w+))?: [^\n]*\n).*?^(    # -- end generated\n)",
    re.MULTILINE | re.DOTALL,
)

HEAD: Final = re.compile(
    r"^(# -- begin generated from (\w+)\.(\w+), its head: [^\n]*\n).*?^(    # -- end generated\n)",
    re.MULTILINE | re.DOTALL,
)


def modules() -> Iterator[Path]:
    """Those in which something is generated."""
    for path in sorted(CLIENT.glob("*.py")):
        if KEPT.search(path.read_text(encoding="utf-8")):
            yield path


def written(text: str) -> str:
    """The text of a module with what is generated in it made anew."""
    made = KEPT.sub(lambda found: found[1] + _methods(found[2], found[3], found[4]) + found[5], text)
    made = HEAD.sub(lambda found: found[1] + _head(found[2], found[3]) + found[4], made)
    ruff = [sys.executable, "-m", "ruff", "format", "--quiet", "--stdin-filename", "module.py", "-"]
    return subprocess.run(ruff, input=made, check=True, capture_output=True, text=True).stdout


def source(module: str) -> str:
    """The text of a module of the async client."""
    return (CLIENT / f"{module}.py").read_text(encoding="utf-8")


def main() -> None:
    """Bring every module up to date."""
    for path in modules():
        old = path.read_text(encoding="utf-8")
        new = written(old)
        if new != old:
            path.write_text(new, encoding="utf-8")


# -- inside -------------------------------------------------------------------------------------------------------


def _methods(module: str, name: str, only: str | None) -> str:
    """The methods of a class, or one of them, in the words of the blocking client."""
    text = source(module)
    tree = ast.parse(text)
    lines, homes = text.splitlines(keepends=True), _homes(tree)
    (found,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    parts: list[str] = []
    last = found.body[0]
    for node in found.body[1:]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and only in (None, node.name):
            parts += lines[last.end_lineno or 0 : _first_line(node) - 1] if only is None else ["\n"]
            parts += _with_imports(lines, node, homes)
        last = node
    return _in_other_words("".join(parts))


def _head(module: str, name: str) -> str:
    """The signature and the docstring of a function."""
    text = source(module)
    (found,) = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == name]
    lines = text.splitlines(keepends=True)[found.lineno - 1 : found.body[0].end_lineno]
    return _in_other_words(ASYNC_ONLY.sub("", "".join(lines)))


def _in_other_words(text: str) -> str:
    for old, new in WORDS:
        text = text.replace(old, new)
    text = RESULTS.sub(r"-> Generator[\1, None, None]:", text)
    left = re.search(r".*(?i:async|await).*", text)
    if left is not None:
        raise ValueError(f"no word of WORDS is for this: {left[0].strip()}")
    return text


def _first_line(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _with_imports(
    lines: Sequence[str], node: ast.FunctionDef | ast.AsyncFunctionDef, homes: Mapping[str, str]
) -> Iterator[str]:
    """The lines of a method; behind its docstring it imports what its body needs of the modules of `LATE`."""
    head = node.body[0].end_lineno or 0
    yield from lines[_first_line(node) - 1 : head]
    used = {inner.id for part in node.body[1:] for inner in ast.walk(part) if isinstance(inner, ast.Name)}
    imports: dict[str, list[str]] = {}
    for name in sorted(used & homes.keys()):
        imports.setdefault(homes[name], []).append(name)
    for home, names in imports.items():
        yield f"        from {home} import {', '.join(names)}\n"
    if imports:
        yield "\n"
    yield from lines[head : node.end_lineno]


def _homes(tree: ast.Module) -> Mapping[str, str]:
    """From where each name comes that is, or is of, a module of `LATE`."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                if node.module in LATE or f"{node.module}.{alias.name}" in LATE:
                    found[alias.name] = node.module
    return found


if __name__ == "__main__":
    main()
