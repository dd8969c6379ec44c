"""Pictures as Mermaid sequence diagrams."""

from __future__ import annotations

import re

import attrs

from distkv.graph.mermaid import mermaid
from distkv.graph.picture import compose
from distkv.graph.trace import Moment
from tests.unit.graph.traces import heard, split_and_heal, there, write

SENT = write("a", 1)
LATER = there("a", 60_000)
STATEMENT = re.compile(
    r"""sequenceDiagram | [ ]{2} (
        %%[ ].* | participant[ ]p\d+[ ]as[ ][^;#]+ | Note[ ]over[ ]p\d+(,p\d+)?:[ ].+ | p\d+(-x|--x|->>|-->>)p\d+:[ ].+
    )""",
    re.VERBOSE,
)


def _lines(*moments: Moment) -> list[str]:
    return mermaid(compose(moments, "t")).splitlines()


def test_each_node_is_a_participant_in_order() -> None:
    lines = _lines(there("n10"), there("n2"))
    assert [line for line in lines if "participant" in line] == ["  participant p0 as n2", "  participant p1 as n10"]


def test_message_stands_where_it_arrives() -> None:
    assert "  p0->>p1: 0.020 hears a: a:1 k = 1" in _lines(there("a"), there("b"), SENT, heard("b", SENT))


def test_message_that_is_lost_ends_in_a_cross() -> None:
    assert "  p0-xp1: update lost" in _lines(there("a"), there("b"), SENT, LATER)


def test_message_that_nobody_gets_returns_to_its_sender() -> None:
    assert "  p0-xp0: update reaches nobody" in _lines(there("a"), there("b"), there("c"), SENT, LATER)


def test_step_without_a_message_is_a_note() -> None:
    assert "  Note over p0: 0.000 is ready" in _lines(there("a", kind="wake"))


def test_what_happened_to_all_is_a_note_over_all() -> None:
    assert "  Note over p0,p1: 0.009 splits" in _lines(there("a"), there("b"), Moment(9, "", "splits"))


def test_text_cannot_end_a_statement() -> None:
    evil = there("a", kind="wake", notes=("x;\nNote over p0: <b>#35;",))
    (line,) = [line for line in _lines(evil) if "Note" in line]
    assert line == "  Note over p0: 0.000 x#59;#10;Note over p0: #60;b#62;#35;35#59;#59; is ready"


def test_title_stays_in_its_comment() -> None:
    assert mermaid(compose([there("a")], "x\nend %%{init}%%")).splitlines()[1] == "  %% x end init"


def test_what_is_left_out_is_a_note() -> None:
    text = mermaid(compose([there("a"), there("a")], "t", moments_max=1))
    assert "Note over p0: 1 moments before these are left out." in text


def test_trace_of_a_real_fleet_has_nothing_but_statements() -> None:
    lines = mermaid(compose(split_and_heal(), "split: a | b")).splitlines()
    assert len(lines) > 40
    assert [line for line in lines if not STATEMENT.fullmatch(line)] == []


def test_names_that_mean_something_to_mermaid_are_only_shown() -> None:
    end = attrs.evolve(there("end"), node="end")
    assert "  participant p0 as end" in _lines(end)
