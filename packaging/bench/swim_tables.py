"""Pure: what was measured of the transport swim, as tables beside what is aimed at.

Knows: the aims.  Does not measure, and does not judge a build: a missed aim is shown.

Invariant: a ratio is taken within one round, and the median is taken of those.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from bench.figures import Ratio, quantile, ratio_of, table
from bench.links_tables import at_least, at_most
from bench.swim import LINKED_CELLS, PER_SECOND, SOON_S, SWIM, WAYS, Idle, Linked, Twelve

LINKED_RATIO: Final = 1.1
IDLE_P50_MS, IDLE_P99_MS = 20.0, 250.0
IDLE_RATIO: Final = 0.2
SOON_SHARE: Final = 99.0
PACE_SHARE: Final = 0.99
"""Of what the node is asked for, at the least: else something else was measured."""
REST_BYTES_PER_S: Final = 4096


def linked_table(found: Sequence[Linked]) -> str:
    """One line for each way in each cell."""
    rows, verdicts = [], []
    for cell in LINKED_CELLS:
        times = {
            way: {each.round: float(each.loads[cell].p50_us) for each in found if each.way == way} for way in WAYS
        }  # fmt: skip
        for way in WAYS:
            loads = [each.loads[cell] for each in found if each.way == way]
            p50, p99 = (median(us) / 1000 for us in ([x.p50_us for x in loads], [x.p99_us for x in loads]))
            ratio = None if way == SWIM else ratio_of(times[SWIM], times[way])
            rows.append([cell, way, f"{sum(x.ops for x in loads):,}", f"{p50:.2f}", f"{p99:.2f}", *_cells(ratio)])
            if ratio is not None:
                verdicts.append(at_most(f"{cell}, swim's p50 by that beside {way}", ratio.median, LINKED_RATIO))
    gossiped = sum(each.gossiped for each in found if each.way == SWIM)
    verdicts.append(at_most("swim, events gossiped while all follow", gossiped, 0))
    head = ["with links", "nodes", "sets", "p50 ms", "p99 ms", "swim's p50 is", "(rounds)"]
    return "\n".join([table(head, rows), *verdicts])


def idle_table(found: Sequence[Idle]) -> str:
    """One line for each way; p50 is the median of the rounds, p99 is that of all sets."""
    medians = {way: {each.round: median(each.delays_ms) for each in found if each.way == way} for way in WAYS}
    rows, verdicts = [], []
    for way in WAYS:
        delays = [delay for each in found if each.way == way for delay in each.delays_ms]
        p50, p99 = median(medians[way].values()), quantile(delays, 0.99)
        ratio = None if way == SWIM else ratio_of(medians[SWIM], medians[way])
        rows.append([way, f"{len(delays):,}", f"{p50:.2f}", f"{p99:.2f}", f"{max(delays):.2f}", *_cells(ratio)])
        if way == SWIM:
            verdicts += [at_most("swim, p50 ms", p50, IDLE_P50_MS), at_most("swim, p99 ms", p99, IDLE_P99_MS)]
        if ratio is not None:
            verdicts.append(at_most(f"swim's p50 by that beside {way}", ratio.median, IDLE_RATIO))
    head = ["links.follow: false", "sets", "p50 ms", "p99 ms", "longest ms", "swim's p50 is", "(rounds)"]
    return "\n".join([table(head, rows), *verdicts])


def twelve_lines(found: Twelve) -> str:
    """How soon the sets were told, and what is sent at rest."""
    rates = found.rest_bytes_per_s
    wrote = (
        f"{found.count:,} sets in {found.written_s:.1f} s, told on all others: p50 {found.p50_ms:.1f} ms, "
        f"p99 {found.p99_ms:.1f} ms, the longest {found.longest_ms:.0f} ms"
    )
    came = (
        f"new by gossip {found.by_gossip:.2%}, by pulls {found.pulled:,} events; within {SOON_S:g} s {found.soon:.2%}; "
        f"the writer sent {found.writer_bytes_per_s / 1024:,.0f} KiB/s, the generator used {found.busy:.0%}"
    )
    rested = (
        f"at rest for {found.rest_s:.0f} s: each node sent {min(rates):,.0f} to {max(rates):,.0f} bytes/s, "
        f"median {median(rates):,.0f}"
    )
    pace = at_least("sets/s", found.count / found.written_s, PACE_SHARE * PER_SECOND)
    share = at_least(f"% by gossip within {SOON_S:g} s, at the least", 100 * found.soon_by_gossip, SOON_SHARE)
    most = at_most("at rest, bytes/s of the node that sent most", max(rates), REST_BYTES_PER_S)
    return "\n".join([wrote, came, rested, pace, share, most])


# -- inside -------------------------------------------------------------------------------------------------------


def _cells(ratio: Ratio | None) -> list[str]:
    return ["", ""] if ratio is None else [f"{ratio.median:.2f} x", f"{ratio.low:.2f} - {ratio.high:.2f}"]
