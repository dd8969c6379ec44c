"""What a report says of writing: when, who, on which paths, how much, and for how long.

Knows: the words, charts and tables of these sections.  Does not know the page around them (`spark.reporting.page`), nor
what went wrong (`spark.reporting.troubles`).

Invariant: a section of no events says so in a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from distkv.spark.reporting.charts import Columns, Series, bar, figure, spark
from distkv.spark.reporting.figures import (
    LIFE_LIMITS_S,
    SIZE_LIMITS,
    WRITERS_MAX,
    Figures,
    LargeValue,
    PathFigures,
    RootFigures,
    TableFacts,
    TimeBucket,
    WriterFigures,
)
from distkv.spark.reporting.markup import Column, of_all, paragraph, path, table
from distkv.spark.reporting.scale import (
    Buckets,
    classes,
    counted,
    counted_as,
    days,
    duration,
    moment,
    period,
    share,
    size,
    width_name,
)

# -- over time ----------------------------------------------------------------------------------------------------


def rate(figures: Figures) -> Iterator[str]:
    """How much was written when."""
    buckets, stretches = figures.buckets, figures.stretches
    if buckets is None:
        yield paragraph("There is no event with a time.", "soft")
        return
    width = width_name(buckets.width_s)
    most = max(range(len(stretches)), key=lambda number: stretches[number].events)
    peak, start = stretches[most].events, moment(buckets.start_s(most))
    mean = sum(one.events for one in stretches) / (buckets.count * buckets.width_s)
    yield paragraph(
        f"At most {counted_as(peak, 'event', 'events')} in {width}, from {start} UTC: "
        f"{_per_second(peak / buckets.width_s)}. On average {_per_second(mean)}."
    )
    summary = (
        f"Columns of events in {width} each, {period(buckets.begin_s, buckets.end_s)}: at most {peak}, from {start}. "
        "The numbers stand below."
    )
    titles = [_title(buckets, number, one) for number, one in enumerate(stretches)]
    chart = Columns(_kinds(stretches), "events", buckets.labels(), titles, summary)
    yield figure(f"Events in {width}, {days(buckets)}", chart)
    yield _numbers(buckets, stretches)


def _kinds(stretches: Sequence[TimeBucket]) -> Sequence[Series]:
    """Those that there are."""
    found = (
        Series("sets", "sets", [one.sets for one in stretches]),
        Series("deletes", "deletes", [one.deletes for one in stretches]),
        Series("expiries", "expiries", [one.expiries for one in stretches]),
    )
    return [series for series in found if any(series.counts)]


def _numbers(buckets: Buckets, stretches: Sequence[TimeBucket]) -> str:
    heads = [Column("from (UTC)", "w"), *(Column(name, "n") for name in ("sets", "deletes", "expiries", "conflicts"))]
    rows = (
        [moment(buckets.start_s(number)), *map(counted, (one.sets, one.deletes, one.expiries, one.conflicts))]
        for number, one in enumerate(stretches)
        if one.events
    )
    told = table(f"Events in {width_name(buckets.width_s)}, where there were any", heads, rows)
    return f"<details><summary>The numbers</summary>\n{told}</details>\n"


def _per_second(rate: float) -> str:
    if rate >= 1:
        return f"{counted(round(rate))} a second" if rate >= 10 else f"{rate:.1f} a second"
    return f"{rate * 60:.1f} a minute" if rate * 60 >= 1 else f"{rate * 3600:.1f} an hour"


def _title(buckets: Buckets, number: int, one: TimeBucket) -> str:
    parts = ((one.sets, "sets"), (one.deletes, "deletes"), (one.expiries, "expiries"), (one.conflicts, "conflicts"))
    told = ", ".join(f"{counted(some)} {name}" for some, name in parts if some)
    return f"{moment(buckets.start_s(number))} UTC: {told}"


def writers(figures: Figures, facts: TableFacts) -> Iterator[str]:
    """Who wrote how much, and when."""
    writers = [*figures.writers, *_silent(figures, facts)]
    if not writers:
        yield paragraph("Nobody has written anything.", "soft")
        return
    top = max((max(writer.series, default=0) for writer in writers), default=0)
    heads = [
        Column("node", "w"), Column("events", "n"), Column("share", "n"), Column("over time", "w"),
        Column("first (UTC)", "w"), Column("last (UTC)", "w"), Column("gaps", "n"),
    ]  # fmt: skip
    width = "" if figures.buckets is None else f"; over time in {width_name(figures.buckets.width_s)}, all to one scale"
    yield table(f"Nodes by number of events{width}", heads, (
        [
            path(writer.node), counted(writer.events), share(writer.events, figures.events), _series(writer, top),
            moment(writer.first_s), moment(writer.last_s), _gap_count(writer.node, facts),
        ]
        for writer in writers
    ))  # fmt: skip
    if figures.writer_count > len(figures.writers):
        yield paragraph(f"There are {counted(figures.writer_count)} writers; these have most events.", "soft")


def _silent(figures: Figures, facts: TableFacts) -> Sequence[WriterFigures]:
    """Those of whom there is nothing but gaps."""
    there = {writer.node for writer in figures.writers}
    if len(there) >= WRITERS_MAX:
        return []  # of the others some have written, too
    return [WriterFigures(node, 0, None, None, 0) for node in sorted(facts.gaps.keys() - there)][:WRITERS_MAX]


def _series(writer: WriterFigures, top: int) -> str:
    if not any(writer.series):
        return "–"
    return spark(writer.series, top, f"{writer.node}: at most {max(writer.series)} events at a time")


def _gap_count(node: str, facts: TableFacts) -> str:
    return counted(sum(len(ticks) for name, ticks in facts.gaps.items() if name == node))


# -- paths and sizes ----------------------------------------------------------------------------------------------

_PATH_HEADS: Final = (
    Column("path", "p"), Column("events", "n"), Column("share", "n"), Column("", "barred"), Column("values", "n"),
    Column("conflicts", "n"),
)  # fmt: skip


def paths(figures: Figures) -> Iterator[str]:
    """Where most was written."""
    if not figures.hot_paths:
        yield paragraph("There are no paths.", "soft")
        return
    yield table(of_all("Paths with most events", len(figures.hot_paths), figures.path_count), _PATH_HEADS, (
        _path_row(one, figures.events, figures.hot_paths[0].events) for one in figures.hot_paths
    ))  # fmt: skip
    heads = [
        Column("root", "p"), Column("paths", "n"), Column("events", "n"), Column("share", "n"), Column("", "barred"),
        Column("values", "n"), Column("conflicts", "n"), Column("of events", "n"),
    ]  # fmt: skip
    top = max(one.events for one in figures.roots)
    yield table(of_all("First names of paths, by number of events", len(figures.roots), figures.root_count), heads, (
        _root_row(one, figures.events, top) for one in figures.roots
    ))  # fmt: skip


def _path_row(one: PathFigures, events: int, top: int) -> Sequence[str]:
    return [
        path(one.path), counted(one.events), share(one.events, events), bar(one.events / top), size(one.bytes),
        counted(one.conflicts),
    ]  # fmt: skip


def _root_row(one: RootFigures, events: int, top: int) -> Sequence[str]:
    return [
        path(":" if one.root is None else one.root), counted(one.paths), counted(one.events), share(one.events, events),
        bar(one.events / top), size(one.bytes), counted(one.conflicts), share(one.conflicts, one.events),
    ]  # fmt: skip


def sizes(figures: Figures) -> Iterator[str]:
    """How large values are."""
    if not figures.values:
        yield paragraph("No value was set.", "soft")
        return
    yield paragraph(
        f"{counted_as(figures.values, 'value was', 'values were')} set, {size(figures.bytes)} in all, "
        f"{size(round(figures.bytes / figures.values))} in the mean."
    )
    names = classes([size(limit).replace(".0", "") for limit in SIZE_LIMITS])
    yield _classes("Values by their size", "size", names, figures.sizes)
    heads = [
        Column("path", "p"), Column("size", "n"), Column("node", "w"), Column("tick", "n"), Column("time (UTC)", "w"),
    ]  # fmt: skip
    yield table("The largest values", heads, map(_large_row, figures.largest))


def _large_row(one: LargeValue) -> Sequence[str]:
    return [path(one.path), size(one.bytes), path(one.node), str(one.tick), moment(one.time_s)]


def lives(figures: Figures) -> Iterator[str]:
    """How long values were there."""
    ended = sum(figures.lives)
    if not ended:
        yield paragraph("No value was overwritten, deleted or ended by itself.", "soft")
        return
    yield paragraph("How long a value was there until the next change of its path, by the clocks of both writers.")
    names = classes([_life_name(limit) for limit in LIFE_LIMITS_S])
    yield _classes("Values that are gone, by how long they were there", "time", names, figures.lives)
    if figures.backward:
        yield paragraph(
            f"{counted_as(figures.backward, 'more change', 'more changes')} came, by the clocks, before the value "
            "that they changed: clocks differ.",
            "soft",
        )


def _life_name(limit_s: float) -> str:
    return duration(limit_s) if limit_s < 1 else width_name(int(limit_s))


def _classes(caption: str, of: str, names: Sequence[str], counts: Sequence[int]) -> str:
    """A histogram; empty classes at both ends are left out."""
    used = [number for number, some in enumerate(counts) if some]
    total, top = sum(counts), max(counts)
    heads = [Column(of, "w"), Column("values", "n"), Column("share", "n"), Column("", "barred long")]
    return table(caption, heads, (
        [names[number], counted(counts[number]), share(counts[number], total), bar(counts[number] / top)]
        for number in range(used[0], used[-1] + 1)
    ))  # fmt: skip


