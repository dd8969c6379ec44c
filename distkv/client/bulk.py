"""A whole tree in pages: for programs that take a million values, at a third of the price of one object for each.

Knows: which answers a long result is made of, and that all of one chunk of bytes is read at once.  Does not know what
becomes of the values; whoever takes a page checks its fields.

Invariant: a result that breaks off, or is refused, raises; it never just ends.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Final, TypeAlias

import attrs

from distkv.client.addresses import Address
from distkv.client.connection import open_connection
from distkv.client.protocol import REPLY_BYTES_MAX
from distkv.client.questions import Question, Repeat
from distkv.errors import DecodeError, PeerError
from distkv.model.event import NodeName
from distkv.model.path import NAMES_MAX, Path
from distkv.wire.asking import encode_request
from distkv.wire.fields import Fields
from distkv.wire.packing import BulkUnpacker
from distkv.wire.replies import is_end, is_start, reply_error
from distkv.wire.subtrees import GetTree
from distkv.wire.values import VALUE_BYTES_MAX

PAGE_VALUES: Final = 10_000
PAGE_BYTES: Final = 4 << 20
"""A page has about so much at the most."""


@attrs.frozen
class TreePage:
    """Some values of a tree, in its order, as the node sent them (docs: client protocol, `get_tree`)."""

    node: NodeName
    """The one that sent them."""
    items: list[Fields]
    is_strict: bool
    """Whether all values are of what JSON has, too, but for bytes, times and floats that are no numbers."""


TreePages: TypeAlias = Generator[TreePage, None, None]


def tree_pages(address: Address, path: Path, *, connect_s: float = 5.0, reply_s: float = 30.0) -> TreePages:
    """The values at and below a path, each with the change that made it.

    Raises:
        NotReadyError: the node serves no clients yet.
        UnreachableError: it is gone, or sends nothing for `reply_s`.
        PeerError: it answers nonsense.
        DistkvError: another refusal.
    """
    question = Question(
        lambda seq: encode_request(GetTree(seq, path, 0, NAMES_MAX, 1, None)), lambda item: item, Repeat.ANYWHERE
    )
    line = open_connection((address,), connect_s=connect_s)
    if not line.hello.state.is_serving:
        line.close()
        raise PeerError(f"{line.hello.node} at {line.name} is {line.hello.state.value}: ask another node, or later")
    try:
        with closing(line.chunks(question, reply_s)) as chunks:
            yield from _pages(chunks, line.hello.node)
    except DecodeError as error:
        raise PeerError(f"{line.hello.node} answers nonsense ({error}): report this") from None


def _pages(chunks: Iterator[bytes], node: NodeName) -> TreePages:
    reader = BulkUnpacker(VALUE_BYTES_MAX)
    items: list[Fields] = []
    size = 0
    for chunk in chunks:
        is_over = _sort(reader.feed(chunk), items)
        if reader.kept_bytes > REPLY_BYTES_MAX:
            raise DecodeError("an item is larger than any can be", "too_large")
        size += len(chunk)
        if items and (is_over or len(items) >= PAGE_VALUES or size >= PAGE_BYTES):
            yield TreePage(node, items, reader.is_strict)
            items, size = [], 0
        if is_over:
            return


def _sort(frames: list[object], items: list[Fields]) -> bool:
    """Take the items among some frames; whether the last one came."""
    for frame in frames:
        if type(frame) is not dict:
            raise DecodeError("a reply is no map", "bad_reply")
        if "path" in frame:
            items.append(frame)
        elif (refusal := reply_error(frame)) is not None:
            raise refusal
        elif is_end(frame):
            return True
        elif not is_start(frame):
            raise DecodeError("an item has no path", "bad_reply")
    return False
