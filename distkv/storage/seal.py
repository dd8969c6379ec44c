"""The seal at the end of a backup: a checksum of all its bytes.

Knows: where it stands, and over what it is made.  Does not know what is in a backup.

A row of an archive has a checksum of its own, but much of a file is in no row: lists of free pages, indexes, numbers of
the file. The seal finds each bit that flipped anywhere, and each byte that is gone or was put in.

Invariant: what is taken from under a seal is byte for byte what it was put on.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import BinaryIO, Final

from distkv.errors import LogDamagedError

READ_BYTES: Final = 1 << 20
_MARK: Final = b"distkv backup 1\n"
_SUM_BYTES: Final = 32
SEAL_BYTES: Final = len(_MARK) + _SUM_BYTES


def put_seal(path: str) -> None:
    """Put the seal behind a whole file. Blocks for as long as it takes to read it; raises OSError."""
    with open(path, "r+b") as file:
        whole = blake2b(_MARK, digest_size=_SUM_BYTES)
        while data := file.read(READ_BYTES):
            whole.update(data)
        file.write(_MARK + whole.digest())


def copy_unsealed(source: BinaryIO, to: BinaryIO | None, name: object) -> None:
    """Copy what stands before the seal at the end of `source`, and look whether it is what was sealed; None: only look.

    `name` is for people. Raises OSError.

    Raises:
        LogDamagedError: there is no seal, or it is not of these bytes. What was copied is worth nothing then.
    """
    whole, kept = blake2b(_MARK, digest_size=_SUM_BYTES), b""
    while data := source.read(READ_BYTES):
        kept += data
        ready, kept = kept[:-SEAL_BYTES], kept[-SEAL_BYTES:]
        whole.update(ready)
        if to is not None:
            to.write(ready)
    if not kept.startswith(_MARK) or len(kept) != SEAL_BYTES:
        raise LogDamagedError(
            f"{name} is damaged, not whole, or no backup: name what 'distkv client backup' wrote "
            "(with --unsealed if an earlier release did)"
        )
    if kept[len(_MARK) :] != whole.digest():
        raise LogDamagedError(
            f"{name} is damaged, its checksum differs: copy it again from where it was made, or take an older one"
        )
