"""What the core answers to an input that asks it for something.

Knows: that it may refuse.  Does not know which input it was.

Invariant: a refusal is raised; what is given is of the kind that was asked for.
"""

from __future__ import annotations

from typing import TypeVar

from distkv.core.ready import Reply
from distkv.errors import DistkvError

Kind = TypeVar("Kind")


def expected(reply: Reply | None, kind: type[Kind]) -> Kind:
    """The reply.

    Raises:
        DistkvError: it is this, the core's refusal; then nothing changed.
    """
    if isinstance(reply, kind):
        return reply
    if isinstance(reply, DistkvError):
        raise reply
    raise TypeError(f"the core answered with {type(reply).__name__}, not {kind.__name__}")
