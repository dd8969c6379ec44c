"""How values are declared that every start of the command line declares, and few of them are made.

Knows: what a declaration costs.  Does not know any of the values.

Invariant: mypy and whoever uses a value see an `attrs.frozen` class with slots.

`attrs` writes and compiles four methods for each class, which takes 0.9 ms of processor time. Some thirty classes were
a sixth of one `distkv client get`. Here only `__init__` is compiled; the others are the same for all.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import attrs

__all__ = ["lean_value"]

if TYPE_CHECKING:
    from attrs import frozen as lean_value
else:

    def lean_value(kind: type[Any]) -> type[Any]:
        """A class decorator: as `attrs.frozen`, for a class with at least one attribute."""
        return give_content(attrs.frozen(kind, eq=False, repr=False))


def give_content(made: type[Any]) -> type[Any]:
    """Equality, hash and text by content, for a class of attrs that was made without them; none is compiled anew."""
    names = [field.name for field in attrs.fields(made)]
    content = attrgetter(*names)

    def is_equal(self: Any, other: object) -> bool:
        return content(self) == content(other) if type(other) is type(self) else NotImplemented

    def shown(self: Any) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({fields})"

    for name, method in (("eq", is_equal), ("hash", lambda self: hash(content(self))), ("repr", shown)):
        setattr(made, f"__{name}__", method)
    return made
