"""Which part of all tokens this server serves, and since when: what each change of the servers means for it.

Knows: the servers as it acted on them last, the parts that it gained and does not serve yet, to whom it has to hand
over, who has handed over to it.  Does not know the tokens, nor the time.

Invariant: a token is served here only if `server_of` says so, and no gain is open in which it came. The epoch is not
below the version in which any served token came; it and the numbers only grow, also over a restart.

Why one epoch is enough for all tokens: an earlier server of a token granted it only while it did not know of the
version in which the token went to this one, so in epochs below that version; and this server's epoch is not below it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from distkv.core.tokens.effects import TokenEffects
from distkv.core.tokens.state import SERVING, TokenState, token_order
from distkv.model.event import NodeName
from distkv.model.fence import GrantNumber
from distkv.model.invariant import must
from distkv.model.standing import ServerStanding
from distkv.wire.declared import evolve, pack_sorted
from distkv.wire.token_slots import GainedPart, ServedPart

PART_SLOT: Final = "part"
NUMBERS_AHEAD: Final = 1024
"""How far the durable ceiling runs ahead, so that most numbers need no write of their own."""


class TokenPart:
    """The machine of one server."""

    def __init__(self, me: NodeName, effects: TokenEffects) -> None:
        self._me: Final = me
        self._effects: Final = effects
        self._kept = ServedPart(0, {}, 0, 0)
        self._number = 0
        self._state: TokenState | None = None

    def restore(self, kept: ServedPart) -> None:
        """What was durable."""
        self._kept, self._number = kept, kept.ceiling

    # -- reading

    @property
    def gains(self) -> tuple[GainedPart, ...]:
        """The parts of which it is not known yet who holds what."""
        return self._kept.gains

    @property
    def survey_version(self) -> int:
        """What the sessions are to know of that are asked what they hold; 0: none has to be asked."""
        return max([gain.version for gain in self._kept.gains if gain.giver is None], default=0)

    @property
    def has_left(self) -> bool:
        """Whether this server leaves, and has handed over all that it had."""
        mine = None if self._state is None else self._state.servers.get(self._me)
        is_leaving = mine is not None and mine.standing is ServerStanding.LEAVING
        return is_leaving and all(is_done for _, _, is_done in self._kept.giving.values())

    @property
    def is_new(self) -> bool:
        """Whether it has done nothing yet, or forgot everything."""
        return self._kept.version == 0

    @property
    def is_booting(self) -> bool:
        """Whether others are to hand over first."""
        return bool(self._kept.boot)

    @property
    def boot(self) -> int:
        """The version in which it began to boot; 0: it does not."""
        return self._kept.boot

    @property
    def giving(self) -> dict[NodeName, tuple[int, bool, bool]]:
        """To which booting servers it hands over: the boot, whether its part is known wholly, whether that is done."""
        return dict(self._kept.giving)

    def is_mine(self, token: str) -> bool:
        """Whether this server is responsible."""
        return self._state is not None and self._state.server_of(token) == self._me

    def is_open(self, token: str) -> bool:
        """Whether it is not known yet who holds this."""
        return any(self.is_gained(gain, token) for gain in self._kept.gains)

    def is_gained(self, gain: GainedPart, token: str) -> bool:
        """Whether a token came to this server by that change. Whose it was may be in no list any more."""
        if self._state is None:
            return False
        after, before = token_order(gain.after, token)[:1], token_order(gain.before, token)[:1]
        return after == (self._me,) and before != after

    def serves(self, token: str) -> bool | None:
        """Whether all is known that must be known to grant this; None: another server is responsible."""
        state, kept = self._state, self._kept
        if state is None or state.server_of(token) != self._me:
            return None
        is_ready = state.servers[self._me].standing is ServerStanding.READY and not kept.boot
        return is_ready and not (kept.gains and self.is_open(token))

    # -- numbers

    def next_number(self) -> GrantNumber:
        """One that was never given."""
        self._number += 1
        if self._number > self._kept.ceiling:
            self._keep(ceiling=self._number + NUMBERS_AHEAD)
        return GrantNumber(self._kept.epoch, self._number)

    # -- what changes

    def forget(self) -> None:
        """All is void: this server is down, or boots. Its numbers go on, so that no ticket is given twice.

        Until it boots nothing is its part, whatever it has a lease for: others serve that already."""
        self._state = None
        self._keep(version=0, up={}, gains=(), boot=0, handed=(), is_whole=True, giving={})

    def begin_boot(self, state: TokenState) -> None:
        """This server is responsible for its part, and is to collect it first."""
        since, self._state = state.servers[self._me].since, state
        self._keep(version=state.version, up=_up(state), gains=(), boot=since, handed=(), is_whole=True, giving={})

    def begin_lost(self, state: TokenState) -> None:
        """This server is ready in the eyes of all, and knows nothing: who holds what has all to be found out."""
        up, self._state = _up(state), state
        gain = GainedPart(state.changed, frozenset(up) - {self._me}, frozenset(up))
        self._keep(version=state.version, up=up, gains=(gain,), boot=0, handed=(), is_whole=True, giving={})

    def knows_boot(self, state: TokenState) -> bool:
        """Whether this server has acted on it that it stands as it does."""
        mine = state.servers[self._me]
        return self._kept.up.get(self._me) == mine.since or mine.standing is not ServerStanding.BOOTING

    def state_changed(self, state: TokenState) -> bool:
        """Another version is in effect; whether a part was gained by it, of which must be found out who holds what.

        Versions in between may not have been seen here. A server that went down and came back in them shows by the
        version since which it stands: it has lost all, and for a while its part may have been this server's."""
        old, self._state = self._kept, state
        up = _up(state)
        if self._kept.boot or (up == old.up and state.changed <= old.version):
            return False
        lost = [name for name, since in old.up.items() if name != self._me and self._was_lost(name, since, state)]
        gains = tuple([self._as_it_comes(gain, state) for gain in old.gains])
        before, after = frozenset(old.up), frozenset(up)
        if lost and self._me in up:
            gains = (*gains, GainedPart(state.changed, before, after))
        elif self._me in up:
            left = [name for name in old.up if name != self._me and name not in up]
            gains = (*gains, *(GainedPart(state.servers[name].since, before, after, name) for name in left))
        self._keep(version=state.version, up=up, gains=gains, giving=self._givings(state, is_whole=not gains))
        return bool(lost) or any(one.giver is None and two.giver for one, two in zip(gains, old.gains, strict=False))

    def awaits(self, name: NodeName, since: int) -> bool:
        """Whether a server that leaves since this version is to hand over still."""
        return any((gain.giver, gain.version) == (name, since) for gain in self._kept.gains)

    def came(self, name: NodeName, *, is_whole: bool) -> None:
        """A server that leaves has told all that it had; if that is not all that there is, the sessions are asked."""
        version = max(gain.version for gain in self._kept.gains if gain.giver == name)
        rest = [gain for gain in self._kept.gains if gain.giver != name]
        if not is_whole:
            rest += [evolve(gain, giver=None) for gain in self._kept.gains if gain.giver == name]
        self._keep(gains=tuple(rest), epoch=max(self._kept.epoch, version))

    def handed_over(self, name: NodeName, *, is_whole: bool) -> None:
        """A server has told all that was its part."""
        if name not in self._kept.handed:
            self._keep(handed=(*self._kept.handed, name), is_whole=self._kept.is_whole and is_whole)

    def collect(self, state: TokenState) -> bool:
        """Serve what was handed over, if each server that was not down when this one began to boot has handed over, or
        is down since; what such a one did not tell has to be found out (`gains`). False: not yet."""
        kept, servers = self._kept, state.servers
        expected, missed = list[NodeName](), [name for name in kept.up if name not in servers]
        for name, server in servers.items():
            if name == self._me:
                continue
            has_something = server.standing in (ServerStanding.READY, ServerStanding.LEAVING)
            gives = has_something or (server.standing is ServerStanding.BOOTING and server.since < kept.boot)
            if gives and name not in kept.handed:
                expected.append(name)
            elif server.since >= kept.boot:  # also one that handed over: its own part may have come here since
                missed.append(name)
        if expected:
            return False
        up = _up(state)
        if missed or not kept.is_whole or not kept.handed:
            gain = GainedPart(state.changed, frozenset(up) - {self._me}, frozenset(up))
            self._keep(boot=0, gains=(gain,), up=up, version=state.version)
        else:
            self._keep(boot=0, epoch=max(kept.epoch, kept.boot), up=up, version=state.version)
        self._keep(giving=self._givings(state, is_whole=not self._kept.gains))
        return True

    def gave(self, name: NodeName) -> None:
        """All is handed over to a server."""
        boot, is_whole, _ = self._kept.giving[name]
        self._keep(giving={**self._kept.giving, name: (boot, is_whole, True)})

    def is_asked_for(self, token: str) -> bool:
        """Whether the sessions are asked who holds this."""
        return any(gain.giver is None and self.is_gained(gain, token) for gain in self._kept.gains)

    def found_out(self) -> None:
        """It is known who holds what of all parts; of those that came meanwhile a server is to tell that leaves."""
        version = self.survey_version
        later = tuple([gain for gain in self._kept.gains if gain.version > version])
        self._keep(gains=later, epoch=max(self._kept.epoch, version))

    # -- inside

    def _was_lost(self, name: NodeName, since: int, state: TokenState) -> bool:
        """Whether a server that was not down has lost all that it knew."""
        server = state.servers.get(name)
        if server is None or server.standing is ServerStanding.DOWN:
            return True
        return server.standing is ServerStanding.BOOTING and server.since != since

    def _as_it_comes(self, gain: GainedPart, state: TokenState) -> GainedPart:
        """What a server that left did not hand over is asked of the sessions."""
        giver = None if gain.giver is None else state.servers.get(gain.giver)
        is_coming = giver is not None and (giver.standing, giver.since) == (ServerStanding.LEAVING, gain.version)
        return gain if is_coming or gain.giver is None else evolve(gain, version=state.changed, giver=None)

    def _givings(self, state: TokenState, *, is_whole: bool) -> dict[NodeName, tuple[int, bool, bool]]:
        """To whom to hand over, and by which version. A server that boots itself does so to those that began later: no
        two wait for each other. One that leaves does so to all."""
        found = dict[NodeName, tuple[int, bool, bool]]()
        mine = state.servers[self._me]
        is_leaving = mine.standing is ServerStanding.LEAVING
        for name, server in state.servers.items():
            is_booting = server.standing is ServerStanding.BOOTING
            if name == self._me or not (is_booting or (is_leaving and server.standing is ServerStanding.READY)):
                continue
            if is_leaving or mine.standing is ServerStanding.READY or mine.since < server.since:
                since, old = server.since if is_booting else mine.since, self._kept.giving.get(name)
                found[name] = old if old is not None and old[0] == since else (since, is_whole, False)
        return found

    def _keep(
        self,
        *,
        version: int | None = None,
        up: dict[NodeName, int] | None = None,
        epoch: int | None = None,
        ceiling: int | None = None,
        gains: tuple[GainedPart, ...] | None = None,
        boot: int | None = None,
        handed: Iterable[NodeName] | None = None,
        is_whole: bool | None = None,
        giving: dict[NodeName, tuple[int, bool, bool]] | None = None,
    ) -> None:
        """Change what is kept, on the disk, too."""
        old = self._kept
        self._kept = ServedPart(
            old.version if version is None else version,
            old.up if up is None else up,
            old.epoch if epoch is None else epoch,
            old.ceiling if ceiling is None else ceiling,
            old.gains if gains is None else gains,
            old.boot if boot is None else boot,
            old.handed if handed is None else tuple(handed),
            old.is_whole if is_whole is None else is_whole,
            old.giving if giving is None else giving,
        )
        if self._kept != old:
            self._effects.turn.keep(PART_SLOT, pack_sorted(self._kept))

    def check(self) -> None:
        """For tests; raises BrokenInvariantError when what is promised here does not hold."""
        kept = self._kept
        must(self._number <= kept.ceiling, "no number is above the ceiling that is kept")
        must(all(gain.version <= kept.version for gain in kept.gains), "no part came by a version that is not known")


def _up(state: TokenState) -> dict[NodeName, int]:
    return {name: one.since for name, one in state.servers.items() if one.standing in SERVING}
