"""The tag in the id of a session: it shows on which connection of which node the session was opened.

Knows: the form.  Does not know who counts sessions.

Invariant: the rest of a tag is chance, so nobody guesses the id of a session of another client.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from distkv.model.event import NodeName

NODE_CHARS: Final = 4
ASKER_CHARS: Final = 4
"""Of a tag: first these of the node, then these of the connection."""


def tag_of(node: NodeName, asker: int, chance: int) -> str:
    """The tag of a session that a connection of a node opens; `chance` has 52 bits."""
    part = blake2b(node.encode(), digest_size=NODE_CHARS // 2).hexdigest()
    return f"{part}{asker % (1 << 4 * ASKER_CHARS):0{ASKER_CHARS}x}{chance:013x}"


def node_part(tag: str) -> str:
    """The same for all sessions that a node opened."""
    return tag[:NODE_CHARS]


def asker_part(tag: str) -> str:
    """The same for all sessions that a connection opened."""
    return tag[: NODE_CHARS + ASKER_CHARS]
