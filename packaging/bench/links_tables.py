"""Pure: what was measured of links, as tables beside what is aimed at.

Knows: the aims.  Does not measure, and does not judge a build: a missed aim is shown.

Invariant: a ratio is taken within one round, and the median is taken of those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

from bench.figures import Ratio, ratio_of, table
from bench.links import ALONE, GOSSIP, LINKED, ONE, PACE_PER_S, TWO, WAYS, Burst, CatchUp, Paced
from bench.rounds import Sample

P50_MS, P99_MS = 5.0, 20.0
RATES: Final = {ONE: 10_000, TWO: 8_000}
LAG_MS: Final = 1000.0
QUEUE: Final = 63
WRITER, FOLLOWER = 1.2, 0.6
"""How many times what a set costs a writer alone it costs a writer with two followers, and each of them."""
CAUGHT_S: Final = 5.0


def told_table(samples: Sequence[Sample]) -> str:
    """One line for each way."""
    times = {way: {each.round: float(each.load.p50_us) for each in samples if each.server == way} for way in WAYS}
    rows = []
    for way in WAYS:
        loads = [each.load for each in samples if each.server == way]
        p50, p99 = (median(times) / 1000 for times in ([x.p50_us for x in loads], [x.p99_us for x in loads]))
        ratio = None if way == LINKED else ratio_of(times[LINKED], times[way])
        rows.append([way, f"{sum(x.ops for x in loads):,}", f"{p50:.2f}", f"{p99:.2f}", *_ratio_cells(ratio)])
        if way == LINKED:
            verdicts = [at_most("p50 ms", p50, P50_MS), at_most("p99 ms", p99, P99_MS)]
    head = ["sent on a, told on b", "messages", "p50 ms", "p99 ms", "distkv's p50 is", "(rounds)"]
    return "\n".join([table(head, rows), *verdicts])


def bursts_table(bursts: Sequence[Burst]) -> str:
    """One line for each network, and what it cost."""
    names = list(dict.fromkeys(burst.network for burst in sorted(bursts, key=_place)))
    of = {name: [burst for burst in bursts if burst.network == name] for name in names}

    def middle(name: str, value: Callable[[Burst], float]) -> float:
        return median(value(burst) for burst in of[name])

    rows, costs = [], []
    for name in names:
        rows.append([
            name, f"{middle(name, lambda x: x.count / x.accepted_s):,.0f}",
            f"{middle(name, lambda x: x.per_second):,.0f}",
            f"{middle(name, lambda x: x.lag_p50_ms):,.0f}", f"{middle(name, lambda x: x.lag_p99_ms):,.0f}",
            f"{sum(x.linked for x in of[name]):,}", f"{sum(x.pulled for x in of[name]):,}",
            str(max(x.queue_longest for x in of[name])),
        ])  # fmt: skip
        costs.append([
            name, *(f"{middle(name, value):.1f}" for value in (_writer_us, _follower_us, lambda x: x.agent_us)),
            *_ratio_cells(_by_alone(of, name, _writer_us)), *_ratio_cells(_by_alone(of, name, _follower_us)),
        ])  # fmt: skip
    head = ["network", "taken/s", "with all/s", "lag p50 ms", "p99 ms", "linked", "pulled", "event_queue"]
    costs_head = ["network", "writer us/set", "follower us/set", "agents us/set"]
    costs_head += ["writer is", "(rounds)", "follower is", "(rounds)"]
    verdicts = [
        at_least(f"{name}, with all/s", middle(name, lambda x: x.per_second), RATES[name]) for name in (ONE, TWO)
    ]
    for name in (ONE, TWO):
        verdicts.append(at_most(f"{name}, lag p99 ms", middle(name, lambda x: x.lag_p99_ms), LAG_MS))
        verdicts.append(at_most(f"{name}, pulled", sum(x.pulled for x in of[name]), 0))
        verdicts.append(at_most(f"{name}, event_queue", max(x.queue_longest for x in of[name]), QUEUE))
    for what, value, aim in (("writer", _writer_us, WRITER), ("follower", _follower_us, FOLLOWER)):
        ratio = _by_alone(of, TWO, value)
        if ratio is not None:
            verdicts.append(at_most(f"{TWO}, a {what} by a writer alone", ratio.median, aim))
    return "\n".join([table(head, rows), "", table(costs_head, costs), *verdicts])


def catch_ups_table(found: Sequence[CatchUp]) -> str:
    """One line for each network."""
    rows = []
    for name in dict.fromkeys(each.network for each in sorted(found, key=lambda each: each.network != TWO)):
        here = [each for each in found if each.network == name]
        seconds = median(each.caught_s for each in here)
        rows.append([
            name, f"{here[0].count:,}", f"{median(each.start_s for each in here):.2f}",
            f"{median(each.ready_s for each in here):.2f}", f"{median(each.whole_s for each in here):.2f}",
            f"{seconds:.2f}",
            *(f"{median(counts):,.0f}" for counts in zip(*map(_counts, here), strict=True)),
        ])  # fmt: skip
        if name == TWO:
            verdict = at_most(f"{name}, without its start s", seconds, CAUGHT_S)
    head = ["network", "missed", "its start s", "now ready s", "has all s", "without its start s"]
    head += ["linked", "again", "pulled", "again"]
    return "\n".join([table(head, rows), verdict])


def paced_line(paced: Paced) -> str:
    """One sentence."""
    load = paced.load
    return (
        f"one path, written {load.checked / paced.seconds:,.0f} times a second on a (aim {PACE_PER_S:,}): each of "
        f"{load.checked:,} values in order on b and on c, p50 {load.p50_us / 1000:.2f} ms, "
        f"p99 {load.p99_us / 1000:.2f} ms"
    )


def at_most(what: str, value: float, aim: float) -> str:
    """A line that says whether an aim is met."""
    return f"{what}: {value:,.5g}, aim <= {aim:,g}: {'met' if value <= aim else 'missed'}"


def at_least(what: str, value: float, aim: float) -> str:
    """A line that says whether an aim is met."""
    return f"{what}: {value:,.5g}, aim >= {aim:,g}: {'met' if value >= aim else 'missed'}"


# -- inside -------------------------------------------------------------------------------------------------------


def _place(burst: Burst) -> int:
    return [ALONE, ONE, TWO, GOSSIP].index(burst.network)


def _writer_us(burst: Burst) -> float:
    return burst.writer_us


def _follower_us(burst: Burst) -> float:
    return burst.follower_us


def _by_alone(of: dict[str, list[Burst]], name: str, value: Callable[[Burst], float]) -> Ratio | None:
    """A cost by that of a writer without followers."""
    if name == ALONE:
        return None
    return ratio_of({x.round: value(x) for x in of[name]}, {x.round: x.writer_us for x in of[ALONE]})


def _counts(found: CatchUp) -> tuple[int, int, int, int]:
    return found.linked, found.linked_again, found.pulled, found.pulled_again


def _ratio_cells(ratio: Ratio | None) -> list[str]:
    return ["", ""] if ratio is None else [f"{ratio.median:.2f} x", f"{ratio.low:.2f} - {ratio.high:.2f}"]
