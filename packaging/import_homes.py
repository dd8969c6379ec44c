"""Import each name from the module that defines it: `python packaging/import_homes.py` corrects all that do not.

    from distkv.wire.request import SetValue          # which imports it itself
    from distkv.wire.value_requests import SetValue   # its home

So a name has one place to look for, and a module loads no more than it needs. `import distkv` stands apart: it offers
its users what is theirs. What comes from outside of the repository has no home here.

Knows: what modules define at their top level.  Does not import them.

Invariant: what a corrected module means by a name is the same as before.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

ROOT: Final = Path(__file__).parents[1]
FOLDERS: Final = {"distkv": "distkv", "tests": "tests", "docs": "", "packaging": ""}
"""Where modules lie, and how the names of those in the folder begin."""
PUBLIC: Final = "distkv"


@attrs.frozen
class Module:
    """What stands at the top level of one."""

    defined: frozenset[str]
    imported: Mapping[str, str]
    """From which module a name is."""


@attrs.frozen
class Stray:
    """An import that has names from elsewhere: in which lines, and the names by their homes."""

    first: int
    last: int
    homes: Mapping[str, Sequence[str]]


def paths(root: Path = ROOT) -> dict[str, Path]:
    """Module -> its file."""
    found = {}
    for folder, prefix in FOLDERS.items():
        for path in sorted((root / folder).rglob("*.py")):
            parts = path.relative_to(root / folder).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            found[".".join([prefix, *parts] if prefix else parts)] = path
    return found


def look(tree: ast.Module) -> Module:
    """What a module defines and imports."""
    defined: set[str] = set()
    imported: dict[str, str] = {}
    for node in _statements(tree.body):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                defined.add(node.name)
            case ast.Assign(targets=targets):
                defined |= {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                defined.add(name)
            case ast.ImportFrom(module=str(module)):
                imported |= {alias.name: module for alias in node.names if alias.asname in (None, alias.name)}
    return Module(frozenset(defined), imported)


def home(module: str, name: str, modules: Mapping[str, Module]) -> str:
    """Where a name that is imported from `module` is defined; the same where that is not known."""
    at = module
    while at in modules and name not in modules[at].defined and f"{at}.{name}" not in modules:
        at = modules[at].imported.get(name, "")
    return at if at in modules else module


def strays(tree: ast.Module, modules: Mapping[str, Module]) -> list[Stray]:
    """What a module imports from elsewhere than its home."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module in modules and node.module != PUBLIC:
            homes: dict[str, list[str]] = {}
            for alias in node.names:
                said = alias.name if alias.asname is None else f"{alias.name} as {alias.asname}"
                homes.setdefault(home(node.module, alias.name, modules), []).append(said)
            if {*homes} != {node.module}:
                found.append(Stray(node.lineno, node.end_lineno or node.lineno, homes))
    return found


def corrected(text: str, found: Iterable[Stray]) -> str:
    """The text with these imports from their homes; their order is for ruff."""
    lines = text.splitlines(keepends=True)
    for stray in sorted(found, key=lambda stray: -stray.first):
        start = lines[stray.first - 1]
        indent = start[: len(start) - len(start.lstrip())]
        new = [f"{indent}from {module} import {', '.join(names)}\n" for module, names in stray.homes.items()]
        if "  # " in start:  # why it is imported there
            new[0] = f"{new[0].rstrip()}  # {start.partition('  # ')[2]}"
        lines[stray.first - 1 : stray.last] = new
    return "".join(lines)


def main() -> None:
    """Correct every module."""
    files = paths()
    trees = {module: ast.parse(path.read_text(encoding="utf-8")) for module, path in files.items()}
    modules = {module: look(tree) for module, tree in trees.items()}
    changed = []
    for module, tree in trees.items():
        if found := strays(tree, modules):
            path = files[module]
            path.write_text(corrected(path.read_text(encoding="utf-8"), found), encoding="utf-8")
            changed.append(str(path))
    if changed:
        ruff = [sys.executable, "-m", "ruff", "check", "--quiet", "--select", "I,F401", "--fix", *changed]
        subprocess.run(ruff, check=True, cwd=ROOT)


# -- inside -------------------------------------------------------------------------------------------------------


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Those of a module, also below `if`, `try` and `with`."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With | ast.For):
            yield from _statements(node.body)
            yield from _statements(getattr(node, "orelse", []))
            for handler in getattr(node, "handlers", []):
                yield from _statements(handler.body)


if __name__ == "__main__":
    main()
