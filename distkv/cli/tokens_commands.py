"""What tokens add to the command line.

Knows: in which module each command is, and with which number a command ends that is refused something.  Loads none of
the commands: they are loaded when they are asked for.
"""

from __future__ import annotations

from typing import Final

COMMANDS: Final = {"token": "distkv.cli.token:token_group"}
"""Below `distkv client`."""

CONFLICT: Final = 4
UNREACHABLE: Final = 5
EXITS: Final = {
    "held": CONFLICT,
    "not_held": CONFLICT,
    "session_expired": CONFLICT,
    "timeout": CONFLICT,
    "no_quorum": UNREACHABLE,
}
"""By the codes of errors; the numbers mean what they mean everywhere (`exits`)."""
