"""Tests notice when a rule is missing: each mutant of the sample is killed. A soak judges all of them.

Knows: that the sample has mutants of every list and topic.
"""

from __future__ import annotations

import re

import pytest

from tests.mutants.every import EVERY, LISTS
from tests.mutants.run import ROOT
from tests.mutants.sample import SAMPLE
from tests.offenders import assert_none

MANY = 51
TOPICS = re.compile(r"^ *# -- (.*)$", re.MULTILINE)
NAMES = re.compile(r"^    (?:Mutant|_of|_shown|_met|broken)\(\n        \"([^\"]+)\"", re.MULTILINE)
FILES = {"run": "run", "logged": "logged", "simulated": "simulated", "simulated_topics": "simulated"}
FILES |= {"simulated_activity": "simulated"}
OF_SHELL = ["account_rules", "activity_client_rules", "activity_rules", "activity_sim_rules", "commits", "data_rows"]
OF_SHELL += ["grounds", "keeping"]
OF_SHELL += ["swim_rules", "swim_seal_rules", "swim_shell_rules"]
OF_SHELL += ["token_rules", "topic_client_rules", "topic_copy_rules", "topic_forget_rules", "topic_owner_rules"]
OF_SHELL += ["topic_rules", "tree_rules"]
FILES |= dict.fromkeys(OF_SHELL, "shell")
"""The files of mutants, each with its list."""


def _topics() -> dict[str, list[str]]:
    """The mutants below each heading of a list; `FILE: HEADING`."""
    found = {}
    for file, name in FILES.items():
        text = (ROOT / "tests" / "mutants" / f"{file}.py").read_text("utf-8")
        first, *others = TOPICS.split(text)
        for heading, part in [("", first), *zip(others[::2], others[1::2], strict=True)]:
            if names := NAMES.findall(part):
                found[f"{file}: {heading}"] = [f"{name}-{one}" for one in names]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLE)
def test_missing_rule_is_noticed(name: str) -> None:
    assert EVERY[name].killer() is not None, f"no test notices that {EVERY[name].mutant.rule!r} does not hold"


def test_sample_has_some_of_each_list_and_topic() -> None:
    topics = _topics()
    assert sorted(name for names in topics.values() for name in names) == sorted(EVERY)
    assert_none(
        [topic for topic, names in topics.items() if not {*names} & {*SAMPLE}], "add one of these to the sample"
    )
    assert {name.partition("-")[0] for name in SAMPLE} == {*LISTS}


def test_sample_is_small() -> None:
    assert len(SAMPLE) == len({*SAMPLE}) == MANY
