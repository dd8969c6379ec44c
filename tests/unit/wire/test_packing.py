"""The library's edges, as the rest of wire relies on them."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable

import pytest

from distkv.errors import DecodeError
from distkv.wire import packing


def test_map_with_packed_fields_is_the_map_with_their_values() -> None:
    for size in (0, 1, 13, 14, 15, 16, 17, 300):
        fields: dict[str, object] = {f"n{i}": i for i in range(size)}
        packed = packing.pack_map(fields, {"a": packing.pack([1]), "b": packing.pack("x")})
        assert packing.unpack(packed) == {**fields, "a": [1], "b": "x"}


@pytest.mark.parametrize("count", [0, 15, 16, 65535, 65536])
def test_array_header_announces_the_elements(count: int) -> None:
    assert packing.unpack(packing.array_header(count) + b"\x01" * count) == [1] * count


@pytest.mark.parametrize(
    ("data", "expected"), [(b"\x90", "header"), (b"\x82\x01\x02\x03", "No more data"), (b"", "more")]
)
def test_split_of_what_is_no_whole_map_is_refused(data: bytes, expected: str) -> None:
    with pytest.raises(DecodeError, match=expected):
        packing.split_map(data)


def test_skipper_finds_the_ends_of_objects_however_the_stream_is_cut() -> None:
    stream = packing.pack({"a": [1, "x" * 70_000]}) + b"\x01" + packing.pack([[]] * 20)
    ends = [70_010, 70_011, 70_034]
    for step in (1000, 4096, len(stream)):
        skipper = packing.Skipper()
        found = []
        for at in range(0, len(stream), step):
            skipper.feed(stream[at : at + step])
            while (end := skipper.skip()) is not None:
                found.append(end)
        assert found == ends


def test_skipper_goes_on_counting_after_it_gave_back_a_large_buffer() -> None:
    skipper, large, ends = packing.Skipper(), packing.pack(b"x" * 100_000), []
    for _ in range(3):
        skipper.feed(large)
        ends.append(skipper.skip())
    assert ends == [100_005, 200_010, 300_015]


def test_skipper_keeps_its_place_in_a_large_list_that_is_half_there() -> None:
    skipper, large = packing.Skipper(), packing.pack([0] * 100_000)
    skipper.feed(large[:80_000])
    assert skipper.skip() is None
    skipper.feed(large[80_000:])
    assert skipper.skip() == len(large)


@pytest.mark.parametrize(("data", "error"), [(b"\xc1", "FormatError"), (b"\x91" * 2000, "StackError")])
def test_error_of_the_library_without_text_is_named(data: bytes, error: str) -> None:
    with pytest.raises(DecodeError, match=error) as caught:
        packing.check_whole(data)
    assert caught.value.reason == "not_msgpack"


@pytest.mark.parametrize(
    "data", [b"", b"\x92\x01", b"\xdd\xff\xff\xff\xff" * 40, packing.pack([0] * 300)[:-1], b"\x01\x02"]
)
def test_bytes_that_are_not_one_whole_object_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError) as caught:
        packing.unpack_whole(data)
    assert caught.value.reason == "not_msgpack"


@pytest.mark.parametrize("count", [3, 300])
def test_whole_object_is_unpacked_however_large(count: int) -> None:
    assert packing.unpack_whole(packing.pack([0] * count)) == [0] * count


def test_objects_one_after_another_are_split() -> None:
    assert list(packing.split_all(b"\x01\x91\x02\xa1a")) == [b"\x01", b"\x91\x02", b"\xa1a"]


def test_objects_of_which_the_last_is_cut_short_are_refused() -> None:
    with pytest.raises(DecodeError, match="cut short"):
        list(packing.split_all(b"\x01\x91"))


@pytest.mark.parametrize("data", [b"\x01\x91", b"\x01\x93\x01\x02", b"\x01\xa2x", b"\x01\xcd\x00"], ids=repr)
def test_objects_unpacked_at_once_of_which_the_last_is_cut_short_are_refused(data: bytes) -> None:
    """Also where the cut is between two elements, behind which the library has looked at all there is."""
    with pytest.raises(DecodeError, match="cut short"):
        packing.unpack_all(data)


def _collections_within(pack: Callable[[object], bytes], found: object) -> int:
    """How often the garbage collector starts while something is packed, when it starts as often as it can."""
    began: list[str] = []

    def note(phase: str, _: dict[str, int]) -> None:
        began.append(phase)

    usual = gc.get_threshold()
    gc.callbacks.append(note)
    gc.collect()
    try:
        gc.set_threshold(1)
        before = len(began)
        pack(found)
        after = len(began)
    finally:
        gc.set_threshold(*usual)
        gc.callbacks.remove(note)
    return after - before


class _Names(tuple[object, ...]):
    """As a path: no exact tuple."""


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_bulk_of_a_stream_is_all_of_it_however_it_is_cut(size: int) -> None:
    wanted: list[object] = [1, "text", {"a": [1, {"b": b"x"}]}, {1: 2}, packing.ExtType(5, b"x"), [None] * 20, 2]
    data = b"".join(map(packing.pack, wanted))
    unpacker = packing.BulkUnpacker(1000)
    found = [each for at in range(0, len(data), size) for each in unpacker.feed(data[at : at + size])]
    assert found == wanted
    assert unpacker.kept_bytes == 0


@pytest.mark.parametrize("odd", [{1: 2}, [packing.ExtType(5, b"x")], {"a": {True: 1}}], ids=repr)
def test_bulk_that_has_what_strict_unpacking_refuses_says_so(odd: object) -> None:
    unpacker = packing.BulkUnpacker(1000)
    assert unpacker.feed(packing.pack({"a": b"x"})) == [{"a": b"x"}]
    assert unpacker.is_strict
    assert unpacker.feed(packing.pack(odd) + b"\x01") == [odd, 1]
    assert not unpacker.is_strict


@pytest.mark.parametrize("data", [b"\xc1", b"\xdd\xff\xff\xff\xff", b"\x81\x01\x02\xc1"], ids=repr)
def test_bulk_that_is_no_msgpack_or_announces_too_much_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        packing.BulkUnpacker(1000).feed(data)


def test_plain_objects_are_packed_without_a_chance_for_another_thread() -> None:
    """The buffer is shared; a collection runs finalizers, so Python code, in which threads may change."""
    plain: object = [1, 1.5, "text", b"bytes", None, True]
    deep: object = "text"
    for _ in range(10):
        plain, deep = [{"name": plain}], _Names([deep])
    assert _collections_within(packing.pack_plain, plain) == 0
    assert _collections_within(packing.pack, deep) > 0  # the measure works


WITHOUT_MEMORY = """
import resource
from distkv.wire import packing
big = b"x" * (32 << 20)
size = int(open("/proc/self/status").read().partition("VmSize:")[2].split()[0]) << 10
failed = 0
for room in range(0, 160, 4):
    resource.setrlimit(resource.RLIMIT_AS, (size + (room << 20), resource.RLIM_INFINITY))
    try:
        packing.pack_plain(big)
    except MemoryError:
        failed += 1
    assert packing.pack_plain([1]) == b"\\x91\\x01", room
print(failed > 1)
"""


def test_what_could_not_be_packed_for_lack_of_memory_is_not_before_what_is_packed_next() -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT_MEMORY], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("True\n", "")
