"""The data of a token is a register: who is granted the token finds what was stored last.

Knows: when clients ask for changes of the data, and are told that they are done.  Does not know how data is kept.
"""

from __future__ import annotations

import attrs

from distkv.model.fence import NO_FENCE, Fence
from distkv.sim.tokens.grant_rule import GrantRule, number_of
from distkv.sim.tokens.moments import DataMoment, TokenChange, TokenMoment, TokenUser
from distkv.wire.values import unpack_value


@attrs.define(eq=False)
class _DataChange:
    """One change of the data of a token."""

    user: TokenUser | None
    number: int
    """Of the changes by this user: he makes one after the other."""
    fence: Fence
    is_shared: bool
    asked_ms: int
    done_ms: int | None
    """None: nobody was told whether it is done, and it may still be, while its holder holds the token."""
    data: bytes | None
    keeps: bool = True

    def can_be(self, data: bytes | None, grant: _DataChange) -> bool:
        """Whether a grant that follows on this change is told this. Data ends with its holder unless it is kept; who
        shares the token with the one who wrote it may come before or after that."""
        if self.keeps or number_of(self.fence) >= number_of(grant.fence):
            return data == self.data
        return data is None or (data == self.data and self.is_shared and grant.is_shared)


class DataIsKept(GrantRule):
    """Who is granted a token is told data that may be the newest: no change that is done for certain came after it. It
    is told none where the newest ended with its holder.

    A change under a fence comes after all under lower ones, but for holders who share the token. It comes after each
    that was done before it was asked for, too. Grants have their place among the changes in the same way. Excepted is
    what went with a lost server: the data of a token that nobody held, and of one that was shared, where each holder
    knows his own changes only.
    """

    rule = "data of a token is what was stored last"

    def __init__(self) -> None:
        super().__init__()
        self.checked = 0
        self._changes: dict[str, list[_DataChange]] = {}
        self._by_number: dict[tuple[TokenUser, int], _DataChange] = {}
        self._wanted_ms: dict[tuple[TokenUser, str], int] = {}

    def token_data(self, at_ms: int, moment: DataMoment) -> None:
        key = moment.user, moment.number
        if moment.is_done:
            self._by_number[key].done_ms = at_ms
            return
        change = self._by_number[key] = _DataChange(
            *key, moment.fence, moment.is_shared, at_ms, None, moment.data, moment.keeps
        )
        self._of(moment.token).append(change)

    def token(self, at_ms: int, moment: TokenMoment) -> None:
        key = moment.user, moment.token
        if moment.change is TokenChange.WANTED:
            self._wanted_ms[key] = at_ms
        if moment.change is not TokenChange.HELD or moment.fence is None:
            return
        self.told(moment)
        changes = self._of(moment.token)
        wanted_ms = self._wanted_ms.get(key, 0)
        grant = _DataChange(None, 0, moment.fence, moment.is_shared, wanted_ms, at_ms, moment.data)
        before = [one for one in changes if self._is_certain(moment.token, one, grant)]
        found = [one for one in changes if one.can_be(moment.data, grant)]
        if not any(not any(_is_before(one, other) for other in before) for one in found):
            raise self.broken(
                f"{moment.user.name} got {moment.fence} at {at_ms} ms with {_shown(moment.data)}, after "
                + ", ".join(f"{_shown(one.data)} under {one.fence}" for one in before[-5:])
            )
        self.checked += 1

    # -- inside

    def _of(self, token: str) -> list[_DataChange]:
        """In the beginning there is none."""
        return self._changes.setdefault(token, [_DataChange(None, 0, NO_FENCE, False, -1, -1, None)])

    def _is_certain(self, token: str, change: _DataChange, grant: _DataChange) -> bool:
        """Whether a change was done before this grant, and could not be forgotten since."""
        if change.done_ms is None or not _is_before(change, grant) or self.is_forgotten(token, change.fence):
            return False
        return change.fence.epoch == grant.fence.epoch or not (change.is_shared or grant.data is None)


def _is_before(one: _DataChange, other: _DataChange) -> bool:
    """Whether a change cannot have taken place after another change, or after a grant."""
    if number_of(one.fence) < number_of(other.fence) and not (one.is_shared and other.is_shared):
        return True
    if one.user is other.user and one.number < other.number:
        return True
    return one.done_ms is not None and one.done_ms < other.asked_ms


def _shown(data: bytes | None) -> str:
    return "no data" if data is None else f"data {unpack_value(data)!r}"
