"""Pure: from samples to medians, ratios and tables.

Knows: what is aimed at (`AIMS`, `AIMS_MAX`).  Does not measure, and does not judge a build: a missed aim is shown.

Invariant: a ratio is taken within one round, and the median is taken of those; a cell with one bad run has no ratio.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final

import attrs

from bench.rounds import Sample
from bench.servers import NUMBERS

OURS: Final = "distkv"

AIMS: Final = {
    ("get 1x1", "redis"): 0.4,
    ("get 1x1", "etcd"): 4.0,
    ("get 32x1", "redis"): 0.35,
    ("get 1x32", "redis"): 0.3,
    ("set 1x1", "etcd"): 1.3,
    ("set 32x1", "etcd"): 2.5,
    ("set 32x1", "redis-always"): 1.0,
    ("watch 100x32", "redis"): 0.5,
    ("watch 1000x32", "redis"): 0.7,
    ("set 1x1", "etcd-three"): 1.0,
    ("set 32x1", "etcd-three"): 1.0,
    ("alone 1", "etcd"): 3.0,
    ("handed 32", "etcd"): 1.0,
    ("alone 1", "etcd-three"): 1.5,
    ("handed 32", "etcd-three"): 1.0,
    ("put 1x1", "distkv-set"): 0.8,
    ("put 32x1", "distkv-set"): 0.6,
    ("put 1x32", "distkv-set"): 0.5,
    ("get 1x32", "distkv-set"): 3.0,
    ("put 1x1", "redis-stream"): 0.5,
    ("put 2x16 of 2", "distkv-set"): 0.5,
    ("hear 100x32", "redis"): 0.35,
    ("hear 1000x32", "redis"): 0.7,
    ("hear 1000x32", "distkv-watch"): 0.9,
    ("hear 1000x32", "nats"): 0.3,
    ("hear 3x1", "nats"): 0.25,
    ("echo 1x1", "distkv-held"): 1.0,
    ("get blocking", "redis-py"): 0.9,
    ("get asyncio 1", "redis-py"): 1.0,
    ("get asyncio 32", "redis-py"): 1.6,
    ("set blocking", "redis-py"): 1.3,
    ("set asyncio 32", "redis-py"): 1.2,
}
"""How many times as fast as this server distkv is to be in this cell, at the least."""

AIMS_MAX: Final = {("set 1x32", NUMBERS): 1.15, ("set 32x32", NUMBERS): 1.15}
"""And how many times as fast at the most: so little are names that are numbers to cost."""

BUSY_MAX: Final = 0.9
"""When the generator used more of a processor, the server may be faster than the figure says."""


@attrs.frozen
class Ratio:
    """distkv by a peer, over the rounds."""

    median: float
    low: float
    high: float


@attrs.frozen
class Figure:
    """One server in one cell: medians of the rounds."""

    cell: str
    server: str
    rate: float
    """Operations per second."""
    p50_us: float
    p99_us: float
    cpu_us: float
    """The server's processor time for one operation, with the work that it put off."""
    busy: float
    """The generator's part of a processor, at the most."""
    caller_us: float
    """The generator's processor time for one operation."""
    failure: str
    """What went wrong in one of the rounds."""
    resyncs: int
    """In all rounds."""
    ratio: Ratio | None
    """How many times as fast distkv is; None for distkv itself, and where one of the two failed."""
    aim: float | None
    """What the ratio is to be at the least."""
    aim_max: float | None
    """And at the most."""


def summarize(samples: Sequence[Sample], cells: Sequence[str]) -> list[Figure]:
    """In the order of the cells, distkv first."""
    figures: list[Figure] = []
    for cell in cells:
        here = [sample for sample in samples if sample.cell == cell]
        ours = [sample for sample in here if sample.server == OURS]
        peers = sorted({sample.server for sample in here} - {OURS})
        figures += [
            _figure([sample for sample in here if sample.server == server], ours)
            for server in ([OURS, *peers] if ours else peers)
        ]
    return figures


