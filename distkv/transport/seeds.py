"""Where somebody of the group may be: addresses that people wrote, as numbers.

Knows: that names are looked up, and again after a while, because hosts move.  Does not know who answers there.

Invariant: at most `SEEDS_MAX` addresses; a name that cannot be looked up is asked for again, ever more seldom, and
costs the others nothing.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from typing import Final

import trio

from distkv.naming import parse_address
from distkv.wire.swim_records import Address, numeric_address

SEEDS_MAX: Final = 256
BACK_OFF_S: Final = (1.0, 60.0)
FRESH_S: Final = 60.0
"""What a name led to is looked up again after so long."""


async def look_up(text: str, *, is_v6: bool) -> tuple[Address, ...]:
    """All addresses of a HOST:PORT, of one family.

    Raises:
        OSError: it cannot be looked up.
    """
    numeric = numeric_address(text)
    if numeric is not None:
        return (numeric,) if (":" in numeric[0]) == is_v6 else ()
    host, port = parse_address(text, "an address")
    family = socket.AF_INET6 if is_v6 else socket.AF_INET
    try:
        found = await trio.socket.getaddrinfo(host, port, family, socket.SOCK_DGRAM)
    except UnicodeError:
        raise OSError(f"{host} is no name") from None
    return tuple(dict.fromkeys((str(name[0]), int(name[1])) for *_, name in found))


class SeedNames:
    """Those of one node."""

    def __init__(self, join: Iterable[str]) -> None:
        """`join`: HOST:PORT each."""
        self._join: Final = tuple(dict.fromkeys(join))
        self._found: Final = dict[str, tuple[Address, ...]]()

    async def run(self, *, is_v6: bool, changed: Callable[[tuple[Address, ...]], object]) -> None:
        """Look them up until cancelled; `changed` gets all of them whenever they are others."""
        async with trio.open_nursery() as nursery:
            for text in self._join:
                nursery.start_soon(self._keep, text, is_v6, changed)

    async def _keep(self, text: str, is_v6: bool, changed: Callable[[tuple[Address, ...]], object]) -> None:
        delay_s = BACK_OFF_S[0]
        while True:
            try:
                found = await look_up(text, is_v6=is_v6)
            except OSError:
                await trio.sleep(delay_s)
                delay_s = min(2 * delay_s, BACK_OFF_S[1])
                continue
            if found != self._found.get(text):
                self._found[text] = found
                every = dict.fromkeys(address for one in self._found.values() for address in one)
                changed(tuple(every)[:SEEDS_MAX])
            delay_s = BACK_OFF_S[0]
            await trio.sleep(FRESH_S)
