"""What the code logs has the form that the formatters of the command line know.

Knows: the syntax trees of the product.  Does not know the events.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from distkv.cli.logs import SOURCES
from tests.offenders import assert_none
from tests.tidy.sources import PRODUCT, Source, in_each

MODULES = [path for path in PRODUCT if path.name != "logs.py"]

EVENT = re.compile(r"[a-z][a-z0-9_]*( \w+=%[.\d]*[a-z])*(: .*)?")
"""An id, fields, and words for people."""

LEVELS = {"debug", "info", "warning", "error", "critical", "exception"}


def _calls(source: Source, *names: str) -> Iterator[tuple[ast.Call, ast.Attribute]]:
    for node in source.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names:
            yield node, node.func


@in_each(MODULES)
def _templates(source: Source) -> list[str]:
    """The first argument of each call that logs; `log.log` may make its own."""
    return [
        str(ast.literal_eval(template))
        for call, function in _calls(source, *LEVELS, "log")
        if ast.unparse(function.value) == "log"
        for template in [call.args[function.attr == "log"]]
        if isinstance(template, ast.Constant) or function.attr != "log"
    ]


@in_each(MODULES)
def _loggers(source: Source) -> list[str]:
    return [
        str(ast.literal_eval(call.args[0]))
        for call, function in _calls(source, "getLogger")
        if ast.unparse(function) == "logging.getLogger"
    ]


def test_what_is_logged_is_an_id_with_fields() -> None:
    templates = _templates()
    assert templates
    wrong = {file: [one for one in found if not EVENT.fullmatch(one)] for file, found in templates.items()}
    assert_none({file: found for file, found in wrong.items() if found})


def test_sources_that_log_can_be_named() -> None:
    names = {name for found in _loggers().values() for name in found}
    assert names == {f"distkv.{source}" for source in SOURCES}
