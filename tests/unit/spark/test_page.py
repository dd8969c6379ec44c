"""A report as a page: what is in the file. How it looks in a browser is in tests/browser/test_report.py."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from html.parser import HTMLParser

import attrs
import pytest

from distkv.model.event import NodeName
from distkv.model.ranges import Ranges
from distkv.spark.reporting import scale
from distkv.spark.reporting.charts import Columns, Series, bar, columns, spark
from distkv.spark.reporting.figures import WRITERS_MAX, Conflicts, Figures, Lag, Lags, Report, WriterFigures
from distkv.spark.reporting.markup import text
from distkv.spark.reporting.page import SECTIONS, page
from distkv.spark.reporting.troubles import GAPS_MAX, LAGS_MAX
from distkv.spark.table.manifest import GapDecision
from tests.unit.spark.reports import EVIL, busy, empty, odd

REPORTS = [busy, empty, odd]


class _Elements(HTMLParser):
    """Which elements a page has, and whether each is closed where it should be."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(document)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))
        if tag != "meta":
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def named(self, *tags: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.found if tag in tags]


@pytest.mark.parametrize("made", REPORTS)
def test_page_has_every_section_and_closes_what_it_opens(made: Callable[[], Report]) -> None:
    found = _Elements(page(made()))
    ids = [attributes["id"] for attributes in found.named("section")]
    assert ids == [key for key, _ in SECTIONS]
    assert [one["href"] for one in found.named("a")][-len(ids) :] == [f"#{key}" for key in ids]
    assert [tag for tag, _ in found.found if tag in ("h1", "h2")] == ["h1", *["h2"] * len(ids)]


@pytest.mark.parametrize("made", REPORTS)
def test_page_asks_for_nothing_and_runs_nothing(made: Callable[[], Report]) -> None:
    document = page(made())
    found = _Elements(document)
    assert found.named("script", "link", "img", "iframe", "object", "base", "form") == []
    attributes = [name for _, some in found.found for name in some]
    assert not [name for name in attributes if name.startswith("on") or name in ("src", "xlink:href", "style")]
    assert all((one["href"] or "").startswith("#") for one in found.named("a"))
    assert not re.search(r"url\(|@import|https?://", document)


@pytest.mark.parametrize("made", REPORTS)
def test_charts_have_a_text_and_tables_have_heads(made: Callable[[], Report]) -> None:
    found = _Elements(page(made()))
    for one in found.named("svg"):
        assert one.get("aria-hidden") == "true" or (one.get("role") == "img" and one.get("aria-label"))
    assert all(one.get("scope") in ("col", "row") for one in found.named("th"))
    assert all(one.get("aria-label") for one in found.named("table"))


def test_what_somebody_calls_a_path_is_text() -> None:
    found = _Elements(page(odd()))
    assert found.named("b", "img", "script") == []
    for evil in EVIL[:2]:
        assert evil in found.text
    assert "\u202e" not in found.text
    assert "\\u{202e}gnp.exe \\u{0}\\u{1b}[31m\\u{a}" in found.text


def test_long_text_loses_its_middle_and_stays_escaped() -> None:
    found = text("<" * 1000)
    assert found == f"{'&lt;' * 120} … {'&lt;' * 120}"


def test_page_says_what_must_be_known_to_read_it() -> None:
    words = " ".join(_Elements(page(busy())).text.replace("\u202f", " ").split())
    for told in (
        "2026-11-20 10:03:20 to 2026-11-23 10:00:00 UTC (3.0 d)", "commit 1 284, 42 files of 58.4 MiB",
        "3 617 events are not in the table", "Events in 1 h, 2026-11-20 to 2026-11-23 (UTC)", "10.0.0.3:27586: refused",
        "by distkv 0.1.0", "183 changes of", "After all events of the table 3 conflicts are open, 1 of them deletions.",
    ):  # fmt: skip
        assert told in words


