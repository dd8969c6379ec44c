"""Files of rows: every record once, with its line, whatever stands before it.

Knows: the three forms.  Does not know what becomes of a record (test_import_rows).
"""

from __future__ import annotations

import datetime
import decimal
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distkv.errors import BadValueError, SettingsError
from distkv.spark.importing import records as module
from distkv.spark.importing.arrow_values import exact_times
from distkv.spark.importing.records import ImportForm, Record, pieces_of, records
from distkv.wire.packing import Timestamp


def read(file: Path, form: ImportForm, *columns: str) -> list[Record]:
    return [record for piece in pieces_of([str(file)], form, columns) for record in records(piece, form, columns)]


def read_csv(tmp_path: Path, data: bytes, *columns: str) -> list[Record]:
    (tmp_path / "x.csv").write_bytes(data)
    return read(tmp_path / "x.csv", ImportForm.CSV, *(columns or ("a", "b")))


def read_json(tmp_path: Path, data: bytes, *columns: str) -> list[Record]:
    (tmp_path / "x.json").write_bytes(data)
    return read(tmp_path / "x.json", ImportForm.JSON, *(columns or ("a", "b")))


def good(line: int, a: object, b: object) -> Record:
    return Record(line, {"a": a, "b": b})


# -- CSV ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a,b\n1,2\n3,4\n", [good(2, "1", "2"), good(3, "3", "4")]),
        (b"a,b\r\n1,2\r\n3,4", [good(2, "1", "2"), good(3, "3", "4")]),
        (b"\xef\xbb\xbfa,b\n1,2\n", [good(2, "1", "2")]),
        (b"b,c,a\n1,2,3\n", [good(2, "3", "1")]),
        (b'a,b\n"1,2","say ""x"""\n', [good(2, "1,2", 'say "x"')]),
        (b'a,b\n"two\nlines",2\n3,4\n', [good(2, "two\nlines", "2"), good(4, "3", "4")]),
        (b"a,b\n\n1,2\n\n\n3,4\n", [good(3, "1", "2"), good(6, "3", "4")]),
        (b"a,b\n,\n", [good(2, "", "")]),
        ("a,b\nü,\u2028\n".encode(), [good(2, "ü", "\u2028")]),
        (b"a,b\n 1 , 2\n", [good(2, " 1 ", " 2")]),
        (b'a,b\n5" pipe,2\n', [good(2, '5" pipe', "2")]),
        (b"a,b\n", []),
        (b'"a","b"\n1,2\n', [good(2, "1", "2")]),
    ],
)
def test_csv_is_read_with_the_line_of_each_row(tmp_path: Path, data: bytes, expected: list[Record]) -> None:
    assert read_csv(tmp_path, data) == expected


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"1,2,3\n", "it has 3 fields, and the header 2"),
        (b"1\n", "it has 1 fields, and the header 2"),
        (b"\xff,2\n", "it is not UTF-8 text"),
        (b'"1"x,2\n', "it is no CSV: ',' expected after '\"'"),
        (b'"open,2\n', "it is no CSV"),
    ],
)
@pytest.mark.parametrize("rest", [b'3,4\n"5",6\n', b"3,4\n5,6"])
def test_bad_row_of_csv_has_a_reason_and_the_next_ones_are_read(
    tmp_path: Path, bad: bytes, reason: str, rest: bytes
) -> None:
    """Also behind a quote that nothing closes: it does not swallow what follows."""
    first, *others = read_csv(tmp_path, b"a,b\n" + bad + rest)
    assert (first.line, first.cells) == (2, {})
    assert first.reason is not None
    assert first.reason.startswith(reason)
    assert first.text == bad.decode(errors="replace")
    assert others == [good(3, "3", "4"), good(4, "5", "6")]


@pytest.mark.parametrize(
    ("data", "columns", "complaint"),
    [
        (b"", ("a",), "has no header: it is empty"),
        (b"a,b\n", ("c",), r"has no column 'c'; it has a, b$"),
        (b"a,b,a\n", ("a",), "has the column 'a' twice"),
        ("a,b\n".encode("utf-16"), ("a",), "has no header: it is not UTF-8 text"),
        (b'"a', ("a",), "has no header: it is no CSV"),
    ],
)
def test_csv_without_the_columns_is_refused(
    tmp_path: Path, data: bytes, columns: tuple[str, ...], complaint: str
) -> None:
    with pytest.raises(SettingsError, match=complaint):
        read_csv(tmp_path, data, *columns)


@pytest.mark.parametrize("form", ImportForm)
def test_file_that_is_not_there_is_refused(tmp_path: Path, form: ImportForm) -> None:
    with pytest.raises(SettingsError, match=r"cannot be read: .*No such file"):
        read(tmp_path / "nothing", form, "a")


