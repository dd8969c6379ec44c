"""The manifest of an event table: what it may say, how it is written, and what is refused."""

from __future__ import annotations

import json
import re
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distkv.errors import DistkvError, FormatVersionError, LogDamagedError, WrongDirectoryError
from distkv.model.event import COUNT_BITS, NodeName
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges, count, joined
from distkv.spark.table.manifest import (
    EVENTS_FORM,
    PLAIN_FORM,
    DataFile,
    GapDecision,
    Manifest,
    commit_of,
    decode_manifest,
    file_name,
)
from tests.unit.spark.event_files import NETWORK, resealed

PLACE = "/data/events/manifest.json"


def ticks(**pairs: tuple[int, int]) -> TickRanges:
    return {NodeName(node): Ranges([pair]) for node, pair in pairs.items()}


def data_file(commit: int, part: int, held: TickRanges, rows: int | None = None) -> DataFile:
    return DataFile(file_name(commit, part), count(held) if rows is None else rows, 100, held, 0xABCD)


ONE, TWO = data_file(1, 0, ticks(a=(1, 4), b=(1, 2))), data_file(2, 0, ticks(a=(4, 6)))
SETTLED = GapDecision(8.0, "ada", "the disk of b", ticks(b=(2, 4)))
BOTH = Manifest(
    NETWORK, 2, files=(TWO, ONE), ticks=ticks(a=(1, 6), b=(1, 2)), gaps=ticks(b=(2, 9)), until={NodeName("a"): 7.5},
    settled=(SETTLED,),
)  # fmt: skip
TEXT = """\
{
"distkv_table": 3,
"events": 1,
"network": "0123456789abcdef",
"commit": 2,
"path": null,
"forgotten": null,
"until": {"a": 7.5},
"ticks": {"a": [[1, 6]], "b": [1]},
"gaps": {"b": [[2, 9]]},
"settled": [{"time": 8.0, "who": "ada", "why": "the disk of b", "ticks": {"b": [[2, 4]]}}],
"files": [
 {"name": "events/00000001-000.parquet", "rows": 4, "size_bytes": 100, "ticks": {"a": [[1, 4]], "b": [1]}, \
"crc32": "0000abcd"},
 {"name": "events/00000002-000.parquet", "rows": 2, "size_bytes": 100, "ticks": {"a": [[4, 6]]}, "crc32": "0000abcd"}
],
"crc32": "%s"
}
"""


# -- the form -----------------------------------------------------------------------------------------------------


def test_manifest_is_written_with_a_file_on_each_line() -> None:
    crc = json.loads(BOTH.encode())["crc32"]
    assert BOTH.encode().decode() == TEXT % crc


def older(data: bytes, version: int) -> bytes:
    """A manifest of ours as an earlier release wrote it."""
    data = data.replace(b'"distkv_table": 3', b'"distkv_table": %d' % version)
    data = re.sub(rb'"(until|settled)": .*\n', b"", data)
    return resealed(data if version > 1 else data.replace(b', "crc32": "0000abcd"', b""))


PLAIN = attrs.evolve(BOTH, until={}, settled=())


def test_manifest_of_the_first_format_has_files_without_checksums() -> None:
    found = decode_manifest(older(BOTH.encode(), 1), PLACE)
    assert found == attrs.evolve(PLAIN, files=[attrs.evolve(file, crc32=None) for file in BOTH.files])
    assert decode_manifest(found.encode(), PLACE) == found  # and so they stay, until they are merged


def test_manifest_of_the_second_format_does_not_say_up_to_when_it_was_archived() -> None:
    assert decode_manifest(older(BOTH.encode(), 2), PLACE) == PLAIN


def test_settled_gap_whose_content_turned_up_is_none_any_more() -> None:
    filled = attrs.evolve(BOTH, gaps=ticks(b=(3, 9)))
    assert (BOTH.settled_gaps, filled.settled_gaps) == (ticks(b=(2, 4)), ticks(b=(3, 4)))


@pytest.mark.parametrize(
    "change", [{"who": ""}, {"why": " "}, {"why": "a\nb"}, {"who": "\x1b[2J"}, {"time": float("inf")}]
)
def test_settlement_without_who_why_or_when_cannot_be_made(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="settle"):
        attrs.evolve(SETTLED, **change)


