"""A watch of tokens over several connections: what became free between two of them is told.

Knows: frames as a node sends them.  Does not know connections.
"""

from __future__ import annotations

import pytest

from distkv.client.outages import Begun
from distkv.client.token_watch import TokenItems, TokenWatching
from distkv.errors import BusyError, DecodeError, DisabledError, DistkvError, NotReadyError, UnreachableError
from distkv.wire.fields import Fields
from distkv.wire.frames import decode_request
from distkv.wire.token_errors import NoQuorumError
from distkv.wire.token_requests import TokenWatch

UP_TO_DATE: Fields = {"seq": 1, "state": "uptodate"}
HOLDER = {"session": "1-a", "shared": False, "epoch": 1, "counter": 2, "since": 0.0}
GONE = UnreachableError("a is gone")


def item(name: str, *, is_held: bool = True, waiting: int = 0, **more: object) -> dict[str, object]:
    return {"token": name, "server": "a", "holders": [HOLDER] if is_held else [], "waiting": waiting, **more}


def told(watch: TokenWatching, *frames: Fields) -> list[TokenItems | Begun]:
    """What a connection brings that sends these frames."""
    question = watch.question()
    return [question.read({"seq": 1, **frame}) for frame in frames]


def test_question_asks_for_the_prefix() -> None:
    assert decode_request(TokenWatching("p").question().encode(4)) == TokenWatch(4, "p")


def test_what_is_there_and_what_changes_is_told_as_it_came() -> None:
    frames = [item("t"), UP_TO_DATE, item("t", is_held=False)]
    assert told(TokenWatching(""), *frames) == [(item("t"),), (), (item("t", is_held=False),)]


def test_what_became_free_between_connections_is_told_when_all_is_known() -> None:
    watch = TokenWatching("")
    told(watch, item("t"), item("u", is_held=False, waiting=1), UP_TO_DATE, item("v", is_held=False, data=7), item("w"))
    free = tuple([item(name, is_held=False) for name in ("t", "u", "v")])
    assert told(watch, item("w"), UP_TO_DATE) == [(item("w"),), free]
    assert told(watch, UP_TO_DATE) == [(item("w", is_held=False),)]
    assert told(watch, UP_TO_DATE) == [()]


def test_what_was_told_as_free_is_not_told_again() -> None:
    watch = TokenWatching("")
    told(watch, item("t"), item("t", is_held=False), UP_TO_DATE)
    assert told(watch, UP_TO_DATE) == [()]


def test_connection_that_broke_before_all_was_known_says_nothing_of_what_is_free() -> None:
    watch = TokenWatching("")
    told(watch, item("t"), item("u"), UP_TO_DATE)
    told(watch, item("u"))
    assert told(watch, item("t"), UP_TO_DATE) == [(item("t"),), (item("u", is_held=False),)]


def test_item_without_a_name_is_nonsense() -> None:
    with pytest.raises(DecodeError):
        told(TokenWatching(""), {"holders": []})


@pytest.mark.parametrize("error", [BusyError("x"), NoQuorumError("x"), NotReadyError("x")], ids=lambda one: one.code)
@pytest.mark.parametrize("before", [UP_TO_DATE, item("t")], ids=["all", "a part"])
def test_refusal_that_may_be_over_soon_is_borne_by_who_was_told_something(error: DistkvError, before: Fields) -> None:
    watch = TokenWatching("")
    assert not watch.is_bearable(error)
    told(watch, before)
    assert watch.is_bearable(error)


def test_loss_of_the_connection_is_borne_and_a_refusal_for_good_is_not() -> None:
    watch = TokenWatching("")
    assert watch.is_bearable(GONE)
    told(watch, UP_TO_DATE)
    assert not watch.is_bearable(DisabledError("x"))


def test_loss_and_return_are_told_once_and_the_return_when_all_is_known() -> None:
    """Without a majority each connection is refused after a while: none of them is a return."""
    said = list[str]()
    watch = TokenWatching("", on_disconnect=said.append, on_connect=lambda: said.append("back"))
    told(watch, UP_TO_DATE)
    watch.lose(GONE)
    told(watch, item("t"))
    watch.lose(NoQuorumError("nobody answers"))
    assert said == ["a is gone"]
    told(watch, item("t"), UP_TO_DATE)
    assert said == ["a is gone", "back"]
