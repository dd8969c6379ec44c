"""What a report says of what went wrong, or may have: conflicts, gaps, and lag.

Knows: the words, charts and tables of these sections, and what each figure does not say.  Does not know the page around
them (`spark.reporting.page`).

Invariant: a figure that is not known is never shown as none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from distkv.model.tick_ranges import common, count
from distkv.spark.reporting.charts import Columns, Series, bar, figure
from distkv.spark.reporting.figures import Conflicts, Figures, Lag, Lags, TableFacts, TimeBucket
from distkv.spark.reporting.markup import Column, of_all, paragraph, path, table, text
from distkv.spark.reporting.scale import Buckets, counted, counted_as, days, duration, moment, share, width_name
from distkv.text.moment import utc

GAPS_MAX: Final = 100
"""So many ranges of ticks are named."""
LAGS_MAX: Final = 200
"""So many pairs of nodes are told, those with the longest lag."""
_DEFINED: Final = (
    "A change is a conflict when its chain does not name the change before it on its path, in the order of events: "
    "whoever made it did not know that one. It is none where that one is an expiry, or both are deletions."
)
_GAPS: Final = (
    "Nodes hold these changes, and no reachable one has what they said. Each run of archive asks for them again."
)
_LAG: Final = (
    "How long after it was made a change was at another node: when it came, by the clock of that node, less when it "
    "was made, by the clock of its writer. Clocks that differ make it too long or too short, even less than nothing. "
    "What was written while a node was away counts until it was back. Looked at are the latest changes of each writer."
)


def conflicts(figures: Figures, facts: TableFacts) -> Iterator[str]:
    """Which changes did not know of each other."""
    found = figures.conflicts
    yield paragraph(_DEFINED, "soft")
    yield from _conflicts_told(found, figures.events, has_gaps=bool(facts.gaps))
    if figures.buckets is not None and any(one.conflicts for one in figures.stretches):
        yield _conflict_chart(figures.buckets, figures.stretches)
    if found.top:
        heads = [Column("path", "p"), Column("conflicts", "n"), Column("of events", "n"), Column("", "barred")]
        yield table(of_all("Paths with most conflicts", len(found.top), found.paths), heads, (
            [
                path(one.path), counted(one.conflicts), share(one.conflicts, one.events),
                bar(one.conflicts / found.top[0].conflicts, "conflicts"),
            ]
            for one in found.top
        ))  # fmt: skip


def _conflicts_told(found: Conflicts, events: int, *, has_gaps: bool) -> Iterator[str]:
    if not found.count:
        yield paragraph("There was none.")
    else:
        yield paragraph(
            f"{counted_as(found.count, 'change', 'changes')} of {counted(events)} ({share(found.count, events)}), on "
            f"{counted_as(found.paths, 'path', 'paths')}."
        )
    if found.over_deletions:
        yield paragraph(
            f"{counted(found.over_deletions)} of them came over a deletion: a node that has forgotten a deletion "
            "(delete.retention) does not name it either."
        )
    if found.count or found.open:
        deleted = f", {counted(found.open_deletions)} of them deletions" if found.open_deletions else ""
        known = " What the table lacks may have closed some of them." if has_gaps and found.open else ""
        what = counted_as(found.open, "conflict is", "conflicts are")
        yield paragraph(f"After all events of the table {what} open{deleted}.{known}")


def _conflict_chart(buckets: Buckets, stretches: Sequence[TimeBucket]) -> str:
    width, counts = width_name(buckets.width_s), [one.conflicts for one in stretches]
    titles = [
        f"{moment(buckets.start_s(number))} UTC: {counted(one.conflicts)} of "
        f"{counted_as(one.events, 'event', 'events')}, {share(one.conflicts, one.events)}"
        for number, one in enumerate(stretches)
    ]
    summary = f"Columns of conflicts in {width} each: at most {max(counts)}. The numbers stand at Write rate."
    chart = Columns([Series("conflicts", "conflicts", counts)], "conflicts", buckets.labels(), titles, summary)
    return figure(f"Conflicts in {width}, {days(buckets)}", chart)


def gaps(facts: TableFacts) -> Iterator[str]:
    """Which changes the table lacks."""
    if not facts.gaps:
        yield paragraph("There is none.", "soft")
        return
    ranges = [(node, begin, end) for node, ticks in sorted(facts.gaps.items()) for begin, end in ticks.pairs()]
    yield paragraph(_GAPS, "soft")
    if accepted := [(one, common(one.ticks, facts.gaps)) for one in facts.settled]:
        lines = (
            f"{one.who} accepted {counted_as(count(ticks), 'gap', 'gaps')} on {utc(one.time)}: {one.why}"
            for one, ticks in accepted if ticks
        )  # fmt: skip
        yield f'<ul class="notes">{"".join(f"<li>{text(line)}</li>" for line in lines)}</ul>\n'
    heads = [Column("node", "w"), Column("first tick", "n"), Column("last tick", "n"), Column("events", "n")]
    caption = of_all("Ticks without content", min(GAPS_MAX, len(ranges)), len(ranges))
    yield table(caption, heads, (
        [path(node), str(begin), str(end - 1), counted(end - begin)] for node, begin, end in ranges[:GAPS_MAX]
    ))  # fmt: skip


def lag(lags: Lags) -> Iterator[str]:
    """How long changes took from node to node."""
    if not lags.nodes:
        yield paragraph("Not known: no node answered. Name some with -h.")
    elif not lags.rows:
        yield paragraph("Not known: no node has events of others of which it knows when they came.")
    else:
        yield paragraph(_LAG, "soft")
        yield _lag_table(lags.rows)
    if lags.unknown:
        unknown = counted_as(lags.unknown, "event it is", "events it is")
        yield paragraph(f"Of {unknown} not known when they came.", "soft")
    if lags.failures:
        yield f'<ul class="notes">{"".join(f"<li>{text(why)}</li>" for why in lags.failures)}</ul>\n'


def _lag_table(rows: Sequence[Lag]) -> str:
    figures = (Column(name, "n") for name in ("events", "median", "90 %", "99 %", "longest"))
    most = sorted(sorted(rows, key=lambda one: -one.p99_s)[:LAGS_MAX], key=lambda one: (one.node, one.writer))
    caption = of_all("From each writer to each node", len(most), len(rows))
    return table(caption, [Column("at node", "w"), Column("of writer", "w"), *figures], (
        [
            path(one.node), path(one.writer), counted(one.events),
            *map(duration, (one.median_s, one.p90_s, one.p99_s, one.max_s)),
        ]
        for one in most
    ))  # fmt: skip
