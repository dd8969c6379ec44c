"""Exit codes (docs: command line, 'Exit codes'), and what the command line adds to an error.

Knows: which error ends the command with which number, and which options do what a node advises.  Does not know what the
errors mean.

Invariant: every error has a number; what is neither in the table nor in that of a service is 1.
"""

from __future__ import annotations

from typing import Final

from distkv.errors import DistkvError, PeerError, SettingsError, UnreachableError
from distkv.mount import parts

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
CONFLICT: Final = 4
UNREACHABLE: Final = 5
NOT_ALLOWED: Final = 6
DAMAGED: Final = 7
INTERRUPTED: Final = 130

_BY_CODE: Final = {
    "bad_path": USAGE,
    "bad_value": USAGE,
    "damaged": DAMAGED,
    "not_found": NOT_FOUND,
    "exists": CONFLICT,
    "chain_mismatch": CONFLICT,
    "value_mismatch": CONFLICT,
    "fenced": CONFLICT,
    "not_ready": UNREACHABLE,
    "auth_required": NOT_ALLOWED,
    "auth_failed": NOT_ALLOWED,
    "forbidden": NOT_ALLOWED,
}


_OPTIONS: Final = {"lift the fence": "--refence", "wait for it, or try again": "--wait SECONDS"}
"""What nodes advise, in words for whoever asks, and how it is typed here."""


def advice(error: DistkvError) -> str:
    """The options that do what the end of a message advises; nothing where it advises nothing of that kind."""
    return next((f" ({option})" for words, option in _OPTIONS.items() if str(error).endswith(words)), "")


def exit_code(error: DistkvError) -> int:
    """The number with which the command ends."""
    if isinstance(error, SettingsError):
        return USAGE
    if isinstance(error, UnreachableError):
        return UNREACHABLE
    if isinstance(error, PeerError):  # its code is for peers; here it means that something else is there
        return FAILED
    by_code = dict(_BY_CODE)
    for part in parts("cli"):
        by_code |= part.EXITS
    return by_code.get(error.code, FAILED)
