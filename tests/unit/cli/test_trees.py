"""Whole trees on the command line, against a server that answers as the test says.

Knows: what a user types and sees.  Does not know a real node: tests/process does.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterable
from pathlib import Path as FilePath

import pytest

from distkv.cli.loading import BATCH_OPS
from distkv.cli.main import run
from distkv.cli.output import Form, print_items
from distkv.cli.transfer import print_dump, read_items
from distkv.errors import (
    BadPathError,
    BadValueError,
    DistkvError,
    ExistsError,
    NotReadyError,
    RequestError,
    TooLargeError,
)
from distkv.model.fence import Fence
from distkv.model.path import Name, Path
from distkv.wire.packing import ExtType, Timestamp
from distkv.wire.replies import encode_end, encode_reply, encode_result, encode_start
from distkv.wire.subtrees import DeleteTree, GetTree, ListNames
from distkv.wire.value_requests import Batch, SetValue
from distkv.wire.values import pack_value
from tests.unit.client.scripted_server import ScriptedServer, Step, open_server, refusal, reply

Capture = pytest.CaptureFixture[str]
CHAIN = {"node": "b", "tick": (7 << 32) + 5, "prev": None}


def ask(server: ScriptedServer, *arguments: str) -> int:
    return run([*server.arguments, *arguments])


def tree(*items: tuple[list[object], object]) -> Step:
    """A long result with these paths and values."""

    def frames(seq: int) -> Iterable[bytes]:
        yield encode_start(seq)
        for path, value in items:
            fields = {"seq": seq, "path": path, "tock": 9, "time": 1.5, "chain": CHAIN}
            yield encode_result(fields, {"value": pack_value(value)})
        yield encode_end(seq)

    return lambda seq: b"".join(frames(seq))


def tree_of(*more: dict[str, object]) -> Step:
    """A long result with 1 at `v0`, `v1` and so on, and what else these values have."""

    def frames(seq: int) -> Iterable[bytes]:
        yield encode_start(seq)
        for number, fields in enumerate(more):
            usual = {"seq": seq, "path": [f"v{number}"], "tock": 9, "time": 1.5, "chain": CHAIN}
            yield encode_result({**usual, **fields}, {"value": b"\x01"})
        yield encode_end(seq)

    return lambda seq: b"".join(frames(seq))


STORED: dict[str, object] = {"changed": True, "tick": 8, "tock": 9, "chain": CHAIN}
META: dict[str, object] = {"tock": 9, "time": 1.5, "chain": CHAIN}


def stored(seq: int, count: int) -> bytes:
    return encode_reply(seq, {"results": [STORED] * count})


def all_stored(count: int) -> Step:
    return lambda seq: stored(seq, count)


TREE = tree((["a"], 1), (["a", "b"], {"x": [1]}), (["a", "c.d"], "two\nlines"), (["a", 5], b"\0"))


# -- get -r -------------------------------------------------------------------------------------------------------


def test_tree_is_printed_a_line_for_each_value(capsys: Capture) -> None:
    with open_server(TREE) as server:
        assert ask(server, "get", "-r", "a") == 0
    assert capsys.readouterr().out == (
        'a: 1\na.b: {"x": [1]}\na.c:.d: "two\\nlines"\na.:5: {"$bytes": "AA=="}\n'
    )


def test_what_cannot_be_seen_in_a_path_does_not_reach_the_terminal(capsys: Capture) -> None:
    with open_server(tree((["a\x1b[2J\r"], "x\x07"))) as server:
        assert ask(server, "get", "-r", "a") == 0
    assert capsys.readouterr().out == 'a\\x1b[2J\\r: "x\\u0007"\n'
    with open_server(reply({"names": [["a\x1b[2J\n", True, 0]]})) as server:
        assert ask(server, "list") == 0
    assert capsys.readouterr().out == "a\\x1b[2J\\n\n"


def test_tree_with_meta_shows_chain_and_time_on_the_line(capsys: Capture) -> None:
    with open_server(tree((["a"], "x y"))) as server:
        assert ask(server, "get", "-r", "a", "-m") == 0
    assert capsys.readouterr().out == 'a: x y  chain=["b:7.5"] tock=9 time=1970-01-01T00:00:01.500+00:00\n'


@pytest.mark.parametrize(
    ("form", "printed"),
    [
        ("json", '{"path": "a", "value": 1}\n{"path": "b", "value": [2]}\n'),
        ("yaml", "- path: a\n  value: 1\n- path: b\n  value:\n  - 2\n"),
    ],
)
def test_tree_is_printed_in_a_form_of_its_own(capsys: Capture, form: str, printed: str) -> None:
    with open_server(tree((["a"], 1), (["b"], [2]))) as server:
        assert ask(server, "get", "-r", ":", "-o", form) == 0
    assert capsys.readouterr().out == printed


def test_tree_has_no_raw_form(capsys: Capture) -> None:
    with open_server(TREE) as server:
        assert ask(server, "get", "-r", "a", "-o", "raw") == 1
    assert "use -o json" in capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "depth"), [(["--depth", "2"], 2), (["--depth", "0"], 0), ([], 64)])
def test_depth_is_asked_of_the_server(arguments: list[str], depth: int) -> None:
    with open_server(TREE) as server:
        assert ask(server, "get", "-r", "a", *arguments) == 0
    (asked,) = [request for request in server.requests if isinstance(request, GetTree)]
    assert (asked.path, asked.max_depth) == (Path(["a"]), depth)


def test_tree_with_nothing_in_it_is_not_found(capsys: Capture) -> None:
    with open_server(tree()) as server:
        assert ask(server, "get", "-r", "a") == 3
    assert capsys.readouterr().err == "distkv: a has no value, and nothing is below it\n"


def test_tree_of_a_node_that_is_not_ready_ends_with_5() -> None:
    with open_server(refusal(NotReadyError("later"))) as server:
        assert ask(server, "get", "-r", "a") == 5


# -- list ---------------------------------------------------------------------------------------------------------

NAMES = reply({"names": [["b.c", True, 0], ["d", False, 2], [5, True, 1]]})


def test_names_are_printed_with_a_dot_where_more_is_below(capsys: Capture) -> None:
    with open_server(NAMES) as server:
        assert ask(server, "list", "a") == 0
    assert capsys.readouterr().out == "b:.c\nd.\n:5.\n"


def test_names_as_json_are_those_of_the_protocol(capsys: Capture) -> None:
    with open_server(NAMES) as server:
        assert ask(server, "list", "a", "-o", "json") == 0
    assert capsys.readouterr().out == '[["b.c", true, 0], ["d", false, 2], [5, true, 1]]\n'


def test_list_without_a_path_lists_the_root() -> None:
    with open_server(NAMES) as server:
        ask(server, "list")
    assert server.requests == [ListNames(1, Path())]


@pytest.mark.parametrize(
    ("after", "name"), [("hall", "hall"), ("hall.", "hall"), (":5", 5), ("b:.c", "b.c"), ("b:..", "b."), (":n", None)]
)
def test_list_goes_on_after_a_name_as_it_was_printed(after: str, name: Name) -> None:
    with open_server(NAMES) as server:
        assert ask(server, "list", "a", "--limit", "2", "--after", after) == 0
    assert server.requests == [ListNames(1, Path(["a"]), 2, Path([name]))]


def test_rest_of_a_list_may_be_empty() -> None:
    with open_server(reply({"names": []})) as server:
        assert ask(server, "list", "a", "--after", "z") == 0


def test_list_of_several_pages_is_printed_as_one(capsys: Capture) -> None:
    pages = [reply({"names": [["a", True, 0]], "more": "a"}), reply({"names": [["b", True, 0]]})]
    with open_server(*pages) as server:
        assert ask(server, "list", "a") == 0
    assert capsys.readouterr().out == "a\nb\n"
    assert server.requests == [ListNames(1, Path(["a"])), ListNames(2, Path(["a"]), None, Path(["a"]))]


@pytest.mark.parametrize("after", ["a.b", "", ".", ":q"])
def test_list_after_what_is_no_name_is_refused(after: str, capsys: Capture) -> None:
    assert run(["client", "list", "--after", after]) == 2
    assert "give one name" in capsys.readouterr().err


def test_list_of_a_value_with_nothing_below_is_empty(capsys: Capture) -> None:
    value = reply({"tock": 9, "time": 1.5, "chain": CHAIN}, pack_value(1))
    with open_server(reply({"names": []}), value) as server:
        assert ask(server, "list", "a") == 0
    assert capsys.readouterr().out == ""


def test_list_of_nothing_is_not_found() -> None:
    with open_server(reply({"names": []}), reply({})) as server:
        assert ask(server, "list", "a") == 3


# -- delete -r ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "count", "code", "out"),
    [([], 5, 0, "5\n"), (["-o", "json"], 5, 0, '{"count": 5}\n'), (["-o", "raw"], 5, 0, "5"), ([], 0, 3, "")],
)
def test_deleting_a_tree_prints_how_many_values_it_had(
    capsys: Capture, options: list[str], count: int, code: int, out: str
) -> None:
    with open_server(reply({"count": count})) as server:
        assert ask(server, "delete", "-r", "a", *options) == code
    assert server.requests == [DeleteTree(1, Path(["a"]))]
    assert capsys.readouterr().out == out


# -- dump and load ------------------------------------------------------------------------------------------------


def test_dump_writes_paths_relative_to_its_own(capsys: Capture) -> None:
    with open_server(TREE) as server:
        assert ask(server, "dump", "a") == 0
    written = capsys.readouterr().out.splitlines()
    assert written[:2] == ['{"path": ":", "value": 1}', '{"path": "b", "value": {"x": [1]}}']


def test_dump_as_yaml_is_one_map(capsys: Capture) -> None:
    with open_server(TREE) as server:
        assert ask(server, "dump", "a", "-o", "yaml") == 0
    assert capsys.readouterr().out == (
        "':': 1\nb:\n  x:\n  - 1\nc:.d: \"two\\nlines\"\n:5:\n  $bytes: AA==\n"
    )


def load(server: ScriptedServer, tmp_path: FilePath, data: bytes, *arguments: str) -> int:
    file = tmp_path / "values"
    file.write_bytes(data)
    return ask(server, "load", *arguments, "-f", str(file))


@pytest.mark.parametrize(
    "data",
    [
        b'{"path": "b", "value": 1}\n\n{"path": ":", "value": [2]}\n',
        b'{"path": "b", "value": 1}\r\n{"path": ":", "value": [2]}',
        b"b: 1\n':':\n- 2\n",
        pack_value({"path": "b", "value": 1}) + pack_value({"value": [2], "path": ":", "other": None}),
    ],
    ids=["json", "json without its last newline", "yaml", "msgpack"],
)
def test_loaded_values_are_stored_below_the_path(capsys: Capture, tmp_path: FilePath, data: bytes) -> None:
    with open_server(all_stored(2)) as server:
        assert load(server, tmp_path, data, "x") == 0
    (batch,) = server.requests
    assert isinstance(batch, Batch)
    stored_ops = [(op.path, getattr(op, "value", None), getattr(op, "idem", None)) for op in batch.ops]
    assert stored_ops == [(Path(["x", "b"]), b"\x01", True), (Path(["x"]), b"\x91\x02", True)]
    assert capsys.readouterr() == ("2 values stored\n", "")


def test_standard_input_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"path": "b", "value": 1}')))
    with open_server(all_stored(1)) as server:
        assert ask(server, "load") == 0
    assert len(server.requests) == 1


def test_file_in_the_place_of_the_path_is_refused(
    tmp_path: FilePath, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dump.json").write_bytes(lines("a"))
    with open_server() as server:
        assert ask(server, "load", "dump.json") == 2
    assert server.requests == []
    assert "'dump.json' is a file: load it with -f dump.json" in capsys.readouterr().err


@pytest.mark.parametrize("data", [b'{"path": "a", "value": 1}\n', b"a: 1\n"])
def test_byte_order_mark_is_no_part_of_the_first_path(tmp_path: FilePath, data: bytes) -> None:
    with open_server(all_stored(1)) as server:
        assert load(server, tmp_path, b"\xef\xbb\xbf" + data) == 0
    (batch,) = server.requests
    assert isinstance(batch, Batch)
    assert [one.path for one in batch.ops] == [Path(["a"])]


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_refused(tmp_path: FilePath, capsys: Capture, coding: str) -> None:
    mark = "" if coding == "utf-16" else "\ufeff"
    with open_server() as server:
        assert load(server, tmp_path, f"{mark}a: 1\n".encode(coding)) != 0
    assert server.requests == []
    assert "is UTF-16: write it as UTF-8" in capsys.readouterr().err


def test_nothing_to_load_asks_nothing(tmp_path: FilePath) -> None:
    with open_server() as server:
        assert load(server, tmp_path, b"") == 0
    assert server.requests == []


def lines(*paths: str) -> bytes:
    return b"".join(f'{{"path": "{path}", "value": 1}}\n'.encode() for path in paths)


def test_many_values_are_loaded_in_batches(tmp_path: FilePath) -> None:
    paths = [f"p.{number}" for number in range(BATCH_OPS + 3)]
    with open_server(all_stored(BATCH_OPS), all_stored(3)) as server:
        assert load(server, tmp_path, lines(*paths)) == 0
    batches = [request for request in server.requests if isinstance(request, Batch)]
    assert [str(op.path) for batch in batches for op in batch.ops] == paths


def test_path_that_comes_twice_begins_a_new_batch(tmp_path: FilePath) -> None:
    with open_server(all_stored(2), all_stored(1)) as server:
        assert load(server, tmp_path, lines("a", "b", "a")) == 0
    assert len(server.requests) == 2


def test_batch_that_is_too_large_for_the_server_is_cut(tmp_path: FilePath) -> None:
    with open_server(refusal(TooLargeError("no")), all_stored(1), all_stored(2)) as server:
        assert load(server, tmp_path, lines("a", "b", "c")) == 0
    assert [len(batch.ops) for batch in server.requests if isinstance(batch, Batch)] == [3, 1, 2]


def test_value_that_is_refused_is_named_with_its_place(capsys: Capture, tmp_path: FilePath) -> None:
    with open_server(refusal(ExistsError("it is there").at_op(1)), all_stored(1)) as server:
        assert load(server, tmp_path, lines("a", "b")) == 4
    assert capsys.readouterr().err == "distkv: line 2: it is there (one value before it was stored)\n"


def test_value_that_is_alone_too_large_is_named(capsys: Capture, tmp_path: FilePath) -> None:
    no = refusal(TooLargeError("no"))
    with open_server(no, all_stored(1), no, reply({}), no) as server:
        assert load(server, tmp_path, lines("a", "b")) == 1
    assert capsys.readouterr().err == "distkv: line 2: no (one value before it was stored)\n"


def test_value_for_which_a_batch_has_no_room_is_stored_as_set_does(tmp_path: FilePath, capsys: Capture) -> None:
    with open_server(refusal(TooLargeError("no")), reply({}), reply(STORED)) as server:
        assert load(server, tmp_path, lines("a")) == 0
    assert server.requests[2] == SetValue(2, Path(["a"]), b"\x01", nchain=1)
    assert capsys.readouterr().out == "one value stored\n"


def test_value_for_which_a_batch_has_no_room_is_left_where_it_is_the_same(tmp_path: FilePath, capsys: Capture) -> None:
    with open_server(refusal(TooLargeError("no")), reply(META, b"\x01")) as server:
        assert load(server, tmp_path, lines("a")) == 0
    assert capsys.readouterr().out == "0 values stored, 1 the same\n"


@pytest.mark.parametrize("last", [b'{"path": "c", "val', b'{"path": "c"}', b'{"path": "c", "value": null}'])
def test_values_before_one_that_cannot_be_read_are_stored(tmp_path: FilePath, capsys: Capture, last: bytes) -> None:
    with open_server(all_stored(2)) as server:
        assert load(server, tmp_path, lines("a", "b") + last) != 0
    assert len(server.requests) == 1
    message = capsys.readouterr().err
    assert message.startswith("distkv: line 3: ")
    assert message.endswith("(2 values before it were stored)\n")


def test_quiet_load_prints_nothing(tmp_path: FilePath, capsys: Capture) -> None:
    (tmp_path / "values").write_bytes(b"a: {b: 1}\n")
    with open_server(all_stored(1)) as server:
        assert run(["-q", *server.arguments, "load", "-f", str(tmp_path / "values")]) == 0
    assert capsys.readouterr() == ("", "")


def test_load_counts_what_was_there(tmp_path: FilePath, capsys: Capture) -> None:
    with open_server(reply({"results": [STORED, {**STORED, "changed": False}]})) as server:
        assert load(server, tmp_path, lines("a", "b"), "-o", "json") == 0
    assert capsys.readouterr().out == '{"stored": 1, "same": 1}\n'


@pytest.mark.parametrize(
    ("data", "remark"),
    [
        (b"heating:\n  night: 16\nb: 2\n", "one of them is a map, and a map is one value: for a value of its own, "),
        (b"heating:\n  night: 16\nb: 2\n", "write a path, such as 'heating.night: ...'"),
        (b"b: {c: {d: 1}}\n':1': {2: 3}\n", "2 of them are maps"),
        (b"a: 1\nb: [1]\n", ""),
        (b'{"path": "a", "value": {"b": 1}}\n{"path": "b", "value": 1}\n', ""),
    ],
)  # fmt: skip
def test_map_in_yaml_is_told_to_be_one_value(tmp_path: FilePath, capsys: Capture, data: bytes, remark: str) -> None:
    with open_server(all_stored(2)) as server:
        assert load(server, tmp_path, data) == 0
    told = capsys.readouterr()
    assert told.out == "2 values stored\n"
    assert remark in told.err
    assert bool(told.err) is bool(remark)


# -- what a value has besides itself ------------------------------------------------------------------------------


def test_dump_shows_what_is_left_and_the_fence(capsys: Capture) -> None:
    now_s = time.time()
    with open_server(tree_of({"ttl": 1000.0, "time": now_s - 400}, {"fence": ["night", 7, 2], "base": 1})) as server:
        assert ask(server, "dump") == 0
    ending, fenced = map(json.loads, capsys.readouterr().out.splitlines())
    assert 0 < ending["ttl"] <= 600
    assert ending["end"] == pytest.approx(now_s + 600)
    assert fenced == {"path": "v1", "value": 1, "fence": "night:7.2"}


def test_dump_as_yaml_says_what_it_cannot_hold(capsys: Capture) -> None:
    with open_server(tree_of({"ttl": 1000.0, "time": time.time()}, {}, {"fence": ["night", 7, 2]})) as server:
        assert ask(server, "dump", "-o", "yaml") == 0
    told = capsys.readouterr()
    assert told.out == "v0: 1\nv1: 1\nv2: 1\n"
    assert told.err == "distkv: 2 values have a ttl or a fence, for which YAML has no place: use -o json to keep it\n"


def item(**more: object) -> bytes:
    return json.dumps({"path": "a", "value": 1, **more}).encode() + b"\n"


def test_load_stores_for_the_time_that_is_left_and_under_the_fence(tmp_path: FilePath) -> None:
    data = item(ttl=900, end=time.time() + 600, fence="night:7.2")
    with open_server(all_stored(1)) as server:
        assert load(server, tmp_path, data) == 0
    (batch,) = server.requests
    assert isinstance(batch, Batch)
    (op,) = batch.ops
    assert isinstance(op, SetValue)
    assert op.ttl is not None
    assert 500 < op.ttl <= 600
    assert (op.idem, op.fence) == (True, Fence(0, 7, 2, "night"))


def test_load_may_leave_out_fences(tmp_path: FilePath) -> None:
    with open_server(all_stored(1)) as server:
        assert load(server, tmp_path, item(ttl=900, fence="night:7.2"), "--without-fences") == 0
    (batch,) = server.requests
    assert isinstance(batch, Batch)
    assert [(getattr(op, "ttl", None), getattr(op, "fence", None)) for op in batch.ops] == [(900.0, None)]


def test_load_leaves_out_what_is_over_and_says_so(tmp_path: FilePath, capsys: Capture) -> None:
    with open_server(all_stored(1)) as server:
        assert load(server, tmp_path, item(ttl=900, end=time.time() - 1) + lines("b")) == 0
    told = capsys.readouterr()
    assert told.out == "one value stored, 1 left out\n"
    assert told.err == "distkv: one value left out: the time that was left is over\n"


@pytest.mark.parametrize(
    ("more", "problem"),
    [({"ttl": 0}, "'ttl' must be seconds"), ({"ttl": True}, "'ttl' must be"), ({"ttl": "5"}, "'ttl' must be"),
     ({"ttl": 1e10}, "'ttl' must be"), ({"end": "soon"}, "'end' must be a time"), ({"end": False}, "'end' must be"),
     ({"fence": 5}, "'fence' must be NAME:EPOCH.COUNTER"), ({"fence": "night"}, "'fence' must be")],
)  # fmt: skip
def test_wrong_end_or_fence_is_named(more: dict[str, object], problem: str) -> None:
    with pytest.raises(BadValueError, match=f"line 1: {problem}"):
        list(read_items(iter([item(**more)])))


@pytest.mark.parametrize(
    ("data", "error", "place"),
    [
        (b'{"path": "a", "value": 1}\n{"path": "b"}\n', BadValueError, "line 2: "),
        (b'{"path": "a", "value": 1}\n{nonsense}\n', BadValueError, "line 2: "),
        (b'{"path": "a", "value": 1}\n[]\n', BadValueError, "line 2: "),
        (b'{"path": 5, "value": 1}\n', BadValueError, "line 1: "),
        (b'{"path": "a", "value": null}\n', BadValueError, "line 1: null is no value"),
        (b'{"path": "a..b", "value": 1}\n', BadPathError, "line 1: "),
        (b'{"path": "\xff", "value": 1}\n', BadValueError, "line 1: this is not UTF-8"),
        (b"a: 1\nb: [\n", BadValueError, "line 3: "),
        (b"a: 1\nb: &x 1\n", BadValueError, "line 2: anchors"),
        (b"a: 1\n5: 1\n", BadValueError, "line 2: the path 5 is not text"),
        (b"a: 1\nb:\n", BadValueError, "line 2: a value is missing"),
        (b"a: 1\nb: null\n", BadValueError, "line 2: null is no value"),
        (b"a: {$bytes: '?'}\n", BadValueError, "line 1: "),
        (b"- a\n", BadValueError, "line 1: this is no map"),
        (b"just text\n", BadValueError, "line 1: this is no map"),
        (pack_value({"path": "a", "value": 1}) + b"\x82\xa4path", BadValueError, "value 2 is cut short"),
        (pack_value({"path": "a", "value": 1}) + b"\xc1", BadValueError, "value 2: "),
        (pack_value({"path": "a", "value": 1}) + b"\x01", BadValueError, "value 2: "),
    ],
)
def test_file_that_cannot_be_read_says_where(data: bytes, error: type[DistkvError], place: str) -> None:
    with pytest.raises(error) as caught:
        list(read_items(iter([data])))
    assert str(caught.value).startswith(place)
    assert "\n" not in str(caught.value)


def test_values_that_json_lacks_survive_every_form(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    values = [b"\0", ExtType(5, b"x"), Timestamp(1, 2), {1: "one"}, {"$bytes": 1}, float("-inf"), "21", "yes", "a: b"]
    for form in (Form.JSON, Form.YAML, Form.MSGPACK):
        items = ({"path": f":{number}", "value": value} for number, value in enumerate(values))
        print_dump(items, form, lambda _: None)
        found = [item.value for item in read_items(iter([capfdbinary.readouterr().out]))]
        assert repr(found) == repr(values), form


def test_printing_counts_the_items(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert print_items(iter(["a", "b"]), Form.TEXT) == 2
    assert capfdbinary.readouterr().out == b"a\nb\n"


def test_printing_raw_items_is_refused_before_the_first_is_made() -> None:
    with pytest.raises(RequestError, match="use -o json"):
        print_items(iter([]), Form.RAW)
