"""What the code logs has the form that the formatters of the command line know.

Knows: the syntax trees of the product.  Does not know the events.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from distkv.cli.logs import SOURCES

PACKAGE = Path(__file__).parents[2] / "distkv"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "logs.py")

EVENT = re.compile(r"[a-z][a-z0-9_]*( \w+=%[.\d]*[a-z])*(: .*)?")
"""An id, fields, and words for people."""

LEVELS = {"debug", "info", "warning", "error", "critical", "exception"}


def _calls(path: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node


def _templates(path: Path) -> Iterator[str]:
    """The first argument of each call that logs; `log.log` may make its own."""
    for call in _calls(path):
        if call.func.attr in {*LEVELS, "log"} and ast.unparse(call.func.value) == "log":
            template = call.args[call.func.attr == "log"]
            if isinstance(template, ast.Constant) or call.func.attr != "log":
                yield str(ast.literal_eval(template))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_what_is_logged_is_an_id_with_fields(path: Path) -> None:
    assert [template for template in _templates(path) if not EVENT.fullmatch(template)] == []


def test_sources_that_log_can_be_named() -> None:
    calls = (call for path in MODULES for call in _calls(path) if call.func.attr == "getLogger")
    names = {str(ast.literal_eval(call.args[0])) for call in calls if ast.unparse(call.func) == "logging.getLogger"}
    assert names == {f"distkv.{source}" for source in SOURCES}
