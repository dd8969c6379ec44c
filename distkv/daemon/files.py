"""How many files the process may open: each connection is one.

Knows: the kernel's soft and hard limit.  Does not know who connects.

Invariant: the hard limit is never changed, and the soft one never lowered.
"""

from __future__ import annotations

import logging
import resource
from typing import Final

OTHERS: Final = 256
"""Besides connections: the log, the archive, the agent, calls to peers."""

log = logging.getLogger("distkv.daemon")


def allow_files(connections: int) -> None:
    """See that so many connections can be open; where they cannot, say so.

    The usual soft limit, 1,024, is for programs that use select(). Past it a connection would wait without an answer,
    where beyond `limits.connections` it is refused with one.
    """
    wanted = connections + OTHERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < wanted:
        log.warning("few_files allowed=%d wanted=%d: raise the limit (ulimit -Hn), or lower limits.connections",
                    allowed, wanted)  # fmt: skip
