"""How many files the process may open, and so how many connections it can take: each is one.

Knows: the kernel's soft and hard limit.  Does not know who connects.

Invariant: the hard limit is never changed, and the soft one never lowered. Connections never take what log, archive,
agent and calls to peers need: else a write would find no descriptor, and the node would end as if its disk had failed.
"""

from __future__ import annotations

import logging
import resource
from typing import Final

from distkv.errors import SettingsError

OTHERS: Final = 256
"""Besides connections: the log, the archive, the agent, calls to peers."""
OTHERS_MIN: Final = 48
"""A node without peers has some 25 files open, a look at its archive some more."""
ALLOWED_MIN: Final = 64

log = logging.getLogger("distkv.daemon")


def allow_files(connections: int) -> int:
    """See that so many connections can be open; how many can be, where that is fewer.

    The usual soft limit, 1,024, is for programs that use select(). Past it a connection would wait without an answer,
    where beyond the limit of connections it is refused with one.

    Raises:
        SettingsError: it may open too few files to serve anybody.
    """
    wanted = connections + OTHERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed == wanted:
        return connections
    if allowed < ALLOWED_MIN:
        raise SettingsError(
            f"this process may open {allowed} files, and a server needs {ALLOWED_MIN}: raise the limit (ulimit -Hn)"
        )
    possible = min(connections, allowed - max(OTHERS_MIN, min(OTHERS, allowed // 4)))
    log.warning("few_files allowed=%d wanted=%d connections=%d: raise the limit (ulimit -Hn), or lower"
                " limits.connections", allowed, wanted, possible)  # fmt: skip
    return possible
