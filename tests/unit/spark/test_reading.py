"""Reading a partition whose hosts fail in every way: what comes, from whom, and what is left.

Knows: what a host may do instead of giving content.  Does not know sockets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from distkv.client.changes import ChangePage
from distkv.errors import BusyError, DamagedError, NotReadyError, PeerError, UnreachableError
from distkv.model.event import Event, Kind, NodeName, Tick, Tock
from distkv.model.path import Path
from distkv.model.ranges import Ranges
from distkv.model.tick_ranges import TickRanges
from distkv.spark.nodes import reading as module
from distkv.spark.nodes.planning import Read
from distkv.spark.nodes.reading import Reading
from distkv.wire.message import EventRecord
from distkv.wire.records import encode_record

A = NodeName("a")
Answer = Iterator[tuple[NodeName, ChangePage]]
Host = Callable[[Ranges], Answer]


def page(ticks: list[int], *, node: NodeName = A) -> ChangePage:
    events = [Event(Path(["x"]), Kind.SET, b"\1", ((node, Tick(tick)),), Tock(tick), 1.5) for tick in ticks]
    return ChangePage(node, b"\1" * len(ticks), b"".join(encode_record(EventRecord(event, 2.5)) for event in events))


def having(*ticks: int, size: int = 2) -> Host:
    """A host with the content of these ticks, in pages of so many."""

    def answer(wanted: Ranges) -> Answer:
        found = [tick for tick in ticks if tick in wanted]
        for at in range(0, len(found), size):
            yield NodeName("h"), page(found[at : at + size])

    return answer


def failing(error: Exception, *first: ChangePage) -> Host:
    """A host that gives some pages, and then fails."""

    def answer(_: Ranges) -> Answer:
        for one in first:
            yield NodeName("h"), one
        raise error

    return answer


def read_all(ticks: list[int], *hosts: Host) -> tuple[list[int], list[int], list[str]]:
    """The ticks that came, in their order; what is left; and which hosts failed."""
    by_addr = {f"h{number}:1": host for number, host in enumerate(hosts)}
    reading = Reading(Read(A, Ranges.from_ticks(ticks), tuple(by_addr)))
    asked: list[TickRanges] = []

    def pages(addr: str, wanted: TickRanges) -> Answer:
        asked.append(wanted)
        return by_addr[addr](wanted[A])

    came = [tick for one in reading.pages(pages) for tick in one.batch.column("tick").to_pylist()]
    assert all(wanted.keys() == {A} for wanted in asked)
    return came, list(reading.left), [addr[:2] for addr in reading.failures]


def test_host_that_has_all_is_the_only_one_asked() -> None:
    assert read_all([1, 2, 3], having(1, 2, 3), failing(AssertionError("asked in vain"))) == ([1, 2, 3], [], [])


@pytest.mark.parametrize(
    "error",
    [UnreachableError("gone"), PeerError("nonsense"), BusyError("full"), NotReadyError("soon"), DamagedError("rot")],
    ids=lambda error: type(error).__name__,
)
def test_reading_goes_on_elsewhere_behind_what_came(error: Exception) -> None:
    assert read_all([1, 2, 3, 4], failing(error, page([1, 2])), having(1, 2, 3, 4)) == ([1, 2, 3, 4], [], ["h0"])


def test_what_one_host_lacks_in_the_middle_comes_from_another() -> None:
    assert read_all([1, 2, 3, 4], having(1, 4), having(1, 2, 3, 4)) == ([1, 4, 2, 3], [], [])


@pytest.mark.parametrize(
    "nonsense",
    [
        ChangePage(A, b"\1", b"\xc1"),
        ChangePage(A, b"\1", b"\x93\x01\x02"),
        ChangePage(A, b"", b""),
        page([9]),
        page([2, 1]),
        page([1, 1]),
        page([1], node=NodeName("b")),
        ChangePage(A, b"\1", page([1]).records.replace(b"\x91\xa1x", b"\x91\xa1\xff")),
    ],
    ids=["no msgpack", "cut short", "empty", "not asked", "falling", "twice", "another node", "no text"],
)
def test_page_that_is_nonsense_is_not_taken_and_another_host_is_asked(nonsense: ChangePage) -> None:
    def answer(_: Ranges) -> Answer:
        yield NodeName("h"), nonsense

    assert read_all([1, 2], answer, having(1, 2)) == ([1, 2], [], ["h0"])


def test_what_nobody_has_is_left() -> None:
    assert read_all([1, 2, 3], having(1), failing(UnreachableError("gone"))) == ([1], [2, 3], ["h1"])


def test_host_that_fails_after_a_long_while_of_reading_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as one that fails at once: 60 s of patience are not used up by what came meanwhile."""
    now, pauses = [0.0], [0]

    def sleep(seconds: float) -> None:
        pauses[0] += 1
        now[0] += seconds

    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(module.time, "sleep", sleep)

    def pages(_: str, wanted: TickRanges) -> Answer:
        if 1 in wanted[A]:
            yield NodeName("h"), page([1])
            now[0] += 100
            raise UnreachableError("gone")
        if pauses[0] < 3:
            raise UnreachableError("still gone")
        yield NodeName("h"), page([2])

    found = Reading(Read(A, Ranges.from_ticks([1, 2]), ("h:1",)), wait_s=60)
    assert [tick for one in found.pages(pages) for tick in one.ticks] == [1, 2]
    assert not found.left

    reading = Reading(Read(A, Ranges.from_ticks([2]), ("h:1",)), wait_s=60)
    pauses[0] = -1000
    begun = now[0]
    assert not list(reading.pages(pages))
    assert now[0] - begun == pytest.approx(60)