# -- JSON ---------------------------------------------------------------------------------------------------------


def test_json_lines_are_read_with_their_types(tmp_path: Path) -> None:
    data = b'\xef\xbb\xbf{"a": 1, "b": {"c": [1.5, true, null]}, "d": 1}\r\n\n{"a": {"$bytes": "AQ=="}}'
    assert read_json(tmp_path, data) == [good(1, 1, {"c": [1.5, True, None]}), Record(3, {"a": b"\x01"})]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"{", "it is no JSON: "),
        (b"[1]", "it is no JSON object"),
        (b"7", "it is no JSON object"),
        (b'{"a": NaN}', "it is no JSON: NaN is written"),
        (b'{"a": 1, "a": 2}', "the value has the key 'a' twice"),
        (b'{"a": "\xff"}', "it is not UTF-8 text"),
        (b'{"a": ' + b"[" * 100_000, "the value nests"),
    ],
    ids=lambda value: value[:10] if isinstance(value, bytes) else "",
)
def test_bad_line_of_json_has_a_reason_and_the_next_one_is_read(tmp_path: Path, bad: bytes, reason: str) -> None:
    first, second = read_json(tmp_path, bad + b'\n{"a": 1, "b": 2}\n')
    assert (first.line, first.cells) == (1, {})
    assert first.reason is not None
    assert first.reason.startswith(reason)
    assert second == good(2, 1, 2)


@pytest.mark.parametrize("piece_bytes", [1, 7, 20, 21, 100, 1 << 20])
def test_pieces_of_json_have_each_line_once_with_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    monkeypatch.setattr(module, "PIECE_BYTES", piece_bytes)
    lines = ["", *(json.dumps({"a": "x" * (number % 40), "b": number}) for number in range(50)), "", '{"a": 0, "b": 0}']
    found = read_json(tmp_path, "\n".join(lines).encode())
    assert [record.line for record in found] == [number for number, line in enumerate(lines, 1) if line]
    assert [record.cells["b"] for record in found] == [*range(50), 0]


def test_line_of_json_that_is_longer_than_any_value_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LINE_BYTES_MAX", 20)
    found = read_json(tmp_path, b'{"a": "' + b"x" * 50 + b'"}\n{"a": 1, "b": 2}\n')
    assert found == [Record(1, {}, None, "it is longer than any value can be"), good(2, 1, 2)]


@pytest.mark.parametrize(
    "number",
    ["12345678901234567890123456789.123456789", "3.14159265358979323846", "0.1234567890123456789", "1e-400",
     "123456789.1234567891"],
)  # fmt: skip
@pytest.mark.parametrize("line", ['{"a": %s, "b": 1}', '{"a": [{"x": %s}], "b": 1}'])
def test_number_of_json_that_loses_digits_is_no_record(tmp_path: Path, number: str, line: str) -> None:
    text = line % number
    (found,) = read_json(tmp_path, text.encode())
    assert found.reason == f"the number {number[:40]} has more digits than a float keeps: write it as text"
    assert found.text == text


@pytest.mark.parametrize(
    ("number", "value"),
    [("1.5", 1.5), ("0.10000000000000001", 0.1), ("12345678.123456789", 12345678.123456789),
     ("1.50000000000000000000", 1.5), ("-0.0", -0.0), ("5e-324", 5e-324), ("1E+22", 1e22)],
)  # fmt: skip
def test_number_of_json_of_which_a_float_has_all_is_that(tmp_path: Path, number: str, value: float) -> None:
    (found,) = read_json(tmp_path, f'{{"a": {number}, "b": 1}}'.encode())
    assert repr(found.cells["a"]) == repr(value)


# -- Parquet ------------------------------------------------------------------------------------------------------

