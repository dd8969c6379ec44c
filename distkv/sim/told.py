"""What a start of a server is told, as one flat row of names: scenarios and tests say no more than what differs.

Knows: in which part of `CoreSettings` each field lies.  Does not know what any of them does.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from distkv.core.ready import Beginning, CoreLimits, CoreSettings
from distkv.model.event import NodeName
from distkv.wire.message import Start

_PARTS: Final = {"limits": CoreLimits, "beginning": Beginning}
_PLACES: Final = {field.name: part for part, kind in _PARTS.items() for field in attrs.fields(kind)}
"""The fields of the parts, and which part has each."""
FLAT: Final[dict[str, object]] = {
    field.name: field.default
    for kind in (CoreSettings, *_PARTS.values())
    for field in attrs.fields(kind)
    if field.name not in _PARTS
}
"""What holds when nothing is said, by field."""


def core_settings(node: NodeName, addr: str, start: Start, **fields: Any) -> CoreSettings:
    """The settings of a core, from fields of its `CoreSettings` and of their parts."""
    parts: dict[str, dict[str, Any]] = {part: {} for part in _PARTS}
    for name in [name for name in fields if name in _PLACES]:
        parts[_PLACES[name]][name] = fields.pop(name)
    made = {part: kind(**parts[part]) for part, kind in _PARTS.items()}
    return CoreSettings(node, addr, start, **made, **fields)
