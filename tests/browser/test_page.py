"""The page of `distkv graph` in a real browser: what one sees, and what one can do.

Knows: the page by what its user meets: check boxes, rows, buttons, keys.  What is in the file is in tests/unit/graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from distkv.graph.page import MOMENTS_MAX, page
from distkv.graph.picture import compose
from distkv.graph.trace import Moment
from tests.browser.browser import Browser
from tests.unit.graph.traces import heard, split_and_heal, there, write

SHOWN = "return [...document.querySelectorAll('.row .what')].map(row => row.innerText)"
BRIGHT = "return [...document.querySelectorAll('.row .what:not(.dim)')].map(row => row.innerText)"
DARKNESS = "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).reduce((sum, part) => sum + +part, 0)"


@pytest.fixture(scope="module")
def trace() -> list[Moment]:
    return split_and_heal()


@pytest.fixture
def shown(browser: Browser, trace: list[Moment], tmp_path: Path) -> Iterator[Browser]:
    """The page of a split that heals. Whatever a test does with it, the page has nothing to complain about."""
    show(browser, trace, tmp_path)
    yield browser
    assert browser.errors() == []


def show(browser: Browser, moments: list[Moment], directory: Path) -> None:
    file = directory / "graph.html"
    file.write_text(page(compose(moments, "split and heal")), encoding="utf-8")
    browser.open(file)


def rows(browser: Browser) -> list[str]:
    found: list[str] = browser.run(SHOWN)
    return found


def bright(browser: Browser) -> list[str]:
    found: list[str] = browser.run(BRIGHT)
    return found


def picked(browser: Browser) -> str:
    return browser.text(".row.picked .what")


def told(browser: Browser, node: str, field: str) -> str:
    """What is told of a node beside the diagram."""
    return browser.text(f'#states [data-node="{node}"] [data-field="{field}"]')


def pick(browser: Browser, words: str) -> None:
    """Click on the first row in sight with these words."""
    number = next(at for at, text in enumerate(rows(browser)) if words in text)
    # What scrolling draws anew, it draws within two frames: a click meanwhile could miss.
    row = browser.run(
        """
        const row = document.querySelectorAll(".row")[arguments[0]].id;
        document.getElementById(row).scrollIntoView({ block: "center" });
        return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(row))));
        """,
        number,
    )
    browser.click(f"#{row} .what")


# -- what is shown ------------------------------------------------------------------------------------------------


def test_page_shows_every_moment_with_its_words(shown: Browser, trace: list[Moment]) -> None:
    assert shown.text("h1") == "split and heal"
    assert shown.text("#count") == f"{len(trace)} of {len(trace)} moments"
    assert rows(shown)[0] == "a starts; is passive"


def test_node_that_is_switched_off_disappears_with_its_arrows(shown: Browser) -> None:
    assert shown.count("#arrows g") > 0
    shown.click('#nodes input[value="b"]')
    assert {row[0] for row in rows(shown)} == {"a"}
    assert shown.count("#arrows g") == 0
    shown.click('#nodes input[value="b"]')
    assert {row[0] for row in rows(shown)} == {"a", "b"}


def test_kind_that_is_switched_off_disappears_but_for_what_sent_another(shown: Browser) -> None:
    shown.type("#search", "hears ping [")
    before = rows(shown)
    shown.click('#kinds input[value="ping"]')
    assert rows(shown) == [row for row in before if "; sends info" in row] != before


def test_one_kind_alone_is_two_clicks(shown: Browser, trace: list[Moment]) -> None:
    shown.click("#kinds button:last-of-type")
    assert shown.text("#at") == "Nothing is shown"
    shown.click('#kinds input[value="set"]')
    assert len(rows(shown)) == sum(moment.kind == "set" for moment in trace)


def test_text_finds_moments(shown: Browser) -> None:
    shown.type("#search", "DOWNLOAD")
    found = rows(shown)
    assert found
    assert all("download" in row for row in found)


def test_moments_that_sent_something_stay_with_its_kind(shown: Browser) -> None:
    shown.click("#kinds button:last-of-type")
    shown.click('#kinds input[value="ping"]')
    assert any("sends ping" in row for row in rows(shown))
    assert shown.count("#arrows g path") > 0


def test_message_that_is_lost_ends_in_a_cross(shown: Browser) -> None:
    pick(shown, "a writes a:5 k")
    assert shown.count("#arrows .cross") > 0


# -- following ----------------------------------------------------------------------------------------------------


def test_event_is_followed_from_node_to_node(shown: Browser) -> None:
    pick(shown, "a writes a:5 k")
    assert shown.text("#tags button") == "a:5"
    shown.click("#tags button")
    assert shown.text("#followed") == "a:5"
    journey = [line.strip() for line in shown.text("#journey").splitlines()]
    assert {line.split()[1] for line in journey} == {"a", "b"}
    assert "a writes a:5 k = 1" in journey[0]
    assert any("gets from a: a:5" in line for line in journey)
    assert 0 < len(bright(shown)) < len(rows(shown))
    assert all("a:5" in row for row in bright(shown))


def test_tick_is_followed_into_pings_and_infos(shown: Browser) -> None:
    shown.type("#find", "a:5")
    shown.press("enter")
    journey = shown.text("#journey")
    assert "ping [" in journey
    assert "info (" in journey


def test_tick_that_is_typed_in_leads_to_where_it_was_made(shown: Browser) -> None:
    shown.type("#find", "a:5")
    shown.press("enter")
    assert picked(shown).startswith("a writes a:5 k")


def test_keys_go_along_what_is_followed_and_leave_it(shown: Browser) -> None:
    pick(shown, "a writes a:5 k")
    shown.run("document.getElementById('scroll').focus()")
    shown.press("f")
    first = picked(shown)
    shown.press("n", "n")
    later = picked(shown)
    assert later != first
    assert "a:5" in later
    shown.press("p", "p")
    assert picked(shown) == first
    shown.press("escape")
    assert shown.count(".row .what.dim") == 0


def test_line_of_the_journey_leads_to_its_moment(shown: Browser) -> None:
    pick(shown, "a writes a:5 k")
    shown.click("#tags button")
    shown.click("#journey li:last-child button")
    assert "a:5" in picked(shown)
    assert shown.count('#journey li:last-child button[aria-current="true"]') == 1


def test_moments_at_which_a_tick_begins_and_ends_to_be_missing_are_on_its_way(browser: Browser, tmp_path: Path) -> None:
    times = [there("b"), there("b", 5, missing="a:4-6"), there("b", 7, missing="a:5"), there("b", 9)]
    show(browser, times, tmp_path)
    browser.type("#find", "a:5")
    browser.press("enter")
    journey = [line.split()[0] for line in browser.text("#journey").splitlines()]
    assert journey == ["0.005", "0.009"]


# -- through time -------------------------------------------------------------------------------------------------


def test_scrubbing_shows_chains_and_missing_ranges_as_they_change(shown: Browser, trace: list[Moment]) -> None:
    shown.run("document.getElementById('scrub').focus()")
    shown.press("home")
    assert told(shown, "a", "state") == "passive"
    seen = set()
    for moment in trace[1:]:
        shown.press("right")
        if moment.node == "b" and moment.state:
            assert told(shown, "b", "missing") == (moment.missing or "nothing")
            assert told(shown, "b", "chain") == (moment.chain or "none")
            seen.add((moment.missing, moment.chain))
    assert len(seen) > 3


def test_pointer_shows_the_nodes_at_a_moment_without_going_there(shown: Browser) -> None:
    before = picked(shown)
    shown.hover(".row:nth-of-type(6)")
    assert shown.text("#at") == f"The nodes at {float(shown.text('.row:nth-of-type(6) time')):.3f} s"
    assert picked(shown) == before


def test_equal_digests_have_equal_colours(shown: Browser) -> None:
    shown.run("document.getElementById('scroll').focus()")
    shown.press("end")
    colours = "return [...document.querySelectorAll('#states td .swatch')].map(swatch => swatch.style.background)"
    digests = {told(shown, "a", "digest"), told(shown, "b", "digest")}
    assert len(digests) == 1
    assert len(set(shown.run(colours))) == 1


def test_keys_walk_through_all_moments(shown: Browser, trace: list[Moment]) -> None:
    shown.run("document.getElementById('scroll').focus()")
    shown.press("end")
    box = "return document.getElementById('scroll').getAttribute('aria-activedescendant')"
    assert shown.run(box) == f"m{len(trace) - 1}"
    shown.press("up")
    assert shown.run(box) == f"m{len(trace) - 2}"
    shown.press("home", "down", "down")
    assert shown.run(box) == "m2"
    assert shown.count('.row[aria-selected="true"]') == 1


def test_all_controls_are_reached_by_the_keyboard(shown: Browser) -> None:
    shown.run("document.getElementById('search').focus()")
    shown.press("escape", "tab")
    for _ in range(60):
        if shown.run("return document.activeElement.id") == "scroll":
            break
        shown.press("tab")
    shown.press("down")
    assert shown.count(".row.picked") == 1
    shown.press("/")
    assert shown.run("return document.activeElement.id") == "search"


# -- what it bears ------------------------------------------------------------------------------------------------


def test_page_follows_the_light_or_dark_of_the_screen(shown: Browser) -> None:
    light = shown.run(DARKNESS)
    shown.prefer_dark(dark=True)
    try:
        assert shown.run(DARKNESS) < 150 < 600 < light
    finally:
        shown.prefer_dark(dark=False)


@pytest.fixture(scope="module")
def long_trace() -> list[Moment]:
    """As many moments as a page shows: writes that reach three nodes of four."""
    moments = [there(name) for name in "abcd"]
    for number in range(1, MOMENTS_MAX // 4):
        sent = write("abcd"[number % 4], number, number * 10)
        others = [name for name in "abcd" if name != sent.node]
        moments += [sent, *(heard(name, sent, number * 10 + 5) for name in others)]
    return [attrs.evolve(moment, digest=f"{at // 3:016x}") for at, moment in enumerate(moments)]


def test_five_thousand_moments_scroll_and_filter_smoothly(
    browser: Browser, long_trace: list[Moment], tmp_path: Path
) -> None:
    show(browser, long_trace, tmp_path)
    assert browser.text("#count") == f"{len(long_trace)} of {len(long_trace)} moments"
    assert len(rows(browser)) < 100
    made = browser.run(
        """
        const box = document.getElementById("scroll"), create = document.createElement;
        let made = 0;
        document.createElement = function (kind) { made += 1; return create.call(document, kind); };
        for (let step = 0; step < 50; step += 1) {
          box.dispatchEvent(new KeyboardEvent("keydown", { key: "PageDown" }));
        }
        delete document.createElement;
        return made;
        """
    )
    assert 50 <= made < 50 * 1000  # the rows that are seen and the details of one; not all the moments at each step
    browser.type("#search", f"a:{MOMENTS_MAX // 8 // 4 * 4} ")
    assert 0 < len(rows(browser)) < 10


def test_text_of_a_trace_is_only_text(browser: Browser, tmp_path: Path) -> None:
    evil = "</script><img src=x onerror=document.title='broken'><b>bold</b>"
    show(browser, [there("a", notes=(evil,))], tmp_path)
    assert evil in rows(browser)[0]
    assert browser.text("#details li") == evil
    assert browser.run("return document.title") == "split and heal"
    assert browser.count("img, .what b b") == 0


def test_page_without_moments_says_so(browser: Browser, tmp_path: Path) -> None:
    show(browser, [], tmp_path)
    assert browser.text("#at") == "Nothing is shown"
    assert browser.errors() == []


def test_narrow_window_shows_the_diagram_above_what_is_told(
    browser: Browser, trace: list[Moment], tmp_path: Path
) -> None:
    show(browser, trace, tmp_path)
    browser.resize(600, 900)
    try:
        places = browser.run(
            "return ['#diagram', 'aside'].map(part => document.querySelector(part).getBoundingClientRect().top)"
        )
        assert places[0] < places[1]
        assert browser.count(".row") > 5
    finally:
        browser.resize(1400, 900)