def test_file_has_a_checksum_of_four_bytes() -> None:
    with pytest.raises(ValueError, match="cannot have the checksum"):
        attrs.evolve(ONE, crc32=1 << 32)


def test_manifest_without_files_is_json() -> None:
    assert json.loads(Manifest(NETWORK).encode())["files"] == []


def test_checksum_is_of_all_that_stands_before_it() -> None:
    assert resealed(BOTH.encode()) == BOTH.encode()


def test_ticks_are_kept_in_the_order_of_names() -> None:
    former = Manifest(NETWORK, 1, files=(ONE,), ticks=ticks(b=(1, 2), a=(1, 4)))
    assert former.encode() == Manifest(NETWORK, 1, files=(ONE,), ticks=ticks(a=(1, 4), b=(1, 2))).encode()


def test_names_without_ticks_are_left_out() -> None:
    assert Manifest(NETWORK, gaps={NodeName("a"): Ranges()}).gaps == {}


def test_manifest_keeps_ticks_that_their_giver_changes() -> None:
    given = ticks(a=(1, 4))
    found = Manifest(NETWORK, gaps=given)
    given[NodeName("a")].add(9)
    assert found.gaps == ticks(a=(1, 4))


def test_whole_seconds_of_forgetting_are_read_again() -> None:
    found = Manifest(NETWORK, forgotten=5)
    assert decode_manifest(found.encode(), PLACE) == found


def test_rows_are_those_of_all_files() -> None:
    assert BOTH.rows == 6


@pytest.mark.parametrize(
    ("name", "commit"),
    [
        ("events/00000007-012.parquet", 7),
        ("events/00000000-000.parquet", None),
        ("events/7-012.parquet", None),
        ("events/00000007-012.parquet.new", None),
        ("events/../00000007-012.parquet", None),
        ("/events/00000007-012.parquet", None),
        ("other/00000007-012.parquet", None),
        ("events/00000007-012.parquet\n", None),
        ("events/0000000\u0667-012.parquet", None),
    ],
    ids=["right", "zero", "short", "new", "up", "absolute", "elsewhere", "newline", "foreign-digit"],
)
def test_name_tells_the_commit(name: str, commit: int | None) -> None:
    assert commit_of(name) == commit


lives = st.integers(0, 3)
pieces = st.lists(st.tuples(lives, st.integers(1, 60), st.integers(1, 20)), max_size=6)


@st.composite
def tick_ranges(draw: st.DrawFn) -> TickRanges:
    found: TickRanges = {}
    for node in draw(st.sets(st.sampled_from(["a", "b-1", "C.d_e"]))):
        some = Ranges()
        for life, begin, size in draw(pieces):
            some.add_range((life << COUNT_BITS) + begin, (life << COUNT_BITS) + begin + size)
        if some:
            found[NodeName(node)] = some
    return found


settlements = st.builds(
    GapDecision, st.floats(0, 2e9), st.sampled_from(["ada", "é \"who\""]), st.just("disk"), tick_ranges()
)


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    """Any; the ticks of each file are what earlier ones have left of a random set."""
    files: list[DataFile] = []
    taken: TickRanges = {}
    for part in range(draw(st.integers(0, 4))):
        fresh = {node: rest for node, some in draw(tick_ranges()).items() if (rest := some - taken.get(node, Ranges()))}
        taken = joined(taken, fresh)
        if fresh:
            files.append(data_file(draw(st.integers(1, 5)), part, fresh))
    gaps = {node: rest for node, some in draw(tick_ranges()).items() if (rest := some - taken.get(node, Ranges()))}
    return Manifest(
        draw(st.binary(min_size=8, max_size=8)),
        draw(st.integers(5, 10**8 - 1)),
        path=draw(st.sampled_from([None, "a.b", "küche.:7", ":y00ff"])),
        files=files,
        ticks=taken,
        gaps=gaps,
        forgotten=draw(st.none() | st.floats(allow_nan=False, allow_infinity=False)),
        until=draw(st.dictionaries(st.sampled_from([NodeName("a"), NodeName("b-1")]), st.floats(0, 2e9))),
        settled=tuple(draw(st.lists(settlements, max_size=2))),
        events=draw(st.integers(PLAIN_FORM, EVENTS_FORM)),
    )


@given(manifests())
def test_manifest_is_read_as_it_was_written(manifest: Manifest) -> None:
    found = decode_manifest(manifest.encode(), PLACE)
    assert (found, found.encode()) == (manifest, manifest.encode())


