"""What topics add to the command line.

Knows: in which module each command is, and with which number a command ends that is refused something.  Loads none of
the commands: they are loaded when they are asked for.
"""

from __future__ import annotations

from typing import Final

COMMANDS: Final = {"topic": "distkv.cli.topic:topic_group"}
"""Below `distkv client`."""

FAILED: Final = 1
UNREACHABLE: Final = 5
EXITS: Final = {
    "no_replicas": UNREACHABLE,
    "away": UNREACHABLE,
    "backlog": FAILED,
    "stale_op": FAILED,
    "taken": FAILED,
}
"""By the codes of errors; the numbers mean what they mean everywhere (`exits`)."""