DAY = datetime.datetime(2026, 11, 23, 10, 0, 0, 5, datetime.UTC)


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (pa.int8(), -1, -1),
        (pa.uint64(), 2**64 - 1, 2**64 - 1),
        (pa.float32(), 1.5, 1.5),
        (pa.bool_(), True, True),
        (pa.string(), "ü", "ü"),
        (pa.large_string(), "x", "x"),
        (pa.dictionary(pa.int32(), pa.string()), "x", "x"),
        (pa.binary(), b"\0", b"\0"),
        (pa.timestamp("us", "UTC"), DAY, Timestamp(int(DAY.timestamp()), 5000)),
        (pa.timestamp("ns"), 1_000_000_001, Timestamp(1, 1)),
        (pa.timestamp("ms"), -1, Timestamp(-1, 999_000_000)),
        (pa.date32(), datetime.date(2026, 11, 23), "2026-11-23"),
        (pa.time64("us"), datetime.time(1, 2, 3, 4), "01:02:03.000004"),
        (pa.decimal128(10, 3), decimal.Decimal("1.500"), "1.500"),
        (pa.decimal128(38, 9), decimal.Decimal("12345678901234567890123456789.123456789"),
         "12345678901234567890123456789.123456789"),
        (pa.decimal128(37, 9), decimal.Decimal("0.000000001"), "0.000000001"),
        (pa.decimal128(36, 9), decimal.Decimal("0E-9"), "0.000000000"),
        (pa.decimal256(60, 20), decimal.Decimal("-1E-20"), "-0.00000000000000000001"),
        (pa.timestamp("us"), 253402300799999999, Timestamp(253402300799, 999_999_000)),
        (pa.timestamp("us", "Asia/Tokyo"), -62135596800000000, Timestamp(-62135596800, 0)),
        (pa.timestamp("ns", "+05:30"), -(2**63) + 1, Timestamp(-9223372037, 145224193)),
        (pa.timestamp("ms", "UTC"), 2**62, Timestamp(2**62 // 1000, 2**62 % 1000 * 10**6)),
        (pa.struct([("d", pa.date32())]), {"d": datetime.date(9999, 12, 31)}, {"d": "9999-12-31"}),
        (pa.date64(), datetime.date(1, 1, 1), "0001-01-01"),
        (pa.list_(pa.int64()), [1, None], [1, None]),
        (pa.list_(pa.timestamp("s")), [1, None], [Timestamp(1, 0), None]),
        (pa.struct([("x", pa.int64()), ("y", pa.date32())]), {"x": 1, "y": None}, {"x": 1, "y": None}),
        (pa.map_(pa.int64(), pa.list_(pa.decimal128(3, 1))), [(1, [decimal.Decimal("2.0")])], {1: ["2.0"]}),
    ],
    ids=lambda value: str(value) if isinstance(value, pa.DataType) else "",
)
def test_column_of_parquet_becomes_what_it_is(
    tmp_path: Path, kind: pa.DataType, given: object, expected: object
) -> None:
    pq.write_table(pa.table({"a": pa.array([given, None], kind)}), tmp_path / "x.parquet")
    first, second = read(tmp_path / "x.parquet", ImportForm.PARQUET, "a")
    assert (first, second) == (Record(1, {"a": expected}), Record(2, {"a": None}))
    assert type(first.cells["a"]) is type(expected)


# Times as Spark writes them, unless it is told otherwise: INT96, of which Arrow keeps what fits into 64 bits of
# nanoseconds.
FAR = (
    datetime.datetime(1, 1, 1, tzinfo=datetime.UTC),
    datetime.datetime(1677, 9, 21, tzinfo=datetime.UTC),
    datetime.datetime(1816, 3, 29, 5, 56, 8, 66277, tzinfo=datetime.UTC),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.UTC),
    datetime.datetime(2026, 11, 23, 10, 0, 0, 5, tzinfo=datetime.UTC),
    datetime.datetime(2262, 4, 12, tzinfo=datetime.UTC),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.UTC),
    None,
)
MICROSECONDS = pa.timestamp("us", "UTC")
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def stamp(moment: datetime.datetime | None) -> Timestamp | None:
    if moment is None:
        return None
    since = moment - EPOCH
    return Timestamp(since.days * 86_400 + since.seconds, since.microseconds * 1000)


def write_int96(place: Path, **columns: pa.Array) -> None:
    pq.write_table(pa.table(columns), place, use_deprecated_int96_timestamps=True, row_group_size=3)


def test_time_of_int96_is_exact_in_every_year(tmp_path: Path) -> None:
    write_int96(tmp_path / "x.parquet", a=pa.array(FAR, MICROSECONDS), b=pa.array(range(len(FAR))))
    found = read(tmp_path / "x.parquet", ImportForm.PARQUET, "b", "a")
    assert [record.cells["a"] for record in found] == [stamp(moment) for moment in FAR]
    assert [record.cells["b"] for record in found] == list(range(len(FAR)))


def test_nanoseconds_of_int96_stay(tmp_path: Path) -> None:
    write_int96(tmp_path / "x.parquet", a=pa.array([-1, 1_000_000_001], pa.timestamp("ns")))
    found = read(tmp_path / "x.parquet", ImportForm.PARQUET, "a")
    assert [record.cells["a"] for record in found] == [Timestamp(-1, 999_999_999), Timestamp(1, 1)]