# -- what must hold -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gaps": ticks(a=(5, 7))}, "both held and a gap"),
        ({"ticks": ticks(a=(1, 6), b=(1, 3)), "gaps": {}}, "6 rows, but the table 7 ticks"),
        ({"ticks": ticks(a=(1, 6)), "gaps": {}}, "ticks that the table has not"),
        ({"files": (ONE,)}, "4 rows, but the table 6 ticks"),
        ({"files": (ONE, TWO, TWO)}, r"events/00000002-000.parquet is named twice"),
        ({"files": (ONE, TWO, data_file(2, 1, ticks(a=(2, 5))))}, "both have tick 2 of a"),
        ({"files": (ONE, data_file(3, 0, ticks(a=(4, 6))))}, "a later commit than 2"),
        ({"network": b"short"}, "has 5 bytes, not 8"),
        ({"commit": 10**8}, "there is no commit"),
        ({"commit": -1}, "there is no commit"),
        ({"events": 0}, "events of form 0"),
        ({"path": ":"}, "not written in the usual way"),
        ({"path": ":x10"}, "not written in the usual way"),
        ({"path": "a..b"}, "empty element"),
        ({"forgotten": float("nan")}, "before the time nan"),
        ({"until": {NodeName("a"): float("inf")}}, "archived up to a time"),
    ],
    ids=[
        "gap", "fewer-rows", "foreign-ticks", "missing-file", "twice", "overlap", "later", "network", "commit-high",
        "commit-low", "form", "root", "path-form", "no-path", "nan", "until",
    ],
)  # fmt: skip
def test_manifest_that_contradicts_itself_cannot_be_made(change: dict[str, Any], words: str) -> None:
    with pytest.raises((ValueError, DistkvError), match=words):
        attrs.evolve(BOTH, **change)


@pytest.mark.parametrize("change", [{"path": "hall"}, {"forgotten": 5.0}], ids=["path", "forgotten"])
def test_table_that_leaves_changes_out_may_have_fewer_rows(change: dict[str, Any]) -> None:
    fewer = attrs.evolve(BOTH, files=(TWO, data_file(1, 0, ticks(a=(1, 4)), rows=2)), **change)
    assert (fewer.rows, count(fewer.ticks)) == (4, 6)


@pytest.mark.parametrize(
    ("name", "rows", "size", "words"),
    [
        ("events/../../etc/passwd", 1, 100, "a data file is named"),
        (ONE.name, 0, 100, "has 0 rows"),
        (ONE.name, 1, 0, "in 0 bytes"),
        (ONE.name, 4, 100, "4 rows, but 3 ticks"),
    ],
    ids=["name", "no-rows", "no-bytes", "more-rows"],
)
def test_file_that_cannot_be_is_not_made(name: str, rows: int, size: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        DataFile(name, rows, size, ticks(a=(1, 4)))


# -- what is refused ----------------------------------------------------------------------------------------------


def refusal(data: bytes) -> DistkvError | None:
    """The error with which the bytes are refused; None when they are not."""
    try:
        decode_manifest(data, PLACE)
    except DistkvError as error:
        return error
    return None


def test_every_flipped_bit_is_found() -> None:
    data = bytearray(BOTH.encode())
    missed = []
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        error = refusal(bytes(data))
        if not isinstance(error, LogDamagedError) or not str(error).isprintable() or PLACE not in str(error):
            missed.append(bit)
        data[bit // 8] ^= 1 << bit % 8
    assert missed == []


@pytest.mark.parametrize("length", range(0, len(BOTH.encode()), 7))
def test_manifest_that_was_cut_is_damaged(length: int) -> None:
    assert isinstance(refusal(BOTH.encode()[:length]), LogDamagedError)


def test_manifest_with_more_behind_it_is_damaged() -> None:
    assert isinstance(refusal(BOTH.encode() + b"\n"), LogDamagedError)


@pytest.mark.parametrize("data", [b"{}", b"[1]", b"7", b'{"format": 1}'], ids=["map", "list", "7", "fields"])
def test_foreign_json_is_no_table(data: bytes) -> None:
    with pytest.raises(WrongDirectoryError, match="is not of an event table"):
        decode_manifest(data, PLACE)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ((b'"distkv_table": 3', b'"distkv_table": 4'), "has format 4, this release knows 3: upgrade distkv"),
        ((b'"events": 1', b'"events": 3'), "events of form 3, this release knows 2: upgrade distkv"),
        ((b'"commit": 2,', b'"commit": 2, "distkv_table": 3,'), "a field stands twice"),
    ],
    ids=["format", "form", "twice"],
)
def test_version_is_looked_at_first(change: tuple[bytes, bytes], words: str) -> None:
    with pytest.raises(DistkvError, match=words):
        decode_manifest(resealed(BOTH.encode().replace(*change)), PLACE)


