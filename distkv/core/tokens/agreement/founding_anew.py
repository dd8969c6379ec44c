"""The founding of a reset: with whom the token servers begin once more, above all that was.

Knows: who is heard, and which numbers were seen.  Does not know what becomes of it.

Invariant: its generation and version are above all that this server knows of.
"""

from __future__ import annotations

from typing import Final

from distkv.core.tokens.agreement.elections import Elections
from distkv.core.tokens.agreement.remembered import Remembered
from distkv.core.tokens.agreement.settings import ConsensusSettings
from distkv.core.tokens.state import has_majority
from distkv.errors import NotReadyError, RequestError
from distkv.wire.token_states import Founding

RESET_VERSIONS: Final = 1 << 20
"""By so much a reset goes above what it saw: the lost majority may have gone on."""


def founding_anew(settings: ConsensusSettings, memory: Remembered, elections: Elections, now_ms: int) -> Founding:
    """The founding by which this server begins anew, with those of the list that it hears.

    Raises:
        RequestError: the settings do not name this node as a token server.
        NotReadyError: it does not hear a majority of the list of the settings, which a new founding needs, too.
    """
    if not settings.is_server:
        raise RequestError(f"{settings.me} is no token server: ask one of {', '.join(settings.servers)}")
    founders = elections.founders
    lives = founders.lives(now_ms)
    heard = [name for name, life in lives.items() if life]
    if not has_majority([lives], heard):
        raise NotReadyError(
            f"{len(heard)} of {len(lives)} token servers are heard, {len(lives) // 2 + 1} are needed: start them, "
            "or change tokens.servers everywhere and restart, then reset again"
        )
    known = max(one.version if one else 0 for one in (memory.founding, memory.entry))
    seen = max(memory.accepted_id.version, founders.version, known)
    version = max(elections.age_s(now_ms), seen + RESET_VERSIONS)
    return Founding(lives, version, max(founders.generation, memory.known_generation) + 1)
