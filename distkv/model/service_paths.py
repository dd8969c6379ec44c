"""Where services keep what all nodes are to know.

Knows: the names with which such paths begin.  Does not know any service.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from distkv.errors import BadValueError
from distkv.model.path import Path

SERVICE_NAMES: Final = (None, "service")
"""With these begin the paths of services; then come the name of the service, and the key of the entry."""
BETWEEN: Final = "\0"
"""Stands between the two names of a key that has two. No name of a key has it."""


def service_key(path: Path) -> tuple[str, str] | None:
    """The service and the key of an entry that has one, or of what stands below such an entry."""
    if not path.is_reserved:
        return None
    names = path.names
    if len(names) < 4 or names[:2] != SERVICE_NAMES:
        return None
    service, key = names[2], names[3]
    return (service, key) if isinstance(service, str) and isinstance(key, str) and key else None


def entry_key(*names: str) -> str:
    """The key of an entry: `entry_key("lamp")` is that of `:n.service.NAME.lamp`, and `entry_key("lamp", "hall")` that
    of `:n.service.NAME.lamp.hall`."""
    return BETWEEN.join(names)


def key_names(key: str) -> tuple[str, ...]:
    """The names of a key, one or two.

    Raises:
        BadValueError: it is no key.
    """
    names = tuple(key.split(BETWEEN))
    if len(names) > 2 or not all(names):
        raise BadValueError(f"the key of an entry of a service has one name or two, and none is empty; not {key!r}")
    return names


def key_of(names: Sequence[object]) -> str | None:
    """The key of what stands below the path of a service at these names; None: there can be none."""
    found = [name for name in names if isinstance(name, str) and name and BETWEEN not in name]
    return entry_key(*found) if len(found) == len(names) and 1 <= len(names) <= 2 else None
