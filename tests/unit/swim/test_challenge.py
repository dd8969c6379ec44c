"""Which tokens and proofs are believed."""

from __future__ import annotations

import attrs
import pytest

from distkv.swim.challenge import MINUTE_MS, Challenge, is_proof, proof
from distkv.wire.swim_records import Address, NodeRecord

HERE = Challenge(b"p" * 32)
ADDRESS = ("192.0.2.1", 27586)
NOW_MS = 100 * MINUTE_MS + 1
TOKEN = HERE.token(NOW_MS, ADDRESS, "lamp")
ONE, TWO = b"1" * 32, b"2" * 32
RECORD = NodeRecord("lamp", 7, b"12345678", ("192.0.2.1:27586",))


@pytest.mark.parametrize("now_ms", [NOW_MS, 101 * MINUTE_MS - 1, 101 * MINUTE_MS, 102 * MINUTE_MS - 1])
def test_token_is_good_for_this_minute_and_the_next(now_ms: int) -> None:
    """docs/protocol, SWIM-7."""
    assert HERE.is_token(now_ms, ADDRESS, "lamp", TOKEN)


@pytest.mark.parametrize("now_ms", [102 * MINUTE_MS, 99 * MINUTE_MS])
def test_token_of_another_minute_is_not_good(now_ms: int) -> None:
    """docs/protocol, SWIM-7."""
    assert not HERE.is_token(now_ms, ADDRESS, "lamp", TOKEN)


@pytest.mark.parametrize("address", [("192.0.2.2", 27586), ("192.0.2.1", 27587)])
def test_token_is_not_good_elsewhere(address: Address) -> None:
    """docs/protocol, SWIM-7."""
    assert not HERE.is_token(NOW_MS, address, "lamp", TOKEN)


def test_token_is_not_good_for_another_name() -> None:
    """docs/protocol, SWIM-7."""
    assert not HERE.is_token(NOW_MS, ADDRESS, "desk", TOKEN)


def test_token_is_not_good_at_another_process() -> None:
    assert not Challenge(b"q" * 32).is_token(NOW_MS, ADDRESS, "lamp", TOKEN)


@pytest.mark.parametrize("token", [b"", TOKEN[:-1], TOKEN + b"\0", bytes(64)], ids=["empty", "cut", "longer", "zeros"])
def test_what_is_no_token_is_not_good(token: bytes) -> None:
    assert not HERE.is_token(NOW_MS, ADDRESS, "lamp", token)


def test_text_of_a_challenge_holds_no_key() -> None:
    assert "ppp" not in repr(HERE)


def test_proof_by_any_key_is_believed() -> None:
    assert is_proof((ONE, TWO), TOKEN, RECORD, proof(TWO, TOKEN, RECORD))


@pytest.mark.parametrize(
    "auth",
    [
        b"",
        proof(b"3" * 32, TOKEN, RECORD),
        proof(ONE, HERE.token(NOW_MS, ADDRESS, "desk"), RECORD),
        proof(ONE, TOKEN, attrs.evolve(RECORD, addresses=("192.0.2.2:27586",))),
        proof(ONE, TOKEN, attrs.evolve(RECORD, generation=8)),
        proof(ONE, TOKEN, RECORD)[:-1],
    ],
    ids=["nothing", "another key", "another token", "another address", "another generation", "cut"],
)
def test_proof_of_something_else_is_not_believed(auth: bytes) -> None:
    assert not is_proof((ONE, TWO), TOKEN, RECORD, auth)
