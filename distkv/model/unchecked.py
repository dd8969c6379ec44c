"""How the values are declared that every request makes anew.

Knows: why they are not `attrs.frozen` when the program runs.  Does not know any of them.

Invariant: mypy refuses to assign an attribute of a value after it was made.

A step makes a dozen small values. A frozen attrs class sets each attribute by a call of `object.__setattr__`: 0.6 us
for seven attributes, beside 0.2 us for a plain class. The profile of one set showed 2.5 of 26 us in these calls alone.
So what is frozen for whoever reads or checks the code is a plain class with slots for the interpreter; values that are
made less often stay `attrs.frozen`. As for `lean_value` only `__init__` is compiled: a client makes such values, too,
and a command has to start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from distkv.model.lean import give_content

__all__ = ["unchecked_value"]

if TYPE_CHECKING:
    from attrs import frozen as unchecked_value
else:

    def unchecked_value(kind: type[Any]) -> type[Any]:
        """A class decorator: as `attrs.frozen`, with equality and hash by content, but nothing stops who assigns."""
        return give_content(attrs.define(kind, eq=False, repr=False))
