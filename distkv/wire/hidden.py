"""Which entries of services no client may read.

Knows: what each service that is mounted says of its keys.  Does not know who asks, nor how an answer looks.

Invariant: this is the one rule of it, the same on every node of a release, whether the service works there or not.
Whoever shows something of the store to a client asks here. Nodes among themselves, and backups, have all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from distkv.errors import ForbiddenError
from distkv.model.event import Event, Kind, new_event
from distkv.model.path import Path
from distkv.model.service_paths import service_key
from distkv.wire.services import ServiceForm, forms


def is_hidden(path: Path) -> bool:
    """Whether no client may know what stands there, nor that something does."""
    found = service_key(path)
    if found is None:
        return False
    service, key = found
    hides = _rules(forms()).get(service)
    return hides is not None and hides(key)


def refuse_hidden(path: Path) -> None:
    """
    Raises:
        ForbiddenError: it is hidden. That says nothing of whether there is anything.
    """
    if is_hidden(path):
        raise ForbiddenError("no client may read this entry of a service: ask the service for what it shows")


def without_content(event: Event) -> Event:
    """What a client is told of a change of a hidden entry: that there is one, so that it misses none."""
    path = Path((None, "hidden", event.node, event.tick))
    return new_event(path, Kind.DELETE, b"", (event.link,), event.tock, event.time, True)


@cache
def _rules(some: tuple[ServiceForm, ...]) -> Mapping[str, Callable[[str], bool]]:
    return {form.name: form.hides for form in some if form.hides is not None}
