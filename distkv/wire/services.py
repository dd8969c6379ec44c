"""What clients ask services, and what these answer: the form in which each service declares it.

Knows: which services are mounted.  Does not know what any of them is asked.

Invariant: a type of requests belongs to one service.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import attrs

from distkv import mount
from distkv.errors import RequestError
from distkv.wire.row import AnyRow


class ServiceRequest:
    """What a client asks a service: each request of a service is derived from this."""

    __slots__ = ()
    seq: int


class ServiceReply:
    """What a service answers: each answer that has a type of its own is derived from this."""

    __slots__ = ()


class ServiceItems(ServiceReply):
    """Some items of an answer that only `stop` ends; there will be more."""

    __slots__ = ()
    items: Sequence[ServiceReply]
    is_complete: bool
    """Whether now all that there is was told, for the first time."""


@attrs.frozen(eq=False)
class ServiceForm:
    """What one service is asked, and how its answers are written. There is one of each service: to compare all that is
    in it would cost each request more than the rest of its way."""

    name: str
    """Of the service."""
    rows: tuple[AnyRow[Any], ...]
    """One for each of its requests."""
    reply_fields: Callable[[Any], tuple[Mapping[str, object], Mapping[str, bytes]]]
    """The fields of an answer that has a type of its own, and those of them that are packed already."""
    when_off: str
    """What a client is told whose node has it not, and what to do for that."""
    hides: Callable[[str], bool] | None = None
    """Whether an entry by this key is hidden from clients (`hidden`), always and on every node; None: none is."""
    errors: tuple[type[RequestError], ...] = ()
    """What it refuses with, besides the errors that all know: each class with a code of its own."""
    logged: Callable[[Any], str] = lambda _: ""
    """What is written into the log when this is asked, because others feel it; empty: nothing is."""


def forms() -> tuple[ServiceForm, ...]:
    """Of each service that is mounted."""
    return tuple([part.FORM for part in mount.parts("wire")])


def service_error(code: str) -> type[RequestError] | None:
    """The class of a service that has this code."""
    return next((kind for form in forms() for kind in form.errors if kind.code == code), None)


def service_rows() -> tuple[AnyRow[Any], ...]:
    """Of all requests to services."""
    return tuple([row for form in forms() for row in form.rows])


def declared(type: type[ServiceRequest]) -> tuple[ServiceForm, AnyRow[Any]]:
    """The service that is asked by requests of this type, and their row."""
    return _by_type(forms())[type]


@cache
def _by_type(some: tuple[ServiceForm, ...]) -> Mapping[type[ServiceRequest], tuple[ServiceForm, AnyRow[Any]]]:
    return {row.type: (form, row) for form in some for row in form.rows}
