"""What is asked and how replies are read, without a server.

Knows: `client.questions`.  Does not know how questions travel.
"""

from __future__ import annotations

from typing import Any

import pytest

from distkv.client import node_questions, questions
from distkv.client.names import Listed, NameListing
from distkv.client.questions import Delete, Entry, Get, Operation, Repeat, Set, Written
from distkv.errors import BadPathError, BadValueError, DamagedError, DecodeError, RequestError
from distkv.model.event import NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.wire.frames import decode_request
from distkv.wire.replicated import ReplicatedWrite
from distkv.wire.subtrees import DeleteTree, GetTree, ListNames
from distkv.wire.value_requests import Batch, SetValue
from distkv.wire.values import pack_value

A1 = {"node": "a", "tick": 1, "prev": None}
HEAD = (NodeName("a"), Tick(1))
ENTRY = Entry(21, (HEAD,), Tock(3), 1.5)
SHOWN = {"value": 21, "chain": A1, "tock": 3, "time": 1.5}


WRITE = SetValue(5, Path(("a",)), pack_value(1), nchain=1)


# -- replicas -----------------------------------------------------------------------------------------------------


def test_write_that_shall_be_on_several_nodes_says_on_how_many_and_until_when() -> None:
    question = questions.set_value("a", pack_value(1), replicas=3, timeout_s=2.5)
    assert decode_request(question.encode(5)) == ReplicatedWrite(WRITE, 3, 2.5)
    assert question.wait_s == 2.5


def test_write_that_shall_be_on_one_node_is_a_plain_one() -> None:
    question = questions.set_value("a", pack_value(1), replicas=1, timeout_s=2.5)
    assert decode_request(question.encode(5)) == WRITE
    assert question.wait_s == 0


@pytest.mark.parametrize(("head", "repeat"), [(None, Repeat.NEVER), (HEAD, Repeat.SAME_NODE)])
def test_write_on_several_nodes_is_repeated_like_any_other(head: tuple[NodeName, Tick] | None, repeat: Repeat) -> None:
    assert questions.set_value("a", None, head=head, replicas=2).repeat is repeat


@pytest.mark.parametrize(("shown", "count"), [({}, 1), ({"replicas": 1}, 1), ({"replicas": 3}, 3)])
def test_write_tells_how_many_nodes_hold_it(shown: dict[str, object], count: int) -> None:
    question = questions.set_value("a", pack_value(1), replicas=3)
    assert question.read({"changed": True, "chain": A1, **shown}) == Written(True, HEAD, count)


@pytest.mark.parametrize("count", [0, -1, True, "2", None])
def test_count_of_nodes_that_is_none_is_nonsense(count: object) -> None:
    with pytest.raises(DecodeError, match="replicas"):
        questions.set_value("a", pack_value(1), replicas=3).read({"changed": True, "replicas": count})


@pytest.mark.parametrize(
    ("replicas", "timeout_s", "problem"),
    [
        (0, 1.0, "replicas is 0: it must be from 1 to 1024"),
        (1025, 1.0, "replicas is 1025"),
        (2, -1.0, "timeout_s is -1.0: it must be from 0 to 3600"),
        (2, 3601.0, "timeout_s is 3601.0"),
        (2, float("inf"), "timeout_s is inf"),
        (2, float("nan"), "timeout_s is nan"),
    ],
)
def test_wish_that_no_node_takes_is_refused_at_once(replicas: int, timeout_s: float, problem: str) -> None:
    with pytest.raises(RequestError, match=problem):
        questions.set_value("a", None, replicas=replicas, timeout_s=timeout_s)


# -- batches ------------------------------------------------------------------------------------------------------


def test_batch_asks_for_its_operations_in_order() -> None:
    question = questions.batch([Set("a", 1, new=True), Delete("b"), Get("c")])
    request = decode_request(question.encode(5))
    assert isinstance(request, Batch)
    assert request.seq == 5
    assert [op.path for op in request.ops] == [Path(("a",)), Path(("b",)), Path(("c",))]
    assert [getattr(op, "value", "read") for op in request.ops] == [pack_value(1), None, "read"]


def test_operation_carries_its_conditions() -> None:
    request = decode_request(questions.batch([Set("a", 1, head=HEAD, previous=2, idem=True)]).encode(1))
    op = SetValue(0, Path(("a",)), pack_value(1), (HEAD,), False, pack_value(2), True, nchain=1)
    assert request == Batch(1, (op,))


def test_results_of_a_batch_are_read_by_kind() -> None:
    question = questions.batch([Set("a", 1), Delete("b"), Get("c"), Get("d")])
    results = [{"changed": True, "chain": A1}, {"changed": False}, SHOWN, {}]
    assert question.read({"results": results}) == (Written(True, HEAD), Written(False, None), ENTRY, None)


@pytest.mark.parametrize("results", [None, 7, [], [{}, {}], [3], [{"value": 1}]])
def test_results_that_do_not_fit_are_nonsense(results: object) -> None:
    with pytest.raises(DecodeError):
        questions.batch([Get("a")]).read({"results": results})


