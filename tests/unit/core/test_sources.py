"""Whom a node that starts asks next."""

from __future__ import annotations

from distkv.core.attempts import SOURCES_MAX, Sources
from distkv.model.event import NodeName

A, B, C, D = map(NodeName, "abcd")


def _of(*names: NodeName) -> Sources:
    sources = Sources()
    for name in names:
        sources.add(name, f"{name}:1")
    return sources


def _turns(sources: Sources, count: int) -> str:
    """The names of the next ones."""
    return "".join(found[0] for _ in range(count) if (found := sources.next()) is not None)


def test_sources_take_turns() -> None:
    assert _turns(_of(A, B, C), 7) == "abcabca"


def test_source_is_asked_at_its_last_address() -> None:
    sources = _of(A)
    sources.add(A, "elsewhere:2")
    assert sources.next() == (A, "elsewhere:2")


def test_nobody_is_known_at_first() -> None:
    assert Sources().next() is None


def test_source_that_is_dropped_has_no_turn() -> None:
    sources = _of(A, B, C)
    sources.drop(B)
    assert _turns(sources, 4) == "acac"


def test_source_that_postpones_comes_behind_one_two_and_all_others() -> None:
    sources = _of(A, B, C, D)
    asked = ""
    while len(asked) < 14:
        asked += (name := _turns(sources, 1))
        if name == A:
            sources.postpone(A)
    assert asked == "abacdabcdabacd"


def test_no_more_sources_are_kept_than_there_is_place_for() -> None:
    sources = _of(*(NodeName(f"n{number}") for number in range(SOURCES_MAX)))
    assert not sources.add(A, "a:1")
    assert sources.add(NodeName("n0"), "n0:2")
    assert _turns(sources, SOURCES_MAX).count("n") == SOURCES_MAX
