"""Drawing a scenario from a seed.

Knows: how likely everything is.  Does not know what it does.

Invariant: each fault, the writes and the network draw from generators of their own, so that switching one fault off
moves no other. How many writes there are follows from the rest: enough for what others are to hear.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from random import Random
from typing import Final, assert_never

import attrs

from distkv.model.fence import Fence
from distkv.model.path import Path
from distkv.sim.actions import (
    Agents,
    Condition,
    CutWay,
    DecideAny,
    Deed,
    Disks,
    Fill,
    Foreign,
    Happening,
    Lie,
    Move,
    Retire,
    RotSome,
    SetClock,
    Setting,
    Split,
    StartNode,
    Swap,
    ToNode,
    Untruth,
    Write,
)
from distkv.sim.host import OUTBOX_MAX
from distkv.sim.network import NetworkFaults
from distkv.sim.presence import Presence
from distkv.sim.scenario import PARTS, SELDOM, STALLS, Fault, Planned, Scenario
from distkv.sim.service import parts_of, sim_parts
from distkv.sim.tree_draft import draw_course, draw_tree
from distkv.sim.workload import OWNER, RING_LENGTH

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
EVENTS_OF_A_WRITE: Final = {
    "any": 1.0, "hot": 0.85, "delete": 0.8, "checked": 0.85, "bulk": 1.1, "ttl": 1.2, "fenced": 0.55
}  # fmt: skip
"""Who deletes nothing makes no event, what is replaced before it is pulled is not sent, a ttl makes an expiry, too, and
what is fenced off is refused."""
TTL_ON_FEW_PATHS: Final = 0.85
"""The same where values with a ttl are replaced first."""

BULK: Final = 20
"""How many entries one bulk write has."""
BURST: Final = OUTBOX_MAX + 40
"""More at once than an outbox holds, or a disk."""
TTLS_S: Final = (0.5, 3.0, 12.0, 40.0)
_ENDS: Final = {Fault.KILL: Deed.STOP, Fault.POWER: Deed.CRASH, Fault.WIPE: Deed.WIPE, Fault.BURN: Deed.BURN}


def draw(seed: int, off: Collection[str] = ()) -> Scenario:
    """The scenario of a seed, without the faults and services in `off`.

    Each seed takes only some of the faults, so that none is always hidden by another. All are drawn, so that switching
    one off moves nothing else.
    """
    rng = Random(f"scenario {seed}")
    wanted = [fault for fault in Fault if fault not in SELDOM | PARTS and rng.random() < 0.5]
    wanted += [fault for fault in Fault if fault in SELDOM and Random(f"{fault} wanted {seed}").random() < 0.25]
    return _Draft(seed, rng, frozenset([*wanted, *PARTS]) - frozenset(off), off).scenario()


def seeds_with(service: str, first: int) -> Iterator[int]:
    """From a seed on, those that have a service."""
    (part,) = (part for part in sim_parts() if part.name == service)
    seeds = itertools.count(max(first, part.first_seed))
    return (seed for seed in seeds if part in parts_of(seed) and part.draw(seed, (_name(0),), 0) is not None)


class _Draft:
    """One seed's choices."""

    def __init__(self, seed: int, rng: Random, faults: frozenset[Fault], off: Collection[str]) -> None:
        self._off = off
        self._seed = seed
        self._rng = rng
        self._faults = faults

    def scenario(self) -> Scenario:
        rng, has = self._rng, self._faults.__contains__
        count = rng.randint(2, 6)
        late = rng.choice([0, 0, 1]) if count > 2 else 0
        quiet_ms, length_ms = 20_000, self._length_ms(rng.choice([150_000, 200_000, 270_000]))
        network, tight = self._network(), self._part("budget").choice([2.5, 4.0, 10.0])
        disk = self._part("disk")
        slow, usual = disk.choice([(1, 30), (5, 400), (100, 600)]), disk.choice([(1, 3), (1, 30), (5, 100)])
        drift, wall = self._part("drift"), self._part("wall")
        rates = [drift.choice([1.0, 1.001, 0.98, 1.05]) if has(Fault.DRIFT) else 1.0 for _ in range(count)]
        off_s = [wall.uniform(-3e4, 3e4) if has(Fault.WALL_CLOCK) else 0.0 for _ in range(count)]
        paths = self._part("paths").choice([100, 400] if has(Fault.BUDGET) else [1, 3, 10, 40, 200])
        troubles = self._troubles(count, paths, quiet_ms, length_ms)
        troubles += [
            Planned(rng.randint(2000, length_ms), StartNode(_name(count - 1 - n))) for n in range(late)
        ]
        names = [_name(number) for number in range(count)]
        presence = Presence(names, late, troubles)
        writes = self._writes(count, paths, network, presence, quiet_ms, length_ms)
        writes += self._decisions(count, length_ms)
        tree = draw_tree(self._seed) if has(Fault.TREES) else None
        if tree is not None:
            troubles += draw_course(self._seed, names, quiet_ms, length_ms, self._off)
        parts = [part for part in parts_of(self._seed) if part.name not in self._off]
        drawn = {part.name: part.draw(self._seed, names, length_ms) for part in parts}
        services = {name: one for name, one in drawn.items() if one is not None}
        writes += [Planned(at_ms, action) for one in services.values() for at_ms, action in one.planned]
        fanout = self._part("links").choice([None, None, 16, 2, 1])
        core: dict[str, Setting] = {
            "chain_length_max": rng.choice([2, 3, 5]),
            "pull_events_max": rng.choice([20, 100, 20_000]),
            "delete_retention_ms": self._part("retention").choice([500, 5000, 30_000, 86_400_000]),
            **({} if fanout is None else {"follow": True, "fanout": fanout}),
        }
        streams, doubts_ms = rng.choice([8, 64, 512]), rng.choice([0, 5000, 15_000])
        clocks = [SetClock(*clock) for clock in zip(names, rates, off_s, strict=True)]
        return Scenario(
            seed=self._seed,
            names=tuple(names),
            late_count=late,
            parts={name: one.settings for name, one in services.items()} | ({} if tree is None else {"trees": tree}),
            core=core,
            agents=Agents(tuple(names), streams, doubts_ms, tight if has(Fault.BUDGET) else None),
            clocks=tuple([clock for clock in clocks if (clock.rate, clock.jump_s) != (1.0, 0.0)]),
            network=network,
            # Never at once: what overlaps is what goes wrong.
            disks=Disks(slow if has(Fault.SLOW_DISK) else usual, STALLS),
            quiet_ms=quiet_ms,
            length_ms=length_ms,
            planned=tuple(sorted(writes + troubles, key=lambda one: one.at_ms)),
        )

    def _length_ms(self, usual_ms: int) -> int:
        """That of the run, also where a service that would make it another is switched off."""
        own = [part.length_ms for part in sim_parts() if part.length_ms is not None and self._seed >= part.first_seed]
        return min([usual_ms, *own])

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
    ) -> list[Planned]:
        """As many as bring about the deliveries that are wanted."""
        rng, has_budget = self._part("writes"), Fault.BUDGET in self._faults
        style = rng.choice(["any", "any", "hot", "delete", "checked", "bulk"])
        style = "ttl" if self._part("ttl").random() < 0.2 else style
        style = "fenced" if self._part("fence").random() < 0.2 else style
        style = "any" if style == "hot" and has_budget else style
        wanted = DELIVERIES_AIMED_AT - OF_EACH_HOST * count - OF_A_BUDGET * (count - 1) * has_budget
        each = TTL_ON_FEW_PATHS if style == "ttl" and paths <= FEW_PATHS else EVENTS_OF_A_WRITE[style]
        events = wanted / each / _copies(network, paths)
        has_ring = rng.random() < 0.5
        planned: list[Planned] = []
        while events > 0:
            at_ms = rng.randint(0, quiet_ms) if rng.random() < 0.3 else rng.randint(quiet_ms, length_ms)
            for _ in range(rng.choice([1, 1, 1, 3, 10])):
                draw, number, host = rng.random(), rng.getrandbits(32), rng.randrange(count)
                write: Write | Fill | Swap = _write(style, draw, number, paths, host, len(planned) + 1)
                if has_ring and rng.random() < 0.05:
                    host, write = 0, Swap(OWNER, number % RING_LENGTH)
                planned.append(Planned(at_ms, write))
                made = BULK if isinstance(write, Fill) else 3 if isinstance(write, Swap) else 1
                events -= made * presence.hearers(at_ms, _name(host))
                at_ms = min(at_ms + rng.choice([0, 0, 1, 5, 50]), length_ms)
        return planned

    def _decisions(self, count: int, length_ms: int) -> list[Planned]:
        """Somebody looks at what is in conflict now and then, in every second network."""
        rng, planned = self._part("decisions"), list[Planned]()
        for _ in range(rng.choice([0, 0, 10, 40])):
            at_ms, host = rng.randint(0, length_ms), rng.randrange(count)
            for _ in range(rng.choice([1, 1, 5])):
                is_restored, number = rng.random() < 0.5, rng.getrandbits(16)
                planned.append(Planned(at_ms, DecideAny(_name(host), number, is_restored, rng.random() < 0.5)))
        return planned

    # -- what goes wrong

    def _troubles(self, count: int, paths: int, quiet_ms: int, length_ms: int) -> list[Planned]:
        planned: list[Planned] = []
        for fault in Fault:
            if fault in self._faults:
                rng = self._part(fault.value)
                for _ in range(rng.randint(1, 4)):
                    at_ms = rng.randint(quiet_ms, length_ms)
                    trouble = _PlannedFault(fault, rng, count, paths, at_ms, rng.choice([300, 3000, 15_000, 40_000]))
                    planned += trouble.planned()
        return planned


