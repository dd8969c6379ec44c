"""Which copies of this node have every operation that was answered, and by which namings they had it.

Knows: for which naming a copy was compared, and what the disk has of former namings.  Does not know how copies are
compared (`comparing`).

For example, *b* follows *a*, and has compared its copy: it is whole. *b* sleeps: *a* may have gone on without it, so it
is not whole until it has compared again. *c* becomes the owner while *b* is whole: then *b* had all that *a* answered,
and remembers by which naming, over a restart, too. It does not say that of what *d* answered, which named *b* in the
same moment, beyond a split, and never sent it anything.

Invariant: a follower is whole for one naming, and as long as its node is awake. What a copy had by a naming it has
until it lets it go, or its disk loses something.
"""

from __future__ import annotations

from typing import Final

from distkv.core.ground.data import ServiceRows
from distkv.core.ground.turn import ServiceTurn
from distkv.errors import RequestError
from distkv.model.invariant import must
from distkv.wire.topic_entries import AS_OWNER
from distkv.wire.topic_messages import HAD_MAX

SEP: Final = "\x1f"
HAD: Final = "w"
"""How the key of a row begins that says by which namings a copy had all: numbers, those that ended last at the end."""


class WholeCopies:
    """Those of one node, since its machine began."""

    def __init__(self) -> None:
        self._had: Final = dict[str, tuple[int, ...]]()
        """As the disk has it."""
        self._whole: Final = dict[str, int]()
        """For which naming a follower's copy is whole."""

    def begin(self, turn: ServiceTurn, data: ServiceRows) -> None:
        """With what was kept. A disk that is an old one, or has lost something, says nothing of what was there."""
        is_doubtful = data.is_old or data.is_unknown or data.lost
        for key, value in [*data.items(f"{HAD}{SEP}")]:
            had = _read(value)
            if is_doubtful or not had:
                turn.keep_data(key, None)
            else:
                self._had[key.partition(SEP)[2]] = had

    def is_whole(self, name: str, naming: int | None) -> bool:
        """Whether the copy of a follower that is named so has every operation that was answered."""
        return name in self._whole and self._whole[name] == naming

    def had(self, name: str) -> frozenset[int]:
        """By which namings a copy has, or had, every operation that was answered; `AS_OWNER`: by this node."""
        found = frozenset(self._had.get(name, ()))
        return found | {self._whole[name]} if name in self._whole else found

    def see(self, turn: ServiceTurn, name: str, naming: int | None, *, is_mine: bool) -> None:
        """What the entry says now."""
        whole = self._whole.get(name)
        if whole is not None and whole != naming:
            del self._whole[name]
            self._add(turn, name, whole)
        if is_mine:
            self._add(turn, name, AS_OWNER)

    def compared(self, name: str, naming: int) -> None:
        """A follower that was named so has compared its copy."""
        self._whole[name] = naming

    def doubt(self, name: str) -> None:
        """A follower may lack something from now on."""
        self._whole.pop(name, None)

    def forget(self, turn: ServiceTurn, name: str) -> None:
        """A copy is none any more, or its owner has all that was in it."""
        self._whole.pop(name, None)
        self._keep(turn, name, ())

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        must(all(0 < len(had) < HAD_MAX for had in self._had.values()), "only the last namings are kept")

    # -- inside

    def _add(self, turn: ServiceTurn, name: str, naming: int) -> None:
        had = self._had.get(name, ())
        if naming not in had:
            self._keep(turn, name, (*had, naming)[1 - HAD_MAX :])

    def _keep(self, turn: ServiceTurn, name: str, had: tuple[int, ...]) -> None:
        if self._had.get(name, ()) == had:
            return
        try:
            turn.keep_data(f"{HAD}{SEP}{name}", b" ".join(b"%d" % one for one in had) or None)
        except RequestError as error:
            turn.note("topic_whole_not_kept", topic=name, reason=str(error))
            return
        if had:
            self._had[name] = had
        else:
            del self._had[name]


def _read(value: bytes) -> tuple[int, ...]:
    """What a row says; nothing, if it is none."""
    try:
        had = tuple(map(int, value.split(b" ")))
    except ValueError:
        return ()
    return had if len(had) < HAD_MAX and min(had) >= AS_OWNER else ()
