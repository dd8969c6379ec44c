"""A report as one HTML page.

Knows: the frame of the page, its head, and what must be known to read it.  Does not know how figures are found, nor
what a section says (`spark.sections`, `spark.troubles`).

Invariant: the page is one file that asks no network for anything, runs no script, and says in words or tables what its
charts show; what nodes and paths are called can only be text in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from importlib.resources import files
from typing import Final

from distkv.model.tick_ranges import count
from distkv.spark import sections, troubles
from distkv.spark.figures import Figures, Report, TableFacts
from distkv.spark.markup import pairs, paragraph, path, text
from distkv.spark.scale import counted, counted_as, duration, moment, period, size

SECTIONS: Final = (
    ("rate", "Write rate"), ("writers", "Writers"), ("paths", "Paths"), ("sizes", "Sizes"), ("lives", "Lifetimes"),
    ("conflicts", "Conflicts"), ("gaps", "Gaps"), ("lag", "Replication lag"),
)  # fmt: skip
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


def page(report: Report) -> str:
    """The whole document."""
    return "".join(_document(report))


def _document(report: Report) -> Iterator[str]:
    name, figures = text(report.table.name), report.figures
    style = files("distkv.spark").joinpath("page.css").read_text(encoding="utf-8")
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
    yield f"<title>{name} – distkv report</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
    yield f'<header>\n<p class="kicker">Report on an event table</p>\n<h1>{name}</h1>\n'
    yield from _head(report)
    links = "".join(f'<a href="#{key}">{title}</a>\n' for key, title in SECTIONS)
    yield f'<nav aria-label="Sections">{links}</nav>\n</header>\n<main>\n'
    bodies = (
        sections.rate(figures), sections.writers(figures, report.table), sections.paths(figures),
        sections.sizes(figures), sections.lives(figures), troubles.conflicts(figures, report.table),
        troubles.gaps(report.table), troubles.lag(report.lags),
    )  # fmt: skip
    for (key, title), body in zip(SECTIONS, bodies, strict=True):
        yield f'<section id="{key}" aria-labelledby="{key}-title">\n<h2 id="{key}-title">{title}</h2>\n'
        yield from body
        yield "</section>\n"
    yield f"</main>\n<footer>{paragraph(FOOT)}</footer>\n</body>\n</html>\n"


FOOT: Final = (
    "Times are by the clocks of the nodes that wrote, in UTC. Sizes of values are those that nodes keep (MessagePack). "
    "Figures leave out the system's own paths. Text in this page that looks like \\u{202e} stands for a character that "
    "cannot be seen."
)


# -- the head -----------------------------------------------------------------------------------------------------


def _head(report: Report) -> Iterator[str]:
    figures, facts = report.figures, report.table
    when = "no times" if figures.first_s is None else period(figures.first_s, figures.last_s or 0.0)
    length = (figures.last_s or 0.0) - (figures.first_s or 0.0)
    yield paragraph(f"{when} ({duration(length)})" if length else when, "lead")
    conflicts, worst_s, gaps = figures.conflicts, report.lags.worst_s, count(facts.gaps)
    lag = ("–", "not known") if worst_s is None else (duration(worst_s), "for 99 % of changes")
    tiles = (
        ("Events", counted(figures.events), f"and {counted(figures.system)} of the system" if figures.system else ""),
        ("Writers", counted(figures.writer_count), ""),
        ("Paths", counted(figures.path_count), f"below {counted_as(figures.root_count, 'root', 'roots')}"),
        ("Values", size(figures.bytes), f"in {counted_as(figures.values, 'set', 'sets')}"),
        ("Conflicts", counted(conflicts.count), f"{counted(conflicts.open)} open at the end"),
        ("Gaps", counted(gaps), "without content" if gaps else ""),
        ("Lag", *lag),
    )
    yield pairs("tiles", ((name, f"{value}<small>{escape(more)}</small>") for name, value, more in tiles))
    yield pairs("facts", (
        ("Network", f"<code>{escape(facts.network)}</code>"),
        ("Table", escape(f"commit {counted(facts.commit)}, {counted_as(facts.files, 'file', 'files')} of "
                         f"{size(facts.size_bytes)}")),
        ("Made", escape(f"{moment(report.made_s)} UTC by distkv {report.version}")),
    ))  # fmt: skip
    notes = [f"<li>{note}</li>" for note in _notes(figures, facts)]
    if notes:
        yield f'<ul class="notes">{"".join(notes)}</ul>\n'


def _notes(figures: Figures, facts: TableFacts) -> Iterator[str]:
    """What must be known to read the figures."""
    if facts.path is not None:
        yield f"The table has only what is at and below {path(facts.path)}."
    if facts.forgotten is not None:
        yield (
            f"What was overwritten before {moment(facts.forgotten)} UTC was dropped from the table. Figures of earlier "
            "times count only what was left."
        )
    if gaps := count(facts.gaps):
        what = counted_as(gaps, "event is", "events are")
        yield f'{what} not in the table, because no node has the content (<a href="#gaps">Gaps</a>).'
    if figures.odd_times:
        who = [writer for writer in figures.writers if writer.odd_times]
        names = ", ".join(f"{path(writer.node)} ({counted(writer.odd_times)})" for writer in who[:5])
        yield (
            f"{counted_as(figures.odd_times, 'event has a time', 'events have times')} before the year 2000 or in the "
            f"future: the clock of {names}{' and others' if len(who) > 5 else ''} was wrong. They are counted, and are "
            "not in anything over time."
        )
    drawn = sum(stretch.events for stretch in figures.stretches)
    if figures.buckets is not None and (outside := figures.events - figures.odd_times - drawn):
        yield (
            f"{counted_as(outside, 'event lies', 'events lie')} years or months from all others. The charts over time "
            f"show only {period(figures.buckets.begin_s, figures.buckets.end_s)}."
        )