@pytest.mark.parametrize(
    ("operations", "repeat"),
    [
        ([Get("a")], Repeat.ANYWHERE),
        ([], Repeat.ANYWHERE),
        ([Get("a"), Set("b", 1)], Repeat.NEVER),
        ([Set("a", 1, head=HEAD), Delete("b")], Repeat.SAME_NODE),
        ([Set("a", 1), Delete("b", head=HEAD)], Repeat.SAME_NODE),
        ([Set("a", 1), Delete("b", previous=1)], Repeat.NEVER),
        ([Set("a", 1, head=HEAD, idem=True), Delete("b")], Repeat.NEVER),
    ],
)
def test_batch_is_repeated_only_where_it_cannot_take_place_twice(
    operations: list[Operation[object]], repeat: Repeat
) -> None:
    assert questions.batch(operations).repeat is repeat


def test_batch_with_a_bad_value_is_refused_at_once() -> None:
    with pytest.raises(BadValueError):
        questions.batch([Set("a", 2**70)])


# -- trees --------------------------------------------------------------------------------------------------------


def test_tree_is_asked_for_with_its_bounds() -> None:
    request = decode_request(questions.get_tree("a", min_depth=1, max_depth=2, limit=3).encode(1))
    assert isinstance(request, GetTree)
    assert (request.min_depth, request.max_depth, request.limit) == (1, 2, 3)


def test_item_of_a_tree_is_a_path_and_an_entry() -> None:
    item = {"seq": 1, "path": ["a", 1], **SHOWN}
    assert questions.get_tree("a").read(item) == (Path(("a", 1)), ENTRY)


@pytest.mark.parametrize("change", [{"path": 7}, {"path": None}, {"path": [[]]}, {"tock": "x"}, {"chain": None}])
def test_item_with_wrong_fields_is_nonsense(change: dict[str, object]) -> None:
    with pytest.raises(DecodeError):
        questions.get_tree("a").read({"path": ["a"], **SHOWN, **change})


def test_item_without_a_value_is_nonsense() -> None:
    with pytest.raises(DecodeError, match="value"):
        questions.get_tree("a").read({"path": ["a"]})


def test_names_are_listed() -> None:
    listing = NameListing("a")
    assert listing.question is not None
    assert decode_request(listing.question.encode(1)) == ListNames(1, Path(("a",)))
    listing.add(listing.question.read({"names": [[None, False, 2], ["x", True, 0]]}))
    assert listing.result() == (Listed(None, False, 2), Listed("x", True, 0))
    assert listing.question is None


def test_names_of_all_pages_come_with_the_error_that_one_of_them_has() -> None:
    listing = NameListing("a")
    for page in ({"names": [["x", True, 0]], "more": "x", "lost": "a.b is lost"}, {"names": [["z", True, 0]]}):
        assert listing.question is not None
        listing.add(listing.question.read(page))
    with pytest.raises(DamagedError, match=r"a\.b is lost") as caught:
        listing.result()
    assert [listed.name for listed in caught.value.found] == ["x", "z"]


def test_names_are_listed_page_by_page() -> None:
    listing = NameListing("a", limit=3, after=Path([None]))
    asked = []
    for page in ({"names": [["x", True, 0]], "more": 5}, {"names": [], "more": "y"}, {"names": [["z", True, 0]] * 3}):
        question = listing.question
        assert question is not None
        asked.append(decode_request(question.encode(1)))
        listing.add(question.read(page))
    path = Path(("a",))
    assert asked == [
        ListNames(1, path, 3, Path([None])), ListNames(1, path, 2, Path([5])), ListNames(1, path, 2, Path(["y"]))
    ]  # fmt: skip
    assert [listed.name for listed in listing.result()] == ["x", "z", "z"]


def test_limit_of_no_names_asks_for_none() -> None:
    assert NameListing("a", limit=0).question is None


@pytest.mark.parametrize("arguments", [{"after": Path(["a", "b"])}, {"after": ["a"]}, {"limit": -1}, {"limit": "7"}])
def test_list_that_cannot_be_asked_for_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises((BadPathError, RequestError)):
        NameListing("a", **arguments)


@pytest.mark.parametrize("names", [None, [3], [[]], [[[], True, 0]], [["x", 1, 0]], [["x", True, -1]], [["x", True]]])
def test_names_that_are_none_are_nonsense(names: object) -> None:
    with pytest.raises(DecodeError):
        NameListing("a").question.read({"names": names})  # type: ignore[union-attr]


def test_page_that_ends_at_no_name_is_nonsense() -> None:
    with pytest.raises(DecodeError):
        NameListing("a").question.read({"names": [], "more": [3]})  # type: ignore[union-attr]


def test_deleted_tree_is_counted() -> None:
    question = questions.delete_tree("a")
    assert decode_request(question.encode(1)) == DeleteTree(1, Path(("a",)))
    assert question.read({"count": 3}) == 3


# -- anything else ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("is_read", "repeat"), [(True, Repeat.ANYWHERE), (False, Repeat.NEVER)])
def test_request_of_another_kind_is_repeated_when_it_is_a_read(is_read: bool, repeat: Repeat) -> None:
    assert node_questions.anything("x", {}, is_read=is_read).repeat is repeat


def test_request_of_another_kind_keeps_its_own_seq_and_action() -> None:
    frame = node_questions.anything("delete_tree", {"path": ["a"], "seq": 9, "action": "y"}, is_read=False).encode(4)
    assert decode_request(frame) == DeleteTree(4, Path(("a",)))


def test_field_that_cannot_be_sent_is_refused_at_once() -> None:
    with pytest.raises(BadValueError):
        node_questions.anything("x", {"y": object()}, is_read=True)


def test_text_that_is_no_path_is_refused_at_once() -> None:
    with pytest.raises(BadPathError):
        questions.get_value("a..b")
