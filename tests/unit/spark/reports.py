"""Reports that are made by hand, for tests of the page.

Knows: what a report of a busy fleet may look like, and of one in which everything is odd.  Does not judge.
"""

from __future__ import annotations

import math

from distkv.model.event import NodeName
from distkv.model.ranges import Ranges
from distkv.spark.reporting.figures import (
    Conflicts,
    Figures,
    Lag,
    Lags,
    LargeValue,
    PathFigures,
    Report,
    RootFigures,
    TableFacts,
    TimeBucket,
    WriterFigures,
)
from distkv.spark.reporting.scale import buckets_of
from distkv.spark.table.manifest import GapDecision

MADE_S = 1_795_428_000.0
EVIL = (
    '<script>document.title="broken"</script>',
    '"><img src=x onerror=document.title="broken">',
    "'; DROP &lt; \u202egnp.exe \x00\x1b[31m\n",
    "ein.sehr.langer.pfad." + "x" * 900,
    "</style><b>bold</b>",
)
"""What somebody may call a path."""
FACTS = TableFacts("events", "0123456789abcdef", 1284, 42, 61_231_871)
NO_LAG = Lags(failures=("127.0.0.1:27586: refused",))


def empty() -> Report:
    """Of a table without events."""
    return Report(TableFacts("empty", "0123456789abcdef", 0, 0, 0), Figures(), NO_LAG, MADE_S, "0.1.0")


def busy() -> Report:
    """Three days of a small fleet, with some of everything."""
    buckets = buckets_of(MADE_S - 3 * 86_400, MADE_S)
    stretches = tuple(map(_stretch, range(buckets.count)))
    events = sum(one.events for one in stretches)
    shares = (("hut1", 0.46), ("hut2", 0.31), ("valley", 0.17), ("summit-weather-station", 0.06))
    writers = tuple(
        WriterFigures(
            node, round(events * part), MADE_S - 259_000, MADE_S - 31 * number, 0,
            tuple(round(part * one.events * (1 + math.sin(at / 5 + number))) for at, one in enumerate(stretches)),
        )
        for number, (node, part) in enumerate(shares)
    )  # fmt: skip
    hot = tuple(
        PathFigures(
            f"site.{'ABCDEFGH'[at % 8]}.sensor{at * 7 % 11}.temperature",
            61_200 // (at + 2),
            840_000 // (at + 2),
            at % 4,
        )
        for at in range(20)
    )
    roots = (
        RootFigures("site", 412, round(events * 0.83), 31_234_567, 171),
        RootFigures("config", 58, round(events * 0.15), 1_234_567, 12),
        RootFigures("lock", 7, round(events * 0.02), 34_567, 0),
        RootFigures(None, 1, 3, 21, 0),
    )
    figures = Figures(
        system=1203, events=events, values=round(events * 0.94), bytes=32_503_722, odd_times=0,
        first_s=MADE_S - 259_000, last_s=MADE_S, buckets=buckets, stretches=stretches, writer_count=4, writers=writers,
        path_count=478, hot_paths=hot, root_count=4, roots=roots,
        sizes=(60_132, 121_001, 42_000, 7013, 812, 90, 12, 0, 3, 0),
        largest=tuple(LargeValue(f"config.blob{at}", 900_000 >> at, "a", (7 << 32) + at, MADE_S) for at in range(10)),
        lives=(12, 401, 1502, 90_313, 40_311, 2310, 212, 40, 3, 0, 0), backward=17,
        conflicts=Conflicts(183, 9, 14, 3, 1, tuple(PathFigures(f"site.A.s{at}", 900, 0, 60 >> at) for at in range(6))),
    )  # fmt: skip
    lags = Lags(
        tuple(
            Lag(at, of, 31_000, 0.0031 * (n + 1), 0.0121 * (n + 1), 0.41 * (n + 1), 71.3 * n - 0.002)
            for n, (at, of) in enumerate([("hut1", "hut2"), ("hut1", "valley"), ("hut2", "hut1"), ("hut2", "valley")])
        ),
        ("hut1", "hut2"),
        12,
        ("10.0.0.3:27586: refused",),
    )
    gaps = {NodeName("valley"): Ranges([(17, 19), (400, 4012)]), NodeName("hut2"): Ranges([(5 << 32, (5 << 32) + 3)])}
    return Report(
        TableFacts("events", "0123456789abcdef", 1284, 42, 61_231_871, gaps=gaps), figures, lags, MADE_S, "0.1.0"
    )


def odd() -> Report:
    """Names that want to be more than text, times that cannot be, a table of one path that forgot something."""
    buckets = buckets_of(MADE_S - 30, MADE_S)
    counts = [1 if at == 30 else 0 for at in range(buckets.count)]
    stretches = tuple(TimeBucket(sets=count, conflicts=count) for count in counts)
    paths = tuple(PathFigures(path, 3, 1 << 60, 1) for path in EVIL)
    figures = Figures(
        events=15, values=15, bytes=5 << 60, odd_times=13, first_s=MADE_S, last_s=MADE_S, buckets=buckets,
        stretches=stretches, writer_count=1,
        writers=(WriterFigures(EVIL[0], 15, None, 1e300, 13, (1,) * buckets.count),),
        path_count=5, hot_paths=paths, root_count=5,
        roots=tuple(RootFigures(path, 1, 3, 1 << 60, 1) for path in EVIL),
        sizes=(0, 0, 0, 0, 0, 0, 0, 0, 0, 15),
        largest=tuple(LargeValue(path, 1 << 60, path, 2**62, None) for path in EVIL),
        lives=(1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1), conflicts=Conflicts(5, 0, 5, 5, 0, paths),
    )  # fmt: skip
    facts = TableFacts(
        EVIL[1], "0123456789abcdef", 1, 1, 1, EVIL[0], 1e9, {NodeName("n"): Ranges([(2**62, 2**62 + 9)])},
        (GapDecision(1e300, "<b>ada", "<script>", {NodeName("n"): Ranges([(2**62, 2**62 + 5)])}),),
    )
    lags = Lags((Lag("n", "m", 1, math.inf, -1e12, 1e18, 1e300),), ("n",), 0, (f"{EVIL[0]}: refused",))
    return Report(facts, figures, lags, MADE_S, "0.1.0")


def _stretch(number: int) -> TimeBucket:
    """A wave of day and night, a busy hour, and one in which nothing happened."""
    if 40 <= number < 43:
        return TimeBucket()
    wave = 1 + math.sin(number / 4.6)
    rush = 5200 if number == 58 else 0
    conflicts = max(0, round(20 * math.sin(number / 3) - 14)) if 43 <= number < 60 else 0
    return TimeBucket(round(1700 * wave) + 240 + rush, round(140 * wave) + 9, round(70 * wave), conflicts)
