"""When a command under a token is told to end, and when it is killed.

Knows: moments.  Does not know processes (`tests.process.test_token_cli` has some).
"""

from __future__ import annotations

import signal

from distkv.cli.command_end import CommandEnd

TERM, KILL = signal.SIGTERM, signal.SIGKILL


def test_command_under_a_kept_token_goes_on() -> None:
    end = CommandEnd(100, 1000)
    assert end.due(899) is None
    end.kept(2000)
    assert end.due(1500) is None
    assert end.wake_ms() == 1900


def test_command_is_told_a_grace_before_the_deadline_and_killed_at_it() -> None:
    end = CommandEnd(100, 1000)
    assert [end.due(now) for now in (899, 900, 901, 999, 1000)] == [None, TERM, None, None, KILL]
    assert end.is_lost


def test_command_that_was_told_to_end_is_killed_though_the_token_is_kept_again() -> None:
    end = CommandEnd(100, 1000)
    assert end.due(900) is TERM
    end.kept(5000)
    assert end.due(1000) is KILL


def test_command_whose_deadline_passed_in_a_pause_is_killed_at_once() -> None:
    assert CommandEnd(100, 1000).due(7000) is KILL


def test_token_that_is_taken_ends_the_command_at_once_but_not_later_than_the_deadline() -> None:
    end = CommandEnd(100, 1000)
    end.taken(300)
    assert [end.due(now) for now in (200, 299, 300)] == [TERM, None, KILL]
    end = CommandEnd(100, 250)
    end.taken(300)
    assert [end.due(now) for now in (200, 250)] == [TERM, KILL]


def test_what_the_command_left_behind_has_the_grace_too_and_nothing_is_lost() -> None:
    end = CommandEnd(100, 1000)
    end.ended(500)
    assert [end.due(now) for now in (500, 599, 600)] == [None, None, KILL]
    assert not end.is_lost
