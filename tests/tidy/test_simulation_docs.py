"""The page on the simulator says what the simulator does: its faults, rules and numbers.

Knows: how the page is marked up.  Does not know what the faults do, nor whether the figures of fleets are still true.
"""

from __future__ import annotations

import ast

from distkv.model.entry import LOSERS_MAX
from distkv.sim import run
from distkv.sim.cost import FIGURES
from distkv.sim.draft import draw
from distkv.sim.scenario import RARE, REST_MS, Fault, part_names
from tests.offenders import assert_none
from tests.tidy.sources import PRODUCT, ROOT, Source, in_each

PAGE = (ROOT / "docs" / "simulation.rst").read_text(encoding="utf-8")
WORDS = " ".join(PAGE.split())
SEEDS = range(100)
"""Enough: each figure is drawn from a few, and these have each of them many times."""


def _first_column(head: str) -> list[str]:
    """Of the table whose head begins so."""
    _, _, rest = PAGE.partition(f"\n{head}  ")
    rule, *rows = rest.split("\n", 1)[1].splitlines()
    width = rule.index(" ")
    return [row[:width].rstrip() for row in rows[: rows.index(rule)] if row[:width].strip()]


@in_each([path for path in PRODUCT if path.is_relative_to(ROOT / "distkv" / "sim")])
def _rules(source: Source) -> set[str]:
    """The names of the rules that are in a module."""
    found = set()
    for node in source.nodes:
        match node:
            case ast.Assign(targets=[ast.Name("rule")], value=ast.Constant(str() as name)) if name:
                found.add(name)
            case ast.AnnAssign(target=ast.Name("RULE"), value=ast.Constant(str() as name)):
                found.add(name)
            case ast.Call(func=ast.Name("BrokenRuleError"), args=[ast.Constant(str() as name), *_]):
                found.add(name)
    return found


def test_page_has_every_fault_in_its_order() -> None:
    assert _first_column("fault") == part_names()


def test_page_has_every_rule() -> None:
    shown = " ".join(_first_column("rule"))
    rules = {rule for found in _rules().values() for rule in found}
    assert rules
    absent = []
    for rule in sorted(rules, key=len, reverse=True):  # one may stand in another
        if rule not in shown:
            absent.append(rule)
        shown = shown.replace(rule, "")
    assert_none(absent)
    assert shown.split() == []


def test_page_has_every_figure_of_fleets() -> None:
    assert _first_column("nodes") == list(FIGURES.values())


def test_page_has_the_numbers_of_the_code() -> None:
    sentences = (
        f"less than {run.DELIVERIES_MIN:,} deliveries in all, {run.BEFORE_FAULTS_MIN} before its first fault",
        f"or {run.WRITES_MIN} acknowledged writes",
        f"Within {REST_MS // 5000} clocks all nodes must be ready",
        f"one in four of {', '.join(f'``{fault}``' for fault in Fault if fault in RARE)}",
        f"paths with {LOSERS_MAX} open losers",
    )
    assert_none([words for words in sentences if words not in WORDS])


def test_page_says_how_scenarios_are_drawn() -> None:
    drawn = [draw(seed) for seed in SEEDS]
    hosts, lengths = {len(one.names) for one in drawn}, sorted({one.length_ms // 1000 for one in drawn})
    quiet = {one.quiet_ms // 1000 for one in drawn}
    loss = max(one.network.loss for one in drawn), max(one.network.update_loss for one in drawn)
    delay = max(one.network.delay_ms[1] for one in drawn), max(one.network.answer_ms[1] for one in drawn)
    late = drawn[0].network.late_ms
    streams = {one.agents.stream_events for one in drawn}
    packets = [one.agents.packets_per_s for one in drawn if one.agents.packets_per_s is not None]
    sentences = (
        f"A fleet of {min(hosts)} to {max(hosts)} hosts grows",
        f"For {quiet.pop()} s clients write while only the network is bad",
        f"lasts {', '.join(map(str, lengths[:-1]))} or {lengths[-1]} s",
        f"up to {loss[0]:.0%} of gossip, up to {loss[1]:.0%} of updates".replace("%", " %"),
        f"up to {delay[0] / 1000:g} s for gossip, {delay[1] / 1000:g} s for each part of an answer",
        f"push/pull, {late[0] // 1000} to {late[1] // 1000} s later",
        f"take up to {max(one.disks.commit_ms[1] for one in drawn) / 1000:g} s",
        f"stream holds {min(streams)} to {max(streams)} events",
        f"agents carry {min(packets):g} to {max(packets):g} packets a second",
    )
    assert_none([words for words in sentences if words not in WORDS])
