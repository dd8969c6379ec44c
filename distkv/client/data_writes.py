"""Data that a session stores in tokens which it holds: one write of a token after the other.

Knows: which writes are under way, and which wait.  Does not know whether the token is held.

Invariant: of each token one write is under way at the most, so they take place in the order in which they were asked;
each is told once what became of it.
"""

from __future__ import annotations

from typing import Final

import attrs

from distkv.client.claims import AGAIN_MS
from distkv.errors import BusyError
from distkv.model.fence import GrantNumber
from distkv.wire.token_requests import TokenData

WRITES_MAX: Final = 1000


@attrs.define(slots=True)
class DataWrite:
    """One of them. All times are milliseconds of the client's clock."""

    number: int
    token: str
    data: bytes | None
    """Packed."""
    give_up_ms: int
    call: int | None = None
    """The request that is under way."""
    again_ms: int = 0
    keeps_data: bool = False

    def request(self, session: str, number: GrantNumber | None) -> TokenData:
        """As it is asked."""
        return TokenData(0, session, self.token, self.data, number, self.number, self.keeps_data)


class DataWrites:
    """All of a session."""

    def __init__(self) -> None:
        self._writes: Final = dict[int, DataWrite]()
        self._number = 0

    def add(self, token: str, data: bytes | None, give_up_ms: int, *, keeps_data: bool = False) -> int:
        """One more; its number.

        Raises:
            BusyError: too many are under way.
        """
        if len(self._writes) >= WRITES_MAX:
            raise BusyError(f"{WRITES_MAX} changes of data are under way in this session: wait for some of them")
        self._number += 1
        self._writes[self._number] = DataWrite(self._number, token, data, give_up_ms, keeps_data=keeps_data)
        return self._number

    def to_send(self, now_ms: int) -> list[DataWrite]:
        """The first of each token, unless it is under way or was refused just now."""
        return [write for write in self._firsts() if write.call is None and now_ms >= write.again_ms]

    def of_call(self, call: int) -> DataWrite | None:
        return next((write for write in self._writes.values() if write.call == call), None)

    def again(self, write: DataWrite, now_ms: int) -> None:
        """It could not be carried out: it is sent again."""
        write.call, write.again_ms = None, now_ms + AGAIN_MS

    def finish(self, write: DataWrite) -> None:
        """Its user is told."""
        self._writes.pop(write.number, None)

    def late(self, now_ms: int) -> list[DataWrite]:
        """Those whose time is over."""
        return [write for write in self._writes.values() if now_ms >= write.give_up_ms]

    def of_token(self, token: str | None) -> list[DataWrite]:
        """Of one token; None: of all."""
        return [write for write in self._writes.values() if token in (None, write.token)]

    def connection_lost(self) -> None:
        for write in self._writes.values():
            write.call = None

    def wake_ms(self, *, can_ask: bool) -> int | None:
        """When there is something to do because time passed."""
        moments = [write.give_up_ms for write in self._writes.values()]
        moments += [write.again_ms for write in self._firsts() if can_ask and write.call is None]
        return min(moments, default=None)

    # -- inside

    def _firsts(self) -> list[DataWrite]:
        firsts = dict[str, DataWrite]()
        for write in self._writes.values():
            firsts.setdefault(write.token, write)
        return list(firsts.values())
