"""What the process does with large pieces of memory that it has no use for any more: they go back to the system.

Knows: the C library's allocator.  Does not know who used the memory.

Invariant: where the library cannot be told, nothing changes.

glibc takes pieces above a threshold from the system one by one, and gives each back. But it raises the threshold, up to
32 MiB, when such a piece is freed. From then on they are cut from its heap, whose top is rarely free: after 120
requests of 600 KB that were sent in part, 145 MiB stayed.
"""

from __future__ import annotations

import ctypes
from typing import Final

M_MMAP_THRESHOLD: Final = -3
LARGE_BYTES: Final = 256 << 10


def give_back_large_pieces() -> None:
    """From now on, for as long as the process runs."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
