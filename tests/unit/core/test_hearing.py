"""What counts as the silence of others (docs/protocol, START-5, START-8, START-9)."""

from __future__ import annotations

from distkv.core.startup import Hearing

CLOCK_MS = 5000
BEGAN_MS = 1000


def began(*, is_up: bool) -> Hearing:
    hearing = Hearing(CLOCK_MS)
    hearing.begin(BEGAN_MS)
    hearing.transport_changed(is_up, BEGAN_MS)
    return hearing


def test_silence_counts_from_when_the_transport_is_up() -> None:
    hearing = began(is_up=False)
    assert hearing.transport_changed(True, BEGAN_MS + 700)
    assert hearing.left_ms(BEGAN_MS + 700) == CLOCK_MS


def test_second_word_that_the_transport_is_up_changes_nothing() -> None:
    hearing = began(is_up=True)
    assert not hearing.transport_changed(True, BEGAN_MS + 700)
    assert hearing.left_ms(BEGAN_MS + 700) == CLOCK_MS - 700


def test_silence_counts_anew_when_who_was_heard_cannot_be_asked() -> None:
    hearing = began(is_up=True)
    hearing.heard()
    hearing.heard_in_vain(BEGAN_MS + 700)
    assert (hearing.has_heard, hearing.left_ms(BEGAN_MS + 700)) == (False, CLOCK_MS)


def test_node_without_transport_is_cut_off_after_two_clocks() -> None:
    times_ms = (BEGAN_MS + 2 * CLOCK_MS - 1, BEGAN_MS + 2 * CLOCK_MS)
    assert [began(is_up=False).is_cut_off(ms) for ms in times_ms] == [False, True]
    assert [began(is_up=True).is_cut_off(ms) for ms in times_ms] == [False, False]
