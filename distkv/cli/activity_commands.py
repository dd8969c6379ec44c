"""What the activity network adds to the command line.

Knows: in which module each command is, what the server takes besides, and with which number a command ends that is
refused something.  Loads none of the commands: they are loaded when they are asked for.
"""

from __future__ import annotations

from typing import Final

SERVER_OPTIONS: Final = (
    ("--activity", "activity.listen", "HOST:PORT", "Where clients of the activity network connect."),
)
"""Of `distkv server`: `ServerOption`."""
COMMANDS: Final = {"activity": "distkv.cli.activity:activity_group"}
"""Below `distkv client`."""
UNREACHABLE: Final = 5
EXITS: Final = {"send_unknown": UNREACHABLE}
"""By the codes of errors; the numbers mean what they mean everywhere (`exits`)."""
