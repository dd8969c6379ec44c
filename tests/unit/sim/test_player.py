"""Scripts, carried out."""

from __future__ import annotations

import pytest

from distkv.sim.grammar import parse_script
from distkv.sim.player import ScriptFailedError, play


def _shown(*lines: str) -> list[str]:
    """What the last block shows."""
    played = play(parse_script("\n".join([*lines, "----"]), "t.txt"))
    return list(played.outputs[-1])


def test_trace_begins_when_the_cluster_has_grown() -> None:
    played = play(parse_script("cluster a b\nset a k 1\n----\n", "t.txt"))
    assert [(m.at_ms, m.node, m.ticks) for m in played.moments] == [(0, "a", "a:5")]


def test_two_runs_of_a_script_are_one() -> None:
    script = parse_script("cluster a b c\ndrop 1 update of a\nset a k 1\nset b k 2\nsettle\nstate\n----\n", "t.txt")
    assert play(script) == play(script)


def test_hidden_moments_are_in_the_trace() -> None:
    played = play(parse_script("cluster a b\nshow nothing\nset a k 1\nrun 1s\n----\n", "t.txt"))
    assert played.outputs == ((),)
    assert [m.kind for m in played.moments] == ["set", "update"]


@pytest.mark.parametrize(
    ("shown", "kinds"),
    [
        ("write", ["a writes"]),
        ("heard update", ["b hears"]),
        ("update", ["a writes", "b hears"]),
        ("update at b", ["b hears"]),
        ("tcp", []),
        ("nothing", []),
    ],
)
def test_filter_shows_what_it_names(shown: str, kinds: list[str]) -> None:
    lines = _shown("cluster a b", f"show {shown}", "set a k 1", "run 100ms")
    assert [" ".join(line.split()[1:3]) for line in lines] == kinds


def test_what_befalls_a_node_is_shown_with_anything_else() -> None:
    assert _shown("cluster a b", "show write", "crash b")[0].endswith("b loses power")


def test_what_befalls_a_node_is_shown_for_itself_only() -> None:
    assert _shown("cluster a b", "show all at a", "crash b") == []


def test_state_groups_nodes_that_stand_alike() -> None:
    lines = _shown("cluster a b c", "show nothing", "split a b | c", "set a k 1", "run 1s", "crash c", "state")
    assert lines == ["a b: ready; k = 1", "c: does not run"]


def test_state_names_losers_and_deleted_paths() -> None:
    lines = _shown(
        "cluster a b",
        "show nothing",
        "set a old 1",
        "run 1s",
        "split a | b",
        "set a k 1",
        "set b k 2",
        "delete b old",
        "heal",
        "settle",
        "state",
    )
    assert lines == ["a b: ready; k = 2; k also = 1 by a; deleted old"]


def test_state_says_what_is_missing() -> None:
    lines = _shown("cluster a b", "show nothing", "drop 1 update of a", "set a k 1", "set a l 2", "run 100ms", "state")
    assert lines == ["a: ready; k = 1, l = 2", "b: ready; l = 2; misses a:5"]


def test_many_values_are_counted() -> None:
    (line,) = _shown("cluster a b", "show nothing", "fill a x 50", "run 1s", "state")
    assert line == "a b: ready; x.0 = 0, x.1 = 1, … x.9 = 9 (50 in all)"


def test_dropped_messages_are_counted_on_each_way() -> None:
    lines = _shown("cluster a b c", "drop 1 update of a", "show heard update", "set a k 1", "set a l 2", "run 100ms")
    assert [line.split()[1:4] for line in lines[1:]] == [["b", "hears", "a:"], ["c", "hears", "a:"]]


def test_delayed_message_comes_later() -> None:
    line = _shown("cluster a b", "delay update of a by 2s", "show heard update", "set a k 1", "run 3s")[-1]
    assert line.startswith("    2.010 b hears")


def test_paused_process_goes_on_with_what_waited() -> None:
    lines = _shown("cluster a b", "show heard update", "pause b", "set a k 1", "run 1s", "resume b")
    assert lines[-1].startswith("    1.000 b hears")


def test_agent_that_is_down_stays_so_over_a_start() -> None:
    lines = _shown("cluster a b", "show nothing", "agent-down b", "stop b", "start b", "wait b cut-off", "state")
    assert "b: cut-off; no values" in lines


def test_disk_that_was_rolled_back_is_as_it_was() -> None:
    lines = _shown(
        "cluster a b",
        "show nothing",
        "set a k 1",
        "run 1s",
        "split a | b",
        "backup a",
        "set a k 2",
        "roll-back a",
        "agent-down a",
        "start a",
        "wait a cut-off",
        "state",
    )
    assert "a: cut-off; k = 1" in lines


def test_node_with_a_full_disk_ends_no_value_and_takes_none() -> None:
    lines = ["cluster a b", "show nothing", "set a k 1 ttl 1s", "run 100ms", "disk-full a", "set b l 1", "run 10s"]
    assert _shown(*lines, "state") == ["a: ready; k = 1", "b: ready; k = 1, l = 1"]


def test_disk_that_is_full_takes_little() -> None:
    with pytest.raises(ScriptFailedError, match=r"line 3: .*no room for "):
        _shown("cluster a b", "disk-full a", "fill a x 1000")


def test_disk_that_has_space_again_takes_all() -> None:
    lines = _shown("cluster a", "show nothing", "disk-full a", "disk-free a", "fill a x 1000", "state")
    assert lines == ["a: ready; x.0 = 0, x.1 = 1, … x.999 = 999 (1000 in all)"]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (("cluster a", "crash a", "settle"), "line 3: nobody runs"),
        (("start a init", "run 6s", "cluster b"), "line 3: b founds no network within 10 s"),
        (("start a init", "cluster a"), "line 2: a runs already"),
    ],
)
def test_network_that_is_not_there_is_named(lines: tuple[str, ...], why: str) -> None:
    with pytest.raises(ScriptFailedError, match=why):
        _shown(*lines)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("wait b passive within 1s", "b is not passive within 1 s"),
        ("start a", "a runs already"),
        ("set c k 1", "c does not run"),
        ("roll-back a", "a has no backup"),
        ("restore a k of b", "b has lost nothing at k, as a sees it"),
        ("set a k 99999999999999999999", "the value cannot be stored: "),
        ("settle within 1ms", "all nodes end alike: "),
    ],
)
def test_what_cannot_be_is_named_with_its_line(line: str, why: str) -> None:
    script = parse_script(f"cluster a b\ndrop gossip\nset a k 1\n{line}\nwait c ready\n----\n", "t.txt")
    with pytest.raises(ScriptFailedError, match=f"^t.txt, line 4: {why}"):
        play(script)


def test_fault_that_was_planned_before_all_faults_ended_does_not_begin_after_that() -> None:
    planned = ("later 2s isolate b", "run 1s", "recover")
    lines = _shown("cluster a b", "show nothing", *planned, "run 2s", "set a k 1", "run 1s", "state")
    assert lines == ["a b: ready; k = 1"]


def test_request_that_was_planned_before_all_faults_ended_is_made() -> None:
    lines = _shown("cluster a b", "show nothing", "later 2s set a k 1", "run 1s", "recover", "run 2s", "state")
    assert lines == ["a b: ready; k = 1"]


def test_fault_that_is_planned_after_all_faults_ended_begins() -> None:
    lines = _shown("cluster a b", "show nothing", "recover", "later 1s crash b", "run 2s", "state")
    assert lines[-1] == "b: does not run"
