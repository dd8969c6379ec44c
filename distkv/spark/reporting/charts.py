"""The charts of a report, as HTML with SVG in it that is whole by itself.

Knows: where bars, lines and labels stand.  Does not know what they show, nor any colour: those are in `page.css`.

A chart takes whatever width there is, and its letters keep their size: places from left to right are in per cent, those
from top to bottom in pixels. So no script is needed, on a phone either.

Invariant: all text that comes in goes out escaped; every chart that says something has a text that says it, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

import attrs

from distkv.spark.reporting.scale import Label, counted, steps

TOP: Final = 26
"""Above the highest line, for the unit."""
HEIGHT: Final = 140
"""Of the part in which columns stand."""
FOOT: Final = 22
"""Below it, for times."""
AXIS_WIDTH: Final = 52
SPARK_WIDTH, SPARK_HEIGHT = 160, 26
EDGE: Final = 0.1
"""A label so near to a side is written towards the middle."""


@attrs.frozen
class Series:
    """One kind of what is counted, a number for each column."""

    name: str
    css_class: str
    counts: Sequence[int]


@attrs.frozen
class Columns:
    """A chart of columns, each of which has the numbers of all series one upon the other."""

    series: Sequence[Series]
    unit: str
    """What is counted; stands above the axis."""
    labels: Sequence[Label]
    """Below the columns."""
    titles: Sequence[str]
    """What a pointer shows on each column."""
    summary: str
    """What the chart shows, in words, for who cannot see it."""


def columns(chart: Columns) -> str:
    """The chart, and its legend when there are several series."""
    return "".join(_columns(chart))


def figure(caption: str, chart: Columns) -> str:
    """The chart with a caption."""
    return f"<figure>\n<figcaption>{escape(caption)}</figcaption>\n{columns(chart)}\n</figure>\n"


def spark(counts: Sequence[int], top: int, summary: str) -> str:
    """A small chart for a line of a table; `top` is the highest number that charts beside it have."""
    parts: list[str] = []
    for number, count in enumerate(counts):
        if count:
            height = max(1.0, SPARK_HEIGHT * count / max(top, 1))
            parts.append(f"M{number} {SPARK_HEIGHT}v-{height:.1f}h.9v{height:.1f}z")
    return (
        f'<svg class="spark" width="{SPARK_WIDTH}" height="{SPARK_HEIGHT}" preserveAspectRatio="none" '
        f'viewBox="0 0 {max(len(counts), 1)} {SPARK_HEIGHT}" role="img" aria-label="{escape(summary)}">'
        f'<path class="sets" d="{"".join(parts)}"/></svg>'
    )


def bar(part: float, css_class: str = "sets") -> str:
    """A bar in a cell, `part` of its width long; the number beside it says the same."""
    width = 100 * min(1.0, max(0.0, part))
    mark = f'<rect class="{css_class}" width="{width:.2f}%" height="9"/>' if part > 0 else ""
    return f'<svg class="bar" width="100%" height="9" aria-hidden="true">{mark}</svg>'


# -- inside -------------------------------------------------------------------------------------------------------


def _columns(chart: Columns) -> Iterator[str]:
    sums = [sum(counts) for counts in zip(*(series.counts for series in chart.series), strict=True)]
    lines = steps(max(sums, default=0))
    bottom, height = TOP + HEIGHT, TOP + HEIGHT + FOOT
    yield '<div class="chart">'
    yield f'<svg class="axis" width="{AXIS_WIDTH}" height="{height}" aria-hidden="true">'
    yield f'<text class="unit" x="0" y="11">{escape(chart.unit)}</text>'
    for line in lines:
        yield f'<text x="{AXIS_WIDTH - 8}" y="{_y(line, lines) + 4:.1f}">{counted(line)}</text>'
    yield f'</svg><svg class="area" width="100%" height="{height}" role="img" aria-label="{escape(chart.summary)}">'
    for line in lines:
        y = round(_y(line, lines)) + 0.5
        yield f'<line class="{"grid" if line else "ground"}" x1="0" x2="100%" y1="{y}" y2="{y}"/>'
    for number, whole in enumerate(sums):
        if whole:
            yield from _column(chart, number, lines)
    for label in chart.labels:
        yield from _label(label, bottom)
    yield "</svg></div>"
    if len(chart.series) > 1:
        keys = (f'<li><i class="{series.css_class}"></i>{escape(series.name)}</li>' for series in chart.series)
        yield f'<ul class="legend">{"".join(keys)}</ul>'


def _column(chart: Columns, number: int, lines: Sequence[int]) -> Iterator[str]:
    count = len(chart.titles)
    x, width = 100 * number / count, 100 / count
    place = f'x="{x + 0.07 * width:.3f}%" width="{0.86 * width:.3f}%"'
    yield f"<g><title>{escape(chart.titles[number])}</title>"
    yield f'<rect class="hit" x="{x:.3f}%" width="{width:.3f}%" y="{TOP}" height="{HEIGHT}"/>'
    done = 0
    for series in chart.series:
        if some := series.counts[number]:
            low, high = _y(done, lines), _y(done + some, lines)
            high = min(high, low - 1)  # one event among a million can be seen
            yield f'<rect class="{series.css_class}" {place} y="{high:.1f}" height="{low - high:.1f}"/>'
            done += some
    yield "</g>"


def _label(label: Label, bottom: int) -> Iterator[str]:
    css_class = "start" if label.place < EDGE else "end" if label.place > 1 - EDGE else "middle"
    css_class += " minor" if label.is_minor else ""
    x = f"{100 * label.place:.2f}%"
    yield f'<line class="ground" x1="{x}" x2="{x}" y1="{bottom}" y2="{bottom + 4}"/>'
    yield f'<text class="{css_class}" x="{x}" y="{bottom + 18}">{escape(label.text)}</text>'


def _y(count: float, lines: Sequence[int]) -> float:
    return TOP + HEIGHT * (1 - count / lines[-1])
