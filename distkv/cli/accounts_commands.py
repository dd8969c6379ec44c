"""What accounts add to the command line.

Knows: in which module each command is, and with which number a command ends that is refused something.  Loads none of
the commands: they are loaded when they are asked for.
"""

from __future__ import annotations

from typing import Final

COMMANDS: Final = {"activity account": "distkv.cli.account:account_group"}
"""Below `distkv client`."""

CONFLICT: Final = 4
UNREACHABLE: Final = 5
NOT_ALLOWED: Final = 6
EXITS: Final = {"name_taken": CONFLICT, "no_majority": UNREACHABLE, "wrong_secret": NOT_ALLOWED}
"""By the codes of errors; the numbers mean what they mean everywhere (`exits`)."""
