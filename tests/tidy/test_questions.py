"""What is called like a question changes nothing: a property, or a function whose name begins with `is_`, `has_`,
`knows_`, `holds` or the like, or ends with a unit, as `wake_ms` does.  Who reads `if part.is_over:` does not expect
that it matters how often that is asked.

Knows: assignments, calls of methods that change their object, and functions of the core that do one of these, through
as many calls as there are.  Does not know objects of other packages, nor what is changed under another name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import attrs

from tests.offenders import assert_none
from tests.tidy.sources import ROOT, Source, in_each

CORE = sorted(path for layer in ("core", "swim") for path in (ROOT / "distkv" / layer).rglob("*.py"))
QUESTIONS = {"are", "can", "does", "has", "is", "knows", "may", "must", "needs", "seems", "should", "was"}
STATES = {"agrees", "allows", "awaits", "completes", "contains", "counts", "differs", "fits", "gives", "hears", "holds"}
STATES |= {"keeps", "lacks", "leads", "matches", "owes", "reaches", "refuses", "serves", "shows", "takes"}
STATES |= {"waits", "wants"}
"""What follows one of these, or is one, says how something is: nobody expects that it changes that."""
UNITS = {"bytes", "ms", "s"}
"""What ends with one of these is how much something is: `wake_ms` says when, and no more."""
PROPERTIES = {"property", "functools.cached_property", "cached_property"}
CHANGING = {
    "add",
    "append",
    "appendleft",
    "clear",
    "difference_update",
    "discard",
    "extend",
    "insert",
    "intersection_update",
    "pop",
    "popitem",
    "popleft",
    "remove",
    "reverse",
    "setdefault",
    "sort",
    "update",
}
"""Methods of lists, dicts, sets and deques that change them."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@attrs.frozen
class Seen:
    """What one function does, as its text shows."""

    where: str
    name: str
    owner: str
    """The class that has it; empty: none."""
    is_question: bool
    changes: tuple[str, ...]
    """What it changes itself: nothing that it made."""
    own_calls: frozenset[str]
    """The methods of its own object that it calls, or reads as properties."""
    calls: frozenset[str]
    """The methods of what it was given, or of what its object has."""


def _root(node: ast.expr) -> str:
    """The name with which an expression begins: `self` of `self.a[1].b`."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _targets(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            return targets
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            return [target]
    return []


def _flat(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        for part in target.elts:
            yield from _flat(part)
    else:
        yield target


def _is_question(function: Function) -> bool:
    decorators = {ast.unparse(one) for one in function.decorator_list}
    words = function.name.lstrip("_").split("_")
    return bool(decorators & PROPERTIES) or words[0] in QUESTIONS | STATES or words[-1] in UNITS


def _seen(function: Function, owner: str, file: str) -> Seen:
    arguments = function.args
    given = {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    changes, own_calls, calls = list[str](), set[str](), set[str]()
    for node in ast.walk(function):
        for target in (part for whole in _targets(node) for part in _flat(whole)):
            if isinstance(target, ast.Attribute | ast.Subscript) and _root(target) in given:
                changes.append(ast.unparse(target))
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name("self"), attr=name)):
                own_calls.add(name)
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if _root(value) in given:
                if name in CHANGING and not isinstance(value, ast.Name):
                    changes.append(ast.unparse(node.func))
                calls.add(name)
            case ast.Attribute(value=ast.Name("self"), attr=name, ctx=ast.Load()):
                own_calls.add(name)
    is_question = _is_question(function)
    where = f"{file}:{function.lineno}"
    return Seen(where, function.name, owner, is_question, tuple(changes), frozenset(own_calls), frozenset(calls))


def _functions(tree: ast.Module, file: str) -> Iterator[Seen]:
    for node in tree.body:
        if isinstance(node, Function):
            yield _seen(node, "", file)
        elif isinstance(node, ast.ClassDef):
            yield from (_seen(part, node.name, file) for part in node.body if isinstance(part, Function))


def _changing(functions: list[Seen]) -> dict[Seen, str]:
    """Those that change something, each with what that is."""
    found = {one: one.changes[0] for one in functions if one.changes}
    named: dict[str, list[Seen]] = {}
    for one in functions:
        if one.owner:
            named.setdefault(one.name, []).append(one)
    while True:
        more = dict[Seen, str]()
        for one in functions:
            if one in found:
                continue
            own = [other for name in one.own_calls for other in named.get(name, ()) if other.owner == one.owner]
            # A name that several classes have may be that of any of them.
            others = [group for name in one.calls if name not in CHANGING and (group := named.get(name))]
            called = [other for other in own if other in found]
            called += [group[0] for group in others if all(other in found for other in group)]
            if called:
                more[one] = f"{called[0].name}, which changes {found[called[0]]}"
        if not more:
            return found
        found |= more


@in_each(CORE)
def _of_core(source: Source) -> list[Seen]:
    return [*_functions(source.tree, "")]


def _lies(functions: list[Seen]) -> list[tuple[str, str, str]]:
    return [(one.where, one.name, what) for one, what in _changing(functions).items() if one.is_question]


def test_questions_change_nothing() -> None:
    functions = [attrs.evolve(one, where=f"{file}{one.where}") for file, some in _of_core().items() for one in some]
    assert any(one.is_question for one in functions)
    assert_none(_lies(functions), "call it by a verb that says what it does, or let it only look")


SAMPLE = """
class Part:
    @property
    def first(self):
        self._first = self._first or 1
        return self._first

    def is_over(self):
        return self._take() is None

    def _take(self):
        return self.items.pop()

    def has_some(self):
        found = []
        found.append(1)
        return bool(found) and self.other.count > 1

    def may_go(self):
        return self.other.look(1)

    def look(self, n):
        self.count += n

def holds(one):
    one.count += 1

def is_new(one, some):
    return one.look(2)

def has_all(some):
    some[1] = 2

class Other:
    def wake_ms(self):
        self.due_ms = self.first_ms()
        return self.due_ms

    def first_ms(self):
        return min(self.times)

    def later_ms(self, part):
        return part.wake_ms()
"""


def test_question_that_changes_something_is_found() -> None:
    functions = [*_functions(Source.of(SAMPLE).tree, "sample")]
    lies = {"first", "is_over", "may_go", "holds", "is_new", "has_all", "wake_ms", "later_ms"}
    assert {name for _, name, _ in _lies(functions)} == lies
