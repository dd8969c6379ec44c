"""Moments in words."""

from __future__ import annotations

import pytest

from distkv.graph.text import TextWriter
from distkv.graph.trace import EventShown, Moment, Said

PING = Said("ping", "a@7", "a", chain="a:3 b:1")


def _said(moment: Moment) -> str:
    return TextWriter(["a", "b"]).line(moment)


@pytest.mark.parametrize(
    ("moment", "line"),
    [
        (Moment(0, "a", "started", state="passive"), "starts; is passive"),
        (Moment(0, "a", "set", events=(EventShown("a:1", "k", "1", "made"),), ticks="a:1"), "writes a:1 k = 1"),
        (Moment(0, "a", "set", notes=("refused code=exists",)), "gets a set; refused code=exists"),
        (Moment(0, "a", "ping", heard=PING, chain="a:3 b:1"), "hears ping [a:3 b:1] of a"),
        (Moment(0, "a", "ping", heard=PING, chain="c:1"), "hears ping [a:3 b:1] of a, keeps [c:1]"),
        (Moment(0, "a", "wake", sent=(PING,)), "sends ping [a:3 b:1]"),
        (Moment(0, "a", "info", heard=Said("info", "b@1", "b", ticks="a:3")), "hears info (a:3) of b"),
        (
            Moment(0, "a", "wake", sent=(Said("info", "a@9", "a", ticks="a:3", chain="a:3", about="reason"),)),
            "sends info (a:3) with reason [a:3]",
        ),
        (
            Moment(0, "a", "known", heard=Said("known", "a#1@2", "b", ticks="c:1", about="lacks c:2")),
            "hears that b knows c:1 and lacks c:2",
        ),
        (Moment(0, "a", "done", heard=Said("done", "a#1@2", "b", about="no answer")), "fails to ask b: no answer"),
        (Moment(0, "a", "killed"), "killed"),
        (Moment(0, "a", "wake", lost="b:2", state="ready"), "is ready; gives up b:2"),
    ],
)
def test_moment_is_said_in_words(moment: Moment, line: str) -> None:
    assert _said(moment) == f"    0.000 a {line}"


def test_what_befalls_all_has_a_star_for_its_name() -> None:
    assert _said(Moment(61_500, "", "a | b", notes=())) == "   61.500 * a | b"


def test_names_are_in_columns() -> None:
    assert TextWriter(["n1", "n10"]).line(Moment(0, "n1", "up")) == "    0.000 n1  transport up"


def test_event_says_what_became_of_it() -> None:
    events = (EventShown("b:1", "k", "2", "won"), EventShown("b:2", "l", None, "open loser"))
    heard = Said("update", "b@3", "b", ticks="b:1-2")
    line = _said(Moment(0, "a", "update", heard=heard, events=events, ticks="b:1-2"))
    assert line.endswith("hears b: b:1 k = 2, b:2 l deleted (open loser)")


def test_values_of_the_system_are_not_shown() -> None:
    event = EventShown("a:1", ":n.node.a", "{'life': 0}", "made")
    assert _said(Moment(0, "a", "wake", events=(event,), ticks="a:1")).endswith("writes a:1 :n.node.a")


def test_own_update_goes_without_saying() -> None:
    event, sent = EventShown("a:1", "k", "1", "made"), Said("update", "a@2", "a", ticks="a:1")
    assert _said(Moment(0, "a", "set", events=(event,), ticks="a:1", sent=(sent,))).endswith(" writes a:1 k = 1")


def test_state_and_missing_are_said_when_they_change() -> None:
    writer = TextWriter(["a"])
    lines = [
        writer.line(Moment(0, "a", "up", state="recovering", missing="b:1")),
        writer.line(Moment(1, "a", "up", state="recovering", missing="b:1")),
        writer.line(Moment(2, "a", "up", state="ready")),
    ]
    assert [line.partition("transport up")[2] for line in lines] == [
        "; is recovering; misses b:1",
        "",
        "; is ready; misses nothing",
    ]


def test_next_process_says_its_state_anew() -> None:
    writer = TextWriter(["a"])
    for moment in (Moment(0, "a", "up", state="ready"), Moment(1, "a", "ends")):
        writer.line(moment)
    assert writer.line(Moment(2, "a", "started", state="ready")).endswith("starts; is ready")
