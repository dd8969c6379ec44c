"""The tag in the id of a session: it shows on which connection, from where, of which node the session was opened.

Knows: the form.  Does not know who counts sessions.

Invariant: the rest of a tag is chance, so nobody guesses the id of a session of another client.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from distkv.model.event import NodeName

NODE_CHARS: Final = 4
ORIGIN_CHARS: Final = 4
CONNECTION_CHARS: Final = 4
"""Of a tag: first these of the node, then those of the origin, then these of the connection."""


def tag_of(node: NodeName, asker: int, chance: int) -> str:
    """The tag of a session that a connection of a node opens (`asker_of`); `chance` has 52 bits."""
    part = blake2b(node.encode(), digest_size=NODE_CHARS // 2).hexdigest()
    chars = ORIGIN_CHARS + CONNECTION_CHARS
    return f"{part}{asker % (1 << 4 * chars):0{chars}x}{chance:013x}"


def node_part(tag: str) -> str:
    """The same for all sessions that a node opened."""
    return tag[:NODE_CHARS]


def origin_part(tag: str) -> str:
    """The same for all sessions that were opened from one host at a node; empty: from the node's own."""
    end = NODE_CHARS + ORIGIN_CHARS
    return "" if tag[NODE_CHARS:end] == "0" * ORIGIN_CHARS else tag[:end]


def connection_part(tag: str) -> str:
    """The same for all sessions that a connection opened."""
    return tag[: NODE_CHARS + ORIGIN_CHARS + CONNECTION_CHARS]