def test_newer_format_may_have_other_fields() -> None:
    data = BOTH.encode().replace(b'"distkv_table": 3', b'"distkv_table": 4').replace(b'"events": 1,', b'"fence": {},')
    with pytest.raises(FormatVersionError):
        decode_manifest(resealed(data), PLACE)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b'"distkv_table": 3', b'"distkv_table": 0', "there is no version 0"),
        (b'"distkv_table": 3', b'"distkv_table": true', "'distkv_table' must be an integer"),
        (b'"commit": 2,\n', b"", "missing or unknown: commit"),
        (b'"commit": 2', b'"commit": 2, "x": 1', "missing or unknown: x"),
        (b'"commit": 2', b'"commit": 2.0', "'commit' must be an integer"),
        (b'"path": null', b'"path": 7', "the path is no text"),
        (b'"path": null', b'"path": "a..b"', "empty element"),
        (b'"forgotten": null', b'"forgotten": 5', "a finite float"),
        (b'"forgotten": null', b'"forgotten": NaN', "a finite float"),
        (b'"until": {"a": 7.5}', b'"until": {"a": 7}', "a finite float"),
        (b'"until": {"a": 7.5}', b'"until": {"a a": 7.5}', "a node name"),
        (b'"until": {"a": 7.5},\n', b"", "missing or unknown: until"),
        (b'"who": "ada"', b'"who": 7', "who settled gaps, or why, is no text"),
        (b'"who": "ada"', b'"who": ""', "a line of text is needed"),
        (b'"why": "the disk of b", ', b"", "missing or unknown: why"),
        (b"0123456789abcdef", b"0123456789ABCDEF", "not 16 hex digits"),
        (b'"gaps": {"b": [[2, 9]]}', b'"gaps": {"b": [[2, 9], [5, 10]]}', "unsorted or overlap"),
        (b'"gaps": {"b": [[2, 9]]}', b'"gaps": {"b": [[2, 9007199254740992]]}', "within one life"),
        (b'"gaps": {"b"', b'"gaps": {"b b"', "a node name"),
        (b'"rows": 4', b'"rows": 3', "5 rows, but the table 6 ticks"),
        (b'"size_bytes": 100', b'"size_bytes": -1', "'size_bytes' must be an integer"),
        (b'"name": "events/00000001-000.parquet"', b'"name": 1', "name of a file is no text"),
        (b"events/00000001-000", b"../00000001-000", "a data file is named"),
        (b'"rows": 4, ', b"", "missing or unknown: rows"),
        (b'"files": [', b'"files": [7,', "must be a map"),
        (b'"0000abcd"', b'"0000ABCD"', "the checksum of events/00000001-000.parquet is not 8 hex digits"),
        (b'"0000abcd"', b"43981", "is not 8 hex digits"),
        (b'"ticks": {"a": [[1, 6]], "b": [1]}', b'"ticks": ' + b"[" * 100_000 + b"]" * 100_000, "damaged"),
        (b'"commit": 2', b'"commit": ' + b"2" * 5000, "damaged"),
        (b'"commit": 2', b'"commit": \xff', "damaged"),
    ],
    ids=[
        "version-0", "version-true", "missing", "unknown", "float", "path-7", "path-bad", "forgotten-int", "nan",
        "until-int", "until-node", "until-missing", "who-7", "nobody", "why-missing", "hex",
        "overlap", "lives", "node", "rows", "size", "name-7", "up", "file-missing", "file-7", "crc-upper",
        "crc-7", "deep", "digits", "utf-8",
    ],
)  # fmt: skip
def test_manifest_that_says_what_cannot_be_is_damaged(old: bytes, new: bytes, words: str) -> None:
    found = refusal(resealed(BOTH.encode().replace(old, new)))
    assert isinstance(found, LogDamagedError)
    assert words in str(found)
    assert str(found).isprintable()
