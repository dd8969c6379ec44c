"""A small file that is replaced whole: beside the log, for what must be known although a step of the node failed.

Knows: the system calls that make a replacement durable.  Does not know what the file holds.

Invariant: a crash leaves the former content or the new one, never a part.
"""

from __future__ import annotations

import os
from typing import Final

from distkv.storage.archive_connection import sync_directory

SIZE_MAX: Final = 4 << 20
"""What is larger was not written by `write`."""


class KeptFile:
    """One file, which need not be there."""

    def __init__(self, path: str) -> None:
        self.path: Final = path

    def read(self) -> bytes:
        """What it holds; nothing where there is none.

        Raises:
            OSError: it cannot be read.
        """
        try:
            with open(self.path, "rb") as file:
                return file.read(SIZE_MAX)
        except FileNotFoundError:
            return b""

    def write(self, data: bytes) -> None:
        """Replace what it holds, for its owner only; it is durable when this returns. Blocks.

        Raises:
            OSError: it cannot be written; it holds what it held before.
        """
        part = f"{self.path}.part"
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(part, self.path)
        sync_directory(self.path)
