"""What is asked about conflicts and how replies are read, without a server.

Knows: `client.conflicts`.  Does not know how questions travel.
"""

from __future__ import annotations

import pytest

from distkv.client.conflicts import Listing, Loser, dismiss, restore
from distkv.client.questions import Repeat, Written
from distkv.errors import BadPathError, DecodeError
from distkv.model.event import NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.wire.decisions import Dismiss, Restore
from distkv.wire.frames import decode_request

A = (NodeName("a"), Tick((7 << 32) + 12))
B = (NodeName("b"), Tick(3))
ITEM = {
    "id": "a:7.12", "path": ["w"], "value": 1, "node": "a", "tick": A[1], "tock": 9, "time": 1.5,
    "winner": {"node": "b", "tick": 3},
}  # fmt: skip


def read(reply: dict[str, object]) -> tuple[tuple[Loser, ...], Path | None]:
    question = Listing("w", closed=False, limit=None).question
    assert question is not None
    return question.read(reply)


def test_loser_has_what_its_item_says() -> None:
    (loser,), more, _ = read({"items": [ITEM]})
    assert (loser, more) == (Loser(Path(["w"]), 1, False, A, Tock(9), 1.5, B), None)
    assert loser.id == "a:7.12"


def test_item_without_value_is_a_deletion() -> None:
    ((loser,), *_) = read({"items": [{name: value for name, value in ITEM.items() if name != "value"}]})
    assert (loser.value, loser.is_deleted) == (None, True)


@pytest.mark.parametrize(
    "reply",
    [
        {}, {"items": 1}, {"items": [1]}, {"items": [{}]}, {"items": [{**ITEM, "path": "w"}]}, {"items": [], "more": 1},
        {"items": [{**ITEM, "winner": 1}]}, {"items": [{**ITEM, "closed_by": {}}]}, {"items": [{**ITEM, "time": 1}]},
    ],
)  # fmt: skip
def test_list_that_is_none_is_nonsense(reply: dict[str, object]) -> None:
    with pytest.raises(DecodeError):
        read(reply)


def test_listing_of_nothing_asks_nothing() -> None:
    listing = Listing("w", closed=False, limit=0)
    assert (listing.question, listing.result()) == (None, ())


@pytest.mark.parametrize("id", ["a:7.12", A, f"a:{A[1]}"])
def test_id_is_text_or_a_link(id: object) -> None:
    assert decode_request(restore(id, head=B).encode(5)) == Restore(5, A, B, nchain=1)  # type: ignore[arg-type]
    assert decode_request(dismiss(id, head=None).encode(5)) == Dismiss(5, A, nchain=1)  # type: ignore[arg-type]


def test_id_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(BadPathError, match="'w' names no change"):
        dismiss("w", head=None)


def test_decision_tells_which_change_it_made() -> None:
    done = {"changed": True, "chain": {"node": "b", "tick": 8, "prev": None}}
    assert restore(A, head=None).read(done) == Written(True, (NodeName("b"), Tick(8)))


def test_decision_about_an_open_loser_is_asked_again_of_the_same_node_only() -> None:
    assert restore(A, head=None).repeat is Repeat.SAME_NODE
    assert dismiss(A, head=None).repeat is Repeat.SAME_NODE


def test_closed_loser_is_not_written_a_second_time_but_on_condition() -> None:
    assert restore(A, head=None, closed=True).repeat is Repeat.NEVER
    assert restore(A, head=B, closed=True).repeat is Repeat.SAME_NODE