def test_time_of_int96_is_exact_at_every_depth(tmp_path: Path) -> None:
    kind = pa.struct([("x", pa.list_(MICROSECONDS)), ("y", pa.map_(MICROSECONDS, MICROSECONDS))])
    row = {"x": list(FAR), "y": [(FAR[0], FAR[-2]), (FAR[1], None)]}
    write_int96(tmp_path / "x.parquet", a=pa.array([row, None], kind))
    first, second = read(tmp_path / "x.parquet", ImportForm.PARQUET, "a")
    x, y = list(map(stamp, FAR)), {stamp(FAR[0]): stamp(FAR[-2]), stamp(FAR[1]): None}
    assert (first.cells["a"], second.cells["a"]) == ({"x": x, "y": y}, None)


def test_times_that_do_not_belong_together_are_no_value() -> None:
    with pytest.raises(BadValueError, match="more nanoseconds than a day"):
        exact_times(Timestamp(7, 0), Timestamp(5, 0))


def test_times_by_the_old_calendar_are_refused_and_other_columns_are_not(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array(FAR, MICROSECONDS), "b": pa.array(range(len(FAR)))})
    pq.write_table(table.replace_schema_metadata({"org.apache.spark.legacyINT96": ""}), tmp_path / "x.parquet")
    assert len(read(tmp_path / "x.parquet", ImportForm.PARQUET, "b")) == len(FAR)
    with pytest.raises(SettingsError, match="by Spark's old calendar"):
        read(tmp_path / "x.parquet", ImportForm.PARQUET, "b", "a")


def test_date_without_a_year_is_no_value(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": pa.array([2**31 - 1, 0], pa.date32())}), tmp_path / "x.parquet")
    first, second = read(tmp_path / "x.parquet", ImportForm.PARQUET, "a")
    assert (isinstance(first.cells["a"], BadValueError), second.cells["a"]) == (True, "1970-01-01")


@pytest.mark.parametrize("wanted", [("a",), ("b", "a")])
def test_column_that_is_there_twice_is_refused_when_it_is_wanted(tmp_path: Path, wanted: tuple[str, ...]) -> None:
    arrays = [pa.array([1]), pa.array([2]), pa.array([3])]
    pq.write_table(pa.Table.from_arrays(arrays, names=["a", "b", "a"]), tmp_path / "x.parquet")
    assert read(tmp_path / "x.parquet", ImportForm.PARQUET, "b") == [Record(1, {"b": 2})]
    with pytest.raises(SettingsError, match="has the column 'a' twice: rename one"):
        read(tmp_path / "x.parquet", ImportForm.PARQUET, *wanted)


def test_column_with_a_dot_is_no_field_of_another(tmp_path: Path) -> None:
    table = pa.table({"a.b": pa.array([1]), "a": pa.array([{"b": FAR[0]}], pa.struct([("b", MICROSECONDS)]))})
    pq.write_table(table, tmp_path / "x.parquet", use_deprecated_int96_timestamps=True)
    (found,) = read(tmp_path / "x.parquet", ImportForm.PARQUET, "a.b", "a")
    assert found.cells == {"a.b": 1, "a": {"b": stamp(FAR[0])}}


def test_rows_of_parquet_are_counted_over_its_groups(tmp_path: Path) -> None:
    table = pa.table({"a": list(range(10)), "b": list("abcdefghij")})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=3)
    found = read(tmp_path / "x.parquet", ImportForm.PARQUET, "b", "a")
    assert len(pieces_of([str(tmp_path / "x.parquet")], ImportForm.PARQUET, ["a"])) == 4
    assert found == [Record(number + 1, {"b": "abcdefghij"[number], "a": number}) for number in range(10)]


def test_map_with_a_key_twice_is_no_value_and_its_row_alone(tmp_path: Path) -> None:
    column = pa.array([[("x", 1), ("x", 2)], [("x", 1)]], pa.map_(pa.string(), pa.int64()))
    pq.write_table(pa.table({"a": column}), tmp_path / "x.parquet")
    first, second = read(tmp_path / "x.parquet", ImportForm.PARQUET, "a")
    assert isinstance(first.cells["a"], BadValueError)
    assert second == Record(2, {"a": {"x": 1}})


@pytest.mark.parametrize(
    ("array", "column", "complaint"),
    [
        (pa.array([1]), "b", "has no column 'b'; it has a"),
        (pa.array([1], pa.duration("s")), "a", "the column 'a' of type duration"),
        (pa.array([[1]], pa.list_(pa.duration("s"))), "a", "of type duration"),
    ],
)
def test_parquet_without_a_column_of_values_is_refused(
    tmp_path: Path, array: pa.Array, column: str, complaint: str
) -> None:
    pq.write_table(pa.table({"a": array}), tmp_path / "x.parquet")
    with pytest.raises(SettingsError, match=complaint):
        read(tmp_path / "x.parquet", ImportForm.PARQUET, column)


def test_file_that_is_no_parquet_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"not")
    with pytest.raises(SettingsError, match="is no Parquet file"):
        read(tmp_path / "x.parquet", ImportForm.PARQUET, "a")
