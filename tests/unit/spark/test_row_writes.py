"""Rows become writes: what each column says, which rows are refused in which words, and how they are cut.

Knows: `row_writes` and the options of a write.  Does not know Spark, nor nodes.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from distkv.errors import DistkvError, RequestError, SettingsError
from distkv.model.event import NodeName, Tick
from distkv.model.path import Path
from distkv.spark.source.options import WriteOptions, write_options
from distkv.spark.source.row_writes import BATCH_BYTES, USED, RowWrite, batches, check_columns, writes_of
from distkv.spark.source.views import COLUMNS
from distkv.wire.json_form import to_json
from distkv.wire.packing import Timestamp
from distkv.wire.values import pack_value

TYPES = {
    "path_str": pa.string(), "path": pa.list_(pa.string()), "value": pa.string(), "value_msgpack": pa.binary(),
    "ttl": pa.float64(), "node": pa.string(), "tick": pa.int64(),
}  # fmt: skip


def options(**given: str) -> WriteOptions:
    return write_options(given)


def writes(*rows: dict[str, Any], **given: str) -> list[RowWrite]:
    """Of rows whose columns are those that any of them has."""
    names = [name for name in TYPES if any(name in row for row in rows)]
    arrays = [pa.array([row.get(name) for row in rows], TYPES[name]) for name in names]
    return list(writes_of(pa.RecordBatch.from_arrays(arrays, names=names), options(**given)))


@pytest.mark.parametrize(
    "value",
    [
        "text", 0, -0.0, 2**64 - 1, True, [], {"a": [None, 1.5]}, b"\x00\xff", float("inf"), Timestamp(1, 2),
        {1: "x", None: b"y"}, {"$bytes": "no"},
    ],
    ids=repr,
)  # fmt: skip
def test_value_comes_back_from_its_json_and_from_its_bytes(value: object) -> None:
    packed = pack_value(value)
    assert writes({"path_str": "x", "value": to_json(value)}) == [RowWrite(Path(["x"]), packed)]
    assert writes({"path_str": "x", "value_msgpack": packed}) == [RowWrite(Path(["x"]), packed)]


def test_nan_comes_back() -> None:
    assert writes({"path_str": "x", "value": '{"$float": "nan"}'})[0].value == pack_value(float("nan"))


@pytest.mark.parametrize(
    ("row", "path"),
    [
        ({"path_str": "a:.b.:7"}, Path(["a.b", 7])),
        ({"path": ["a:.b", ":7", ":e", ":y00"]}, Path(["a.b", 7, "", b"\0"])),
        ({"path": []}, Path()),
        ({"path_str": ":"}, Path()),
        ({"path_str": "x", "path": ["y"]}, Path(["x"])),
        ({"path_str": None, "path": ["y"]}, Path(["y"])),
    ],
    ids=lambda value: repr(value) if isinstance(value, dict) else "",
)
def test_path_is_read_from_either_column(row: dict[str, Any], path: Path) -> None:
    assert [write.path for write in writes({**row, "value": "1"})] == [path]


def test_bytes_count_before_json_and_json_where_there_are_none() -> None:
    found = writes(
        {"path_str": "x", "value": "1", "value_msgpack": pack_value(2)}, {"path_str": "y", "value": "1"},
    )  # fmt: skip
    assert [write.value for write in found] == [pack_value(2), pack_value(1)]


def test_null_deletes_unless_nulls_are_passed_over() -> None:
    rows = [{"path_str": "x", "value": None}, {"path_str": "y", "value": "1"}]
    assert writes(*rows) == [RowWrite(Path(["x"]), None), RowWrite(Path(["y"]), pack_value(1))]
    assert writes(*rows, ignoreNulls="true") == [RowWrite(Path(["y"]), pack_value(1))]


def test_ttl_of_a_row_counts_before_that_of_the_option() -> None:
    rows = [{"path_str": "x", "value": "1", "ttl": 5.0}, {"path_str": "y", "value": "1"}, {"path_str": "z", "ttl": 5.0}]
    assert [write.ttl for write in writes(*rows, ttl="9")] == [5.0, 9.0, None]


def test_node_and_tick_are_a_condition_only_when_it_is_asked_for() -> None:
    rows = [{"path_str": "x", "value": "1", "node": "a", "tick": 7}, {"path_str": "y", "value": "1"}]
    assert [(write.head, write.new) for write in writes(*rows)] == [(None, False)] * 2
    head = (NodeName("a"), Tick(7))
    assert [(write.head, write.new) for write in writes(*rows, ifUnchanged="true")] == [(head, False), (None, True)]
    assert writes({"path_str": "x", "node": "a", "tick": 7, "value": None}, ifUnchanged="true")[0].head == head


DEEP = "[" * 257 + "]" * 257


@pytest.mark.parametrize(
    ("row", "given", "complaint"),
    [
        ({"path_str": None, "value": "21"}, {}, r"it has no path \(its value is 21\)"),
        ({"path": None, "path_str": None, "node": "a"}, {}, "it has no path$"),
        ({"path_str": "a..b"}, {}, r"the row of a\.\.b cannot be written"),
        ({"path": ["a", "b.c"]}, {}, r"'b\.c' is not one name"),
        ({"path": ["a", None]}, {}, "a name is null"),
        ({"path": [""]}, {}, "cannot be written"),
        ({"path_str": ":n.x", "value": "1"}, {}, "the row of :n.x cannot be written: the path belongs to the system"),
        ({"path_str": "y", "value": "1"}, {"path": "x"}, "the row of y cannot be written: it is not below x"),
        ({"path_str": "x", "value": "{"}, {}, "the row of x cannot be written: the value is no JSON"),
        ({"path_str": "x", "value": "null"}, {}, "the row of x .* null is no value"),
        ({"path_str": "x", "value": "NaN"}, {}, "the row of x .* NaN is written"),
        ({"path_str": "x", "value": '{"a":1,"a":2}'}, {}, "the row of x .* twice"),
        ({"path_str": "x", "value": DEEP}, {}, "the row of x .* deeper than 256"),
        ({"path_str": "x", "value": "[" * 100_000}, {}, "the row of x .* too deeply"),
        ({"path_str": "x", "value": f'"{"x" * (1 << 20)}"'}, {}, "the row of x .* the limit is 1048576"),
        ({"path_str": "x", "value": str(2**64)}, {}, "the row of x .* 64 bits"),
        ({"path_str": "x", "value_msgpack": b"\xc0"}, {}, "the row of x .* null is no value"),
        ({"path_str": "x", "value_msgpack": b"\x01\x02"}, {}, "the row of x .* cannot be read"),
        ({"path_str": "x", "value_msgpack": b""}, {}, "the row of x .* cannot be read"),
        ({"path_str": "x", "value": "1", "ttl": -1.0}, {}, "the row of x .* ttl is -1.0"),
        ({"path_str": "x", "value": "1", "ttl": float("nan")}, {}, "the row of x .* ttl is nan"),
        ({"path_str": "x", "node": "a", "tick": None}, {"ifUnchanged": "true"}, "the row of x .* no change"),
        ({"path_str": "x", "node": None, "tick": None}, {"ifUnchanged": "true"}, "the row of x .* nothing to delete"),
    ],
)  # fmt: skip
def test_row_that_is_none_is_named_with_what_is_wrong(
    row: dict[str, Any], given: dict[str, str], complaint: str
) -> None:
    with pytest.raises(RequestError, match=complaint) as refused:
        writes({"value": None, **row}, **given)
    assert "\n" not in str(refused.value)


def test_batches_are_cut_by_count_size_and_paths_that_stand_twice() -> None:
    def sizes(found: list[RowWrite], size: int) -> list[int]:
        cut = list(batches(found, size))
        assert [write for batch in cut for write in batch] == found
        return [len(batch) for batch in cut]

    small = [RowWrite(Path([str(number)]), b"\x01") for number in range(10)]
    assert sizes(small, 4) == [4, 4, 2]
    assert sizes([*small[:3], small[0]], 4) == [3, 1]
    assert sizes([RowWrite(Path([str(number)]), b"x" * BATCH_BYTES) for number in range(3)], 4) == [1, 1, 1]
    assert sizes([], 4) == []


# -- columns ------------------------------------------------------------------------------------------------------


def check(types: dict[str, pa.DataType], **given: str) -> None:
    used = pa.schema([(name, kind) for name, kind in types.items() if name in USED])
    check_columns(list(types), used, options(**given))


@pytest.mark.parametrize("view", ["events", "state", "conflicts"])
def test_columns_of_a_read_can_be_written(view: str) -> None:
    check({field.name: field.type for field in COLUMNS[view]}, ifUnchanged="true")


@pytest.mark.parametrize(
    ("types", "given", "complaint"),
    [
        ({"path_str": pa.string(), "val": pa.string()}, {}, "no column 'val'; a row that is written has path_str"),
        ({"path_str": pa.string()}, {}, "no column value, and no value_msgpack"),
        ({"value": pa.string()}, {}, "no column path_str, and no path"),
        ({"path_str": pa.int64(), "value": pa.string()}, {}, "path_str is of type int64: it must be text"),
        ({"path": pa.string(), "value": pa.string()}, {}, "path is of type string: it must be an array of text"),
        ({"path_str": pa.string(), "value": pa.int64()}, {}, "value is of type int64: it must be JSON as text"),
        ({"path_str": pa.string(), "value_msgpack": pa.string()}, {}, "it must be binary"),
        ({"path_str": pa.string(), "value": pa.string(), "ttl": pa.string()}, {}, "a number of seconds"),
        ({"path_str": pa.string(), "value": pa.string()}, {"ifUnchanged": "true"}, "needs the columns node and tick"),
    ],
)  # fmt: skip
def test_columns_that_cannot_be_written_are_named(
    types: dict[str, pa.DataType], given: dict[str, str], complaint: str
) -> None:
    with pytest.raises(SettingsError, match=complaint):
        check(types, **given)


# -- options ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"view": "state"}, "there is no option 'view'; a write has hosts, path, ttl, batchSize, ignoreNulls, rate"),
        ({"ttl": "0"}, "ttl is 0.0: it must be seconds"),
        ({"ttl": "soon"}, "ttl is 'soon'"),
        ({"BATCHSIZE": "0"}, "batchSize is '0'"),
        ({"rate": "-1"}, "rate is '-1'"),
        ({"ignorenulls": "yes"}, "ignoreNulls is 'yes': it can be true, false"),
        ({"path": ":n.x"}, "belongs to the system"),
    ],
)
def test_option_that_is_wrong_is_refused_with_what_would_be_right(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        write_options(given)


@pytest.mark.parametrize(
    ("given", "how", "complaint"),
    [
        ({}, {"overwrite": True}, "needs the option path"),
        ({"path": "x"}, {"overwrite": True}, "deletes what is at and below x .* confirmOverwrite=true"),
        ({"path": "x", "confirmOverwrite": "true", "ifUnchanged": "true"}, {"overwrite": True}, "for mode append"),
        ({"path": "x", "confirmOverwrite": "true", "ignoreNulls": "true"}, {"overwrite": True}, "for mode append"),
        ({}, {"overwrite": True, "is_stream": True}, "outputMode append"),
        ({"ifUnchanged": "true"}, {"is_stream": True}, "use foreachBatch"),
        ({"checkpointLocation": "x"}, {}, "there is no option 'checkpointLocation'"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    given: dict[str, str], how: dict[str, bool], complaint: str
) -> None:
    with pytest.raises(DistkvError, match=complaint):
        write_options(given, **how)


def test_what_spark_gives_every_stream_is_no_option_of_ours() -> None:
    assert write_options({"checkpointLocation": "x", "queryName": "y"}, is_stream=True) == write_options({})
