"""Messages of token servers that are not well-formed are refused, and the error says which field is wrong.

Knows: the fields.  Does not know who sends them.
"""

from __future__ import annotations

import pytest

from distkv.errors import DecodeError
from distkv.wire import packing
from distkv.wire.declared import pack
from distkv.wire.token_states import (
    CHANGE_SESSIONS_MAX,
    JOINT_MAX,
    NUMBER_MAX,
    StateMessage,
    decode_founding,
    decode_head,
    decode_number,
    decode_vote,
    read_state_message,
)


def read(fields: dict[str, object]) -> StateMessage:
    return read_state_message(packing.pack(fields))


HEAD = [1, 2, "a", {"a": ["ready", 1, 2]}, 2]
ROUND = {"kind": "round", "list": b"8 bytes.", "gen": 1, "term": 1, "round": 1, "acked": 0}
BEAT = {
    "kind": "beat", "list": b"8 bytes.", "gen": 1, "term": 1, "round": 1, "sent": [1, 2], "accepted": [1, 2],
    "member": True, "wanted": "ready", "since": 1,
}


@pytest.mark.parametrize(("changed", "reason"), [
    ({"kind": "shout"}, "bad_kind"),
    ({"kind": ["round"]}, "bad_kind"),
    ({"list": b"short"}, "bad_list"),
    ({"gen": -1}, "bad_gen"),
    ({"term": 0}, "bad_term"),
    ({"term": True}, "bad_term"),
    ({"round": NUMBER_MAX + 1}, "bad_round"),
    ({"effective": [1]}, "bad_effective"),
    ({"heard": [1, 2, 3]}, "bad_heard"),
    ({"change": [HEAD, None]}, "bad_change"),
    ({"change": [HEAD, None, {"": 1}, []]}, "bad_change"),
    ({"change": [HEAD, None, {"1-a": 0}, []]}, "bad_change"),
    ({"change": [HEAD, None, {}, ["1-ä"]]}, "bad_change"),
    ({"change": [[*HEAD[:3], {"a": ["asleep", 1, 2]}, 2], None, {}, []]}, "bad_change"),
    ({"change": [[*HEAD[:3], {"a": ["ready", 1]}, 2], None, {}, []]}, "bad_change"),
    ({"change": [[*HEAD[:3], {f"n{at}": ["ready", 1, 2] for at in range(JOINT_MAX + 1)}, 2], None, {}, []]},
     "bad_change"),
    ({"change": [[*HEAD, ["b"], []], None, {}, []]}, "bad_change"),
    ({"change": [[*HEAD, ["a"], ["a", "a"]], None, {}, []]}, "bad_change"),
    ({"change": [[*HEAD, [], ["a"]], None, {}, []]}, "bad_change"),
    ({"change": [HEAD, None, {f"1-{at}": 1 for at in range(CHANGE_SESSIONS_MAX + 1)}, []]}, "bad_change"),
    ({"change": [HEAD, None, {f"1-{at}": 1 for at in range(CHANGE_SESSIONS_MAX)}, ["2-a"]]}, "bad_change"),
])
def test_round_with_a_wrong_field_is_refused(changed: dict[str, object], reason: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read({**ROUND, **changed})
    assert caught.value.reason == reason


@pytest.mark.parametrize(("changed", "reason"), [
    ({"wanted": "READY"}, "bad_wanted"),
    ({"member": 1}, "bad_member"),
    ({"sent": None}, "bad_sent"),
    ({"accepted": [1, -2]}, "bad_accepted"),
    ({"since": None}, "bad_since"),
])
def test_beat_with_a_wrong_field_is_refused(changed: dict[str, object], reason: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read({**BEAT, **changed})
    assert caught.value.reason == reason


def test_round_without_anything_optional_is_read() -> None:
    message = read(ROUND)
    assert message == read({**ROUND, "effective": None, "heard": None, "change": None})


@pytest.mark.parametrize("founding", [[{"a": 1}, 0, 1], [{"a": 1}, 1, 0], [{"a": -1}, 1, 1], [{"a": 1}, 1], {}])
def test_founding_that_is_none_is_refused(founding: object) -> None:
    with pytest.raises(DecodeError):
        decode_founding(packing.pack(founding))


def test_slots_that_are_damaged_are_refused() -> None:
    with pytest.raises(DecodeError):
        decode_head(packing.pack(HEAD[:4]))
    with pytest.raises(DecodeError):
        decode_vote(packing.pack([1]))
    with pytest.raises(DecodeError):
        decode_number(b"\xc1")


def test_number_comes_back() -> None:
    assert decode_number(pack(NUMBER_MAX)) == NUMBER_MAX
