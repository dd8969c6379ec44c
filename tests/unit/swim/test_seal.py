"""What opens, for whom, and how often."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count

import pytest

from distkv.errors import SettingsError
from distkv.swim.keyring import Keyring
from distkv.swim.seal import HEADER_BYTES, KeyedSeal, Opened, PlainSeal
from distkv.swim.starts import STARTS_MAX
from distkv.wire.swim_records import DATAGRAM_BYTES_MAX

OLD, NEW = b"o" * 32, b"n" * 32
LAMP, DESK, DOOR = b"lamp-123", b"desk-123", b"door-123"
FRAME = b"\x09" + b"what is said" * 10


def _zeros(size: int) -> bytes:
    return bytes(size)


def _seal(start: bytes, *keys: bytes, group: str = "house", draw: Callable[[int], bytes] = _zeros) -> KeyedSeal:
    return KeyedSeal(Keyring(keys or (OLD,)), group, start, draw)


def _opens(found: Opened | str) -> bool:
    return isinstance(found, Opened)


def test_sealed_frame_comes_back_with_its_sender() -> None:
    assert _seal(DESK).open(_seal(LAMP).close(FRAME, DESK)) == Opened(FRAME, LAMP, True)


def test_frame_for_an_unknown_start_is_not_bound() -> None:
    assert _seal(DESK).open(_seal(LAMP).close(FRAME, None)) == Opened(FRAME, LAMP, False)


def test_seal_adds_as_much_as_told() -> None:
    assert len(_seal(LAMP).close(FRAME, DESK)) == len(FRAME) + KeyedSeal.overhead


def test_nothing_that_is_said_can_be_read() -> None:
    assert b"said" not in _seal(LAMP).close(FRAME, DESK)


def test_no_two_datagrams_are_equal() -> None:
    """docs/protocol, SWIM-45."""
    seal = _seal(LAMP)
    assert len({seal.close(FRAME, DESK) for _ in range(100)}) == 100


def test_counter_of_the_nonce_goes_on_with_other_keys() -> None:
    seal = _seal(LAMP)
    first = seal.close(FRAME, DESK)
    seal.renew(Keyring((NEW, OLD)))
    seal.renew(Keyring((OLD, NEW)))
    assert seal.close(FRAME, DESK)[HEADER_BYTES - 12 : HEADER_BYTES] != first[HEADER_BYTES - 12 : HEADER_BYTES]


def test_copies_of_a_process_draw_other_nonces() -> None:
    drawn = count()
    one, other = (_seal(LAMP, draw=lambda size: next(drawn).to_bytes(size, "big")) for _ in range(2))
    assert one.close(FRAME, DESK)[14:HEADER_BYTES] != other.close(FRAME, DESK)[14:HEADER_BYTES]


def test_datagram_opens_once() -> None:
    """docs/protocol, SWIM-45."""
    seal, data = _seal(DESK), _seal(LAMP).close(FRAME, DESK)
    assert (_opens(seal.open(data)), seal.open(data)) == (True, "replay")


def test_datagrams_open_in_another_order() -> None:
    lamp, desk = _seal(LAMP), _seal(DESK)
    data = [lamp.close(FRAME, DESK) for _ in range(9)]
    assert all(_opens(desk.open(one)) for one in reversed(data))


def test_datagram_for_a_former_start_does_not_open() -> None:
    """docs/protocol, SWIM-45."""
    assert _seal(DOOR).open(_seal(LAMP).close(FRAME, DESK)) == "seal"


def test_datagram_of_another_group_does_not_open() -> None:
    """docs/protocol, SWIM-45."""
    assert _seal(DESK, group="garden").open(_seal(LAMP).close(FRAME, DESK)) == "seal"


def test_datagram_of_another_secret_does_not_open() -> None:
    assert _seal(DESK, NEW).open(_seal(LAMP).close(FRAME, DESK)) == "seal"


def test_datagram_that_came_back_does_not_open() -> None:
    seal = _seal(LAMP)
    assert seal.open(seal.close(FRAME, None)) == "replay"


@pytest.mark.parametrize("place", range(1, len(FRAME) + KeyedSeal.overhead))
def test_datagram_with_one_other_bit_does_not_open(place: int) -> None:
    data = bytearray(_seal(LAMP).close(FRAME, DESK))
    data[place] ^= 1
    desk = _seal(DESK)
    assert desk.open(bytes(data)) == "seal"
    assert _opens(desk.open(_seal(LAMP).close(FRAME, DESK)))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "size"),
        (b"\x0f", "size"),
        (b"\x0f" * KeyedSeal.overhead, "size"),
        (b"\x0f" * (DATAGRAM_BYTES_MAX + 1), "size"),
        (b"\x0f" * DATAGRAM_BYTES_MAX, "seal"),
        (b"\x06" * 100, "seal"),
        (b"\x0b" * 100, "type"),
    ],
    ids=["empty", "one byte", "no box", "too long", "noise", "plain", "unknown"],
)
def test_what_is_no_sealed_datagram_is_told_apart(data: bytes, reason: str) -> None:
    """docs/protocol, SWIM-44."""
    assert _seal(DESK).open(data) == reason


def test_forged_datagram_does_not_move_the_window() -> None:
    desk, lamp = _seal(DESK), _seal(LAMP)
    assert _opens(desk.open(lamp.close(FRAME, DESK)))
    forged = bytearray(lamp.close(FRAME, DESK))
    forged[HEADER_BYTES - 8 : HEADER_BYTES] = b"\xff" * 8
    assert desk.open(bytes(forged)) == "seal"
    assert _opens(desk.open(lamp.close(FRAME, DESK)))


def test_old_key_opens_and_the_first_one_seals() -> None:
    old, both, new = _seal(LAMP, OLD), _seal(DESK, NEW, OLD), _seal(DOOR, NEW)
    assert _opens(both.open(old.close(FRAME, None)))
    assert _opens(new.open(both.close(FRAME, None)))


def test_removed_key_opens_nothing_any_more() -> None:
    lamp, desk = _seal(LAMP, OLD), _seal(DESK, NEW, OLD)
    assert _opens(desk.open(lamp.close(FRAME, DESK)))
    desk.renew(Keyring((NEW,)))
    desk.check()
    assert desk.open(lamp.close(FRAME, DESK)) == "seal"


def test_key_change_lets_no_replay_pass() -> None:
    lamp, desk = _seal(LAMP, OLD), _seal(DESK, OLD)
    data = lamp.close(FRAME, DESK)
    assert _opens(desk.open(data))
    for keys in ((NEW,), (NEW, OLD)):
        desk.renew(Keyring(keys))
    assert desk.open(data) == "replay"


def test_older_start_of_a_member_is_refused() -> None:
    """docs/protocol, SWIM-46."""
    lamp, desk = _seal(LAMP), _seal(DESK)
    desk.vouch(LAMP)
    desk.refuse(LAMP)
    desk.check()
    assert desk.open(lamp.close(FRAME, DESK)) == "replay"


def test_nobody_vouches_for_an_older_start() -> None:
    """docs/protocol, SWIM-46."""
    desk = _seal(DESK)
    desk.refuse(LAMP)
    desk.vouch(LAMP)
    desk.check()
    assert desk.open(_seal(LAMP).close(FRAME, DESK)) == "replay"


def _start(number: int) -> bytes:
    return number.to_bytes(8, "big")


def test_strangers_do_not_push_out_a_member() -> None:
    lamp, desk = _seal(LAMP), _seal(DESK)
    data = lamp.close(FRAME, DESK)
    desk.vouch(LAMP)
    assert _opens(desk.open(data))
    for number in range(STARTS_MAX + 1):
        desk.open(_seal(_start(number)).close(FRAME, DESK))
    desk.check()
    assert desk.open(data) == "replay"


def test_dropped_member_is_pushed_out_by_strangers() -> None:
    lamp, desk = _seal(LAMP), _seal(DESK)
    data = lamp.close(FRAME, DESK)
    desk.vouch(LAMP)
    assert _opens(desk.open(data))
    desk.drop(LAMP)
    assert desk.open(data) == "replay"
    for number in range(STARTS_MAX):
        desk.open(_seal(_start(number)).close(FRAME, DESK))
    assert _opens(desk.open(data))


def test_missing_library_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(SettingsError, match=r"pip install 'distkv\[swim\]'"):
        _seal(LAMP)


def test_without_a_secret_a_frame_is_what_it_was() -> None:
    seal = PlainSeal()
    assert seal.open(seal.close(FRAME, DESK)) == Opened(FRAME, None, False)


def test_sealed_datagram_is_dropped_where_there_is_no_secret() -> None:
    """docs/protocol, SWIM-44."""
    assert PlainSeal().open(_seal(LAMP).close(FRAME, None)) == "seal"


@pytest.mark.parametrize("data", [b"", b"\x09" * (DATAGRAM_BYTES_MAX + 1)])
def test_wrong_size_is_told_where_there_is_no_secret(data: bytes) -> None:
    assert PlainSeal().open(data) == "size"


def test_who_lacks_the_key_that_seals_is_sent_another_one() -> None:
    old, both = _seal(LAMP, OLD), _seal(DESK, NEW, OLD)
    assert _opens(old.open(both.close(FRAME, LAMP, Keyring((OLD,)).ids)))
    assert old.open(both.close(FRAME, LAMP)) == "seal"


def test_who_has_the_key_that_seals_is_sent_that() -> None:
    new, both = _seal(LAMP, NEW), _seal(DESK, NEW, OLD)
    for keys in ((OLD, NEW), (b"other" + bytes(27),)):
        assert _opens(new.open(both.close(FRAME, LAMP, Keyring(keys).ids)))


def test_stranger_is_answered_with_the_key_with_which_it_sealed() -> None:
    old, both = _seal(LAMP, OLD), _seal(DESK, NEW, OLD)
    assert _opens(both.open(old.close(FRAME, DESK)))
    assert _opens(old.open(both.close(FRAME, LAMP)))