class _PlannedFault:
    """One fault that befalls one host, and its end."""

    def __init__(self, fault: Fault, rng: Random, count: int, paths: int, at_ms: int, for_ms: int) -> None:
        self._fault, self._rng, self._count, self._paths = fault, rng, count, paths
        self._at_ms, self._for_ms = at_ms, for_ms
        self._host, self._number = rng.randrange(count), rng.getrandbits(32)

    def planned(self) -> list[Planned]:
        """What happens, by time; nothing where the fault is one of the network, or of all hosts."""
        fault, for_ms, name, number = self._fault, self._for_ms, _name(self._host), self._number
        start = StartNode(name)
        match fault:
            case Fault.PARTITION:
                return self._plan(Split(self._sides())) + self._end(Split(()))
            case Fault.ONE_WAY:
                return self._plan(CutWay(name, self._other())) + self._end(Split(()))
            case Fault.SWIZZLE:
                return self._swizzle()
            case Fault.PAUSE:
                return self._plan(ToNode(name, Deed.PAUSE)) + self._end(ToNode(name, Deed.RESUME))
            case Fault.KILL | Fault.POWER | Fault.WIPE | Fault.BURN:
                return self._plan(ToNode(name, _ENDS[fault])) + self._end(start)
            case Fault.ROLL_BACK:
                back = Planned(self._at_ms + for_ms, ToNode(name, Deed.ROLL_BACK), fault)
                again = Planned(back.at_ms + self._rng.choice([10, 9000]), start)
                return [*self._plan(ToNode(name, Deed.BACKUP)), back, again]
            case Fault.RETIRE:  # whoever says so of a node that runs is wrong
                gone = [] if number % 2 else self._plan(ToNode(name, Deed.STOP))
                return gone + self._plan(Retire("", name, is_forced=True)) + self._end(start)
            case Fault.FULL_DISK:
                return self._plan(ToNode(name, Deed.DISK_SHORT)) + self._end(ToNode(name, Deed.DISK_FREE))
            case Fault.DRIFT:
                return self._plan(SetClock(name, (950 + number % 101) / 1000, 0.0))
            case Fault.WALL_CLOCK:
                return self._plan(SetClock(name, None, float(number % 7201 - 3600)))
            case Fault.AGENT:
                return self._plan(ToNode(name, Deed.AGENT_DOWN)) + self._end(ToNode(name, Deed.AGENT_UP))
            case Fault.SLOW_DISK if number % 16 == 0:
                return self._plan(Fill(name, Path(["p"]), BURST, number % self._paths, self._paths))
            case Fault.NAMESAKE:
                return self._plan(ToNode(name, Deed.NAMESAKE)) + self._end(ToNode(name, Deed.NAMESAKE_GONE))
            case Fault.FOREIGN:
                return self._plan(Foreign(is_there=True)) + self._end(Foreign(is_there=False))
            case Fault.LIES:
                return [self._lie(n) for n in range(10)]
            case Fault.SAME_ADDRESS:
                return self._plan(Move(name, self._other())) + self._end(ToNode(name, Deed.OWN_ADDRESS))
            case Fault.ROT:
                return self._rot()
            case Fault.HALF_OPEN:
                return self._plan(ToNode(name, Deed.HALF_OPEN))
            case Fault.LOSS | Fault.DUPLICATION | Fault.DELAY | Fault.LATE | Fault.BREAKS | Fault.SLOW_DISK:
                return []
            case Fault.BUDGET | Fault.STALL | Fault.TREES:
                return []
        assert_never(fault)

    # -- inside

    def _plan(self, action: Happening) -> list[Planned]:
        return [Planned(self._at_ms, action, self._fault)]

    def _end(self, action: Happening) -> list[Planned]:
        return [Planned(self._at_ms + self._for_ms, action)]

    def _others(self) -> list[str]:
        return [_name(number) for number in range(self._count) if number != self._host]

    def _other(self) -> str:
        others = self._others()
        return others[self._number % len(others)]

    def _sides(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Two, neither of them empty."""
        others = self._others()
        far = [other for n, other in enumerate(others) if not self._number >> n & 1] or others[:1]
        return (_name(self._host), *(other for other in others if other not in far)), tuple(far)

    def _swizzle(self) -> list[Planned]:
        rng, count, fault = self._rng, self._count, self._fault
        some = rng.sample(range(count), rng.randint(1, count))
        back = rng.sample(some, len(some))
        step_ms = self._for_ms // count + 1
        begin_ms, end_ms = self._at_ms, self._at_ms + self._for_ms
        out = [Planned(begin_ms + n * step_ms, ToNode(_name(h), Deed.ISOLATE), fault) for n, h in enumerate(some)]
        return out + [Planned(end_ms + n * step_ms, ToNode(_name(h), Deed.REJOIN)) for n, h in enumerate(back)]

    def _lie(self, n: int) -> Planned:
        untruth = list(Untruth)[(self._number + n) % len(Untruth)]
        return Planned(self._at_ms + n * 100, Lie(_name(self._host), untruth), self._fault)

    def _rot(self) -> list[Planned]:
        name, number, count = _name(self._host), self._number, self._number % 3 + 1
        if number % 3:
            return self._plan(RotSome((name,), count)) + self._end(StartNode(name))
        other = _name((self._host + 1) % self._count)
        later = Planned(self._at_ms + self._for_ms + 1, StartNode(other))
        return [*self._plan(RotSome((name, other), count)), *self._end(StartNode(name)), later]


def _name(host: int) -> str:
    return f"n{host}"


def _write(style: str, draw: float, number: int, paths: int, host: int, value: int) -> Write | Fill:
    """A client's request; `value` is used for no other one, and `draw` is a chance that nothing else depends on."""
    name = _name(host)
    path = Path(["p", str((0 if style == "hot" and draw < 0.8 else number) % paths)])
    plain, deleted = Write(name, path, value), Write(name, path, None)
    match style:
        case "hot":
            return deleted if draw < 0.1 else plain
        case "delete":
            return deleted if draw < 0.45 else plain
        case "checked":
            return _checked(plain, number) if draw < 0.6 else deleted if draw < 0.7 else plain
        case "ttl":
            fleeting = attrs.evolve(plain, ttl_s=TTLS_S[number % len(TTLS_S)])
            return fleeting if draw < 0.4 else deleted if draw < 0.5 else plain
        case "fenced":
            # Nearly always a token holds the path, so of the other writes few are taken.
            later = Fence(0, 1, max(value - (0, 0, 1, 6)[number % 4], 0), "t" if number % 11 else "u")
            if draw < 0.1:
                return attrs.evolve(deleted if draw < 0.04 else plain, refence=True)
            return attrs.evolve(deleted if draw < 0.25 else plain, fence=later) if draw < 0.85 else plain
        case "bulk":
            return Fill(name, Path(["bulk"]), BULK, number % 1000, is_batch=True) if draw < 0.1 else plain
        case _:
            return deleted if draw < 0.15 else _checked(plain, number) if draw < 0.2 else plain


def _checked(write: Write, number: int) -> Write:
    return attrs.evolve(write, condition=(Condition.CHAIN, Condition.VALUE, Condition.SAME)[number % 3])


def _copies(network: NetworkFaults, path_count: int) -> float:
    """How often a host that is there hears of an event, on average."""
    lost = max(network.loss, network.update_loss) * (1 if path_count <= FEW_PATHS else 1 - LOST_AND_PULLED)
    return (1 + COPIES_HEARD * network.duplication) * (1 - lost)
