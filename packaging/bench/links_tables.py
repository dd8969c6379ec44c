"""Pure: what was measured of links, as tables beside what is aimed at.

Knows: the aims.  Does not measure, and does not judge a build: a missed aim is shown.

Invariant: a ratio is taken within one round, and the median is taken of those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Final

from bench.figures import Ratio, ratio_of, table
from bench.links import (
    ALONE,
    LINKED,
    ONE,
    OTHERS,
    PACE_PER_S,
    STEADY_PER_S,
    TWO,
    WAYS,
    Burst,
    CatchUp,
    Cost,
    Paced,
)
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
    """One line for each network, and what it cost at a steady rate and at full speed."""
    of = {name: found for name in OTHERS if (found := [burst for burst in bursts if burst.network == name])}
    rates = {name: median(burst.per_second for burst in of[name]) for name in of}
    lags = {name: median(burst.lag_p99_ms for burst in of[name]) for name in of}
    pulled = {name: sum(burst.pulled for burst in of[name]) for name in of}
    queues = {name: max(burst.queue_longest for burst in of[name]) for name in of}
    rows = [
        [
            name, f"{median(burst.count / burst.accepted_s for burst in of[name]):,.0f}", f"{rates[name]:,.0f}",
            f"{median(burst.lag_p50_ms for burst in of[name]):,.0f}", f"{lags[name]:,.0f}",
            f"{sum(burst.linked for burst in of[name]):,}", f"{pulled[name]:,}", f"{queues[name]}",
        ]
        for name in of
    ]  # fmt: skip
    head = ["network", "taken/s", "with all/s", "lag p50 ms", "p99 ms", "linked", "pulled", "event_queue"]
    verdicts = []
    for name in (ONE, TWO):
        verdicts += [
            at_least(f"{name}, with all/s", rates[name], RATES[name]),
            at_most(f"{name}, lag p99 ms", lags[name], LAG_MS),
            at_most(f"{name}, pulled", pulled[name], 0),
            at_most(f"{name}, event_queue", queues[name], QUEUE),
        ]
    steady = {name: {burst.round: burst.steady for burst in of[name]} for name in of}
    full = {name: {burst.round: burst.full for burst in of[name]} for name in of}
    parts = [table(head, rows)]
    for how, costs in ((f"at {STEADY_PER_S:,}/s", steady), ("at full speed", full)):
        parts.append(_costs_table(how, costs))
        for who, value, aim in (("writer", _writer_us, WRITER), ("follower", _follower_us, FOLLOWER)):
            if (ratio := _by_alone(costs, TWO, value)) is not None:
                verdicts.append(at_most(f"{TWO}, {who} {how}, by a writer alone", ratio.median, aim))
    return "\n\n".join([*parts, "\n".join(verdicts)])


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


def paced_lines(paced: Paced) -> str:
    """What two watchers were told, and how often the path was written."""
    load = paced.load
    return (
        f"each of {load.checked:,} values in order on b and on c, p50 {load.p50_us / 1000:.2f} ms, "
        f"p99 {load.p99_us / 1000:.2f} ms\n{at_least('one path, written/s', load.checked / paced.seconds, PACE_PER_S)}"
    )


def at_most(what: str, value: float, aim: float) -> str:
    """A line that says whether an aim is met."""
    return f"{what}: {value:,.5g}, aim <= {aim:,g}: {'met' if value <= aim else 'missed'}"


def at_least(what: str, value: float, aim: float) -> str:
    """A line that says whether an aim is met."""
    return f"{what}: {value:,.5g}, aim >= {aim:,g}: {'met' if value >= aim else 'missed'}"


# -- inside -------------------------------------------------------------------------------------------------------


def _costs_table(what: str, of: Mapping[str, Mapping[int, Cost]]) -> str:
    """Medians of what a set costs, and ratios to what it costs a writer alone in the same round."""
    rows = [
        [
            name,
            *(f"{median(map(value, of[name].values())):.1f}" for value in (_writer_us, _follower_us, _agent_us)),
            *_ratio_cells(_by_alone(of, name, _writer_us)),
            *_ratio_cells(_by_alone(of, name, _follower_us)),
        ]
        for name in of
    ]
    head = [
        what,
        "writer us/set",
        "follower us/set",
        "agents us/set",
        "writer is",
        "(rounds)",
        "follower is",
        "(rounds)",
    ]
    return table(head, rows)


def _by_alone(of: Mapping[str, Mapping[int, Cost]], name: str, value: Callable[[Cost], float]) -> Ratio | None:
    """A cost by that of a writer without followers."""
    if name == ALONE:
        return None
    ours = {number: value(cost) for number, cost in of[name].items()}
    return ratio_of(ours, {number: cost.writer_us for number, cost in of[ALONE].items()})


def _writer_us(cost: Cost) -> float:
    return cost.writer_us


def _follower_us(cost: Cost) -> float:
    return cost.follower_us


def _agent_us(cost: Cost) -> float:
    return cost.agent_us


def _counts(found: CatchUp) -> tuple[int, int, int, int]:
    return found.linked, found.linked_again, found.pulled, found.pulled_again


def _ratio_cells(ratio: Ratio | None) -> list[str]:
    return ["", ""] if ratio is None else [f"{ratio.median:.2f} x", f"{ratio.low:.2f} - {ratio.high:.2f}"]
