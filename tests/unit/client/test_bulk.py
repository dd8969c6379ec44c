"""A tree read in bulk from a node that says what the test wants.

Knows: sockets, and the frames of a long result.  Does not know what a real node does (tests/spark/test_views).
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import pytest

from distkv.client.addresses import Address
from distkv.client.bulk import TreePage, tree_pages
from distkv.errors import DistkvError, NotReadyError, PeerError, UnreachableError
from distkv.model.event import NodeName, Tick, Tock
from distkv.model.path import ROOT
from distkv.model.state import State
from distkv.wire.framing import FrameReader
from distkv.wire.replies import Hello, encode_end, encode_error, encode_hello, encode_reply, encode_start

START, END = encode_start(1), encode_end(1)


def item(number: int) -> bytes:
    return encode_reply(1, {"path": ["x", number], "tock": number}, b"\x01")


@contextmanager
def node(chunks: Sequence[bytes], state: State = State.READY) -> Iterator[Address]:
    """One that greets, waits for a question, sends these bytes, and closes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            line, _ = listener.accept()
            with closing(line):
                line.sendall(encode_hello(Hello((0, 1, 0), NodeName("a"), Tick(1), Tock(1), state, bytes(8), 1)))
                reader = FrameReader()
                while reader.next_frame() is None:
                    data = line.recv(1000)
                    if not data:
                        return
                    reader.feed(data)
                for chunk in chunks:
                    line.sendall(chunk)

        server = threading.Thread(target=serve)
        server.start()
        try:
            yield listener.getsockname()
        finally:
            server.join()


def pages(*chunks: bytes, state: State = State.READY) -> list[TreePage]:
    with node(chunks, state) as address:
        return list(tree_pages(address, ROOT))


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_items_come_whole_however_the_stream_is_cut(size: int) -> None:
    data = START + b"".join(map(item, range(50))) + END
    found = pages(*(data[at : at + size] for at in range(0, len(data), size)))
    assert [one["tock"] for page in found for one in page.items] == list(range(50))
    assert all(page.is_strict and page.node == "a" for page in found)


def test_empty_tree_has_no_pages() -> None:
    assert pages(START + END) == []


def test_page_with_keys_that_are_no_text_says_so_and_loses_nothing() -> None:
    odd = encode_reply(1, {"path": ["x", 2], "tock": 2}, b"\x81\x01\x02")
    found = pages(START + item(1) + odd + item(3) + END)
    assert [one["tock"] for page in found for one in page.items] == [1, 2, 3]
    assert found[0].items[1]["value"] == {1: 2}
    assert not found[0].is_strict


@pytest.mark.parametrize(
    ("chunks", "error"),
    [
        ((encode_error(1, NotReadyError("not now")),), NotReadyError),
        ((START, item(1), encode_error(1, NotReadyError("not now"))), NotReadyError),
        ((START, item(1)), UnreachableError),
        ((START, item(1)[:-1]), UnreachableError),
        ((START, b"\xc1"), PeerError),
        ((START, b"\x01"), PeerError),
        ((START, encode_reply(1, {"bogus": 1})), PeerError),
    ],
    ids=["refused", "refused late", "broken off", "cut short", "no msgpack", "no map", "no item"],
)
def test_result_that_does_not_end_as_it_should_raises(chunks: tuple[bytes, ...], error: type[DistkvError]) -> None:
    with pytest.raises(error):
        pages(*chunks)


def test_node_that_is_not_ready_is_not_asked() -> None:
    with node((), State.RECOVERING) as address, pytest.raises(PeerError, match=r"a at .* is recovering"):
        list(tree_pages(address, ROOT))


def test_node_that_is_cut_off_serves() -> None:
    assert [page.items[0]["path"] for page in pages(START, item(1), END, state=State.CUT_OFF)] == [["x", 1]]
