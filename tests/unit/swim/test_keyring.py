"""The text of `cluster.secret`, and what changes of keys make of it."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from distkv.errors import SettingsError
from distkv.swim.keyring import Keyring, key_id, keyring_text, parse_keyring, sealing_key
from distkv.wire.swim_records import KeyAction, KeyChange

ONE, TWO, THREE, FOUR = (bytes((number,)) * 32 for number in range(1, 5))


def _line(key: bytes) -> str:
    return base64.b64encode(key).decode()


def _refused(text: str) -> str:
    with pytest.raises(SettingsError) as caught:
        parse_keyring(text, "cluster.secret")
    return str(caught.value)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_keyring_comes_back_from_its_text(number: int) -> None:
    keyring = Keyring((ONE, TWO, THREE)[:number])
    assert parse_keyring(keyring_text(keyring), "cluster.secret") == keyring


def test_spaces_and_empty_lines_are_borne() -> None:
    assert parse_keyring(f"\n  {_line(ONE)}\r\n\n{_line(TWO)} \n", "cluster.secret") == Keyring((ONE, TWO))


@pytest.mark.parametrize("text", ["", "\n\n", "\n".join(map(_line, (ONE, TWO, THREE, FOUR)))])
def test_too_few_or_too_many_keys_are_refused(text: str) -> None:
    assert "write 1 to 3, one on each line" in _refused(text)


@pytest.mark.parametrize("text", ["password", _line(ONE)[:-1], _line(ONE[:31]), _line(ONE + b"x"), "ä" * 44, "=" * 44])
def test_text_that_is_no_key_is_refused_and_not_repeated(text: str) -> None:
    told = _refused(text)
    assert "distkv swim keygen" in told
    assert text not in told


def test_line_that_is_no_key_is_named_by_its_number() -> None:
    assert "line 3," in _refused(f"{_line(ONE)}\n\nnonsense\n")


def test_key_that_stands_twice_is_refused() -> None:
    assert "one key twice" in _refused(f"{_line(ONE)}\n{_line(ONE)}\n")


def test_text_of_a_keyring_holds_no_key() -> None:
    assert repr(ONE)[2:-1] not in repr(Keyring((ONE,)))


def test_key_of_a_sender_is_that_of_the_library() -> None:
    found = HKDF(SHA256(), 32, b"12345678", b"distkv swim seal").derive(ONE)
    assert sealing_key(ONE, b"12345678") == found


def test_installed_key_does_not_seal_yet() -> None:
    assert Keyring((ONE,)).changed(KeyChange(1, KeyAction.INSTALL, TWO)) == Keyring((ONE, TWO))


def test_key_installed_again_changes_nothing() -> None:
    keyring = Keyring((ONE, TWO))
    assert keyring.changed(KeyChange(1, KeyAction.INSTALL, TWO)) is keyring


def test_fourth_key_is_refused() -> None:
    assert "remove one first" in str(Keyring((ONE, TWO, THREE)).changed(KeyChange(1, KeyAction.INSTALL, FOUR)))


def test_used_key_seals() -> None:
    assert Keyring((ONE, TWO, THREE)).changed(KeyChange(1, KeyAction.USE, key_id(THREE))) == Keyring((THREE, ONE, TWO))


def test_key_that_is_not_there_cannot_be_used() -> None:
    assert "install it first" in str(Keyring((ONE,)).changed(KeyChange(1, KeyAction.USE, key_id(TWO))))


def test_key_that_seals_cannot_be_removed() -> None:
    assert "use another one first" in str(Keyring((ONE, TWO)).changed(KeyChange(1, KeyAction.REMOVE, key_id(ONE))))


def test_removed_key_is_gone() -> None:
    assert Keyring((ONE, TWO)).changed(KeyChange(1, KeyAction.REMOVE, key_id(TWO))) == Keyring((ONE,))


def test_key_that_is_gone_is_removed_again_without_a_word() -> None:
    keyring = Keyring((ONE,))
    assert keyring.changed(KeyChange(1, KeyAction.REMOVE, key_id(TWO))) is keyring
