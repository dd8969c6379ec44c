"""The UDP socket of the membership layer, on loopback.

Knows: what the kernel promises of a datagram.  Does not know what is in one.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from distkv.transport.datagrams import DatagramSocket, open_datagrams
from distkv.wire.swim_records import DATAGRAM_BYTES_MAX

FAMILIES = [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)]


@contextmanager
def opened(host: str) -> Iterator[DatagramSocket]:
    made = open_datagrams((host, 0))
    try:
        yield made
    finally:
        made.close()


@contextmanager
def other(host: str, family: int) -> Iterator[socket.socket]:
    with socket.socket(family, socket.SOCK_DGRAM) as made:
        made.bind((host, 0))
        made.settimeout(5)
        yield made


@pytest.mark.parametrize(("host", "family"), FAMILIES)
def test_what_came_is_read_with_its_sender_the_oldest_first(host: str, family: int) -> None:
    with opened(host) as ours, other(host, family) as theirs:
        for data in (b"a", b"b", b"c"):
            theirs.sendto(data, ours.address)
        sender = theirs.getsockname()[:2]
        assert ours.read(2) == [(sender, b"a"), (sender, b"b")]
        assert ours.read(2) == [(sender, b"c")]
        assert ours.read(2) == []


def test_of_a_datagram_that_is_too_long_enough_is_read_to_show_that() -> None:
    with opened("127.0.0.1") as ours, other("127.0.0.1", socket.AF_INET) as theirs:
        theirs.sendto(bytes(9000), ours.address)
        ((_, data),) = ours.read(1)
        assert len(data) == DATAGRAM_BYTES_MAX + 1


@pytest.mark.parametrize(
    ("anywhere", "asked", "family"), [("0.0.0.0", "127.0.0.7", socket.AF_INET), ("::", "::1", socket.AF_INET6)]
)
def test_an_answer_leaves_from_the_address_that_was_asked(anywhere: str, asked: str, family: int) -> None:
    with opened(anywhere) as ours, other("127.0.0.1" if family == socket.AF_INET else "::1", family) as theirs:
        theirs.sendto(b"?", (asked, ours.address[1]))
        ((sender, _),) = ours.read(1)
        ours.send(sender, b"!")
        data, source = theirs.recvfrom(10)
        assert (data, source[:2]) == (b"!", (asked, ours.address[1]))


def test_datagrams_for_which_the_kernel_had_no_room_are_counted_once() -> None:
    with opened("127.0.0.1") as ours, other("127.0.0.1", socket.AF_INET) as theirs:
        sent = 20_000
        for _ in range(sent):
            theirs.sendto(bytes(1000), ours.address)
        came = len(ours.read(sent))
        theirs.sendto(b"", ours.address)  # the count comes along with a datagram
        ours.read(1)
        assert 0 < came < sent
        assert ours.take_dropped() == sent - came
        assert ours.take_dropped() == 0


def test_what_cannot_be_sent_is_counted_as_lost() -> None:
    with opened("127.0.0.1") as ours:
        ours.send(("::1", 9), b"of another family")
        ours.send(("127.0.0.1", 9), bytes(70_000))
        assert ours.lost == 2
