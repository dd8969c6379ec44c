"""Pictures as pages: what is in the file. What one can do with it in a browser is in tests/browser."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from distkv.graph.page import TAGS_MAX, data_of, page
from distkv.graph.picture import compose
from distkv.graph.trace import Moment, Said
from tests.unit.graph.traces import ended, heard, split_and_heal, there, write

SENT = write("a", 1)
PAIR = [there("a"), there("b"), SENT, heard("b", SENT)]


class _Elements(HTMLParser):
    """Which elements a page has, and what stands in scripts and title."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: dict[str, str] = {}
        self._open = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs
        self._open = dict(attrs).get("id") or tag

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002
        self._open = ""

    def handle_data(self, data: str) -> None:
        self.texts[self._open] = self.texts.get(self._open, "") + data


def _data(moments: list[Moment], title: str = "t") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_Elements(page(compose(moments, title))).texts["data"])
    return found


def test_data_is_json_in_an_element_of_its_own() -> None:
    found = _data(PAIR)
    assert found["nodes"] == ["a", "b"]
    assert [moment["x"] for moment in found["moments"]] == list(compose(PAIR, "t").words)


def test_arrows_name_moments_nodes_and_kinds_by_number() -> None:
    found = _data(PAIR)
    (arrow,) = found["arrows"]
    assert (arrow["f"], arrow["t"], arrow["a"], arrow["b"], arrow["l"]) == (2, 3, 0, 1, False)
    assert found["kinds"][arrow["k"]] == {"name": "update", "group": "update"}


def test_view_is_told_only_where_it_changes() -> None:
    found = _data([*PAIR, ended("b")])
    assert [moment["s"] for moment in found["moments"]] == [[[0, 0]], [[1, 1]], [[0, 2]], [[1, 3]], [[1, -1]]]
    assert len(found["views"]) == 4


def test_moment_offers_its_events_and_messages_to_be_followed() -> None:
    said = Said("update", "b@9", "b", ticks="a:1-2 c:350.4")
    moment = there("a", kind="update", heard=said, ticks="a:1-2 c:350.4")
    assert _data([there("b"), moment])["moments"][1]["g"] == ["a:1", "a:2", "c:350.4", "b@9"]


def test_moment_of_many_events_offers_the_first_ones() -> None:
    moment = there("a", kind="events", heard=Said("events", "a#1@2", "b", "a", ticks="b:1-20000"), ticks="b:1-20000")
    assert len(_data([moment])["moments"][0]["g"]) == TAGS_MAX


def test_what_happened_to_all_is_in_no_lane() -> None:
    assert _data([there("a"), Moment(5, "", "splits")])["moments"][1]["n"] == -1


@pytest.mark.parametrize(
    "text", ["</script><script>alert(1)</script>", "<!--<script>", "@DATA@", "@SCRIPT@ &amp; \\u003c", "\u2028"]
)
def test_text_of_a_trace_is_nothing_but_text(text: str) -> None:
    plain = _Elements(page(compose([there("a")], "t")))
    found = _Elements(page(compose([there("a", notes=(text,))], text)))
    assert found.names == plain.names
    assert found.texts["title"] == found.texts["h1"] == text
    assert text in json.loads(found.texts["data"])["moments"][0]["d"]


def test_page_asks_for_nothing_from_elsewhere() -> None:
    text = page(compose(split_and_heal(), "t"))
    found = _Elements(text)
    assert not {"link", "img", "iframe"} & set(found.names)
    assert not {"src", "href"} & {name for name, _ in found.attributes}
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(", text)
    assert "default-src 'none'" in text


def test_data_of_nothing_is_complete() -> None:
    assert data_of(compose([], "t")) == {"nodes": [], "moments": [], "arrows": [], "kinds": [], "views": []}