def ratio(ours: Sequence[Sample], theirs: Sequence[Sample]) -> Ratio | None:
    """Round by round; None when a run of either is not to be used, or they were not measured in the same rounds."""
    return ratio_of(_rates(ours), _rates(theirs))


def ratio_of(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Ratio | None:
    """Of values by round; None when they are not of the same rounds."""
    if not ours or ours.keys() != theirs.keys():
        return None
    found = [ours[number] / theirs[number] for number in ours]
    return Ratio(median(found), min(found), max(found))


def _rates(samples: Sequence[Sample]) -> dict[int, float]:
    if any(sample.load.failure for sample in samples):
        return {}
    return {sample.round: sample.load.rate for sample in samples}


def _figure(samples: Sequence[Sample], ours: Sequence[Sample]) -> Figure:
    cell, server = samples[0].cell, samples[0].server
    loads = [sample.load for sample in samples]
    return Figure(
        cell,
        server,
        rate=median(load.rate for load in loads),
        p50_us=median(load.p50_us for load in loads),
        p99_us=median(load.p99_us for load in loads),
        cpu_us=median(1e6 * sample.cpu_s / max(sample.load.acknowledged, 1) for sample in samples),
        busy=max(load.busy for load in loads),
        caller_us=median(1e6 * load.busy / load.rate if load.ops else 0.0 for load in loads),
        failure=next((load.failure for load in loads if load.failure), ""),
        resyncs=sum(load.resyncs for load in loads),
        ratio=ratio(ours, samples) if server != OURS else None,
        aim=AIMS.get((cell, server)),
        aim_max=AIMS_MAX.get((cell, server)),
    )


def quantile(values: Sequence[float], part: float) -> float:
    """The least of the values below or at which this part of them lies; not between two, nor beyond the last."""
    return sorted(values)[max(math.ceil(part * len(values)), 1) - 1]


# -- tables -------------------------------------------------------------------------------------------------------


def rounds_table(figures: Sequence[Figure]) -> str:
    """One line for each server in each cell, and below it what is to be known of them."""
    head = ["cell", "server", "op/s", "p50 us", "p99 us", "cpu us/op", "distkv is", "(rounds)", "aim", ""]
    rows, remarks = [], []
    for figure in figures:
        failed = bool(figure.failure)
        rate = "failed" if failed else f"{figure.rate:,.0f}"
        rows.append([figure.cell, figure.server, rate, f"{figure.p50_us:,.0f}", f"{figure.p99_us:,.0f}",
                     f"{figure.cpu_us:,.1f}", *ratio_cells(figure)])  # fmt: skip
        if failed:
            remarks.append(f"{figure.server}, {figure.cell}: {figure.failure}")
        if figure.resyncs:
            remarks.append(f"{figure.server}, {figure.cell}: watchers were told {figure.resyncs} times to begin anew")
        if figure.busy > BUSY_MAX:
            remarks.append(f"{figure.server}, {figure.cell}: the generator used {figure.busy:.0%} of a processor")
    return "\n".join([table(head, rows), *remarks])


def ratio_cells(figure: Figure) -> list[str]:
    """The last four cells of a line: the ratio, its range, what is aimed at, and whether that is met."""
    least, most, found = figure.aim, figure.aim_max, figure.ratio
    aim = f">= {least:g} x" if least is not None else f"<= {most:g} x" if most is not None else ""
    if found is None:
        return ["", "", aim, "missed" if aim else ""]
    is_met = (least or 0) <= found.median <= (most or math.inf)
    verdict = "" if not aim else "met" if is_met else "missed"
    return [f"{found.median:.2f} x", f"{found.low:.2f} - {found.high:.2f}", aim, verdict]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side; those whose cells are numbers stand to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    is_right = [all(row[at][:1].isdigit() or not row[at] for row in rows) for at in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, is_right, strict=True)
        ).rstrip()
        for line in lines
    )
