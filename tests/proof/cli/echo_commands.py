"""What the echo adds to the command line.

Knows: in which module its command is, and with which number a command ends that is refused.  Loads no command.
"""

from __future__ import annotations

from typing import Final

COMMANDS: Final = {"echo": "tests.proof.cli.echo:echo_command"}
EXITS: Final = {"echo_mute": 3}
