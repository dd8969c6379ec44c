"""The file in which a node remembers who else was there, and its own generation.

Knows: its form (docs: swim, 'The peers file').  Does not know who is alive, nor when it is worth writing.

Invariant: a file that cannot be read, or is none, is as good as none: it says so, and is replaced. A crash leaves the
former content or the new one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from distkv.naming import is_node_name
from distkv.wire.swim_records import GENERATION_MAX, numeric_address

FILE_NAME: Final = "peers.json"
PEERS_MAX: Final = 4096
"""So many are written; of more, the last ones are left out."""
SIZE_MAX: Final = 1 << 20


@attrs.frozen
class KnownPeers:
    """What the file holds."""

    generation: int = 0
    """The node's own, the last time that it was written."""
    addresses: Mapping[str, str] = attrs.field(factory=dict)
    """HOST:PORT, numeric, of the others by their names."""


class PeersFile:
    """One, which need not be there."""

    def __init__(self, directory: Path) -> None:
        self.path: Final = directory / FILE_NAME

    def read(self) -> tuple[KnownPeers, str]:
        """What it holds, and what is wrong with it; empty: nothing is."""
        try:
            with open(self.path, "rb") as file:
                data = file.read(SIZE_MAX + 1)
            return _known(json.loads(data)), ""
        except FileNotFoundError:
            return KnownPeers(), ""
        except OSError as error:
            return KnownPeers(), str(error.strerror)
        except (ValueError, RecursionError):
            return KnownPeers(), "it is no file of peers"

    def write(self, known: KnownPeers) -> None:
        """Replace what it holds. Blocks.

        Raises:
            OSError: it cannot be written; it holds what it held before.
        """
        peers = dict(sorted(known.addresses.items())[:PEERS_MAX])
        text = json.dumps({"generation": known.generation, "peers": peers}, indent=1)
        part = self.path.with_name(f"{FILE_NAME}.part")
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        os.replace(part, self.path)


def _known(found: object) -> KnownPeers:
    """Raises ValueError for what was not written by `write`."""
    if not isinstance(found, dict):
        raise ValueError(found)
    generation, peers = found.get("generation"), found.get("peers")
    if type(generation) is not int or not 0 <= generation <= GENERATION_MAX or not isinstance(peers, dict):
        raise ValueError(found)
    for name, address in peers.items():
        is_right = is_node_name(name) and isinstance(address, str) and numeric_address(address) is not None
        if not is_right:
            raise ValueError(name)
    return KnownPeers(generation, peers)
