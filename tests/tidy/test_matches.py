"""A `match` over a union of types names them all, and mypy sees to it: it ends in `assert_never`.

Knows: the syntax of each `match` of the product.  Does not know types: a `match` in which a type of Python itself
stands (`str()`, `list()`) is one over plain values, of which there is no end.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from itertools import zip_longest

from tests.offenders import assert_none
from tests.tidy.sources import PRODUCT, Source, in_each

OPEN = {
    ("distkv/client/questions.py", "wanted"): "a program hands in anything; it is told what is no operation",
    ("distkv/core/peers.py", "(asked.ask.what, what.answer)"): "a peer may answer what was not asked, which is noted",
    ("distkv/sim/activity/cost.py", "what"): "an observer is told of all that happens; it measures some of that",
    ("distkv/spark/source/pushdown.py", "each"): "Spark may offer filters of any class; those not known do not narrow",
}
"""What is matched there may be of a type that nobody thought of, and this is what is done then."""


def _classes(pattern: ast.pattern) -> Iterator[str]:
    """The names of the classes between which a pattern chooses; not those of what is inside a value."""
    match pattern:
        case ast.MatchClass():
            yield ast.unparse(pattern.cls)
        case ast.MatchOr(patterns=patterns) | ast.MatchSequence(patterns=patterns):
            for inner in patterns:
                yield from _classes(inner)
        case ast.MatchAs(pattern=inner) if inner is not None:
            yield from _classes(inner)


def _is_over_types(found: ast.Match) -> bool:
    classes = {name for case in found.cases for name in _classes(case.pattern)}
    return bool(classes) and not any(hasattr(builtins, name) for name in classes)


def _never(statement: ast.stmt) -> str | None:
    """What an `assert_never` is about."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Name(id="assert_never"), args=[subject])):
            return ast.unparse(subject)
    return None


def _is_complete(found: ast.Match, behind: ast.stmt | None) -> bool:
    subject, last = ast.unparse(found.subject), found.cases[-1]
    is_rest = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None and last.guard is None
    if is_rest:
        return len(last.body) == 1 and _never(last.body[0]) == subject
    return behind is not None and _never(behind) == subject


def _matches(source: Source) -> Iterator[tuple[ast.Match, ast.stmt | None]]:
    """Each `match` over types, with the statement behind it."""
    for parent in source.nodes:
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            if isinstance(block, list):
                for statement, behind in zip_longest(block, block[1:]):
                    if isinstance(statement, ast.Match) and _is_over_types(statement):
                        yield statement, behind


def _incomplete(source: Source) -> list[str]:
    return [ast.unparse(found.subject) for found, behind in _matches(source) if not _is_complete(found, behind)]


_incomplete_ones = in_each(PRODUCT)(_incomplete)


def test_match_over_types_ends_in_assert_never() -> None:
    found = {(file, subject) for file, subjects in _incomplete_ones().items() for subject in subjects}
    assert_none(found - {*OPEN}, "end it in `case _: assert_never(…)`, or use isinstance to pick out a few types")
    assert_none({*OPEN} - found, "it is complete now: no exception is needed")


def _seen_in(text: str) -> list[str]:
    return _incomplete(Source.of(text))


def test_what_lets_a_type_pass_unseen_is_found() -> None:
    for rest in (
        "",
        "\n    case _: pass",
        "\n    case _: assert_never(other)",
        "\n    case _ if one: assert_never(what)",
        "\nassert_never(other)",
        "\nprint()\nassert_never(what)",
    ):
        text = f"match what:\n    case Update() | Ping(chain=_): print(){rest}"
        assert _seen_in(text) == ["what"], text
        assert _seen_in(f"def hear(what):\n    if what:\n{_indented(text)}") == ["what"], text


def test_what_lets_no_type_pass_is_complete() -> None:
    rests = ("\n    case _: assert_never(what)", "\nassert_never(what)")
    assert [rest for rest in rests if _seen_in(f"match what:\n    case Update() as update: print(){rest}")] == []


def test_match_over_values_may_end_as_it_likes() -> None:
    patterns = ("'update'", "Kind.UPDATE", "{'seq': 1}", "list()", "(None, str() as name)")
    assert [pattern for pattern in patterns if _seen_in(f"match what:\n    case {pattern}: print()")] == []


def _indented(text: str) -> str:
    return "".join(f"        {line}\n" for line in text.splitlines())
