"""Pictures as SVG."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from distkv.graph.picture import compose
from distkv.graph.svg import WORDS_MAX, svg
from distkv.graph.trace import Moment
from tests.unit.graph.traces import OTHER, ended, heard, split_and_heal, there, write

Element = ElementTree.Element

NAMES = {"svg": "http://www.w3.org/2000/svg"}
SENT = write("a", 1)
PAIR = [there("a"), there("b"), SENT, heard("b", SENT)]


def _drawn(moments: list[Moment], title: str = "t", moments_max: int = 100) -> Element:
    return ElementTree.fromstring(svg(compose(moments, title, moments_max=moments_max)))


def _all(root: Element, name: str, kind: str = "") -> list[Element]:
    found = root.iterfind(f".//svg:{name}", NAMES)
    return [element for element in found if not kind or kind in element.get("class", "").split()]


def _texts(root: Element) -> list[str]:
    return ["".join(text.itertext()) for text in _all(root, "text")]


def test_lanes_and_words_are_written() -> None:
    texts = _texts(_drawn(PAIR))
    assert {"t", "a", "b", "0.010", "a writes a:1 k = 1"} <= set(texts)


def test_every_moment_has_its_dot_in_its_lane() -> None:
    root = _drawn(PAIR)
    lane = {text.text: text.get("x") for text in _all(root, "text", "lane")}
    assert [dot.get("cx") for dot in _all(root, "circle")] == [lane["a"], lane["b"], lane["a"], lane["b"]]


def test_arrow_goes_from_dot_to_dot() -> None:
    root = _drawn(PAIR)
    (arrow,) = _all(root, "path", "arrow")
    numbers = [float(number) for number in re.findall(r"-?[\d.]+", arrow.get("d", ""))]
    dots = [(float(dot.get("cx", 0)), float(dot.get("cy", 0))) for dot in _all(root, "circle")]
    assert numbers[:4] == [dots[2][0] + 5, dots[2][1], dots[3][0] - 6, dots[3][1]]


def test_what_is_lost_ends_in_a_cross() -> None:
    root = _drawn([there("a"), there("b"), SENT, there("a", 60_000)])
    assert len(_all(root, "path", "lost")) == 1


def test_conversation_over_tcp_is_dashed() -> None:
    root = _drawn(split_and_heal(), moments_max=1000)
    assert len(_all(root, "path", "tcp")) > 5


def test_nodes_that_hold_the_same_have_one_colour() -> None:
    lives = _all(_drawn([there("a"), there("b"), there("c", digest=OTHER)]), "line", "life")
    colours = [life.get("style") for life in lives]
    assert colours[0] == colours[1] != colours[2]


def test_line_of_life_is_dashed_where_no_process_runs() -> None:
    lives = _all(_drawn([there("a"), ended("a"), there("a", 60)]), "line")
    assert [life.get("class") for life in lives] == ["life", "gone", "life"]


def test_what_is_missing_has_a_red_edge() -> None:
    root = _drawn([there("a"), there("a", 5, missing="b:1"), there("a", 9)])
    (edge,) = _all(root, "line", "missing")
    dots = _all(root, "circle")
    assert (edge.get("y1"), edge.get("y2")) == (dots[1].get("cy"), dots[2].get("cy"))


def test_what_happened_to_all_crosses_all_lanes() -> None:
    root = _drawn([there("a"), Moment(5, "", "splits")])
    assert len(_all(root, "line", "all")) == 1
    assert "all splits" in _texts(root)


def test_long_words_are_cut_and_whole_in_the_title() -> None:
    words = "x" * (2 * WORDS_MAX)
    root = _drawn([there("a", notes=(words,))])
    assert any(words in (title.text or "") for title in root.iterfind(".//svg:text/svg:title", NAMES))


def test_what_is_left_out_is_said() -> None:
    assert "3 moments before these are left out." in _texts(_drawn(PAIR, moments_max=1))


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "a & b", "]]>", "\x00\x1b[1m", "\ud800"])
def test_text_is_only_text(text: str) -> None:
    root = _drawn([there("a", notes=(text,))], title=text)
    assert _all(root, "script") == []
    root_text = svg(compose([there("a", notes=(text,))], text))
    root_text.encode()


def test_picture_without_moments_is_one_too() -> None:
    assert _texts(_drawn([])) == ["t"]


def test_picture_asks_for_nothing_from_elsewhere() -> None:
    text = svg(compose(split_and_heal(), "t"))
    assert "href" not in text
    assert "url(" not in text
    assert "@import" not in text
