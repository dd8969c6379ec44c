"""Every class of errors that a user or a program can get.

Knows: those that all know, and those with which a service that is mounted refuses.  Does not know who is told one.
"""

from __future__ import annotations

from typing import Final

from distkv import errors
from distkv.errors import DistkvError
from distkv.wire.services import forms

ERRORS: Final[list[type[DistkvError]]] = [
    *(kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, DistkvError)),
    *dict.fromkeys(base for form in forms() for kind in form.errors for base in kind.__mro__
                   if issubclass(base, DistkvError) and base.__module__ != errors.__name__),
]  # fmt: skip
"""Bases included."""
