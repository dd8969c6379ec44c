"""Standard input, for which a lone `-` stands wherever a FILE or a VALUE is asked for.

Knows: how it is read.  Does not know what is in it.

Invariant: it is read to its end, or the command fails.
"""

from __future__ import annotations

import sys
from typing import BinaryIO, Final

from distkv.errors import SettingsError

STDIN: Final = "-"


def standard_input(what: str) -> BinaryIO:
    """The stream; `what` is what is wanted from it, for the message.

    Raises:
        SettingsError: it is closed, as with `<&-` in a shell.
    """
    stdin: BinaryIO | None = getattr(sys.stdin, "buffer", None)
    if stdin is None:
        raise SettingsError(f"standard input is closed: there is no {what} to read")
    return stdin
