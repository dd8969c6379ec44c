"""Drawing a scenario from a seed.

Knows: how likely everything is.  Does not know what it does.

Invariant: each fault, the writes and the network draw from generators of their own, so that switching one fault off
moves no other. How many writes there are follows from the rest: enough for what others are to hear.
"""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from typing import Final

from distkv.sim.network import NetworkFaults
from distkv.sim.presence import Presence
from distkv.sim.scenario import SELDOM, Action, Fault, Scenario, Verb

DELIVERIES_AIMED_AT: Final = 2600
"""More than the least that counts, because much of what befalls writes is not foreseen."""
OF_EACH_HOST: Final = 130
"""So much of it is no event: pings, comparisons, the ends of answers."""
OF_A_BUDGET: Final = 80
"""And so much more for each other host where agents carry little, so that nodes announce and compare."""
COPIES_HEARD: Final = 0.7
"""Of a copy of an update so much counts: what is pulled has none."""
LOST_AND_PULLED: Final = 0.7
"""Of updates that get lost so many come by a pull, where others have not replaced them before."""
FEW_PATHS: Final = 10
"""On so few paths they have, and values are replaced before they go by themselves."""
EVENTS_OF_A_WRITE: Final = {"any": 1.0, "hot": 0.85, "delete": 0.8, "checked": 0.85, "bulk": 1.1, "ttl": 1.2}
"""Who deletes nothing makes no event, what is replaced before it is pulled is not sent, a ttl makes an expiry, too."""
TTL_ON_FEW_PATHS: Final = 0.85
"""The same where values with a ttl are replaced first."""


def draw(seed: int, off: Collection[Fault] = ()) -> Scenario:
    """The scenario of a seed, without the faults in `off`.

    Each seed takes only some of the faults, so that none is always hidden by another. All are drawn, so that switching
    one off moves nothing else.
    """
    rng = Random(f"scenario {seed}")
    wanted = [fault for fault in Fault if fault not in SELDOM and rng.random() < 0.5]
    wanted += [fault for fault in Fault if fault in SELDOM and Random(f"{fault} wanted {seed}").random() < 0.25]
    return _Draft(seed, rng, frozenset(wanted) - frozenset(off)).scenario()


