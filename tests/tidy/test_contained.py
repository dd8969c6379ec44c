"""The core catches whatever is raised in one place (`ground.contained`); everywhere else an `except` names what it
expects."""

from __future__ import annotations

import ast

from tests.offenders import assert_none
from tests.tidy.sources import ROOT, Source, in_each

CORE = sorted(path for layer in ("core", "swim") for path in (ROOT / "distkv" / layer).rglob("*.py"))
PLACE = "distkv/core/ground/contained.py"
ALL = {"Exception", "BaseException"}


@in_each(CORE)
def _catches(source: Source) -> int:
    """How often a module catches whatever is raised."""
    return sum(isinstance(node, ast.ExceptHandler) and _is_any(node.type) for node in source.nodes)


def _is_any(what: ast.expr | None) -> bool:
    if isinstance(what, ast.Tuple):
        return any(_is_any(one) for one in what.elts)
    return what is None or (isinstance(what, ast.Name) and what.id in ALL)


def test_faults_of_machines_are_caught_in_one_place() -> None:
    found = {file: count for file, count in _catches().items() if count}
    assert found.pop(PLACE, 0) == 1, f"{PLACE} is that place"
    assert_none(found, "catch whatever is raised: step the machine with `ground.contained.fault_of` instead")
