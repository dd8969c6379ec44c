"""What stderr shows while many seeds run.

Knows: the lines, on a terminal and elsewhere.  Runs no seed.
"""

from __future__ import annotations

import pytest

from distkv.cli import campaign_progress
from distkv.cli.campaign_progress import CampaignProgress
from distkv.sim.campaign import Sum
from distkv.sim.run import Outcome, Verdict

Capture = pytest.CaptureFixture[str]


def _ended(seed: int, verdict: Verdict = Verdict.PASSED) -> Outcome:
    return Outcome(seed, verdict, "", "", "", 0, {}, 0)


def _told(*outcomes: Outcome, of: int = 100) -> CampaignProgress:
    """Of a campaign that has got so far."""
    progress, found = CampaignProgress(of, lambda outcome: f"seed {outcome.seed} {outcome.verdict}"), Sum()
    for outcome in outcomes:
        found.add(outcome)
        progress.tell(found)
    progress.end()
    return progress


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign_progress, "is_terminal", lambda _: True)


@pytest.mark.usefixtures("terminal")
def test_terminal_has_one_line_that_is_rewritten(capsys: Capture) -> None:
    _told(_ended(7), _ended(8))
    first, *others = capsys.readouterr().err.split("\r")
    assert first == "0 of 100 seeds"
    assert [line.partition(",")[0] for line in others] == ["1 of 100 seeds", "2 of 100 seeds", ""]


@pytest.mark.usefixtures("terminal")
def test_terminal_names_what_failed_on_a_line_of_its_own(capsys: Capture) -> None:
    _told(_ended(7, Verdict.FAILED), _ended(8))
    assert "0 of 100 seeds\rseed 7 failed\n\r1 of 100 seeds, 1 failed" in capsys.readouterr().err


def test_elsewhere_only_what_failed_is_named_within_a_minute(capsys: Capture) -> None:
    _told(_ended(7), _ended(9, Verdict.FAILED), _ended(8, Verdict.FAILED), _ended(10))
    assert capsys.readouterr().err == "seed 9 failed\nseed 8 failed\n"


def test_elsewhere_a_line_comes_once_a_minute(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(campaign_progress, "EVERY_S", 0.0)
    _told(_ended(7, Verdict.FAILED), of=1)
    assert capsys.readouterr().err == "seed 7 failed\n1 of 1 seeds, 1 failed, about 0 s left\n"


def test_words_say_how_many_failed_so_far() -> None:
    assert _told(_ended(7), _ended(8, Verdict.FAILED)).so_far == "2 of 100 seeds, 1 failed"