class _Draft:
    """One seed's choices."""

    def __init__(self, seed: int, rng: Random, faults: frozenset[Fault]) -> None:
        self._seed = seed
        self._rng = rng
        self._faults = faults

    def scenario(self) -> Scenario:
        rng, has = self._rng, self._faults.__contains__
        count = rng.randint(2, 6)
        late = rng.choice([0, 0, 1]) if count > 2 else 0
        quiet_ms, length_ms = 20_000, rng.choice([150_000, 200_000, 270_000])
        network, tight = self._network(), self._part("budget").choice([2.5, 4.0, 10.0])
        disk = self._part("disk")
        slow, usual = disk.choice([(1, 30), (5, 400), (100, 600)]), disk.choice([(1, 3), (1, 30), (5, 100)])
        drift, wall = self._part("drift"), self._part("wall")
        rates = [drift.choice([1.0, 1.001, 0.98, 1.05]) if has(Fault.DRIFT) else 1.0 for _ in range(count)]
        off_s = [wall.uniform(-3e4, 3e4) if has(Fault.WALL_CLOCK) else 0.0 for _ in range(count)]
        paths = self._part("paths").choice([100, 400] if has(Fault.BUDGET) else [1, 3, 10, 40, 200])
        troubles = self._troubles(count, quiet_ms, length_ms)
        troubles += [Action(rng.randint(2000, length_ms), Verb.START, count - 1 - n, 0) for n in range(late)]
        presence = Presence(count, late, troubles)
        writes = self._writes(count, paths, network, presence, quiet_ms, length_ms)
        writes += self._decisions(count, length_ms)
        return Scenario(
            seed=self._seed,
            host_count=count,
            late_count=late,
            path_count=paths,
            chain_length=rng.choice([2, 3, 5]),
            pull_events=rng.choice([20, 100, 20_000]),
            delete_retention_ms=self._part("retention").choice([500, 5000, 30_000, 86_400_000]),
            commit_ms=slow if has(Fault.SLOW_DISK) else usual,  # never at once: what overlaps is what goes wrong
            packets_per_s=tight if has(Fault.BUDGET) else None,
            rates=tuple(rates),
            wall_off_s=tuple(off_s),
            stream_events=rng.choice([8, 64, 512]),
            doubts_ms=rng.choice([0, 5000, 15_000]),
            network=network,
            quiet_ms=quiet_ms,
            length_ms=length_ms,
            actions=tuple(sorted(writes + troubles, key=lambda action: action.at_ms)),
        )

    def _part(self, name: str) -> Random:
        return Random(f"{name} {self._seed}")

    def _network(self) -> NetworkFaults:
        rng, faults, no = self._part("network"), self._faults, 0.0
        loss, copies = rng.choice([0.02, 0.1, 0.3]), rng.choice([0.05, 0.3])
        update_loss, late, breaks = rng.choice([0.0, 0.2, 0.4]), rng.choice([0.01, 0.1]), rng.choice([0.01, 0.05, 0.2])
        spread, answer = rng.choice([100, 400, 900]), rng.choice([30, 300])
        return NetworkFaults(
            loss=loss if Fault.LOSS in faults else no,
            update_loss=update_loss if Fault.LOSS in faults else no,
            duplication=copies if Fault.DUPLICATION in faults else no,
            delay_ms=(1, spread if Fault.DELAY in faults else 20),
            answer_ms=(1, answer if Fault.DELAY in faults else 10),
            late=late if Fault.LATE in faults else no,
            breaks=breaks if Fault.BREAKS in faults else no,
            silence_ms=10_000,
        )

    # -- what is written

    def _writes(
        self, count: int, paths: int, network: NetworkFaults, presence: Presence, quiet_ms: int, length_ms: int
    ) -> list[Action]:
        """As many as bring about the deliveries that are wanted."""
        rng, has_budget = self._part("writes"), Fault.BUDGET in self._faults
        style = rng.choice(["any", "any", "hot", "delete", "checked", "bulk"])
        style = "ttl" if self._part("ttl").random() < 0.2 else style
        style = "any" if style == "hot" and has_budget else style
        wanted = DELIVERIES_AIMED_AT - OF_EACH_HOST * count - OF_A_BUDGET * (count - 1) * has_budget
        each = TTL_ON_FEW_PATHS if style == "ttl" and paths <= FEW_PATHS else EVENTS_OF_A_WRITE[style]
        events = wanted / each / _copies(network, paths)
        has_ring = rng.random() < 0.5
        actions: list[Action] = []
        while events > 0:
            at_ms = rng.randint(0, quiet_ms) if rng.random() < 0.3 else rng.randint(quiet_ms, length_ms)
            for _ in range(rng.choice([1, 1, 1, 3, 10])):
                verb, number = self._write(rng, style)
                host = rng.randrange(count)
                if has_ring and rng.random() < 0.05:
                    verb, host = Verb.SWAP, 0
                actions.append(Action(at_ms, verb, host, number))
                events -= {Verb.BULK: 20, Verb.SWAP: 3}.get(verb, 1) * presence.hearers(at_ms, host)
                at_ms = min(at_ms + rng.choice([0, 0, 1, 5, 50]), length_ms)
        return actions

    def _decisions(self, count: int, length_ms: int) -> list[Action]:
        """Somebody looks at what is in conflict now and then, in every second network."""
        rng, actions = self._part("decisions"), list[Action]()
        for _ in range(rng.choice([0, 0, 10, 40])):
            at_ms, host = rng.randint(0, length_ms), rng.randrange(count)
            for _ in range(rng.choice([1, 1, 5])):
                actions.append(Action(at_ms, rng.choice([Verb.RESTORE, Verb.DISMISS]), host, rng.getrandbits(32)))
        return actions

    @staticmethod
    def _write(rng: Random, style: str) -> tuple[Verb, int]:
        draw, number = rng.random(), rng.getrandbits(32)
        if style == "hot":
            number = 0 if draw < 0.8 else number
            return (Verb.DELETE if draw < 0.1 else Verb.SET), number
        if style == "delete":
            return (Verb.DELETE if draw < 0.45 else Verb.SET), number
        if style == "checked":
            return (Verb.CHECKED if draw < 0.6 else Verb.DELETE if draw < 0.7 else Verb.SET), number
        if style == "ttl":
            return (Verb.SET_TTL if draw < 0.4 else Verb.DELETE if draw < 0.5 else Verb.SET), number
        if style == "bulk":
            return (Verb.BULK if draw < 0.1 else Verb.SET), number
        return (Verb.DELETE if draw < 0.15 else Verb.CHECKED if draw < 0.2 else Verb.SET), number

    # -- what goes wrong

    def _troubles(self, count: int, quiet_ms: int, length_ms: int) -> list[Action]:
        actions: list[Action] = []
        for fault in Fault:
            if fault in self._faults:
                rng = self._part(fault.value)
                for _ in range(rng.randint(1, 4)):
                    at_ms = rng.randint(quiet_ms, length_ms)
                    actions += self._trouble(fault, rng, count, at_ms, rng.choice([300, 3000, 15_000, 40_000]))
        return actions

    @staticmethod
    def _trouble(fault: Fault, rng: Random, count: int, at_ms: int, for_ms: int) -> list[Action]:
        """One fault, and its end."""
        host, number = rng.randrange(count), rng.getrandbits(32)

        def then(*steps: tuple[int, Verb]) -> list[Action]:
            return [Action(at_ms + ms, verb, host, number) for ms, verb in steps]

        match fault:
            case Fault.PARTITION:
                return then((0, Verb.PARTITION), (for_ms, Verb.HEAL))
            case Fault.ONE_WAY:
                return then((0, Verb.CUT), (for_ms, Verb.HEAL))
            case Fault.SWIZZLE:
                some = rng.sample(range(count), rng.randint(1, count))
                back = rng.sample(some, len(some))
                step_ms = for_ms // count + 1
                out = [Action(at_ms + n * step_ms, Verb.SWIZZLE_OUT, h, 0) for n, h in enumerate(some)]
                return out + [
                    Action(at_ms + for_ms + n * step_ms, Verb.SWIZZLE_IN, h, 0) for n, h in enumerate(back)
                ]
            case Fault.PAUSE:
                return then((0, Verb.PAUSE), (for_ms, Verb.RESUME))
            case Fault.KILL:
                return then((0, Verb.KILL), (for_ms, Verb.START))
            case Fault.POWER:
                return then((0, Verb.POWER), (for_ms, Verb.START))
            case Fault.WIPE:
                return then((0, Verb.WIPE), (for_ms, Verb.START))
            case Fault.BURN:
                return then((0, Verb.BURN), (for_ms, Verb.START))
            case Fault.ROLL_BACK:
                return then((0, Verb.COPY), (for_ms, Verb.ROLL_BACK), (for_ms + rng.choice([10, 9000]), Verb.START))
            case Fault.RETIRE:
                return then((0, Verb.RETIRE), (for_ms, Verb.START))
            case Fault.FULL_DISK:
                return then((0, Verb.FILL), (for_ms, Verb.MAKE_SPACE))
            case Fault.DRIFT:
                return then((0, Verb.DRIFT))
            case Fault.WALL_CLOCK:
                return then((0, Verb.WALL_JUMP))
            case Fault.AGENT:
                return then((0, Verb.AGENT_DOWN), (for_ms, Verb.AGENT_UP))
            case Fault.SLOW_DISK if number % 16 == 0:
                return then((0, Verb.BURST))
            case Fault.NAMESAKE:
                return then((0, Verb.NAMESAKE), (for_ms, Verb.NAMESAKE_GONE))
            case Fault.FOREIGN:
                return then((0, Verb.FOREIGN), (for_ms, Verb.FOREIGN_GONE))
            case Fault.LIES:
                return [Action(at_ms + n * 100, Verb.LIE, host, number + n) for n in range(10)]
            case Fault.ROT:
                verb = Verb.ROT_TWO if number % 3 == 0 else Verb.ROT
                other = Action(at_ms + for_ms + 1, Verb.START, (host + 1) % count, number)
                return [*then((0, verb), (for_ms, Verb.START)), *([other] if verb is Verb.ROT_TWO else [])]
            case Fault.SAME_ADDRESS:
                return then((0, Verb.SAME_ADDRESS), (for_ms, Verb.OWN_ADDRESS))
        return []


def _copies(network: NetworkFaults, path_count: int) -> float:
    """How often a host that is there hears of an event, on average."""
    lost = max(network.loss, network.update_loss) * (1 if path_count <= FEW_PATHS else 1 - LOST_AND_PULLED)
    return (1 + COPIES_HEARD * network.duplication) * (1 - lost)
