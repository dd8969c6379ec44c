"""`distkv` with the service of the tests mounted beside its own: a program, and how a server of it is asked.

Knows: how a service is mounted, and what the echo is asked.  Does not know what it does.

    python tests/process/proving.py server a ...
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).parents[2]
PROGRAM: Final = (sys.executable, str(Path(__file__)))
"""What is typed for `distkv`."""


def asked(server: Any, action: str, **fields: object) -> Mapping[str, Any]:
    """The reply of a server to a request of the echo."""
    from distkv.wire import packing
    from tests.process.load import Wire

    with Wire(server) as wire:
        wire.send(packing.pack({"action": action, "seq": wire.next_seq(), **fields}))
        reply = wire.receive()
        assert reply is not None
        return reply


def main() -> None:
    sys.path.insert(0, str(ROOT))
    from distkv import mount

    mount.SERVICES = (*mount.SERVICES, ("tests.proof", "echo"))
    sys.argv[:1] = ["distkv", "-C", "echo.length=5"]
    from distkv.__main__ import main as command

    command()


if __name__ == "__main__":
    main()
