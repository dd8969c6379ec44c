"""Which cells of tokens there are, what is aimed at, and who is asked.

Knows: the cells and the aims.  Starts nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest
from bench import tokens
from bench.figures import AIMS
from bench.load import Load
from bench.servers import Server
from bench.tokens import NAMES, TAGS, TOKEN_CELLS, Group, run_tokens, settings

GOOD = Load(1000, 1.0, 10, 20, 1000, 0, 0, 0, 0.5, "")


@pytest.mark.parametrize("peer", ["etcd", "etcd-three"])
def test_a_token_alone_and_one_that_is_handed_have_an_aim(peer: str) -> None:
    names = {cell.name for cell in TOKEN_CELLS}
    assert {cell for cell, server in AIMS if server == peer and cell in names} == {"alone 1", "handed 32"}
    assert "alone 32" in names


def test_settings_name_the_servers() -> None:
    assert settings(["a", "b", "c"]) == "tokens: {servers: [a, b, c]}\n"


@attrs.define
class FakeServer:
    """Uses a second of processor time whenever it is looked at."""

    port: int
    protocol: str = "distkv"
    used_s: float = 0.0

    def cpu_s(self) -> float:
        self.used_s += 1.0
        return self.used_s


@attrs.define
class FakeGenerator:
    asked: list[tuple[int, dict[str, Any]]] = attrs.field(factory=list)

    def lock(self, protocol: str, port: int, mode: str, **words: Any) -> Load:
        self.asked.append((port, {"protocol": protocol, "mode": mode, **words}))
        return GOOD


def _run(monkeypatch: pytest.MonkeyPatch, rounds: int) -> tuple[FakeGenerator, list[Any]]:
    monkeypatch.setattr(tokens, "wait_rest", lambda _: None)
    generator: Any = FakeGenerator()
    ours: Any = [FakeServer(1), FakeServer(2), FakeServer(3)]
    theirs: Any = FakeServer(4, "etcd")
    groups = {"distkv": Group(ours[0], ours[1:]), "etcd": Group(theirs)}
    return generator, run_tokens(groups, generator, rounds=rounds, seconds=0.5, say=lambda _: None)


def test_one_of_a_group_is_asked_and_the_processor_time_is_that_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    generator, samples = _run(monkeypatch, 1)
    assert {port for port, _ in generator.asked} == {1, 4}
    assert {(sample.server, sample.cpu_s) for sample in samples} == {("distkv", 3.0), ("etcd", 1.0)}


def test_both_are_asked_in_each_cell_in_turn_for_the_same_names(monkeypatch: pytest.MonkeyPatch) -> None:
    generator, samples = _run(monkeypatch, 2)
    ports = [port for port, _ in generator.asked]
    assert ports == [1, 4] * len(TOKEN_CELLS) + [4, 1] * len(TOKEN_CELLS)
    assert [sample.round for sample in samples] == [0] * 2 * len(TOKEN_CELLS) + [1] * 2 * len(TOKEN_CELLS)
    tags = [words["tag"] for _, words in generator.asked]
    assert tags[::2] == tags[1::2]
    assert len(set(tags)) == 2 * len(TOKEN_CELLS)
    assert all(0 <= tag < TAGS for tag in tags)
    assert {words["names"] for _, words in generator.asked} == {NAMES}


def test_group_begins_with_the_one_that_is_asked(tmp_path: Path) -> None:
    first, other = (Server(name, "distkv", 1, tmp_path, [], lambda _: True) for name in "ab")
    assert [server.name for server in Group(first, [other]).all] == ["a", "b"]
