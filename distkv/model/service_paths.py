"""Where services keep what all nodes are to know.

Knows: the names with which such paths begin.  Does not know any service.
"""

from __future__ import annotations

from typing import Final

from distkv.model.path import Path

SERVICE_NAMES: Final = (None, "service")
"""With these begin the paths of services; then come the name of the service, and the key of the entry."""


def service_key(path: Path) -> tuple[str, str] | None:
    """The service and the key of an entry that has one, or of what stands below such an entry."""
    if not path.is_reserved:
        return None
    names = path.names
    if len(names) < 4 or names[:2] != SERVICE_NAMES:
        return None
    service, key = names[2], names[3]
    return (service, key) if isinstance(service, str) and isinstance(key, str) and key else None
