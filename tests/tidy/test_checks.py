"""Each machine of the core says in `check` what it promises.

Knows: which classes of the core change themselves, and which have that method.  Does not know what one promises, nor
who looks (`tests/node/test_checks.py`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.offenders import assert_none
from tests.tidy.sources import ROOT, Source, in_each
from tests.tidy.test_questions import CHANGING

CORE = sorted(path for layer in ("core", "swim") for path in (ROOT / "distkv" / layer).rglob("*.py"))
NO_MACHINES = {
    "Asides": "kept by the engine, which reads it from a file: whatever stands there must be borne",
    "GatheredNews": "what came of one request, of nodes that may say anything",
    "GatheredPages": "the same",
    "HeardNumbers": "numbers that were heard: any are possible",
    "Mounted": "a service, its calls and when it is due: `Services` looks at them",
    "NodeFooting": "looks things up in a node, and remembers of whom it knows that they know fences",
    "OwnMap": "a value that is kept beside what it was made from",
    "OwnVoice": "what is announced, and when: any is possible",
    "Ready": "what is to be done, not a state",
    "ServiceTurn": "the same",
    "SessionQueue": "a queue, of which nothing is promised but its order",
    "StoreEntry": "its state is a time at which something is asked",
    "TreeTurn": "what is to be done, not a state",
    "Upward": "acts on the parts that `ServerTree` looks at",
}
"""Classes that change themselves, and are no machines; why."""
OF_SERVING = ROOT / "distkv" / "core" / "tokens" / "serving"


def changes_itself(owner: ast.ClassDef) -> bool:
    """Whether a method, other than the first, assigns an attribute or changes what one holds."""
    return any(
        _is_change(node)
        for method in owner.body
        if isinstance(method, ast.FunctionDef) and method.name not in ("__init__", "check")
        for node in ast.walk(method)
    )


def _is_change(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="self"), ctx=ast.Store() | ast.Del()):
            return True
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id="self")), ctx=ast.Store() | ast.Del()):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self")), attr=called)):
            return called in CHANGING
    return False


@in_each(CORE)
def _unchecked(source: Source) -> list[str]:
    return [owner.name for owner in _machines(source.tree) if not _has_check(owner)]


def _machines(tree: ast.Module) -> Iterator[ast.ClassDef]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and changes_itself(node):
            yield node


def _has_check(owner: ast.ClassDef) -> bool:
    return any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in owner.body)


def test_each_machine_of_the_core_has_a_check() -> None:
    found = {
        f"{file}: {name}"
        for file, names in _unchecked().items()
        if not (ROOT / file).is_relative_to(OF_SERVING)
        for name in names
        if name not in NO_MACHINES and not name.startswith("_")  # those are looked at by the class beside them
    }
    assert_none(sorted(found), "write its invariant as code, in a method check")


def test_what_is_no_machine_is_still_there() -> None:
    there = {name for names in _unchecked().values() for name in names}
    assert_none(sorted(NO_MACHINES.keys() - there), "take it from the list")
