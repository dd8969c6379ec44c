"""No class of the core has many attributes: past `ATTRIBUTES_MAX`, what it has in mind wants an object of its own.

Knows: fields that a class declares, and what its methods set on `self`.  Does not know what is set from outside.
"""

from __future__ import annotations

import ast

from tests.offenders import assert_none
from tests.tidy.sources import ROOT, Source, in_each

CORE = sorted(path for layer in ("core", "swim") for path in (ROOT / "distkv" / layer).rglob("*.py"))
ATTRIBUTES_MAX = 12


def _declared(part: ast.stmt) -> set[str]:
    """The field that a line of a class declares, if it does."""
    match part:
        case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
            return set() if "ClassVar" in ast.unparse(annotation) else {name}
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=function)):
            is_field = ast.unparse(function) in {"attrs.field", "attr.ib", "field", "dataclasses.field"}
            return {name} if is_field else set()
    return set()


def _attributes(owner: ast.ClassDef) -> set[str]:
    """Those of its objects; what a base has is the base's."""
    found = set[str]().union(*map(_declared, owner.body))
    for function in owner.body:
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                match node:
                    case ast.Attribute(value=ast.Name("self"), attr=name, ctx=ast.Store()):
                        found.add(name)
    return found


def _many(source: Source) -> dict[str, int]:
    """The classes with too many, and how many that is."""
    counts = {node.name: len(_attributes(node)) for node in source.nodes if isinstance(node, ast.ClassDef)}
    return {name: count for name, count in counts.items() if count > ATTRIBUTES_MAX}


@in_each(CORE)
def _of_core(source: Source) -> dict[str, int]:
    return _many(source)


def test_class_of_the_core_has_few_attributes() -> None:
    found = [(file, name, count) for file, many in _of_core().items() for name, count in many.items()]
    assert_none(found, f"no more than {ATTRIBUTES_MAX}: give those that belong together an object of their own")


def _class(fields: int = 0, made: int = 0, more: str = "") -> str:
    declared = [f"    field{number}: int" for number in range(fields)]
    set_later = [f"        self.made{number} = 0" for number in range(made)]
    return "\n".join(["class Part:", *declared, "    def begin(self):", "        pass", *set_later, more])


def test_classes_with_many_attributes_are_found() -> None:
    last = "        [self.one, (self.two, other.three)] = made"
    for text in (_class(fields=13), _class(made=13), _class(7, 6), _class(fields=11, more=last)):
        assert _many(Source.of(text)) == {"Part": 13}


def test_twelve_are_not_too_many() -> None:
    known = "    limit: ClassVar[int] = 1\n    def __call__(self):\n        return self.what, self.field1"
    for text in (_class(fields=12), _class(made=12), _class(6, 6, known)):
        assert not _many(Source.of(text))
