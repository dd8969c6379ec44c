"""The page of `distkv pipeline report` in a real browser: on a screen, on a phone, in the dark, and what it asks for.

Knows: the page by what its reader sees.  What is in the file is in tests/unit/spark/test_page.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from distkv.spark.reporting.figures import Report
from distkv.spark.reporting.page import page
from tests.browser.browser import Browser
from tests.unit.spark.reports import busy, empty, odd

PHONE = 375
REPORTS = [busy, empty, odd]
WIDTHS = "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
ASKED = "return performance.getEntriesByType('resource').map(entry => entry.name)"
OUTSIDE = """
return [...document.querySelectorAll('svg.area text')].filter((text) => {
  const own = text.getBoundingClientRect(), all = text.closest('svg').getBoundingClientRect();
  return own.width > 0 && (own.left < all.left - 1 || own.right > all.right + 1 || own.bottom > all.bottom + 1);
}).map(text => text.textContent)
"""
OVERLAP = """
return [...document.querySelectorAll('svg.area')].map((chart) => {
  const places = [...chart.querySelectorAll('text')].map(text => text.getBoundingClientRect()).filter(one => one.width);
  return places.some((one, at) => at > 0 && one.left < places[at - 1].right + 4);
})
"""
CONTRASTS = """
const number = (text) => text.match(/[\\d.]+/g).map(Number);
const light = (rgb) => {
  const [r, g, b] = rgb.slice(0, 3).map(c => c / 255).map(c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
  return .2126 * r + .7152 * g + .0722 * b;
};
const behind = (element) => {
  for (let one = element; one; one = one.parentElement) {
    const rgb = number(getComputedStyle(one).backgroundColor);
    if (rgb.length < 4 || rgb[3] > 0) return rgb;
  }
  return [255, 255, 255];
};
return Math.min(...[...document.querySelectorAll('p, dt, dd, li, th, td, a, text, figcaption, summary')].map((one) => {
  const style = getComputedStyle(one);
  const pair = [light(number(one.tagName === 'text' ? style.fill : style.color)), light(behind(one.parentElement))];
  return (Math.max(...pair) + .05) / (Math.min(...pair) + .05);
}));
"""


@pytest.fixture
def phone(browser: Browser) -> Iterator[Browser]:
    """A window is never narrower than 500, but a frame in it is."""
    browser.narrow(PHONE)
    yield browser
    browser.narrow(None)


def show(browser: Browser, made: Callable[[], Report], directory: Path) -> None:
    file = directory / "report.html"
    file.write_text(page(made()), encoding="utf-8")
    browser.open(file)


@pytest.mark.parametrize("made", REPORTS)
def test_page_complains_of_nothing_and_asks_for_nothing(
    browser: Browser, tmp_path: Path, made: Callable[[], Report]
) -> None:
    show(browser, made, tmp_path)
    assert browser.run(ASKED) == []
    assert browser.errors() == []
    assert browser.run("return document.title").endswith("distkv report")


@pytest.mark.parametrize("made", REPORTS)
def test_page_is_no_wider_than_a_phone(phone: Browser, tmp_path: Path, made: Callable[[], Report]) -> None:
    show(phone, made, tmp_path)
    assert phone.run(WIDTHS) == [PHONE, PHONE]


@pytest.mark.parametrize("width", [PHONE, 700, 1200])
def test_labels_of_charts_are_inside_and_apart(browser: Browser, tmp_path: Path, width: int) -> None:
    browser.narrow(width)
    try:
        show(browser, busy, tmp_path)
        assert browser.run(OUTSIDE) == []
        assert browser.run(OVERLAP) == [False, False]
    finally:
        browser.narrow(None)


@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_read_in_light_and_in_dark(browser: Browser, tmp_path: Path, dark: bool) -> None:
    browser.prefer_dark(dark=dark)
    try:
        show(browser, busy, tmp_path)
        assert browser.run("return matchMedia('(prefers-color-scheme: dark)').matches") is dark
        assert browser.run(CONTRASTS) >= 4.5
    finally:
        browser.prefer_dark(dark=False)


def test_paper_is_light_and_shows_no_links_between_sections(browser: Browser, tmp_path: Path) -> None:
    browser.prefer_dark(dark=True, on_paper=True)
    try:
        show(browser, busy, tmp_path)
        assert browser.run("return getComputedStyle(document.body).color") == "rgb(27, 31, 39)"
        assert browser.run("return getComputedStyle(document.querySelector('nav')).display") == "none"
    finally:
        browser.prefer_dark(dark=False)


def test_links_lead_to_sections_and_tables_take_the_keyboard(browser: Browser, tmp_path: Path) -> None:
    show(browser, busy, tmp_path)
    browser.click('nav a[href="#gaps"]')
    assert 0 <= browser.run("return document.querySelector('#gaps').getBoundingClientRect().top") < 900
    browser.run("document.querySelector('#gaps .wide').focus()")
    assert browser.run("return document.activeElement.getAttribute('aria-label')") == "Ticks without content"


def test_names_that_look_like_markup_do_nothing(browser: Browser, tmp_path: Path) -> None:
    show(browser, odd, tmp_path)
    assert browser.count("script, img, b") == 0
    assert "broken" in browser.text("h1")
    assert browser.run("return document.title") != "broken"