@pytest.mark.parametrize(
    ("figures", "told"),
    [
        (Figures(events=1, odd_times=1), "There is no event with a time."),
        (Figures(), "There was none."),
        (Figures(events=2, conflicts=Conflicts(1, 1, 1, 1, 1)), "1 of them came over a deletion"),
        (Figures(events=2, lives=(0,) * 11, backward=1), "No value was overwritten, deleted or ended by itself."),
    ],
)
def test_figures_that_are_hardly_any_are_told_in_words(figures: Figures, told: str) -> None:
    assert told in _Elements(page(attrs.evolve(empty(), figures=figures))).text


def test_page_of_a_large_fleet_stays_small() -> None:
    writers = tuple(WriterFigures(f"n{n}", 1, None, None, 0) for n in range(WRITERS_MAX))
    figures = Figures(events=900, writer_count=900, writers=writers)
    gaps = {NodeName(f"n{n}"): Ranges([(1, 2), (4, 5)]) for n in range(900)}
    lags = tuple(Lag("at", f"n{n}", 1, 0.0, 0.0, float(n), 0.0) for n in range(900))
    made = attrs.evolve(empty(), figures=figures, lags=Lags(lags, ("at",)))
    found = _Elements(page(attrs.evolve(made, table=attrs.evolve(made.table, gaps=gaps))))
    assert len(found.named("tr")) == 3 + WRITERS_MAX + GAPS_MAX + LAGS_MAX
    assert f"From each writer to each node: {LAGS_MAX} of 900" in found.text
    assert "n899" in found.text


def test_who_accepted_gaps_is_told_of_those_that_there_still_are() -> None:
    gaps = {NodeName("a"): Ranges([(3, 9)])}
    decisions = (
        GapDecision(1e9, "ada", "the disk burned", {NodeName("a"): Ranges([(1, 6)])}),
        GapDecision(1e9, "bob", "filled since", {NodeName("a"): Ranges([(1, 3)])}),
    )
    told = page(attrs.evolve(empty(), table=attrs.evolve(empty().table, gaps=gaps, settled=decisions)))
    assert "ada accepted 3 gaps on 2001-09-09T01:46:40.000+00:00: the disk burned" in told
    assert "filled since" not in told


def test_node_of_which_there_are_only_gaps_is_among_the_writers() -> None:
    made = attrs.evolve(empty(), table=attrs.evolve(empty().table, gaps={NodeName("silent"): Ranges([(1, 4)])}))
    cells = re.findall(r'<section id="writers".*?</section>', page(made), re.DOTALL)[0]
    assert "silent" in cells
    assert cells.endswith('<td class="n">3</td></tr>\n</tbody></table></div>\n</figure>\n</section>')


def test_lag_that_is_not_known_is_never_shown_as_none() -> None:
    for lags in (Lags(), Lags(nodes=("a",)), Lags(nodes=("a",), unknown=7)):
        found = _Elements(page(attrs.evolve(empty(), lags=lags))).text
        assert "Not known: no node" in found
        assert "0.00" not in found


def test_columns_stand_one_upon_the_other_and_are_never_too_small_to_see() -> None:
    series = [Series("sets", "sets", [1_000_000, 0, 1]), Series("deletes", "deletes", [500_000, 0, 0])]
    labels = [scale.Label(0.5, "<noon>", is_minor=False)]
    found = _Elements(columns(Columns(series, "events", labels, ["a", "b", "<c>"], "three & more")))
    rects = [one for one in found.named("rect") if one.get("class") in ("sets", "deletes")]
    low, high, tiny = ((float(one["y"] or 0), float(one["height"] or 0)) for one in rects)
    assert low[0] == pytest.approx(sum(high), abs=0.2)
    assert low[1] == pytest.approx(2 * high[1], abs=0.2)
    assert tiny[1] >= 1
    assert "<noon>" in found.text
    assert "<c>" in found.text


def test_small_charts_share_a_scale_and_bars_stay_in_their_cell() -> None:
    assert "v-26.0h.9v26.0z" in spark([5], 5, "most")
    assert "v-13.0h.9v13.0z" in spark([5], 10, "half")
    assert 'd=""' in spark([], 0, "none")
    assert 'width="100.00%"' in bar(7.0)
    assert "rect" not in bar(0.0)
    assert escape('"') in spark([1], 1, '"')
